//! Which bytes of a file have come.

use std::collections::BTreeMap;

/// The bytes that have come, as ranges that neither touch nor overlap: start and end. Pieces come nearly in order, so
/// there are few ranges.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Extent {
    ranges: BTreeMap<u64, u64>,
}

impl Extent {
    /// Adds the bytes from `start` to `end`. Returns false, and adds nothing, if some of them have come before. No
    /// bytes at all can always be added.
    #[must_use]
    pub(super) fn add(&mut self, start: u64, end: u64) -> bool {
        if start >= end {
            return start == end;
        }
        let before = self.ranges.range(..=start).next_back().map(|(&first, &last)| (first, last));
        let after = self.ranges.range(start..).next().map(|(&first, &last)| (first, last));
        if before.is_some_and(|(_, last)| last > start) || after.is_some_and(|(first, _)| first < end) {
            return false;
        }
        let (mut from, mut to) = (start, end);
        if let Some((first, _)) = before.filter(|(_, last)| *last == start) {
            self.ranges.remove(&first);
            from = first;
        }
        if let Some((first, last)) = after.filter(|(first, _)| *first == end) {
            self.ranges.remove(&first);
            to = last;
        }
        self.ranges.insert(from, to);
        true
    }

    /// Whether all bytes of a file of this length have come, and none beyond.
    pub(super) fn is_whole(&self, length: u64) -> bool {
        match length {
            0 => self.ranges.is_empty(),
            _ => self.ranges.len() == 1 && self.ranges.get(&0) == Some(&length),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set of bytes.
        #[test]
        fn it_has_the_bytes_that_have_come(pieces in prop::collection::vec((0u64..40, 0u64..12), 0..20)) {
            let (mut extent, mut bytes) = (Extent::default(), [false; 60]);
            for (start, length) in pieces {
                let range = start as usize..(start + length) as usize;
                let fresh = !bytes[range.clone()].contains(&true);
                prop_assert_eq!(extent.add(start, start + length), fresh);
                if fresh {
                    bytes[range].fill(true);
                }
            }
            for length in 0..60 {
                let whole = bytes[..length].iter().all(|&came| came) && !bytes[length..].contains(&true);
                prop_assert_eq!(extent.is_whole(length as u64), whole, "{} {:?}", length, &extent);
            }
        }
    }

    #[test]
    fn a_range_that_ends_before_it_starts_is_refused() {
        assert!(!Extent::default().add(3, 2));
    }
}
