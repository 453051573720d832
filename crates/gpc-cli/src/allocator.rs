//! Allocator of the program: that of the system, or mimalloc for `gpc sim`.
//!
//! Simulated worlds allocate and free small objects by the hundred million, and most of the time goes into memory that
//! is far apart. mimalloc keeps objects of one size together: small worlds then take two thirds of the time, large ones
//! four fifths ([docs/performance.md](../../../docs/performance.md)). A node allocates nothing for a message; mimalloc
//! would only cost it 10 MB and a gigabyte of addresses. So the command chooses once it knows its sub-command. Memory
//! that was allocated before goes back to the system's allocator.
//!
//! Both allocators do the work; this module only selects one. The `unsafe` passes on to them what the caller promises.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use libmimalloc_sys::mi_is_in_heap_region;
use mimalloc::MiMalloc;

/// Whether the program simulates; never reset. A thread that frees memory of another thread received it after that
/// thread had read this flag as set, so it reads the flag as set too.
static WORLDS: AtomicBool = AtomicBool::new(false);

/// The allocator of the program `gpc`.
#[derive(Clone, Copy, Default, Debug)]
pub struct Allocator;

/// Selects mimalloc for all later allocations.
pub(super) fn for_worlds() {
    WORLDS.store(true, Ordering::Relaxed);
}

/// Whether mimalloc serves new allocations.
#[inline]
fn worlds() -> bool {
    WORLDS.load(Ordering::Relaxed)
}

/// Whether mimalloc allocated this memory.
#[inline]
fn of_worlds(memory: *mut u8) -> bool {
    // SAFETY: looks up the address, and reads nothing there.
    worlds() && unsafe { mi_is_in_heap_region(memory.cast()) }
}

// SAFETY: both allocators keep the contract. Each gets back only memory that it allocated, since every address belongs
// to one of them as long as it is in use.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passes on the caller's layout.
        unsafe { if worlds() { MiMalloc.alloc(layout) } else { System.alloc(layout) } }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passes on the caller's layout.
        unsafe { if worlds() { MiMalloc.alloc_zeroed(layout) } else { System.alloc_zeroed(layout) } }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory goes back to its allocator, with the layout of its allocation.
        unsafe {
            if of_worlds(memory) {
                MiMalloc.dealloc(memory, layout);
            } else {
                System.dealloc(memory, layout);
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the allocator of the memory resizes it, with the layout of its allocation.
        unsafe {
            if of_worlds(memory) {
                MiMalloc.realloc(memory, layout, size)
            } else {
                System.realloc(memory, layout, size)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Layout = Layout::new::<[u8; 100]>();
    const MORE: Layout = Layout::new::<[u8; 5000]>();

    /// Allocates memory, and fills all of it.
    fn filled(byte: u8) -> *mut u8 {
        // SAFETY: the layout has a size, and exactly that many bytes are written.
        unsafe {
            let memory = Allocator.alloc(FEW);
            assert!(!memory.is_null());
            memory.write_bytes(byte, FEW.size());
            memory
        }
    }

    /// Enlarges the memory, checks its content, and frees it.
    fn grow_and_drop(memory: *mut u8, byte: u8) {
        // SAFETY: the memory came from `filled`, and no other pointer to it exists.
        unsafe {
            let larger = Allocator.realloc(memory, FEW, MORE.size());
            assert!(!larger.is_null());
            assert!(std::slice::from_raw_parts(larger, FEW.size()).iter().all(|it| *it == byte));
            Allocator.dealloc(larger, MORE);
        }
    }

    #[test]
    fn memory_goes_back_to_who_gave_it_out() {
        let [grows, stays] = [filled(1), filled(2)];
        assert!(!of_worlds(grows));
        for_worlds();
        assert!(!of_worlds(grows) && !of_worlds(stays), "given out before");
        let new = filled(3);
        assert!(of_worlds(new));
        grow_and_drop(grows, 1);
        grow_and_drop(new, 3);
        let dropped = std::thread::spawn(|| filled(4) as usize).join().unwrap();
        grow_and_drop(dropped as *mut u8, 4);
        // SAFETY: both layouts have a size, and each pointer is freed once.
        unsafe {
            Allocator.dealloc(stays, FEW);
            let blank = Allocator.alloc_zeroed(MORE);
            assert!(of_worlds(blank));
            assert!(std::slice::from_raw_parts(blank, MORE.size()).iter().all(|it| *it == 0));
            Allocator.dealloc(blank, MORE);
        }
    }
}
