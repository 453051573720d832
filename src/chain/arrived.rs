//! Replies of a call's children, from their arrival until they are merged or aggregated.
//!
//! Most ids have few children, so the first reply needs no allocation.

use gpc_trees::sorting::sort_by_key;
use smallvec::SmallVec;

use crate::wire::message::SubtreeReply;

/// A reply with the place of its child in the list.
pub(super) type PlacedReply = (u32, SubtreeReply);

/// Number of replies for which an ended call keeps memory: as many as an id has children in most trees.
const ROOM_KEPT: usize = 16;

/// A queue of replies. At most one for each child; in a partial call, the parts of each.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    replies: SmallVec<[PlacedReply; 1]>,
    /// Number of replies taken, from the front.
    taken: usize,
}

impl Arrived {
    pub(super) fn push(&mut self, place: u32, reply: SubtreeReply) {
        self.replies.push((place, reply));
    }

    /// Takes the reply that arrived first.
    pub(super) fn pop_front(&mut self) -> Option<PlacedReply> {
        let (place, reply) = self.replies.get_mut(self.taken)?;
        let first = (*place, std::mem::take(reply));
        self.taken += 1;
        if self.taken == self.replies.len() {
            self.clear();
        }
        Some(first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// The reply that arrived last from a child at this place, if it has not been taken.
    pub(super) fn last_of(&self, place: u32) -> Option<&SubtreeReply> {
        let left = &self.replies[self.taken..];
        left.iter().rev().find(|(of, _)| *of == place).map(|(_, reply)| reply)
    }

    /// The replies that have not been taken, in list order.
    pub(super) fn in_list_order(&mut self) -> &[PlacedReply] {
        let left = &mut self.replies[self.taken..];
        if left.len() > 1 {
            sort_by_key(left, |(place, _)| *place);
        }
        left
    }

    /// Takes all, in order of arrival.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = SubtreeReply> + '_ {
        let first = std::mem::take(&mut self.taken);
        self.replies.drain(..).skip(first).map(|(_, reply)| reply)
    }

    pub(super) fn clear(&mut self) {
        self.taken = 0;
        self.replies.clear();
    }

    /// Drops all replies, and memory for more than a few.
    pub(super) fn empty(&mut self) {
        self.clear();
        if self.replies.capacity() > ROOM_KEPT {
            self.replies = SmallVec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn reply(place: u32) -> SubtreeReply {
        SubtreeReply { level: place as u16, ..SubtreeReply::default() }
    }

    proptest! {
        #[test]
        fn it_is_a_queue(deeds in proptest::collection::vec((0u8..6, 0u32..20), 0..80)) {
            let (mut arrived, mut model) = (Arrived::default(), VecDeque::new());
            for (deed, place) in deeds {
                match deed {
                    0..=2 => {
                        arrived.push(place, reply(place));
                        model.push_back(place);
                    }
                    3 | 4 => {
                        let first = arrived.pop_front();
                        let expected = model.pop_front();
                        prop_assert_eq!(first, expected.map(|place| (place, reply(place))));
                    }
                    _ if place < 5 => {
                        let all: Vec<u16> = arrived.drain().map(|reply| reply.level).collect();
                        prop_assert!(all.into_iter().map(u32::from).eq(model.drain(..)));
                    }
                    _ => {
                        model.make_contiguous().sort_unstable();
                        let ordered = arrived.in_list_order();
                        prop_assert!(ordered.iter().map(|(place, _)| *place).eq(model.iter().copied()));
                    }
                }
                prop_assert_eq!(arrived.is_empty(), model.is_empty());
            }
        }
    }
}
