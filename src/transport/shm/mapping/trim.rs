//! Gives the memory that the allocator keeps for the process back to the system.
//!
//! What a node drops when it is idle lies between what it keeps. The GNU allocator gives the pages between back when it
//! is asked to, and not by itself; other allocators see to that by themselves, and here nothing is done.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod gnu {
    use std::ffi::c_int;

    // SAFETY: as the system's library declares them. Any thread may call them at any time, and they touch nothing that
    // is in use.
    unsafe extern "C" {
        pub(super) safe fn malloc_trim(pad: usize) -> c_int;
        pub(super) safe fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }

    /// How many heaps there are at most.
    pub(super) const ARENA_MAX: c_int = -8;

    /// From how many bytes on a piece lies apart from the heaps. Without this the system's library moves the bound up
    /// to the largest that was given back.
    pub(super) const MMAP_THRESHOLD: c_int = -3;

    /// What it is at first.
    pub(super) const LARGE: c_int = 128 << 10;
}

/// Gives back all whole pages that nothing lies in.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    gnu::malloc_trim(0);
}

/// Has all threads of this process share one heap, where its allocator has one for each thread otherwise: of those the
/// end is not given back, and each takes 64 MiB of addresses, and twice as much while it is made. For a process that is
/// nothing but a node, at its very start; whoever embeds a node decides about his process's memory himself.
pub fn one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    gnu::mallopt(gnu::ARENA_MAX, 1);
}

/// Has large pieces lie apart from the heap for as long as this process lives, so that what they took is given back
/// when they go: for a simulation, which has large ones once, and then a million small ones. Not for a node, whose
/// buffers come and go.
pub fn large_apart() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    gnu::mallopt(gnu::MMAP_THRESHOLD, gnu::LARGE);
}
