//! What the next events of a large world will touch is asked of memory before their turn comes: a million ids do not fit into any cache, and an event that waits for each of its places one after another takes three times as long.

use gpc_trees::Id;

use super::forged::call_of;
use super::world::{Event, World};

/// Bytes that come from memory at a time.
const LINE: usize = 64;

/// As much as is asked for of one thing: more than that is looked at one after the other.
const LONGEST: usize = 16 * LINE;

/// Asks for what is needed soon. Nothing waits for it, and nothing is different after it but how long the next look at it takes.
#[inline]
pub(super) fn soon<T>(what: &T) {
    soon_at(std::ptr::from_ref(what).cast(), size_of::<T>());
}

/// The same, of so many bytes from there on.
#[inline]
pub(super) fn soon_at(start: *const u8, bytes: usize) {
    for line in 0..bytes.min(LONGEST).div_ceil(LINE) {
        fetch(start.wrapping_add(line * LINE));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code)]
fn fetch(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: this is no access: it reads nothing, and no address is wrong for it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fetch(_: *const u8) {}

/// How many events before its turn what an event itself takes is asked for; what its message takes, which the event names; its ids, which the message names; what their hosts name, with what is known of them; and what that names.
const EVENT: usize = 8;
const MESSAGE: usize = 6;
const IDS: usize = 4;
const NODE: usize = 2;
const PARTS: usize = 1;

/// Each of those who have part in an event.
#[inline(always)]
pub(super) fn each([one, other]: [Option<Id>; 2], mut what: impl FnMut(Id)) {
    if let Some(id) = one {
        what(id);
    }
    if let Some(id) = other {
        what(id);
    }
}

impl World {
    /// Asks for what the next events will touch.
    pub(super) fn look_ahead(&self) {
        self.queue.expect(EVENT);
        match self.queue.at_place(MESSAGE) {
            Some(Event::Arrive(parcel) | Event::Handle(parcel)) => parcel.expect(),
            Some(Event::Ran { result, .. }) => result.expect(),
            _ => {}
        }
        if let Some(event) = self.queue.at_place(IDS) {
            each(event.parts(), |id| self.hosts.expect(id));
            if let Event::Piece { .. } = event {
                each(event.parts(), |id| self.pieces.expect(id));
            }
            if let (Some(mishaps), None) = (&self.mishaps, &self.linked) {
                event.at().into_iter().for_each(|id| mishaps.links.expect_of(id));
                if let Event::Arrive(parcel) | Event::Handle(parcel) = event {
                    mishaps.links.expect(parcel.passage);
                }
            }
        }
        if let Some(event) = self.queue.at_place(PARTS) {
            if let Some(id) = event.at() {
                self.hosts.expect_parts(id);
            }
            each(event.parts(), |id| self.checkers.expect_parts(id));
        }
        let Some(event) = self.queue.at_place(NODE) else { return };
        if let Some(id) = event.at() {
            self.hosts.expect_node(id);
        }
        let call = match event {
            Event::Handle(parcel) => call_of(&parcel.message),
            Event::Arrive(parcel) if self.takes_in_at_once() => call_of(&parcel.message),
            Event::Ran { call, .. } | Event::Answered { call, .. } => Some(call.call()),
            Event::Piece { call, .. } => Some(*call),
            _ => None,
        };
        if let Event::Piece { .. } = event {
            each(event.parts(), |id| self.pieces.expect_parts(id));
        }
        let Some(call) = call else { return };
        let ids = event.parts();
        if let Some(paths) = &self.paths {
            each(ids, |id| paths.expect(id));
        }
        self.checkers.expect(call, ids);
    }

    /// The same for the next timers: they are due one after the other where calls reach their limits.
    pub(super) fn look_ahead_at_timers(&self) {
        let timer = |place| self.queue.timer_at(place).into_iter();
        timer(IDS).for_each(|id| self.hosts.expect(id));
        timer(NODE).for_each(|id| {
            self.hosts.expect_node(id);
            self.checkers.expect_of(id);
        });
        timer(PARTS).for_each(|id| {
            self.hosts.expect_parts(id);
            self.checkers.expect_parts(id);
        });
    }
}
