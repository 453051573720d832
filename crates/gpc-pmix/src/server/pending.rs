//! Upcalls that the node has not answered yet.

use std::collections::BTreeMap;

/// Largest number of unanswered upcalls. A process has one or a few calls at a time; a host has up to some hundred
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

    /// Stores the callback of an upcall. Returns its number, which is never used again.
    ///
    /// # Errors
    /// The callback, without room.
    pub(super) fn insert(&mut self, reply: T) -> Result<u64, T> {
        if self.replies.len() >= PENDING_MAX {
            return Err(reply);
        }
        let serial = self.number();
        self.replies.insert(serial, reply);
        Ok(serial)
    }

    /// Whether a stored callback is like this.
    pub(super) fn has(&self, is_it: impl FnMut(&T) -> bool) -> bool {
        self.replies.values().any(is_it)
    }

    /// Takes all callbacks that are like this.
    pub(super) fn take_all(&mut self, mut is_it: impl FnMut(&T) -> bool) -> Vec<T> {
        self.replies.extract_if(.., |_, reply| is_it(reply)).map(|(_, reply)| reply).collect()
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
        let all: Vec<u64> = std::iter::from_fn(|| pending.insert(()).ok()).collect();
        assert_eq!(all.len(), PENDING_MAX);
        pending.take(all[7]).unwrap();
        assert!(pending.insert(()).is_ok() && pending.insert(()).is_err());
    }

    #[test]
    fn callbacks_are_found_and_taken_by_what_they_are() {
        let mut pending = Pending::new();
        let serials = ["a1", "b1", "a2"].map(|reply| pending.insert(reply).unwrap());
        assert!(pending.has(|reply| *reply == "b1") && !pending.has(|reply| *reply == "b2"));
        assert_eq!(pending.take_all(|reply| reply.starts_with('a')), ["a1", "a2"]);
        assert_eq!(serials.map(|serial| pending.take(serial)), [None, Some("b1"), None]);
    }
}
