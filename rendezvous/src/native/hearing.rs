//! What a service on a node hears of links: each request first takes the events that were told before it, so that losses and requests reach the service in their order; a thread takes those that come while nobody asks.
#![allow(clippy::disallowed_methods, reason = "those without a link are asked by the clock")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chained_gpc::runtime::NoEvent;
use chained_gpc::{Call, Caller, CauseKind, Events, FuncHandle, Id, MembershipError};

use super::codec::Operation;
use super::linked::Linked;
use crate::keeper::Desk;

/// How often the thread looks whether the service is still there, and tells it again what it had no room for.
const LOOK: Duration = Duration::from_secs(1);

/// How often nodes without a link are asked whether they are there.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// Nodes that are asked in one go: each may open a link where descriptors are short.
const ASKED_MAX: usize = 64;

/// How long all of them may take to answer.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// What is heard, by the functions and the thread. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(super) struct Hearing(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    /// What the node tells; nothing before the service is attached to it.
    events: Option<Events>,
    linked: Linked,
}

impl Hearing {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears of the links of a node from now on. What is returned wakes a thread when there is something to [`take`](Self::take).
    pub(super) fn listen(&self, node: &Caller) -> Result<Events, MembershipError> {
        // This one first: what wakes the thread is told behind it.
        let events = node.events()?;
        let wakes = node.events()?;
        let mut heard = self.heard();
        heard.drain();
        heard.events = Some(events);
        heard.linked.begin_again();
        Ok(wakes)
    }

    /// Takes what was told, and has the service know who is lost; false when events were missed, and it is to [`listen`](Self::listen) again.
    pub(super) fn take(&self, desk: &Desk) -> bool {
        let mut heard = self.heard();
        let whole = heard.drain();
        heard.linked.tell(|id, why| desk.lost(id, why.to_owned()));
        whole
    }

    /// Whether a node may register now, to live as long as its link. It is asked on the thread that tells the events, which is the node's own: so no link is lost between this and what the service is asked next.
    pub(super) fn admits(&self, desk: &Desk, from: Id, me: Id) -> bool {
        let whole = self.take(desk);
        let mut heard = self.heard();
        if heard.events.is_none() {
            heard.linked.assume(from);
            return true;
        }
        // A node has no link with itself.
        from == me || (whole && heard.linked.admit(from))
    }

    /// Asks those that may go on without a link whether they are there: that opens one, of which the node tells.
    fn ask(&self, node: &Caller) {
        let ids = self.heard().linked.ask_next(ASKED_MAX);
        // Whether it has such a function does not matter.
        let func = FuncHandle::named(Operation::Properties.function());
        let asked = ids
            .into_iter()
            .filter_map(|id| Some((id, node.call(Call::new(func).ids([id]).watch().limit(ASK_LIMIT)).ok()?)));
        let asked: Vec<_> = asked.collect();
        for (id, call) in asked {
            let failed = call.wait().err();
            let unreached = failed.filter(|error| error.kind() == Some(CauseKind::Unreachable));
            let mut heard = self.heard();
            match unreached {
                Some(error) => heard.linked.missed(id, &error.to_string()),
                None => heard.linked.reached(id),
            }
        }
    }

    /// What the thread does, until the node or the service ends.
    pub(super) fn run(&self, node: &Caller, desk: &Desk, mut wakes: Events, gone: impl Fn() -> bool) {
        let mut asked = Instant::now();
        // Ends: with the node or the service.
        while !gone() {
            let event = wakes.recv_within(LOOK);
            if !self.take(desk) {
                tracing::warn!(
                    "the rendezvous service has missed events of links: it looks at all of them again"
                );
                match self.listen(node) {
                    Ok(again) => wakes = again,
                    Err(MembershipError::Ended) => return,
                    // It is tried again after the next event, or look.
                    Err(error) => tracing::warn!(%error, "the rendezvous service does not hear of links"),
                }
            }
            if event == Err(NoEvent::Ended) {
                return;
            }
            if asked.elapsed() >= ASK_EVERY {
                self.ask(node);
                asked = Instant::now();
            }
        }
    }
}

impl Heard {
    /// Takes what was told; false when some of it was missed.
    fn drain(&mut self) -> bool {
        let Some(events) = &self.events else { return true };
        // Ends: the queue has a bound, and it is filled by the node's thread.
        while let Ok(event) = events.try_recv() {
            self.linked.heed(event);
        }
        events.missed() == 0
    }
}
