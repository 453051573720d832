//! Table of the node's own calls, keyed by ticket: a driver's number for a call.
//!
//! Drivers count their tickets up, so each call in flight has a slot of its own, found without a hash. An entry whose
//! slot is taken goes into a map.

use std::fmt;

use super::seeded_hash::{Seeded, SeededMap};

/// Slots that the first entry allocates.
const SLOTS_MIN: usize = 4;

/// Most slots: as many calls as may wait for their start.
const SLOTS_MAX: usize = 4096;

/// The table doubles while at least one slot in eight is taken.
const SPARSE: usize = 8;

/// A table by ticket.
pub(crate) struct Tickets<T> {
    /// Length: a power of two, or 0.
    slots: Vec<Option<(u64, T)>>,
    /// How many of them are taken.
    taken: usize,
    overflow: SeededMap<u64, T>,
}

impl<T> Default for Tickets<T> {
    fn default() -> Tickets<T> {
        // No peer chooses a ticket, so the seed need not be secret.
        Tickets { slots: Vec::new(), taken: 0, overflow: SeededMap::with_hasher(Seeded::new(0)) }
    }
}

impl<T> Tickets<T> {
    fn place(&self, ticket: u64) -> Option<usize> {
        let last = self.slots.len().checked_sub(1)?;
        Some(ticket as usize & last)
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.taken + self.overflow.len()
    }

    /// Adds an entry for a ticket that has none.
    #[inline]
    pub(crate) fn insert(&mut self, ticket: u64, entry: T) {
        let free =
            self.place(ticket).and_then(|place| self.slots.get_mut(place)).filter(|place| place.is_none());
        match free {
            Some(place) => {
                *place = Some((ticket, entry));
                self.taken += 1;
            }
            None => self.make_room(ticket, entry),
        }
    }

    #[cold]
    fn make_room(&mut self, ticket: u64, entry: T) {
        if self.slots.len() >= SLOTS_MAX || self.taken * SPARSE < self.slots.len() {
            self.overflow.insert(ticket, entry);
            return;
        }
        let places = (self.slots.len() * 2).max(SLOTS_MIN);
        let old = std::mem::take(&mut self.slots);
        self.slots.resize_with(places, || None);
        for (ticket, entry) in old.into_iter().flatten() {
            // Those that lay apart still do.
            if let Some(place) = self.place(ticket) {
                self.slots[place] = Some((ticket, entry));
            }
        }
        // Ends: the slots double, up to their maximum.
        self.insert(ticket, entry);
    }

    /// The entry of a ticket.
    #[inline]
    pub(crate) fn get(&self, ticket: u64) -> Option<&T> {
        match self.place(ticket).and_then(|place| self.slots[place].as_ref()) {
            Some((near, entry)) if *near == ticket => Some(entry),
            _ => self.overflow.get(&ticket),
        }
    }

    /// Removes the entry of a ticket.
    #[inline]
    pub(crate) fn remove(&mut self, ticket: u64) -> Option<T> {
        let near = self.place(ticket).and_then(|place| self.slots.get_mut(place));
        match near.and_then(|place| place.take_if(|(near, _)| *near == ticket)) {
            Some((_, entry)) => {
                self.taken -= 1;
                Some(entry)
            }
            None => self.overflow.remove(&ticket),
        }
    }

    /// Frees the memory that removed entries left.
    pub(crate) fn release_spare_memory(&mut self) {
        if self.taken == 0 {
            self.slots = Vec::new();
        }
        self.overflow.shrink_to_fit();
    }

    /// All entries, in no order.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = T> {
        let near = self.slots.into_iter().flatten().map(|(_, entry)| entry);
        near.chain(self.overflow.into_values())
    }
}

impl<T: fmt::Debug> fmt::Debug for Tickets<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let near = self.slots.iter().flatten().map(|(ticket, entry)| (ticket, entry));
        f.debug_map().entries(near.chain(&self.overflow)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Tickets in a row, as drivers give them, and others that meet in one place.
    fn ticket() -> impl Strategy<Value = u64> {
        prop_oneof![0..40_u64, (0..6_u64).prop_map(|far| far << 20), any::<u64>()]
    }

    proptest! {
        #[test]
        fn a_table_is_a_map(steps in prop::collection::vec((ticket(), any::<bool>()), 0..200)) {
            let (mut tickets, mut map) = (Tickets::default(), BTreeMap::new());
            for (number, (ticket, adds)) in steps.into_iter().enumerate() {
                if adds && !map.contains_key(&ticket) {
                    tickets.insert(ticket, number);
                    map.insert(ticket, number);
                } else if !adds {
                    prop_assert_eq!(tickets.remove(ticket), map.remove(&ticket));
                    tickets.release_spare_memory();
                }
                prop_assert_eq!(tickets.len(), map.len());
                for (ticket, entry) in &map {
                    prop_assert_eq!(tickets.get(*ticket), Some(entry));
                }
                prop_assert_eq!(tickets.get(ticket), map.get(&ticket));
            }
            let mut entries: Vec<usize> = tickets.into_entries().collect();
            entries.sort_unstable();
            let mut expected: Vec<usize> = map.into_values().collect();
            expected.sort_unstable();
            prop_assert_eq!(entries, expected);
        }
    }

    /// A window of calls in flight needs no map, whatever its first ticket.
    #[test]
    fn tickets_in_a_row_lie_beside_each_other() {
        let mut tickets = Tickets::default();
        for ticket in 1000..50_000_u64 {
            tickets.insert(ticket, ());
            if ticket >= 1064 {
                assert_eq!(tickets.remove(ticket - 64), Some(()));
            }
            assert!(tickets.overflow.is_empty() && tickets.slots.len() <= 128);
        }
        (0..2 * SLOTS_MAX as u64).for_each(|ticket| tickets.insert(1 << 40 | ticket, ()));
        assert!(tickets.slots.len() == SLOTS_MAX, "the slots are bounded");
    }
}
