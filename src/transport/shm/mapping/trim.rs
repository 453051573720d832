//! Returns free memory of the allocator to the system.
//!
//! Memory that an idle node frees lies between memory in use. The GNU allocator returns such pages only on request.
//! Other allocators return them by themselves, and nothing is done here.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod gnu {
    use std::ffi::c_int;

    // SAFETY: declared as in the system's library. Any thread may call them at any time, and they affect no memory in
    // use.
    unsafe extern "C" {
        pub(super) safe fn malloc_trim(pad: usize) -> c_int;
        pub(super) safe fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }

    /// Maximum number of heaps.
    pub(super) const ARENA_MAX: c_int = -8;

    /// Length from which on an allocation has its own mapping. Unless it is set, the library raises it to the largest
    /// freed allocation.
    pub(super) const MMAP_THRESHOLD: c_int = -3;

    /// Its default value.
    pub(super) const LARGE: c_int = 128 << 10;
}

/// Returns all unused pages to the system.
pub(crate) fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    gnu::malloc_trim(0);
}

/// Makes all threads of this process share one heap. By default the GNU allocator has a heap for each thread, which
/// takes 64 MiB of addresses (twice as much while it is created), and whose end is never returned. For a process that
/// is nothing but a node, at its very start: a program that embeds a node decides about its own memory.
pub fn one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    gnu::mallopt(gnu::ARENA_MAX, 1);
}

/// Makes large allocations use their own mappings for the rest of this process, so that their memory is returned when
/// they are freed. For a simulation, which has few large allocations, and then a million small ones. Not for a node,
/// which often allocates buffers.
pub fn large_apart() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    gnu::mallopt(gnu::MMAP_THRESHOLD, gnu::LARGE);
}
