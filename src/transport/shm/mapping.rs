//! Shared memory of two processes: a memfd of sealed size, mapped. With its submodules [`sealed`](self::sealed), which
//! maps memory of fixed content, and [`trim`](self::trim), the only module of this transport with unsafe code.
//!
//! An access to a truncated mapping kills the process. So the creator seals the size before it passes the descriptor,
//! and the receiver checks seals and size before it maps the memory. References point only to atomic words.

mod backing;
mod sealed;
mod trim;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

pub(super) use self::sealed::{Region, SealedFile, View};
pub(crate) use self::trim::trim_heap;
pub use self::trim::{large_apart, one_heap};
use super::ring::{CONTROL, Memory};

/// Capacity of a ring, in bytes: a power of two, as long as one segment of a long message. A link buffers as much as a
/// Unix socket, and two processes copy different halves of a segment at once.
pub(super) const CAPACITY: usize = 256 << 10;

/// Length of the part before the first ring: the control words of both rings, in one page.
const HEAD: usize = 4096;

/// Length of the memory: the head, and two rings.
pub(super) const LENGTH: usize = HEAD + 2 * CAPACITY;

/// Length of a word, bytes.
const WORD: usize = size_of::<AtomicU64>();

const _: () = assert!(CAPACITY.is_power_of_two() && 2 * CONTROL * WORD <= HEAD);

/// Memory shared with another process.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<AtomicU64>,
}

// SAFETY: the mapping belongs to the whole process, stays where it is until it is dropped, and consists of atomic
// words.
unsafe impl Send for Mapping {}
// SAFETY: as above; all access is atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Creates memory filled with zeros, and its descriptor.
    ///
    /// # Errors
    /// The system's, or if it provides no such memory.
    pub(super) fn create() -> io::Result<(OwnedFd, Mapping)> {
        let memory = sealed(LENGTH as u64)?;
        backing::allocate_pages(&memory, LENGTH as u64)?;
        let mapping = Mapping::of(&memory)?;
        Ok((memory, mapping))
    }

    /// Maps memory that another process has created.
    ///
    /// # Errors
    /// If it does not have exactly the size of two rings, or its size is not sealed; and the system's.
    pub(super) fn open(memory: &OwnedFd) -> io::Result<Mapping> {
        check(memory)?;
        backing::allocate_pages(memory, LENGTH as u64)?;
        Mapping::of(memory)
    }

    /// Maps a file that is known to keep at least [`LENGTH`] bytes.
    fn of(memory: &OwnedFd) -> io::Result<Mapping> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the system chooses affects no existing one.
        let start = unsafe { mmap(std::ptr::null_mut(), LENGTH, access, flags, memory.as_fd(), 0)? };
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("memory was mapped at address 0"))?;
        Ok(Mapping { start })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `LENGTH` bytes are mapped there, page-aligned, until `self` is dropped. Any bits are a valid word,
        // and the file is sealed at its size. Other processes may write there at any time, so the words are atomic.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), LENGTH / WORD) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and every reference into it borrowed `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), LENGTH) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once: {unmapped:?}");
    }
}

/// The direction of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// From the connecting side to the accepting side.
    ToAcceptor,
    /// From the accepting side to the connecting side.
    ToConnector,
}

/// One of the two rings of a mapping.
#[derive(Clone, Debug)]
pub(super) struct RingMemory {
    mapping: Arc<Mapping>,
    direction: usize,
}

impl RingMemory {
    pub(super) fn new(mapping: Arc<Mapping>, direction: Direction) -> RingMemory {
        RingMemory { mapping, direction: direction as usize }
    }
}

impl Memory for RingMemory {
    type Cell = AtomicU64;

    fn control(&self) -> &[AtomicU64] {
        &self.mapping.words()[self.direction * CONTROL..][..CONTROL]
    }

    fn data(&self) -> &[AtomicU64] {
        &self.mapping.words()[(HEAD + self.direction * CAPACITY) / WORD..][..CAPACITY / WORD]
    }
}

/// Creates memory of sealed size.
#[cfg(target_os = "linux")]
fn sealed(length: u64) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
    let memory = memfd_create("gpc-rings", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    backing::check_file_size(length)?;
    ftruncate(&memory, length)?;
    fcntl_add_seals(&memory, seals())?;
    Ok(memory)
}

/// Rejects memory that is not of the size of two rings, or not sealed.
#[cfg(target_os = "linux")]
fn check(memory: &OwnedFd) -> io::Result<()> {
    use rustix::fs::{fcntl_get_seals, fstat};
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let Ok(there) = fcntl_get_seals(memory) else { return refused("it is no sealed memory".into()) };
    if !there.contains(seals()) {
        return refused(format!("its size is not sealed: {there:?}"));
    }
    match fstat(memory)?.st_size {
        size if size == LENGTH as i64 => Ok(()),
        size => refused(format!("it has {size} bytes, not {LENGTH}")),
    }
}

/// Seals against any change of the size.
#[cfg(target_os = "linux")]
fn seals() -> rustix::fs::SealFlags {
    use rustix::fs::SealFlags;
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

#[cfg(not(target_os = "linux"))]
fn sealed(_: u64) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn check(_: &OwnedFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::IoSlice;

    use super::super::ring::{Reader, Writer};
    use super::*;

    #[test]
    fn both_sides_see_the_same_two_rings() {
        let (memory, mine) = Mapping::create().unwrap();
        let (mine, theirs) = (Arc::new(mine), Arc::new(Mapping::open(&memory).unwrap()));
        // A mapping outlives its descriptor.
        drop(memory);
        let mut into = [0; 16];
        for (direction, other) in
            [(Direction::ToAcceptor, Direction::ToConnector), (Direction::ToConnector, Direction::ToAcceptor)]
        {
            let mut writer = Writer::new(RingMemory::new(mine.clone(), direction));
            let mut reader = Reader::new(RingMemory::new(theirs.clone(), direction));
            assert_eq!(writer.write(&[IoSlice::new(b"through "), IoSlice::new(b"memory")]).unwrap(), 14);
            assert_eq!(reader.read(&mut into).unwrap(), 14);
            assert_eq!(&into[..14], b"through memory");
            // The rings do not overlap.
            let unread = RingMemory::new(theirs.clone(), other);
            assert_eq!(Reader::new(unread).has_bytes(), direction == Direction::ToConnector, "{direction:?}");
        }
        // Fills the ring to its last byte, and from the start again.
        let mut writer = Writer::new(RingMemory::new(theirs.clone(), Direction::ToAcceptor));
        let full = vec![1; CAPACITY];
        while writer.write(&[IoSlice::new(&full)]).unwrap() > 0 {}
    }

    #[test]
    fn memory_that_could_shrink_is_not_mapped() {
        use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
        let memory = memfd_create("unsealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&memory, LENGTH as u64).unwrap();
        let error = Mapping::open(&memory).unwrap_err();
        assert!(error.to_string().starts_with("its size is not sealed"), "{error}");
        let file = tempfile::tempfile().unwrap().into();
        assert!(Mapping::open(&file).unwrap_err().to_string().contains("no sealed memory"));
        let other = sealed(LENGTH as u64 + 1).unwrap();
        assert!(Mapping::open(&other).unwrap_err().to_string().contains("bytes, not"));
    }
}
