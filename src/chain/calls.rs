//! The calls in flight at one id. Each input finds its call by name once, and then uses its slot.
//!
//! Most ids have one call at a time, and a million ids with one call each must fit into memory, so the first call needs
//! no table. Peers choose the names, so the table's hash has a secret seed. A slot is reused once its call is gone, but
//! never while an input is processed that knew the old call: only `admit` adds a call, and no caller of it holds a slot
//! of another call.

use std::sync::Arc;

use gpc_trees::IdList;

use super::Time;
use super::call::{Call, Origin};
use super::seeded_hash::{Seeded, SeededMap};
use super::slot::Slot;
use crate::branch_hint::{likely, unlikely};
use crate::wire::{CallId, Request};

/// The slot that needs no table.
const FIRST: Slot = Slot(0);

/// Maximum number of ended calls whose memory is kept for reuse: as many as a busy id always uses, some tens of KiB.
const SPARE_MAX: usize = 128;

/// Number of slots that an idle node keeps: some KiB.
const TABLE_IDLE: usize = 256;

/// The calls in flight.
#[derive(Debug)]
pub(super) struct Calls {
    first: Option<Box<Call>>,
    /// The slots of all calls except the first.
    places: SeededMap<CallId, Slot>,
    /// Slot n is at index n - 1.
    others: Vec<Option<Box<Call>>>,
    free: Vec<Slot>,
    /// Ended calls without contents.
    #[allow(clippy::vec_box, reason = "a call stays where it is while its box goes from place to place")]
    spare: Vec<Box<Call>>,
    /// The empty request that ended calls hold, so that their own is freed.
    nothing: Option<Arc<Request>>,
    /// Whether there has been a call, and whether there has been a second one.
    seen: (bool, bool),
    /// Whether a call has ended while the table was large.
    large: bool,
}

impl Calls {
    pub(super) fn new(seed: u64) -> Calls {
        Calls {
            first: None,
            places: SeededMap::with_hasher(Seeded::new(seed)),
            others: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            nothing: None,
            seen: (false, false),
            large: false,
        }
    }

    /// Returns the slot of a call in flight.
    #[inline(always)]
    pub(super) fn find(&self, id: CallId) -> Option<Slot> {
        match &self.first {
            Some(call) if unlikely(call.request.call == id) => Some(FIRST),
            _ if likely(self.places.is_empty()) => None,
            _ => self.places.get(&id).copied(),
        }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Call> {
        match slot {
            FIRST => self.first.as_deref(),
            Slot(place) => self.others.get(place as usize - 1)?.as_deref(),
        }
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Call> {
        match slot {
            FIRST => self.first.as_deref_mut(),
            Slot(place) => self.others.get_mut(place as usize - 1)?.as_deref_mut(),
        }
    }

    /// Returns a call by its name.
    pub(super) fn named(&self, id: CallId) -> Option<&Call> {
        self.get(self.find(id)?)
    }

    /// Adds a call that is not in flight yet.
    pub(super) fn insert(&mut self, request: Arc<Request>, origin: Origin, begun: Time) -> Slot {
        let id = request.call;
        self.seen = (true, self.seen.0);
        let call = match self.spare.pop() {
            Some(mut call) => {
                call.renew(request, origin, begun);
                call
            }
            None => Box::new(Call::new(request, origin, begun)),
        };
        if self.first.is_none() {
            self.first = Some(call);
            return FIRST;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.others.push(None);
            Slot(self.others.len() as u32)
        });
        self.others[slot.0 as usize - 1] = Some(call);
        self.places.insert(id, slot);
        slot
    }

    /// Removes a call.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Box<Call>> {
        if slot == FIRST {
            return self.first.take();
        }
        let call = self.others.get_mut(slot.0 as usize - 1)?.take()?;
        self.places.remove(&call.request.call);
        self.large |= self.others.len() > TABLE_IDLE;
        self.free.push(slot);
        Some(call)
    }

    /// Keeps the memory of an ended call, without its contents. An id that has had only one call may never have
    /// another.
    pub(super) fn recycle(&mut self, call: Box<Call>) {
        if self.seen.1 {
            self.keep_room(call);
        }
    }

    fn keep_room(&mut self, mut call: Box<Call>) {
        if self.spare.len() < SPARE_MAX {
            call.empty(self.nothing.get_or_insert_with(Calls::no_request));
            self.spare.push(call);
        }
    }

    /// Returns the empty request that ended calls hold.
    fn no_request() -> Arc<Request> {
        Arc::new(Request::new(CallId { root: 0, sequence: 0 }, IdList::range(0..0)))
    }

    /// Whether so many calls were in flight at once, since memory was last freed, that the tables are large.
    pub(super) fn has_spare_memory(&self) -> bool {
        self.large
    }

    /// Frees the memory of ended calls. Slots in use stay.
    pub(super) fn release_spare_memory(&mut self) {
        self.large = false;
        self.spare = Vec::new();
        while let Some(None) = self.others.last() {
            self.others.pop();
        }
        let len = self.others.len();
        self.free.retain(|slot| (slot.0 as usize) <= len);
        self.others.shrink_to_fit();
        self.free.shrink_to_fit();
        self.places.shrink_to_fit();
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.places.len()
    }

    /// All calls, in arbitrary order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.first.as_deref().into_iter().chain(self.others.iter().filter_map(Option::as_deref))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn named(sequence: u64) -> CallId {
        CallId { root: 1, sequence }
    }

    fn insert(calls: &mut Calls, sequence: u64) -> Slot {
        let request = Request::new(named(sequence), IdList::range(1..2));
        calls.insert(
            Arc::new(request),
            Origin::Application { ticket: sequence, watch: false, followed: false },
            Time::default(),
        )
    }

    proptest! {
        /// For any insertions, removals and frees, a call stays in its slot and is found by its name.
        #[test]
        fn it_is_a_map(deeds in proptest::collection::vec((0u8..4, 0u64..12, any::<bool>()), 0..200), seed: u64) {
            let (mut calls, mut model) = (Calls::new(seed), BTreeMap::new());
            for (deed, sequence, recycled) in deeds {
                match (deed, model.get(&sequence).copied()) {
                    (0 | 1, None) => {
                        model.insert(sequence, insert(&mut calls, sequence));
                    }
                    (2, Some(slot)) => {
                        let gone = calls.remove(slot).unwrap();
                        prop_assert_eq!(gone.request.call, named(sequence));
                        if recycled {
                            calls.recycle(gone);
                        }
                        prop_assert!(calls.get(slot).is_none() && calls.remove(slot).is_none());
                        model.remove(&sequence);
                    }
                    // Free slots at the end were dropped but still given out: the next call had no place.
                    (3, _) => calls.release_spare_memory(),
                    _ => {}
                }
                for sequence in 0..12 {
                    let slot = model.get(&sequence).copied();
                    prop_assert_eq!(calls.find(named(sequence)), slot);
                    let there = slot.and_then(|slot| calls.get_mut(slot)).map(|call| call.request.call);
                    prop_assert_eq!(there, slot.map(|_| named(sequence)));
                }
                let mut all: Vec<u64> = calls.iter().map(|call| call.request.call.sequence).collect();
                all.sort_unstable();
                prop_assert!(all.iter().eq(model.keys()));
                prop_assert_eq!(calls.len(), model.len());
            }
        }
    }

    #[test]
    fn what_a_burst_has_taken_is_given_back_but_for_the_spare_ones() {
        let mut calls = Calls::new(1);
        let slots: Vec<Slot> = (0..1000).map(|sequence| insert(&mut calls, sequence)).collect();
        for slot in slots.into_iter().rev() {
            let call = calls.remove(slot).unwrap();
            let request = Arc::downgrade(&call.request);
            calls.recycle(call);
            assert!(request.upgrade().is_none(), "a spare call holds no data");
        }
        assert_eq!((calls.spare.len(), calls.len()), (SPARE_MAX, 0));
    }
}
