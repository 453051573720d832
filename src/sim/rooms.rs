//! A slab: freed slots are reused first, so that millions of short-lived values do not go through the allocator.

use std::ops::{Deref, DerefMut};

use super::ahead::soon;

/// Free slots; the one freed last is reused first.
#[derive(Debug)]
pub(super) struct Rooms<T>(Vec<Box<Option<T>>>);

/// A slot and its value.
#[derive(Debug)]
pub(super) struct Room<T>(Box<Option<T>>);

impl<T> Default for Rooms<T> {
    fn default() -> Rooms<T> {
        Rooms(Vec::new())
    }
}

impl<T> Rooms<T> {
    #[inline]
    pub(super) fn put(&mut self, what: T) -> Room<T> {
        match self.0.pop() {
            Some(mut room) => {
                *room = Some(what);
                Room(room)
            }
            None => what.into(),
        }
    }

    #[inline]
    pub(super) fn take(&mut self, room: Room<T>) -> T {
        let Room(mut room) = room;
        let what = room.take().expect(HOLDS);
        if self.0.len() < KEPT {
            self.0.push(room);
        }
        what
    }
}

/// Largest number of free slots kept. It covers short-lived values; the memory of a peak goes back to the allocator.
const KEPT: usize = 1 << 18;

impl<T> From<T> for Room<T> {
    fn from(what: T) -> Room<T> {
        Room(Box::new(Some(what)))
    }
}

impl<T> Room<T> {
    /// Prefetches the value, without reading it.
    pub(super) fn expect(&self) {
        soon(&*self.0);
    }
}

const HOLDS: &str = "a room is left when what it holds is taken";

impl<T> Deref for Room<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().as_ref().expect(HOLDS)
    }
}

impl<T> DerefMut for Room<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().as_mut().expect(HOLDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_that_was_left_is_the_next_ones() {
        let mut rooms = Rooms::default();
        let mut first = rooms.put(1);
        *first += 1;
        let place = std::ptr::from_ref(&*first);
        assert_eq!((*first, rooms.take(first)), (2, 2));
        let second = rooms.put(3);
        assert_eq!((*second, std::ptr::from_ref(&*second)), (3, place));
        assert_eq!(*rooms.put(4), 4);
    }
}
