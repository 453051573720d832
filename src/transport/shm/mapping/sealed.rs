//! Mappings of sealed memory, whose content no process can change.
//!
//! Plain references may point there. A memfd that is sealed against writing, shrinking and further seals keeps its
//! bytes for good, and so does each mapping of it. Memory from another process is checked for these seals before it is
//! mapped. All of its pages must exist, too: reading a page that was never written needs memory, and without any the
//! reader would be killed.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use rustix::io::pread;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;

/// A descriptor of sealed memory.
#[derive(Debug)]
pub(in crate::transport::shm) struct SealedFile {
    descriptor: OwnedFd,
    length: usize,
}

impl SealedFile {
    /// Copies bytes into new memory, and seals it.
    ///
    /// # Errors
    /// The system's, or if it provides no such memory.
    pub(in crate::transport::shm) fn of(bytes: &[u8]) -> io::Result<SealedFile> {
        Ok(SealedFile { descriptor: sealed(bytes)?, length: bytes.len() })
    }

    /// Takes memory that another process has created.
    ///
    /// # Errors
    /// If it does not have exactly this length, or its bytes are not sealed; and the system's.
    pub(in crate::transport::shm) fn open(descriptor: OwnedFd, length: usize) -> io::Result<SealedFile> {
        check(&descriptor, length)?;
        Ok(SealedFile { descriptor, length })
    }

    pub(in crate::transport::shm) fn length(&self) -> usize {
        self.length
    }

    pub(in crate::transport::shm) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Maps the bytes.
    ///
    /// # Errors
    /// The system's.
    pub(in crate::transport::shm) fn map(&self) -> io::Result<Mapped> {
        // SAFETY: a new mapping at an address that the system chooses affects no existing one.
        let start = unsafe { mmap(std::ptr::null_mut(), self.length, READ, SHARED, &self.descriptor, 0)? };
        let start = NonNull::new(start.cast()).ok_or_else(at_zero)?;
        Ok(Mapped { start, length: self.length })
    }

    /// Copies bytes from an offset on.
    ///
    /// # Errors
    /// The system's.
    pub(in crate::transport::shm) fn read(&self, offset: usize, into: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < into.len() {
            match pread(&self.descriptor, &mut into[done..], (offset + done) as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Read-only.
const READ: ProtFlags = ProtFlags::READ;

/// Private mappings share pages that are not written, and all systems map sealed memory this way.
const SHARED: MapFlags = MapFlags::PRIVATE;

/// The bytes of sealed memory, mapped.
#[derive(Debug)]
pub(in crate::transport::shm) struct Mapped {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the whole process, stays where it is until it is dropped, and is only ever read.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: this many bytes are mapped there until `self` is dropped, and the memory is sealed against changes of
        // its bytes and its length.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and every reference into it borrowed `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "a mapping is unmapped once: {unmapped:?}");
    }
}

/// A range of addresses in which pieces of sealed memory are mapped one after the other. Other bytes are copied into
/// pages between them.
///
/// Reserved addresses take no memory; pages are added with the bytes.
#[derive(Debug)]
pub(in crate::transport::shm) struct Region {
    reserved: Arc<Reserved>,
    /// Number of bytes present, which no longer change. Bytes up to the end of their page may still be written by this
    /// value.
    filled: usize,
}

impl Region {
    /// Reserves addresses for this many bytes.
    ///
    /// # Errors
    /// If there are not enough.
    pub(in crate::transport::shm) fn reserve(length: usize) -> io::Result<Region> {
        let pages = length.checked_next_multiple_of(page_size()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (none, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address that the system chooses affects no existing one.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), pages, none, flags)? };
        let start = NonNull::new(start.cast()).ok_or_else(at_zero)?;
        Ok(Region { reserved: Arc::new(Reserved { start, length, pages, lost: OnceLock::new() }), filled: 0 })
    }

    pub(in crate::transport::shm) fn filled(&self) -> usize {
        self.filled
    }

    /// Appends sealed memory: maps its whole pages if the region is filled up to a page boundary, and copies the rest.
    ///
    /// # Errors
    /// The system's, or if it exceeds the remaining range; then nothing has changed.
    pub(in crate::transport::shm) fn lay(&mut self, memory: &SealedFile) -> io::Result<()> {
        let page = page_size();
        self.fits(memory.length)?;
        let whole = if self.filled.is_multiple_of(page) { memory.length / page * page } else { 0 };
        let mut rest = vec![0; memory.length - whole];
        memory.read(whole, &mut rest)?;
        let before = self.filled;
        if whole > 0 {
            self.reserved.check()?;
            let range = self.filled..self.filled + whole;
            // SAFETY: the range is reserved, and its whole pages follow all filled bytes, so no reference or other
            // mapping is there.
            let mapped = unsafe {
                let place = self.reserved.place(range.start);
                mmap(place, whole, READ, SHARED | MapFlags::FIXED, memory.descriptor.as_fd(), 0)
            };
            self.reserved.settle(mapped.map(drop), range)?;
            self.filled += whole;
        }
        // The next append maps over these pages.
        self.push(&rest).inspect_err(|_| self.filled = before)
    }

    /// Appends a copy of bytes.
    ///
    /// # Errors
    /// The system's, or if they exceed the remaining range; then nothing has changed.
    pub(in crate::transport::shm) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.fits(bytes.len())?;
        let page = page_size();
        let end = self.filled + bytes.len();
        let backed = self.filled.next_multiple_of(page);
        if end > backed {
            self.reserved.check()?;
            let range = backed..end.next_multiple_of(page);
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
            // SAFETY: as in `lay`: whole pages of the reserved range, behind all filled bytes.
            let mapped = unsafe { mmap_anonymous(self.reserved.place(backed), range.len(), access, flags) };
            self.reserved.settle(mapped.map(drop), range)?;
        }
        // SAFETY: the range is reserved. Its pages were mapped for writing, now or by an earlier `push`: `lay` leaves
        // none in part. No reference points behind the filled bytes.
        unsafe {
            let place = self.reserved.start.as_ptr().add(self.filled);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
        self.filled = end;
        Ok(())
    }

    /// Returns a view of present bytes.
    pub(in crate::transport::shm) fn view(&self, range: Range<usize>) -> View {
        assert!(range.start <= range.end && range.end <= self.filled, "what has not come cannot be read");
        View { reserved: self.reserved.clone(), range }
    }

    fn fits(&self, count: usize) -> io::Result<()> {
        match count <= self.reserved.length - self.filled {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is longer than what is left")),
        }
    }
}

/// A view of some bytes of a region, which no longer change.
#[derive(Debug)]
pub(in crate::transport::shm) struct View {
    reserved: Arc<Reserved>,
    range: Range<usize>,
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range was filled when the view was made, and is never written or mapped again from then on. It
        // stays mapped until the last owner is dropped.
        unsafe {
            let start = self.reserved.start.as_ptr().add(self.range.start);
            std::slice::from_raw_parts(start, self.range.len())
        }
    }
}

/// The addresses of a region.
#[derive(Debug)]
struct Reserved {
    start: NonNull<u8>,
    /// Number of bytes that fit.
    length: usize,
    /// Number of reserved bytes, whole pages.
    pages: usize,
    /// Addresses that may no longer belong to this value: a mapping failed, and the system does not report whether it
    /// had removed the one before. From then on nothing is mapped, and these addresses are never unmapped.
    lost: OnceLock<Range<usize>>,
}

// SAFETY: the addresses belong to the whole process and stay reserved until this is dropped. The one `Region` writes
// behind what is filled, `View`s read before it.
unsafe impl Send for Reserved {}
// SAFETY: as above.
unsafe impl Sync for Reserved {}

impl Reserved {
    fn place(&self, offset: usize) -> *mut std::ffi::c_void {
        debug_assert!(offset < self.pages, "a place is one of those reserved");
        self.start.as_ptr().wrapping_add(offset).cast()
    }

    fn check(&self) -> io::Result<()> {
        if self.lost.get().is_some() { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(()) }
    }

    fn settle(&self, mapped: rustix::io::Result<()>, range: Range<usize>) -> io::Result<()> {
        mapped.map_err(|error| {
            let _ = self.lost.set(range);
            error.into()
        })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let lost = self.lost.get().cloned().unwrap_or(self.pages..self.pages);
        for range in [0..lost.start, lost.end..self.pages] {
            if !range.is_empty() {
                // SAFETY: these addresses belong to this value, and every reference into them borrowed or shared it.
                let unmapped = unsafe { munmap(self.place(range.start), range.len()) };
                debug_assert!(unmapped.is_ok(), "a range is unmapped once: {unmapped:?}");
            }
        }
    }
}

fn at_zero() -> io::Error {
    io::Error::other("memory was mapped at address 0")
}

/// Creates sealed memory with these bytes.
#[cfg(target_os = "linux")]
fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::Write as _;

    use rustix::fs::{MemfdFlags, fcntl_add_seals, memfd_create};
    super::backing::check_file_size(bytes.len() as u64)?;
    let memory = memfd_create("gpc-data", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(memory);
    // Cheaper than a mapping: the system need not clear pages that are fully written.
    file.write_all(bytes)?;
    fcntl_add_seals(&file, seals())?;
    Ok(file.into())
}

/// Rejects memory of another length, or whose bytes are not sealed.
#[cfg(target_os = "linux")]
fn check(memory: &OwnedFd, length: usize) -> io::Result<()> {
    use rustix::fs::{fcntl_get_seals, fstat, fstatfs};
    /// File system of memfds, except those with huge pages, which are mapped differently.
    const TMPFS: i64 = 0x0102_1994;
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let Ok(there) = fcntl_get_seals(memory) else { return refused("it is no sealed memory".into()) };
    if !there.contains(seals()) {
        return refused(format!("its bytes are not sealed: {there:?}"));
    }
    let stat = fstat(memory)?;
    if stat.st_size != length as i64 {
        return refused(format!("it has {} bytes, not {length}", stat.st_size));
    }
    if (stat.st_blocks as u64).saturating_mul(512) < length as u64 {
        return refused("some of its pages were never written".into());
    }
    if fstatfs(memory)?.f_type as i64 != TMPFS {
        return refused("it is of another kind of memory".into());
    }
    Ok(())
}

/// Seals against any change of the bytes and the size.
#[cfg(target_os = "linux")]
fn seals() -> rustix::fs::SealFlags {
    use rustix::fs::SealFlags;
    SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

#[cfg(not(target_os = "linux"))]
fn sealed(_: &[u8]) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn check(_: &OwnedFd, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests;
