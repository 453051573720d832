//! The node of a bootstrap, whether a thread of its own drives it or the thread that waits.

use std::borrow::Borrow;
use std::time::Duration;

use gpc_trees::Id;

use crate::Clock;
use crate::runtime::{
    AbsentPeers, Call, CallError, Events, MembershipError, Node, Outcome, Peer, PolledNode,
};
use crate::wire::message::CallId;

/// What a bootstrap does with its node. Each wait has a time limit.
pub(super) trait Driven {
    fn me(&self) -> Id;

    /// Makes a call, and waits for its end.
    fn complete(&mut self, call: Call) -> Result<Outcome, CallError>;

    fn learn_peers(&mut self, peers: Vec<Peer>) -> Result<(), MembershipError>;

    fn subscribe(&mut self) -> Result<Events, MembershipError>;

    /// Waits for a link with an id.
    fn link_with(&mut self, id: Id, limit: Duration) -> Result<(), AbsentPeers>;

    /// Waits up to `limit` until `has_arrived` returns true. It may block for the duration that it gets. See
    /// [`await_item`].
    fn await_until(&mut self, limit: Duration, has_arrived: &mut dyn FnMut(Duration) -> bool);

    /// Waits up to `limit` until a call has ended here: its request and its answers have been passed on.
    fn pass_on(&mut self, call: CallId, limit: Duration);
}

/// Waits up to `limit` for an item that `take` returns. `take` may wait for the time that it gets.
pub(super) fn await_item<T>(
    node: &mut dyn Driven,
    limit: Duration,
    mut take: impl FnMut(Duration) -> Option<T>,
) -> Option<T> {
    let mut item = None;
    node.await_until(limit, &mut |left| {
        item = take(left);
        item.is_some()
    });
    item
}

/// A node with a thread.
impl<N: Borrow<Node>> Driven for N {
    fn me(&self) -> Id {
        node(self).id()
    }

    fn complete(&mut self, call: Call) -> Result<Outcome, CallError> {
        node(self).call(call)?.wait()
    }

    fn learn_peers(&mut self, peers: Vec<Peer>) -> Result<(), MembershipError> {
        node(self).learn_all(peers)
    }

    fn subscribe(&mut self) -> Result<Events, MembershipError> {
        node(self).events()
    }

    fn link_with(&mut self, id: Id, limit: Duration) -> Result<(), AbsentPeers> {
        node(self).wait_for_peers([id], limit)
    }

    fn await_until(&mut self, limit: Duration, has_arrived: &mut dyn FnMut(Duration) -> bool) {
        has_arrived(limit);
    }

    /// Its thread does that.
    fn pass_on(&mut self, _: CallId, _: Duration) {}
}

fn node(of: &impl Borrow<Node>) -> &Node {
    of.borrow()
}

impl Driven for PolledNode {
    fn me(&self) -> Id {
        self.id()
    }

    fn complete(&mut self, call: Call) -> Result<Outcome, CallError> {
        let handle = self.call(call)?;
        self.wait(handle)
    }

    fn learn_peers(&mut self, peers: Vec<Peer>) -> Result<(), MembershipError> {
        self.learn_all(peers)
    }

    fn subscribe(&mut self) -> Result<Events, MembershipError> {
        let events = self.events()?;
        // The subscription takes effect in the next turn. If the poll fails, it fails in the next wait as well.
        let _ = self.progress(Duration::ZERO);
        Ok(events)
    }

    fn link_with(&mut self, id: Id, limit: Duration) -> Result<(), AbsentPeers> {
        self.wait_for_peers([id], limit)
    }

    fn await_until(&mut self, limit: Duration, has_arrived: &mut dyn FnMut(Duration) -> bool) {
        let limit = Clock::system().limit(limit);
        // Terminates: the time limit passes.
        while !has_arrived(Duration::ZERO)
            && let Some(left) = limit.left()
            && self.progress(left).is_ok()
        {}
    }

    fn pass_on(&mut self, call: CallId, limit: Duration) {
        let limit = Clock::system().limit(limit);
        // Terminates: the time limit passes. Ids that wait for the rest of the call report it.
        while self.has_call(call)
            && let Some(left) = limit.left()
            && self.progress(left).is_ok()
        {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::Tree;
    use crate::runtime::{Functions, LinkKind, PeerEvent, PeerEventKind, Peers, Placement};

    const LIMIT: Duration = Duration::from_secs(60);

    /// A process that polls its node subscribed to the events of its parent, which then left. The subscription began in
    /// a later turn, after that turn had read the end of the link: the process did not learn how its parent had left.
    #[test]
    fn a_subscription_of_a_polled_node_has_begun_when_it_returns() {
        let (listeners, addresses) = LinkKind::Unix.listen(0..2).unwrap();
        let peers = Peers::from(addresses);
        let mut builders = (0..2)
            .zip(listeners)
            .map(|(id, listener)| Node::builder(id).peers(peers.clone()).listener(listener));
        let mut next = || builders.next().expect("there are two");
        let (parent, mut polled) = (next().start().unwrap(), next().polled().unwrap());
        polled.link_with(0, LIMIT).unwrap();
        let events = polled.subscribe().unwrap();
        drop(parent);
        let kind = |event: PeerEvent| (event.id, event.kind);
        assert_eq!(events.try_recv().map(kind), Ok((0, PeerEventKind::Up)));
        let (id, lost) =
            await_item(&mut polled, LIMIT, |_| events.try_recv().ok().map(kind)).expect("a link ends");
        assert!(id == 0 && matches!(lost, PeerEventKind::Lost { .. }), "{lost:?}");
    }

    /// A process that goes on without driving its node kept an announcement from those below it.
    #[test]
    fn a_polled_node_passes_a_call_on_before_it_goes_on() {
        let functions = Functions::new().at(Placement::Inline);
        let (tells, told) = channel();
        let passes = functions
            .func("passes", move |request, _| Ok(tells.send((request.me(), request.call()))?))
            .unwrap();
        let (listeners, addresses) = LinkKind::Unix.listen(0..3).unwrap();
        let peers = Peers::from(addresses);
        let mut builders = (0..3).zip(listeners).map(|(id, listener)| {
            Node::builder(id).functions(&functions).peers(peers.clone()).listener(listener)
        });
        let mut next = || builders.next().expect("there are three");
        let (root, mut polled, last) =
            (next().start().unwrap(), next().polled().unwrap(), next().start().unwrap());
        let handle = root.call(Call::new(passes).ids(0..3).tree(Tree::Chain)).unwrap();
        let here = |limit| told.recv_timeout(limit).ok().filter(|(me, _)| *me == 1);
        let (_, call) = await_item(&mut polled, LIMIT, here).expect("the call arrives");
        polled.pass_on(call, LIMIT);
        assert!(!polled.has_call(call), "it has replied");
        handle.wait().unwrap();
        drop(last);
    }
}
