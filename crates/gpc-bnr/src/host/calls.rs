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

use super::mailbox::{EngineMessage, Mailbox};
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
    pub(super) query: FuncHandle,
}

/// Parameters of a call.
pub(super) struct CallParameters {
    pub(super) func: FuncHandle,
    pub(super) ids: Vec<Id>,
    pub(super) data: Bytes,
    pub(super) partial: bool,
    pub(super) limit: Duration,
}

/// The result of a call.
pub(super) type CallResult = Result<Outcome, CallError>;

/// Calls in flight, each with its purpose.
pub(super) struct Calls<P> {
    me: Id,
    caller: Caller,
    pub(super) handles: Handles,
    domain: Bytes,
    mailbox: Mailbox,
    next: u64,
    in_flight: BTreeMap<u64, CallInFlight<P>>,
}

struct CallInFlight<P> {
    handle: CallHandle,
    ids: Vec<Id>,
    purpose: P,
}

impl<P> Calls<P> {
    pub(super) fn new(me: Id, caller: Caller, handles: Handles, domain: &str, mailbox: Mailbox) -> Calls<P> {
        let domain = Bytes::copy_from_slice(domain.as_bytes());
        Calls { me, caller, handles, domain, mailbox, next: 0, in_flight: BTreeMap::new() }
    }

    /// Starts a call. `Err` if it could not be started.
    pub(super) fn make(
        &mut self,
        parameters: CallParameters,
        purpose: P,
    ) -> Result<u64, (P, Vec<Id>, CallError)> {
        // Forwards before executing: a node may reply late, and the others must not wait for it.
        let mut call = Call::new(parameters.func)
            .ids(parameters.ids.clone())
            .tree(Tree::Binomial)
            .header(self.domain.clone())
            .data(parameters.data)
            .limit(parameters.limit)
            .forward_first();
        if parameters.partial {
            call = call.partial();
        }
        if !parameters.ids.contains(&self.me) {
            call = call.watch();
        }
        match self.caller.try_call(call) {
            Ok(handle) => {
                let number = self.next;
                self.next += 1;
                self.in_flight.insert(number, CallInFlight { handle, ids: parameters.ids, purpose });
                // The call may have ended already; the first poll sets its waker.
                let _ = self.mailbox.send(EngineMessage::CallReady(number));
                Ok(number)
            }
            Err(error) => Err((purpose, parameters.ids, error)),
        }
    }

    /// Polls a call; `None` if it has not ended.
    pub(super) fn poll(&mut self, number: u64) -> Option<(P, Vec<Id>, CallResult)> {
        let in_flight = self.in_flight.get_mut(&number)?;
        let waker = Waker::from(Arc::new(CallWaker { number, mailbox: self.mailbox.clone() }));
        match Pin::new(&mut in_flight.handle).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => None,
            Poll::Ready(ended) => {
                self.in_flight.remove(&number).map(|in_flight| (in_flight.purpose, in_flight.ids, ended))
            }
        }
    }

    /// Number of calls in flight.
    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Cancels the calls with a matching purpose.
    pub(super) fn cancel(&mut self, which: impl Fn(&P) -> bool) {
        // Dropping the handle cancels the call.
        self.in_flight.retain(|_, in_flight| !which(&in_flight.purpose));
    }
}

/// Informs the loop that a call has ended.
struct CallWaker {
    number: u64,
    mailbox: Mailbox,
}

impl Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        // If the loop has ended, the message is not needed.
        let _ = self.mailbox.send(EngineMessage::CallReady(self.number));
    }
}

/// The report of each id, or the reason why the call has no reports.
pub(super) fn reports(ids: &[Id], ended: &CallResult) -> Vec<(Id, Result<Report, Fault>)> {
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
