//! Which ranks of a resource are taken, as runs of consecutive ones: taking, giving back and assigning take O(log n) in the number of runs, and the memory does not depend on the capacity.
//!
//! Source: WS Rendezvous, registration with rank -1. The original looked through all ranks for a free one.

use std::collections::BTreeMap;

/// The ranks that are taken.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Ranks {
    /// First and last rank of each run; runs do not touch.
    runs: BTreeMap<u32, u32>,
    tally: u32,
}

impl Ranks {
    /// How many are taken.
    pub(super) fn tally(&self) -> u32 {
        self.tally
    }

    /// Whether this one is taken.
    pub(super) fn contains(&self, rank: u32) -> bool {
        self.runs.range(..=rank).next_back().is_some_and(|(_, last)| *last >= rank)
    }

    /// The rank that is assigned to who asks for none: the tally if that one is free, else the lowest that is free. It may be the capacity: then all below are taken.
    pub(super) fn assigned(&self) -> u32 {
        match self.contains(self.tally) {
            false => self.tally,
            // Some below the tally are free, since as many as the tally are taken, one of which is not below it.
            true => {
                self.runs.first_key_value().map_or(0, |(first, last)| if *first == 0 { last + 1 } else { 0 })
            }
        }
    }

    /// The first ranks below the capacity that are free, at most so many.
    pub(super) fn missing(&self, capacity: u32, most: usize) -> Vec<u32> {
        let mut missing = Vec::new();
        let mut next = 0;
        let ends = self.runs.iter().map(|(first, last)| (*first, last.saturating_add(1)));
        for (first, behind) in ends.chain([(capacity, capacity)]) {
            missing.extend((next..first).take(most - missing.len()));
            if missing.len() == most {
                break;
            }
            next = behind;
        }
        missing
    }

    /// Takes a rank; `false` if it was taken.
    pub(super) fn take(&mut self, rank: u32) -> bool {
        if self.contains(rank) {
            return false;
        }
        let before = rank.checked_sub(1).and_then(|before| {
            let (first, last) = self.runs.range(..rank).next_back()?;
            (*last == before).then_some(*first)
        });
        let after = rank.checked_add(1).and_then(|after| self.runs.remove(&after));
        self.runs.insert(before.unwrap_or(rank), after.unwrap_or(rank));
        self.tally += 1;
        true
    }

    /// Gives a rank back; `false` if it was not taken.
    pub(super) fn free(&mut self, rank: u32) -> bool {
        let Some((first, last)) = self.runs.range(..=rank).next_back().map(|(first, last)| (*first, *last))
        else {
            return false;
        };
        if last < rank {
            return false;
        }
        self.runs.remove(&first);
        if first < rank {
            self.runs.insert(first, rank - 1);
        }
        if rank < last {
            self.runs.insert(rank + 1, last);
        }
        self.tally -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The example of the source.
    #[test]
    fn those_that_ask_for_none_get_the_tally_or_the_lowest_free() {
        let mut ranks = Ranks::default();
        assert!([0, 1, 3, 5].into_iter().all(|rank| ranks.take(rank)));
        let assigned: Vec<u32> = (0..3)
            .map(|_| {
                let rank = ranks.assigned();
                assert!(ranks.take(rank));
                rank
            })
            .collect();
        assert_eq!(assigned, [4, 2, 6]);
        assert_eq!((ranks.tally(), ranks.assigned()), (7, 7));
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_ranks(steps in prop::collection::vec((0..24_u32, any::<bool>()), 0..200)) {
            let (mut ranks, mut model) = (Ranks::default(), BTreeSet::new());
            for (rank, take) in steps {
                match take {
                    true => prop_assert_eq!(ranks.take(rank), model.insert(rank)),
                    false => prop_assert_eq!(ranks.free(rank), model.remove(&rank)),
                }
                let tally = model.len() as u32;
                prop_assert_eq!(ranks.tally(), tally);
                let lowest = (0..).find(|rank| !model.contains(rank)).unwrap();
                prop_assert_eq!(ranks.assigned(), if model.contains(&tally) { lowest } else { tally });
                let missing: Vec<u32> = (0..24).filter(|rank| !model.contains(rank)).take(5).collect();
                prop_assert_eq!(ranks.missing(24, 5), missing);
                prop_assert!((0..24).all(|rank| ranks.contains(rank) == model.contains(&rank)));
            }
        }
    }
}
