//! Counting allocators: the system's allocator, with counts of one thread or of the process.
//!
//! ```
//! use gpc_test_support::memory::{Counting, OfThread};
//!
//! #[global_allocator]
//! static COUNTING: Counting<OfThread> = Counting::new();
//!
//! # fn main() {
//! let (list, cost) = OfThread::cost(|| vec![1_u8; 1000]);
//! assert_eq!((list.len(), cost.peak, cost.allocations), (1000, 1000, 1));
//! # }
//! ```
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, with a count of what it allocates.
pub struct Counting<C>(PhantomData<fn() -> C>);

/// A counter of allocations.
pub trait Count {
    /// Counts bytes that are allocated, and bytes that are freed by the same call. Must not allocate or panic.
    fn count(taken: usize, given: usize);
}

impl<C> Counting<C> {
    /// An allocator for a `static` with `#[global_allocator]`.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a static needs a constant function")]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting neither allocates nor panics.
unsafe impl<C: Count> GlobalAlloc for Counting<C> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        C::count(layout.size(), 0);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        C::count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        C::count(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// Counts the current thread alone, so that other tests of the program do not count.
pub struct OfThread;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
    static PEAK_MOVING: Cell<usize> = const { Cell::new(0) };
    static TAKEN: Cell<usize> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Allocations of a piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Peak of the bytes above the level before.
    pub peak: usize,
    /// The same, with both blocks of a reallocation: they exist together while the bytes are moved.
    pub peak_moving: usize,
    /// Bytes that are still allocated at the end.
    pub kept: usize,
    /// Bytes of all allocations: everything copied, and more.
    pub taken: usize,
    /// Number of allocations and reallocations.
    pub allocations: u64,
}

impl Count for OfThread {
    fn count(taken: usize, given: usize) {
        let most = HELD.get().wrapping_add(taken);
        HELD.set(most.wrapping_sub(given));
        PEAK.set(PEAK.get().max(HELD.get()));
        PEAK_MOVING.set(PEAK_MOVING.get().max(most));
        TAKEN.set(TAKEN.get().wrapping_add(taken));
        ALLOCATIONS.set(ALLOCATIONS.get() + u64::from(taken > 0));
    }
}

impl OfThread {
    /// Level of the count when a piece of work begins: so high that freed memory of before does not make it negative.
    const BASE: usize = 1 << 40;

    /// Bytes that this thread has allocated and not freed. Memory of other threads that it freed is subtracted, too.
    #[must_use]
    pub fn held() -> usize {
        HELD.get()
    }

    /// Number of allocations and reallocations of this thread.
    #[must_use]
    pub fn allocations() -> u64 {
        ALLOCATIONS.get()
    }

    /// Returns the result of a piece of work, and its cost. One piece of work does not contain another.
    pub fn cost<T>(work: impl FnOnce() -> T) -> (T, Cost) {
        let (taken, allocations) = (TAKEN.get(), ALLOCATIONS.get());
        for level in [&HELD, &PEAK, &PEAK_MOVING] {
            level.set(Self::BASE);
        }
        let result = work();
        let cost = Cost {
            peak: PEAK.get() - Self::BASE,
            peak_moving: PEAK_MOVING.get() - Self::BASE,
            kept: HELD.get().saturating_sub(Self::BASE),
            taken: TAKEN.get() - taken,
            allocations: ALLOCATIONS.get() - allocations,
        };
        (result, cost)
    }
}

/// Counts all threads of the process.
pub struct OfProcess;

static ALL_HELD: AtomicUsize = AtomicUsize::new(0);
static ALL_PEAK: AtomicUsize = AtomicUsize::new(0);

impl Count for OfProcess {
    fn count(taken: usize, given: usize) {
        ALL_HELD.fetch_sub(given, Ordering::Relaxed);
        let held = ALL_HELD.fetch_add(taken, Ordering::Relaxed) + taken;
        ALL_PEAK.fetch_max(held, Ordering::Relaxed);
    }
}

impl OfProcess {
    /// Bytes that are allocated.
    #[must_use]
    pub fn held() -> usize {
        ALL_HELD.load(Ordering::Relaxed)
    }

    /// The peak since [`OfProcess::start_peak`].
    #[must_use]
    pub fn peak() -> usize {
        ALL_PEAK.load(Ordering::Relaxed)
    }

    /// Begins a new peak at this level.
    pub fn start_peak(level: usize) {
        ALL_PEAK.store(level, Ordering::Relaxed);
    }
}
