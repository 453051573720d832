//! Measures the memory that a piece of work takes: a decoder must not allocate on the word of a length field.
//!
//! The allocator counts the bytes of each thread apart, so parallel tests do not disturb the count.

use gpc_test_support::memory::{Counting, OfThread};

#[global_allocator]
static COUNTING: Counting<OfThread> = Counting::new();

/// Runs a piece of work that reads `read` bytes, and checks that it holds at most a multiple of them.
///
/// # Panics
/// If the work holds more than `each` bytes for each byte read, and 8 KiB.
pub fn bounded<T>(read: usize, each: usize, work: impl FnOnce() -> T) -> T {
    let (result, cost) = OfThread::cost(work);
    let held = cost.peak_moving;
    assert!(held <= each * read + 8192, "{held} bytes were held to read {read}");
    result
}
