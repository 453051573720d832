//! Chained calls of a domain's node, and their results.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::trees::Id;
use chained_gpc::{Call, CallError, CallHandle, Caller, FuncHandle, Outcome, Reply, Tree};

use super::mailbox::{Post, Told};
use crate::causes::{fault_of, report_of};
use crate::codec::encode_report;
use crate::fault::{Fault, FaultKind};
use crate::order::Report;

/// The functions of domain nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handles {
    pub(super) order: FuncHandle,
    pub(super) output: FuncHandle,
    pub(super) flush: FuncHandle,
    pub(super) input: FuncHandle,
    pub(super) look: FuncHandle,
}

/// Parameters of a call.
pub(super) struct Making {
    pub(super) func: FuncHandle,
    pub(super) ids: Vec<Id>,
    pub(super) data: Bytes,
    pub(super) partial: bool,
    pub(super) limit: Duration,
}

/// The result of a call.
pub(super) type Ended = Result<Outcome, CallError>;

/// Calls in flight, each with its purpose.
pub(super) struct Calls<P> {
    me: Id,
    caller: Caller,
    pub(super) handles: Handles,
    domain: Bytes,
    post: Post,
    next: u64,
    flying: BTreeMap<u64, Flying<P>>,
}

struct Flying<P> {
    handle: CallHandle,
    ids: Vec<Id>,
    purpose: P,
}

impl<P> Calls<P> {
    pub(super) fn new(me: Id, caller: Caller, handles: Handles, domain: &str, post: Post) -> Calls<P> {
        let domain = Bytes::copy_from_slice(domain.as_bytes());
        Calls { me, caller, handles, domain, post, next: 0, flying: BTreeMap::new() }
    }

    /// Starts a call. `Err` if it could not be started.
    pub(super) fn make(&mut self, making: Making, purpose: P) -> Result<u64, (P, Vec<Id>, CallError)> {
        // Forwards before executing: a node may reply late, and the others must not wait for it.
        let mut call = Call::new(making.func)
            .ids(making.ids.clone())
            .tree(Tree::Binomial)
            .header(self.domain.clone())
            .data(making.data)
            .limit(making.limit)
            .forward_first();
        if making.partial {
            call = call.partial();
        }
        if !making.ids.contains(&self.me) {
            call = call.watch();
        }
        match self.caller.try_call(call) {
            Ok(handle) => {
                let number = self.next;
                self.next += 1;
                self.flying.insert(number, Flying { handle, ids: making.ids, purpose });
                // The call may have ended already; the first poll sets its waker.
                let _ = self.post.tell(Told::CallReady(number));
                Ok(number)
            }
            Err(error) => Err((purpose, making.ids, error)),
        }
    }

    /// Polls a call; `None` if it has not ended.
    pub(super) fn look(&mut self, number: u64) -> Option<(P, Vec<Id>, Ended)> {
        let flying = self.flying.get_mut(&number)?;
        let waker = Waker::from(Arc::new(Ready { number, post: self.post.clone() }));
        match Pin::new(&mut flying.handle).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => None,
            Poll::Ready(ended) => {
                self.flying.remove(&number).map(|flying| (flying.purpose, flying.ids, ended))
            }
        }
    }

    /// Cancels the calls with a matching purpose.
    pub(super) fn cancel(&mut self, which: impl Fn(&P) -> bool) {
        // Dropping the handle cancels the call.
        self.flying.retain(|_, flying| !which(&flying.purpose));
    }
}

/// Informs the loop that a call has ended.
struct Ready {
    number: u64,
    post: Post,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        // If the loop has ended, the message is not needed.
        let _ = self.post.tell(Told::CallReady(self.number));
    }
}

/// The report of each id, or the reason why the call has no reports.
pub(super) fn reports(ids: &[Id], ended: &Ended) -> Vec<(Id, Result<Report, Fault>)> {
    let each = |id: Id| match ended {
        Ok(outcome) => report_of(id, outcome.reply(id).map(|reply| reply.data), outcome.cause(id)),
        Err(error) => Err(match error.cause() {
            Some(cause) => fault_of(cause),
            None => Fault::new(FaultKind::System, format!("a call to other nodes: {error}")),
        }),
    };
    ids.iter().map(|&id| (id, each(id))).collect()
}

/// A report as a reply.
pub(super) fn reply(report: &Report) -> Reply {
    Reply::shared(encode_report(report))
}
