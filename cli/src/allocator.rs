//! The program's allocator: the system's, and for `gpc sim` another one.
//!
//! Worlds make and drop small things by the hundred million, and what takes time is memory that is far apart. mimalloc keeps things of one size together: small worlds take two thirds of the time with it, large ones four
//! fifths ([docs/performance.md](../../docs/performance.md)). A node, which allocates nothing for a message, would only have 10 MB more with it and a gigabyte of addresses. So the command chooses when it knows what it will do, and what it
//! has allocated until then goes back to where it came from.
//!
//! Memory is given out and taken back by what knows how; this decides only who. Hence the `unsafe`, which asks of the two what is asked of this.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use libmimalloc_sys::mi_is_in_heap_region;
use mimalloc::MiMalloc;

/// Whether worlds have been announced. Never taken back. Who frees what another thread allocated has been given it after that thread saw this, so it sees it too.
static WORLDS: AtomicBool = AtomicBool::new(false);

/// The allocator of the program `gpc`.
#[derive(Clone, Copy, Default, Debug)]
pub struct Allocator;

/// From now on the program allocates for worlds.
pub(super) fn for_worlds() {
    WORLDS.store(true, Ordering::Relaxed);
}

/// Whether what is new comes from mimalloc.
#[inline]
fn worlds() -> bool {
    WORLDS.load(Ordering::Relaxed)
}

/// Whether mimalloc gave this memory out.
#[inline]
fn of_worlds(memory: *mut u8) -> bool {
    // SAFETY: looks the address up, and reads nothing there.
    worlds() && unsafe { mi_is_in_heap_region(memory.cast()) }
}

// SAFETY: both allocators keep the contract; each gets back only what it gave out, since every address belongs to one of them as long as it is in use.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, as it is.
        unsafe { if worlds() { MiMalloc.alloc(layout) } else { System.alloc(layout) } }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, as it is.
        unsafe { if worlds() { MiMalloc.alloc_zeroed(layout) } else { System.alloc_zeroed(layout) } }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: goes back to who gave it out, with the layout that it was asked for with.
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
        // SAFETY: who gave it out makes it larger, with the layout that it was asked for with.
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

    /// Memory that is filled from its first byte on.
    fn filled(byte: u8) -> *mut u8 {
        // SAFETY: the layout has a size, and as much is written as it has.
        unsafe {
            let memory = Allocator.alloc(FEW);
            assert!(!memory.is_null());
            memory.write_bytes(byte, FEW.size());
            memory
        }
    }

    /// Makes it larger, looks whether it holds what it held, and gives it back.
    fn grow_and_drop(memory: *mut u8, byte: u8) {
        // SAFETY: it came from `filled`, and nobody has another pointer to it.
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
        // SAFETY: both layouts have a size, and each pointer goes back once.
        unsafe {
            Allocator.dealloc(stays, FEW);
            let blank = Allocator.alloc_zeroed(MORE);
            assert!(of_worlds(blank));
            assert!(std::slice::from_raw_parts(blank, MORE.size()).iter().all(|it| *it == 0));
            Allocator.dealloc(blank, MORE);
        }
    }
}
