//! The trace of a subtree: the times of each of its ids, 20 bytes for each, in list order (docs/wire.md, "RESPONSE").
//!
//! All are durations at one id, so no two clocks are compared. An id whose times are unknown has an entry without
//! durations.

use bytes::Bytes;
use gpc_trees::sorting::sort_by_key;

use super::Span;

/// Bytes of an id's entry.
pub const ENTRY: usize = 20;

/// The times of one id, since the request came to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdTimes {
    /// When func began.
    pub began: Span,
    /// How long func took.
    pub func: Span,
    /// How long callbacks took, all together.
    pub callbacks: Span,
    /// When the id answered.
    pub total: Span,
    /// When its answer came to its parent, since the request came to the parent. The parent sets it.
    pub answered: Span,
}

impl IdTimes {
    /// Those of an id of which nothing is known.
    pub const NONE: IdTimes = IdTimes {
        began: Span::NONE,
        func: Span::NONE,
        callbacks: Span::NONE,
        total: Span::NONE,
        answered: Span::NONE,
    };

    /// Returns the entry's bytes.
    pub fn emit(&self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        let spans = [self.began, self.func, self.callbacks, self.total, self.answered];
        for (place, span) in bytes.chunks_exact_mut(4).zip(spans) {
            place.copy_from_slice(&span.number().to_le_bytes());
        }
        bytes
    }

    /// Reads an entry.
    pub fn parse(bytes: &[u8; ENTRY]) -> IdTimes {
        let span = |at: usize| {
            Span::of_number(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
        };
        IdTimes { began: span(0), func: span(4), callbacks: span(8), total: span(12), answered: span(16) }
    }
}

/// The trace of a child's subtree, as its parent has it.
#[derive(Clone, Debug)]
pub struct ChildTrace {
    /// Place of the child in its parent's list.
    pub start: u32,
    /// Its bytes.
    pub bytes: Bytes,
    /// When the child's answer came, since the request came to the parent.
    pub answered: Span,
}

/// Returns the trace of an id with `ids` ids in its list, from its own times and the traces of its children, which are
/// sorted. Ids without a trace have entries without durations.
pub fn join(own: &IdTimes, ids: u32, children: &mut [ChildTrace]) -> Bytes {
    sort_by_key(children, |child| child.start);
    let length = ids as usize * ENTRY;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&own.emit());
    for child in children {
        let start = child.start as usize * ENTRY;
        // A parent that has adopted ids may have the traces of some of them twice: the first counts.
        if start < bytes.len() || start + child.bytes.len() > length || child.bytes.len() < ENTRY {
            continue;
        }
        fill(&mut bytes, start);
        bytes.extend_from_slice(&child.bytes);
        bytes[start + ENTRY - 4..start + ENTRY].copy_from_slice(&child.answered.number().to_le_bytes());
    }
    fill(&mut bytes, length);
    bytes.into()
}

/// Appends entries without durations up to this length.
fn fill(bytes: &mut Vec<u8>, length: usize) {
    while bytes.len() < length {
        bytes.extend_from_slice(&IdTimes::NONE.emit());
    }
}

/// The entries of a trace.
pub fn entries(bytes: &[u8]) -> impl ExactSizeIterator<Item = IdTimes> + '_ {
    bytes.as_chunks().0.iter().map(IdTimes::parse)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn times(nanos: u64) -> IdTimes {
        let span = |more| Span::of(Duration::from_nanos(nanos + more));
        IdTimes { began: span(0), func: span(1), callbacks: span(2), total: span(3), answered: Span::NONE }
    }

    fn child(start: u32, ids: u32) -> ChildTrace {
        let bytes = (0..ids).flat_map(|id| times(u64::from(start + id) * 10).emit()).collect();
        ChildTrace { start, bytes, answered: Span::of(Duration::from_nanos(7)) }
    }

    proptest! {
        /// Whichever children have a trace: each entry stands at the place of its id.
        #[test]
        fn entries_stand_at_their_places(lens in prop::collection::vec((1u32..5, any::<bool>()), 0..8), swap: bool) {
            let (mut next, mut children, mut expected) = (1, Vec::new(), vec![Some(0)]);
            for (len, is_known) in lens {
                if is_known {
                    children.push(child(next, len));
                }
                expected.extend((next..next + len).map(|id| is_known.then_some(u64::from(id) * 10)));
                next += len;
            }
            let starts: Vec<u32> = children.iter().map(|child| child.start).collect();
            if swap {
                children.reverse();
            }
            let bytes = join(&times(0), next, &mut children);
            prop_assert_eq!(bytes.len(), next as usize * ENTRY);
            for (place, (entry, expected)) in entries(&bytes).zip(expected).enumerate() {
                let mut wanted = expected.map_or(IdTimes::NONE, times);
                if starts.contains(&(place as u32)) {
                    wanted.answered = Span::of(Duration::from_nanos(7));
                }
                prop_assert_eq!(entry, wanted, "{}", place);
            }
        }
    }

    /// A child may claim more ids than its parent has, and an adopted id may come twice.
    #[test]
    fn traces_that_do_not_fit_are_left_out() {
        let mut children = [child(1, 2), child(2, 2), child(4, 9)];
        let known: Vec<bool> =
            entries(&join(&times(0), 6, &mut children)).map(|entry| entry != IdTimes::NONE).collect();
        assert_eq!(known, [true, true, true, false, false, false]);
    }
}
