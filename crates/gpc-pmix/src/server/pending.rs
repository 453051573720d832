//! Upcalls that the node has not answered yet.

use std::collections::BTreeMap;

/// Upcalls without an answer at once. A process has one or a few calls at a time; a host has up to some hundred
/// processes.
pub(super) const PENDING_MAX: usize = 4096;

/// The callbacks of upcalls, by their numbers.
pub(super) struct Pending<T> {
    replies: BTreeMap<u64, T>,
    last: u64,
}

impl<T> Pending<T> {
    pub(super) const fn new() -> Pending<T> {
        Pending { replies: BTreeMap::new(), last: 0 }
    }

    /// A number for an upcall that has no answer.
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Stores the callback of an upcall. Returns its number, which is never used again; `None` without room.
    pub(super) fn insert(&mut self, reply: T) -> Option<u64> {
        if self.replies.len() >= PENDING_MAX {
            return None;
        }
        let serial = self.number();
        self.replies.insert(serial, reply);
        Some(serial)
    }

    /// Takes the callback of an upcall. A second answer finds nothing.
    pub(super) fn take(&mut self, serial: u64) -> Option<T> {
        self.replies.remove(&serial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_upcall_is_answered_once() {
        let mut pending = Pending::new();
        let first = pending.insert('a').unwrap();
        let second = pending.insert('b').unwrap();
        assert_eq!((pending.take(second), pending.take(second)), (Some('b'), None));
        let third = pending.insert('c').unwrap();
        assert!(first < second && second < third, "no number is used again");
        assert_eq!(
            (pending.take(first), pending.take(third), pending.take(99)),
            (Some('a'), Some('c'), None)
        );
    }

    #[test]
    fn the_number_of_unanswered_upcalls_is_bounded() {
        let mut pending = Pending::new();
        let all: Vec<u64> = std::iter::from_fn(|| pending.insert(())).collect();
        assert_eq!(all.len(), PENDING_MAX);
        pending.take(all[7]).unwrap();
        assert!(pending.insert(()).is_some() && pending.insert(()).is_none());
    }
}
