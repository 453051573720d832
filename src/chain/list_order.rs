//! Replies that a callback merges in list order: a reply that arrives early waits until all before it are merged.
//!
//! Source: the ARMCI design of chained GPC (2007), "The action for any response", which merges each response as it
//! arrives. Most callbacks are not commutative, and a result that depends on timing is of no use to their users. So
//! list order is the default, and a callback that is [registered as commutative](crate::Functions::commutative) merges
//! as the source prescribes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::arrived::PlacedReply;
use crate::wire::message::SubtreeReply;

/// The awaited children, and the replies that have arrived, both by place in the list. At most one entry for each
/// child; in a partial call a child may have several replies.
#[derive(Debug, Default)]
pub(super) struct ListOrder {
    /// Places and indexes of children, the first place on top. The top one is awaited; behind it may be others that
    /// have answered.
    awaited: BinaryHeap<Reverse<(u32, u32)>>,
    /// By place, and for each place in order of arrival.
    waiting: BTreeMap<(u32, u64), SubtreeReply>,
    came: u64,
}

impl ListOrder {
    /// Adds an awaited child.
    pub(super) fn expect(&mut self, place: u32, index: u32) {
        self.awaited.push(Reverse((place, index)));
    }

    /// Adds a reply of the child at this place.
    pub(super) fn add(&mut self, place: u32, reply: SubtreeReply) {
        self.waiting.insert((place, self.came), reply);
        self.came += 1;
    }

    /// Removes children at the front that are no longer awaited. Call it after every answer and loss.
    pub(super) fn settle(&mut self, is_awaited: impl Fn(u32) -> bool) {
        while self.awaited.peek().is_some_and(|Reverse((_, index))| !is_awaited(*index)) {
            self.awaited.pop();
        }
    }

    /// Whether a reply is present with no awaited child before it.
    pub(super) fn has_next(&self) -> bool {
        let first = self.awaited.peek().map_or(u32::MAX, |Reverse((place, _))| *place);
        self.waiting.first_key_value().is_some_and(|((place, _), _)| *place < first)
    }

    /// Takes the next reply that no awaited child precedes.
    pub(super) fn pop(&mut self) -> Option<PlacedReply> {
        let next = self.has_next().then(|| self.waiting.pop_first()).flatten();
        next.map(|((place, _), reply)| (place, reply))
    }

    /// Takes all replies in list order, even those behind awaited children.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = SubtreeReply> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn reply(place: u32, part: u16) -> SubtreeReply {
        SubtreeReply { level: place as u16 * 4 + part, ..SubtreeReply::default() }
    }

    proptest! {
        /// For any order of answers and any losses, replies are taken by place, each as soon as no child before it is
        /// awaited.
        #[test]
        fn replies_come_out_in_list_order(
            answers in Just((0u32..12).collect::<Vec<_>>()).prop_shuffle(),
            lost in proptest::collection::btree_set(0u32..12, 0..5),
            parts in 1u16..3,
        ) {
            let mut order = ListOrder::default();
            let mut awaited: BTreeSet<u32> = (0..12).collect();
            for place in 0..12 {
                order.expect(place, place);
            }
            let mut out = Vec::new();
            for place in answers {
                awaited.remove(&place);
                if !lost.contains(&place) {
                    (0..parts).for_each(|part| order.add(place, reply(place, part)));
                }
                order.settle(|index| awaited.contains(&index));
                while let Some((place, reply)) = order.pop() {
                    prop_assert!(awaited.iter().all(|before| *before > place));
                    out.push((place, reply.level));
                }
                let first = awaited.first().copied().unwrap_or(12);
                prop_assert_eq!(out.len(), (0..first).filter(|place| !lost.contains(place)).count() * usize::from(parts));
            }
            prop_assert!(out.is_sorted() && !order.has_next());
        }
    }

    #[test]
    fn those_that_take_the_place_of_a_lost_child_come_before_the_next() {
        let mut order = ListOrder::default();
        (0..2).for_each(|index| order.expect(index * 4, index));
        order.add(4, reply(4, 0));
        assert!(order.pop().is_none());
        // The child at place 0 is lost, and those at 1 and 2 are adopted.
        order.expect(1, 2);
        order.expect(2, 3);
        order.settle(|index| index > 1);
        order.add(2, reply(2, 0));
        assert!(order.pop().is_none());
        order.add(1, reply(1, 0));
        order.settle(|_| false);
        let places: Vec<u32> = std::iter::from_fn(|| order.pop()).map(|(place, _)| place).collect();
        assert_eq!(places, [1, 2, 4]);
    }

    #[test]
    fn at_the_end_all_come_in_list_order() {
        let mut order = ListOrder::default();
        (0..3).for_each(|index| order.expect(index, index));
        order.add(2, reply(2, 0));
        order.add(1, reply(1, 0));
        assert!(!order.has_next());
        assert_eq!(order.drain().map(|reply| reply.level).collect::<Vec<_>>(), [4, 8]);
    }
}
