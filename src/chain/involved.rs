//! The peers that calls in flight wait for, or answer to. A driver short of a resource takes it from the links of other
//! peers first.

use std::collections::BTreeSet;

use gpc_trees::Id;
use gpc_trees::sorting::collected;

use super::call::Call;
use super::fast_calls::FastCall;
use super::{CallOrigin, Node};
use crate::wire::CallId;

impl Node {
    /// Returns the parents of the calls in flight and of waiting requests, and the children whose answers are awaited.
    /// The time is proportional to the number of calls.
    pub fn involved(&self) -> BTreeSet<Id> {
        let parents = self.calls.iter().filter_map(Call::parent);
        let awaited = self.calls.iter().flat_map(Call::awaited_ids);
        let fast_calls = || self.fast_calls.iter().flat_map(|fast_calls| fast_calls.iter());
        let origins = fast_calls().filter_map(|fast_call| match fast_call.origin {
            CallOrigin::Parent(parent) => Some(parent),
            CallOrigin::Application { .. } => None,
        });
        let of_fast_calls = fast_calls().flat_map(FastCall::awaited_ids);
        collected(parents.chain(awaited).chain(origins).chain(of_fast_calls).chain(self.load.parents()))
    }

    /// Whether the calls in flight of which a peer is the parent or an awaited child are all among `calls`, and no
    /// request of it waits. The time is proportional to the number of calls.
    pub fn is_involved_only_in(&self, peer: Id, calls: &BTreeSet<CallId>) -> bool {
        let concerned = |call: &&Call| call.parent() == Some(peer) || call.awaited_child(peer).is_some();
        let of_fast_calls = self.fast_calls.iter().flat_map(|fast_calls| fast_calls.concerned(peer));
        let of_calls = self.calls.iter().filter(concerned).map(|call| call.request.call);
        !self.load.has_waiting(peer) && of_fast_calls.chain(of_calls).all(|call| calls.contains(&call))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::chain::{Config, Input, JobResult, Output, Outputs, Reply, Time};
    use crate::wire::{Message, Request};

    #[test]
    fn parents_and_children_are_involved_as_long_as_the_call_is_in_flight() {
        let (mut node, mut outputs) = (Node::new(Config::new(1, 1)), Outputs::new());
        let mut feed = |node: &mut Node, input| {
            node.input(Time::default(), input, &mut outputs);
            outputs.drain().collect::<Vec<Output>>()
        };
        assert!(node.involved().is_empty());
        let call = CallId { root: 9, sequence: 1 };
        let ids = gpc_trees::IdList::from_ids(vec![1, 5]).unwrap();
        let request = Request { limit: std::time::Duration::from_secs(9), ..Request::new(call, ids) };
        feed(&mut node, Input::Message { from: 7, message: Message::Request(Arc::new(request)) });
        assert_eq!(Vec::from_iter(node.involved()), [7]);
        feed(&mut node, Input::Ran { call, result: JobResult::Replied(Reply::default()) });
        assert_eq!(Vec::from_iter(node.involved()), [5, 7]);
        let [this, other] = [call, CallId { sequence: 2, ..call }].map(|call| BTreeSet::from([call]));
        for peer in [5, 7] {
            assert!(node.is_involved_only_in(peer, &this) && !node.is_involved_only_in(peer, &other));
        }
        assert!(node.is_involved_only_in(6, &BTreeSet::new()));
        feed(&mut node, Input::Message { from: 7, message: Message::Cancel(call) });
        assert!(node.involved().is_empty());
    }
}
