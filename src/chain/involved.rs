//! Whom calls in flight here wait for, or are for: a driver that is short of something takes it from nobody else's links sooner than from theirs.

use std::collections::BTreeSet;

use gpc_trees::Id;

use super::call::Call;
use super::spots::Spot;
use super::{Asker, Node};

impl Node {
    /// The parents of the calls in flight here, and the children whose answers are awaited. Takes as long as there are calls.
    pub fn involved(&self) -> BTreeSet<Id> {
        let parents = self.calls.iter().filter_map(Call::parent);
        let awaited = self.calls.iter().flat_map(Call::awaited_ids);
        let spots = || self.spots.iter().flat_map(|spots| spots.iter());
        let askers = spots().filter_map(|spot| match spot.asker {
            Asker::Parent(parent) => Some(parent),
            Asker::Here { .. } => None,
        });
        let of_spots = spots().flat_map(Spot::awaited_ids);
        parents.chain(awaited).chain(askers).chain(of_spots).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::chain::{Config, Input, JobResult, Output, Outputs, Reply, Time};
    use crate::wire::{CallId, Message, Request};

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
        feed(&mut node, Input::Message { from: 7, message: Message::Cancel(call) });
        assert!(node.involved().is_empty());
    }
}
