//! Set of taken ranks, stored as runs of consecutive ranks. Taking, freeing and assigning a rank take O(log n) in the
//! number of runs, and memory is independent of the capacity.
//!
//! Source: WS Rendezvous, registration with rank -1. The original searched all ranks for a free one.

use std::collections::BTreeMap;

/// The taken ranks.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Ranks {
    /// First and last rank of each run. Adjacent runs are merged.
    runs: BTreeMap<u32, u32>,
    tally: u32,
}

impl Ranks {
    /// Number of taken ranks.
    pub(super) fn tally(&self) -> u32 {
        self.tally
    }

    pub(super) fn contains(&self, rank: u32) -> bool {
        self.runs.range(..=rank).next_back().is_some_and(|(_, last)| *last >= rank)
    }

    /// The rank to assign to a registrant without a wish: the tally if that rank is free, else the lowest free rank. If
    /// all ranks below the capacity are taken, it is the capacity.
    pub(super) fn assigned(&self) -> u32 {
        match self.contains(self.tally) {
            false => self.tally,
            // The tally itself is taken, so at most tally - 1 ranks below it are: one of them is free.
            true => {
                self.runs.first_key_value().map_or(0, |(first, last)| if *first == 0 { last + 1 } else { 0 })
            }
        }
    }

    /// The lowest free ranks below the capacity, at most `most`.
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

    /// Takes a rank. Returns `false` if it was taken.
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

    /// Frees a rank. Returns `false` if it was free.
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
