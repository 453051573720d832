//! How much memory a piece of work takes: decoders must not take it on the word of a length.
//!
//! The allocator counts the bytes of each thread apart, so that tests beside each other do not matter.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn count(taken: usize, given: usize) {
    HELD.set(HELD.get().wrapping_add(taken).wrapping_sub(given));
    PEAK.set(PEAK.get().max(HELD.get()));
}

// SAFETY: every call goes on to the system's allocator as it came; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both are there while the bytes move.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Where the count begins: high, so that giving back what was taken before does not go below zero.
const BASE: usize = 1 << 40;

/// What a piece of work returns, and the most bytes that it held at once beyond what was held before.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    HELD.set(BASE);
    PEAK.set(BASE);
    let result = work();
    (result, PEAK.get() - BASE)
}

/// Does a piece of work that reads so many bytes, and must not hold more than a multiple of them.
///
/// # Panics
/// When it holds more than `each` for each byte and 8 KiB.
pub fn bounded<T>(read: usize, each: usize, work: impl FnOnce() -> T) -> T {
    let (result, held) = peak(work);
    assert!(held <= each * read + 8192, "{held} bytes were held to read {read}");
    result
}
