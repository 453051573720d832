//! The memory that two processes share: a memfd, sealed at its size, and mapped. The only module with unsafe code,
//! together with [`sealed`](self::sealed), for memory that nobody writes any more.
//!
//! A mapping whose file is truncated kills who touches it, so nothing is mapped that can be: its maker seals the size
//! before anybody else has the descriptor, and who receives one checks seals and size before mapping it. Must never
//! give out a reference to anything but atomic words.

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
pub(crate) use self::trim::give_back;
pub use self::trim::{large_apart, one_heap};
use super::ring::{CONTROL, Memory};

/// Bytes of a ring, a power of two. One segment of a long message: a link then holds no more than a Unix socket would,
/// while two processes copy different halves of it at once.
pub(super) const CAPACITY: usize = 256 << 10;

/// Bytes before the first ring: the control words of both, in one page.
const HEAD: usize = 4096;

/// Bytes of the memory: the head, and two rings.
pub(super) const LENGTH: usize = HEAD + 2 * CAPACITY;

/// Bytes of a word.
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
    /// Makes new memory, all zero, and the descriptor to hand over.
    ///
    /// # Errors
    /// The system's; or it has no such memory.
    pub(super) fn create() -> io::Result<(OwnedFd, Mapping)> {
        let memory = sealed(LENGTH as u64)?;
        backing::have_pages(&memory, LENGTH as u64)?;
        let mapping = Mapping::of(&memory)?;
        Ok((memory, mapping))
    }

    /// Maps memory that another process has made.
    ///
    /// # Errors
    /// When it is not of exactly the size of two rings, or its size could still change; and the system's.
    pub(super) fn open(memory: &OwnedFd) -> io::Result<Mapping> {
        check(memory)?;
        backing::have_pages(memory, LENGTH as u64)?;
        Mapping::of(memory)
    }

    /// Maps a file that is known to keep at least [`LENGTH`] bytes.
    fn of(memory: &OwnedFd) -> io::Result<Mapping> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at a place that the system chooses touches nothing there is.
        let start = unsafe { mmap(std::ptr::null_mut(), LENGTH, access, flags, memory.as_fd(), 0)? };
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("memory was mapped at address 0"))?;
        Ok(Mapping { start })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `LENGTH` bytes are mapped there, page-aligned, until `self` is dropped; any bits are a word; the file
        // keeps its size, for it is sealed. Other processes may write there at any time, which is what atomic words are
        // for.
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

/// Which of the two rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    /// From the side that connected to the one that accepted.
    First,
    /// The other way.
    Second,
}

/// One of the two rings of a mapping.
#[derive(Clone, Debug)]
pub(super) struct Half {
    mapping: Arc<Mapping>,
    which: usize,
}

impl Half {
    pub(super) fn new(mapping: Arc<Mapping>, which: Which) -> Half {
        Half { mapping, which: which as usize }
    }
}

impl Memory for Half {
    type Cell = AtomicU64;

    fn control(&self) -> &[AtomicU64] {
        &self.mapping.words()[self.which * CONTROL..][..CONTROL]
    }

    fn data(&self) -> &[AtomicU64] {
        &self.mapping.words()[(HEAD + self.which * CAPACITY) / WORD..][..CAPACITY / WORD]
    }
}

/// New memory of a size that nobody can change any more.
#[cfg(target_os = "linux")]
fn sealed(length: u64) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};
    let memory = memfd_create("gpc-rings", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    backing::check_file_size(length)?;
    ftruncate(&memory, length)?;
    fcntl_add_seals(&memory, seals())?;
    Ok(memory)
}

/// Refuses what is not memory of the size of two rings for good.
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

/// Neither smaller nor larger, for good.
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
        // A mapping stays when its descriptor goes.
        drop(memory);
        let mut into = [0; 16];
        for (which, other) in [(Which::First, Which::Second), (Which::Second, Which::First)] {
            let mut writer = Writer::new(Half::new(mine.clone(), which));
            let mut reader = Reader::new(Half::new(theirs.clone(), which));
            assert_eq!(writer.write(&[IoSlice::new(b"through "), IoSlice::new(b"memory")]).unwrap(), 14);
            assert_eq!(reader.read(&mut into).unwrap(), 14);
            assert_eq!(&into[..14], b"through memory");
            // What the one ring holds is none of the other's.
            let unread = Half::new(theirs.clone(), other);
            assert_eq!(Reader::new(unread).has_bytes(), which == Which::Second, "{which:?}");
        }
        // To its last byte, and from the start again.
        let mut writer = Writer::new(Half::new(theirs.clone(), Which::First));
        let full = vec![1; CAPACITY];
        while writer.write(&[IoSlice::new(&full)]).unwrap() > 0 {}
    }

    #[test]
    fn what_could_shrink_is_not_mapped() {
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
