//! Room for processes on nodes with slots. A node gets no process beyond its slots before all nodes are full; then each
//! gets its number of slots again, as often as needed.

use std::collections::{BTreeMap, VecDeque};

use chained_gpc::trees::Id;

/// The room that is left on the nodes, in their order.
pub(super) struct Room {
    nodes: Vec<NodeRoom>,
    /// The place after the node that got the last process by node.
    next: usize,
}

struct NodeRoom {
    id: Id,
    /// At least 1.
    slots: u64,
    free: u64,
}

impl Room {
    /// The room on nodes that already run `loads`. A node without a number of slots has one.
    pub(super) fn new(nodes: &[Id], slots: &BTreeMap<Id, u32>, loads: &BTreeMap<Id, u64>) -> Room {
        let of = |&id: &Id| {
            let slots = u64::from(slots.get(&id).copied().unwrap_or(1)).max(1);
            NodeRoom { id, slots, free: slots.saturating_sub(loads.get(&id).copied().unwrap_or_default()) }
        };
        Room { nodes: nodes.iter().map(of).collect(), next: 0 }
    }

    /// Fills one node of `among` after the other. Calls `take` with each node and a number of processes.
    pub(super) fn by_slot(&mut self, among: &[usize], count: u64, mut take: impl FnMut(Id, u64)) {
        let mut left = count;
        // Ends: after the first round every node has room in each.
        while left > 0 && !among.is_empty() {
            for &place in among {
                let node = &mut self.nodes[place];
                let count = node.free.min(left);
                node.free -= count;
                left -= count;
                if count > 0 {
                    take(node.id, count);
                }
            }
            if left > 0 {
                self.refill(among);
            }
        }
    }

    /// Gives one process after the other to the next node of `among` that has room.
    pub(super) fn by_node(&mut self, among: &[usize], count: u64, mut take: impl FnMut(Id, u64)) {
        let first = among.partition_point(|&place| place < self.next);
        let (before, after) = among.split_at(first);
        let has_room = |place: &&usize| self.nodes[**place].free > 0;
        let mut ring: VecDeque<usize> = after.iter().chain(before).filter(has_room).copied().collect();
        for _ in 0..count {
            if ring.is_empty() {
                self.refill(among);
                ring.extend(among);
            }
            let Some(place) = ring.pop_front() else { return };
            let node = &mut self.nodes[place];
            node.free -= 1;
            take(node.id, 1);
            self.next = place + 1;
            if node.free > 0 {
                ring.push_back(place);
            }
        }
    }

    fn refill(&mut self, among: &[usize]) {
        among.iter().for_each(|&place| self.nodes[place].free = self.nodes[place].slots);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn room(slots: &[u32], loads: &[u64]) -> (Room, Vec<usize>) {
        let ids: Vec<Id> = (0..).take(slots.len()).collect();
        let slots = ids.iter().copied().zip(slots.iter().copied()).collect();
        let loads = ids.iter().copied().zip(loads.iter().copied()).collect();
        (Room::new(&ids, &slots, &loads), (0..ids.len()).collect())
    }

    fn taken(place: impl FnOnce(&mut dyn FnMut(Id, u64))) -> Vec<(Id, u64)> {
        let mut all = Vec::new();
        place(&mut |id, count| all.push((id, count)));
        all
    }

    #[test]
    fn nodes_are_filled_one_after_the_other_and_then_again() {
        let (mut room, all) = room(&[2, 1], &[]);
        assert_eq!(taken(|take| room.by_slot(&all, 5, take)), [(0, 2), (1, 1), (0, 2)]);
        assert_eq!(taken(|take| room.by_slot(&all, 2, take)), [(1, 1), (0, 1)]);
    }

    #[test]
    fn a_round_over_the_nodes_leaves_out_full_ones_and_goes_on_where_it_stopped() {
        let (mut room, all) = room(&[3, 1, 2], &[]);
        let ids = |taken: Vec<(Id, u64)>| taken.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        assert_eq!(ids(taken(|take| room.by_node(&all, 4, take))), [0, 1, 2, 0]);
        assert_eq!(ids(taken(|take| room.by_node(&all, 4, take))), [2, 0, 0, 1]);
    }

    #[test]
    fn what_runs_already_takes_slots() {
        let (mut room, all) = room(&[2, 2], &[1, 5]);
        assert_eq!(taken(|take| room.by_slot(&all, 3, take)), [(0, 1), (0, 2)]);
    }

    proptest! {
        #[test]
        fn no_node_is_above_its_slots_before_all_are_full(
            slots in prop::collection::vec(1u32..9, 1..9),
            parts in prop::collection::vec((any::<bool>(), 1u64..30), 1..5),
        ) {
            let (mut room, all) = room(&slots, &[]);
            let mut counts = vec![0; slots.len()];
            for (by_node, count) in parts {
                let taken = taken(|take| match by_node {
                    true => room.by_node(&all, count, take),
                    false => room.by_slot(&all, count, take),
                });
                prop_assert_eq!(taken.iter().map(|(_, count)| count).sum::<u64>(), count);
                taken.iter().for_each(|(id, count)| counts[*id as usize] += count);
                let full = |(count, slots): (&u64, &u32)| count / u64::from(*slots);
                let rounds = counts.iter().zip(&slots).map(full).min().unwrap();
                for (count, slots) in counts.iter().zip(&slots) {
                    prop_assert!(*count <= (rounds + 1) * u64::from(*slots), "{:?} of {:?}", counts, slots);
                }
            }
        }
    }
}
