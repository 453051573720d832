//! Measures the memory that a piece of work takes: a decoder must not allocate on the word of a length field.
//!
//! The allocator counts the bytes of each thread apart, so parallel tests do not disturb the count.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with a count.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn count(taken: usize, given: usize) {
    HELD.set(HELD.get().wrapping_add(taken).wrapping_sub(given));
    PEAK.set(PEAK.get().max(HELD.get()));
}

// SAFETY: every call is passed to the system's allocator unchanged; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller upholds the contract of this function, which is the same for `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks exist while the bytes are moved.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Start of the count: so high that freeing memory allocated before does not take it below zero.
const BASE: usize = 1 << 40;

/// Returns the result of a piece of work, and the maximum number of bytes that it held beyond those held before.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    HELD.set(BASE);
    PEAK.set(BASE);
    let result = work();
    (result, PEAK.get() - BASE)
}

/// Runs a piece of work that reads `read` bytes, and checks that it holds at most a multiple of them.
///
/// # Panics
/// If the work holds more than `each` bytes for each byte read, and 8 KiB.
pub fn bounded<T>(read: usize, each: usize, work: impl FnOnce() -> T) -> T {
    let (result, held) = peak(work);
    assert!(held <= each * read + 8192, "{held} bytes were held to read {read}");
    result
}
