//! Link events for a service on a node. Each request first handles the events before it, so that losses and requests
//! reach the service in order. A thread handles events while no requests arrive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chained_gpc::runtime::NoEvent;
use chained_gpc::{Call, Caller, CauseKind, Clock, Events, FuncHandle, Id, MembershipError};

use super::codec::Operation;
use super::linked_nodes::LinkedNodes;
use crate::service_thread::Desk;

/// Interval at which the thread checks whether the service has ended, and reports again the losses for which the
/// service had no room.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Most nodes that are asked at a time: each may need a descriptor for a link, and these may be short.
const ASKED_MAX: usize = 64;

/// Time limit for all of them to answer.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// Link events, shared by the functions and the thread. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkEvents(Arc<Mutex<LinkState>>);

#[derive(Debug, Default)]
struct LinkState {
    /// Events of the node; `None` until the service is attached to it.
    events: Option<Events>,
    linked: LinkedNodes,
}

impl LinkEvents {
    fn lock(&self) -> MutexGuard<'_, LinkState> {
        // Code under this lock cannot panic, so a poisoned lock is still consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to the link events of a node. The returned queue wakes a thread when there is something to
    /// [`take`](Self::take).
    pub(super) fn listen(&self, node: &Caller) -> Result<Events, MembershipError> {
        // Subscribed first: each event is in this queue before the other queue wakes the thread.
        let events = node.events()?;
        let wakes = node.events()?;
        let mut state = self.lock();
        state.drain();
        state.events = Some(events);
        state.linked.begin_again();
        Ok(wakes)
    }

    /// Handles the pending events, and reports lost nodes to the service. Returns `false` if events were missed: the
    /// caller must then [`listen`](Self::listen) again.
    pub(super) fn take(&self, desk: &Desk) -> bool {
        let mut state = self.lock();
        let whole = state.drain();
        state.linked.report_lost(|id, why| desk.report_loss(id, why.to_owned()));
        whole
    }

    /// Whether a node may register now to live as long as its link. Must be called on the node's own thread, which also
    /// reports the events: so no link is lost between this and the next request to the service.
    pub(super) fn admits(&self, desk: &Desk, from: Id, me: Id) -> bool {
        let whole = self.take(desk);
        let mut state = self.lock();
        if state.events.is_none() {
            state.linked.assume(from);
            return true;
        }
        // A node has no link with itself.
        from == me || (whole && state.linked.admit(from))
    }

    /// Calls the members without a link, to find out whether they live. A successful call opens a link, which the node
    /// reports.
    fn ask(&self, node: &Caller) {
        let ids = self.lock().linked.ask_next(ASKED_MAX);
        // The node need not have this function: any answer shows that it lives.
        let func = FuncHandle::named(Operation::Properties.function());
        let asked = ids
            .into_iter()
            .filter_map(|id| Some((id, node.call(Call::new(func).ids([id]).watch().limit(ASK_LIMIT)).ok()?)));
        let asked: Vec<_> = asked.collect();
        for (id, call) in asked {
            let failed = call.wait().err();
            let unreached = failed.filter(|error| error.kind() == Some(CauseKind::Unreachable));
            let mut state = self.lock();
            match unreached {
                Some(error) => state.linked.missed(id, &error.to_string()),
                None => state.linked.reached(id),
            }
        }
    }

    /// Loop of the thread, until the node or the service ends.
    pub(super) fn run(
        &self,
        node: &Caller,
        desk: &Desk,
        clock: &Clock,
        mut wakes: Events,
        gone: impl Fn() -> bool,
    ) {
        // Ends: with the node or the service.
        while !gone() {
            let event = wakes.recv_within(POLL_INTERVAL);
            if !self.take(desk) {
                tracing::warn!(
                    "the rendezvous service has missed events of links: it looks at all of them again"
                );
                match self.listen(node) {
                    Ok(again) => wakes = again,
                    Err(MembershipError::Ended) => return,
                    // Retried after the next event or interval.
                    Err(error) => tracing::warn!(%error, "the rendezvous service does not hear of links"),
                }
            }
            if event == Err(NoEvent::Ended) {
                return;
            }
            let asks = self.lock().linked.asks(clock.now());
            if asks {
                self.ask(node);
            }
        }
    }
}

impl LinkState {
    /// Handles the pending events. Returns `false` if events were missed.
    fn drain(&mut self) -> bool {
        let Some(events) = &self.events else { return true };
        // Ends: the queue is bounded, and the node's thread fills it.
        while let Ok(event) = events.try_recv() {
            self.linked.handle_event(event);
        }
        events.missed() == 0
    }
}

#[cfg(test)]
mod tests {
    use chained_gpc::runtime::EVENTS_MAX;
    use chained_gpc::{Functions, LinkKind, Listener, Node, Peer, PolledNode};

    use super::*;
    use crate::machine::Limits;
    use crate::service_thread::ServiceThread;

    /// A node whose loss is among missed events could register, and stay registered for ever.
    #[test]
    fn nobody_is_admitted_after_missed_events() {
        let functions = Functions::new();
        let nothing = functions.func("nothing", |_, _| Ok(())).unwrap();
        let listener = Listener::bind(&LinkKind::Unix.fresh_address(1)).unwrap();
        let address = listener.address().unwrap();
        let builder = |id| Node::builder(id).link(LinkKind::Unix).functions(&functions);
        let _other = builder(1).listener(listener).start().unwrap();
        let mut node = builder(0).polled().unwrap();
        let link = |node: &mut PolledNode| {
            node.learn(Peer::new(1, address.clone())).unwrap();
            let call = node.call(Call::new(nothing).ids([1]).watch()).unwrap();
            node.wait(call).unwrap();
        };
        link(&mut node);
        let service = ServiceThread::start(Limits::default(), None, |_, _| {}).unwrap();
        let link_events = LinkEvents::default();
        let admits = || link_events.admits(service.desk(), 1, 0);
        link_events.listen(&node.caller()).unwrap();
        node.progress(Duration::ZERO).unwrap();
        // Each round loses the link and makes it again. The last event that finds a place says that the link is up.
        for _ in 0..=EVENTS_MAX / 2 {
            node.forget(1).unwrap();
            link(&mut node);
        }
        assert!(!admits(), "the last events are missing");
        link_events.listen(&node.caller()).unwrap();
        node.progress(Duration::ZERO).unwrap();
        assert!(admits());
    }
}
