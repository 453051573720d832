//! Memory that nobody can change any more, mapped to be read.
//!
//! Plain references may point there, whatever another process does: a memfd that is sealed against writing, shrinking
//! and further seals keeps its bytes for good, and so does every mapping of it. What another process hands over is
//! checked for that before it is mapped. It must have all of its pages, too: to read one that was never written would
//! need memory, and without any the reader would be killed.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use rustix::io::pread;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;

/// A descriptor of memory that keeps its bytes for good.
#[derive(Debug)]
pub(in crate::transport::shm) struct SealedFile {
    descriptor: OwnedFd,
    length: usize,
}

impl SealedFile {
    /// Copies bytes into memory of their own, and seals it.
    ///
    /// # Errors
    /// The system's; or it has no such memory.
    pub(in crate::transport::shm) fn of(bytes: &[u8]) -> io::Result<SealedFile> {
        Ok(SealedFile { descriptor: sealed(bytes)?, length: bytes.len() })
    }

    /// Memory that another process has made.
    ///
    /// # Errors
    /// When it is not of exactly this length, or its bytes could still change or vanish; and the system's.
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

    /// Its bytes, where they lie.
    ///
    /// # Errors
    /// The system's.
    pub(in crate::transport::shm) fn map(&self) -> io::Result<Mapped> {
        // SAFETY: a new mapping at a place that the system chooses touches nothing there is.
        let start = unsafe { mmap(std::ptr::null_mut(), self.length, READ, SHARED, &self.descriptor, 0)? };
        let start = NonNull::new(start.cast()).ok_or_else(at_zero)?;
        Ok(Mapped { start, length: self.length })
    }

    /// Copies its bytes from an offset on.
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

/// To be read alone.
const READ: ProtFlags = ProtFlags::READ;

/// The pages of the memory itself: a private mapping shares those that it does not write, and all systems map sealed
/// memory so.
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
        // SAFETY: so many bytes are mapped there until `self` is dropped, of memory that is sealed against changes of
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

/// A range of addresses in which pieces of sealed memory are mapped side by side. What comes otherwise is copied into
/// pages of its own between them.
///
/// The addresses are reserved, which takes no memory; pages come with what is put there.
#[derive(Debug)]
pub(in crate::transport::shm) struct Region {
    reserved: Arc<Reserved>,
    /// Bytes that are there. They do not change any more; those up to the end of their page are this value's to write.
    filled: usize,
}

impl Region {
    /// Reserves addresses for so many bytes.
    ///
    /// # Errors
    /// When there are not as many.
    pub(in crate::transport::shm) fn reserve(length: usize) -> io::Result<Region> {
        let pages = length.checked_next_multiple_of(page_size()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (none, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at a place that the system chooses touches nothing there is.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), pages, none, flags)? };
        let start = NonNull::new(start.cast()).ok_or_else(at_zero)?;
        Ok(Region { reserved: Arc::new(Reserved { start, length, pages, lost: OnceLock::new() }), filled: 0 })
    }

    pub(in crate::transport::shm) fn filled(&self) -> usize {
        self.filled
    }

    /// Puts sealed memory behind what is there: mapped as far as whole pages go, copied where they do not.
    ///
    /// # Errors
    /// The system's, or when it is longer than what is left; then nothing has changed.
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
            // SAFETY: the range is reserved, whole pages of it lie behind all that is filled, so no reference points
            // there, and nothing else does.
            let mapped = unsafe {
                let place = self.reserved.place(range.start);
                mmap(place, whole, READ, SHARED | MapFlags::FIXED, memory.descriptor.as_fd(), 0)
            };
            self.reserved.settle(mapped.map(drop), range)?;
            self.filled += whole;
        }
        // Pages that were mapped for nothing are mapped over by what comes next.
        self.push(&rest).inspect_err(|_| self.filled = before)
    }

    /// Copies bytes behind what is there.
    ///
    /// # Errors
    /// The system's, or when they are more than what is left; then nothing has changed.
    pub(in crate::transport::shm) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.fits(bytes.len())?;
        let page = page_size();
        let end = self.filled + bytes.len();
        let backed = self.filled.next_multiple_of(page);
        if end > backed {
            self.reserved.check()?;
            let range = backed..end.next_multiple_of(page);
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
            // SAFETY: as in `lay`: whole pages of the reserved range, behind all that is filled.
            let mapped = unsafe { mmap_anonymous(self.reserved.place(backed), range.len(), access, flags) };
            self.reserved.settle(mapped.map(drop), range)?;
        }
        // SAFETY: the range is reserved. Its pages were mapped to be written, just now or by an earlier `push`: `lay`
        // leaves none in part. No reference points behind what is filled.
        unsafe {
            let place = self.reserved.start.as_ptr().add(self.filled);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
        self.filled = end;
        Ok(())
    }

    /// Some of what is there.
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

/// Some of the bytes of a region, which do not change any more.
#[derive(Debug)]
pub(in crate::transport::shm) struct View {
    reserved: Arc<Reserved>,
    range: Range<usize>,
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range was filled when the view was made, and is never written or mapped anew from then on; it
        // stays mapped until the last that shares it is dropped.
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
    /// Bytes that may be put there.
    length: usize,
    /// Bytes that are reserved, whole pages.
    pages: usize,
    /// Addresses that may not be this value's any more: the system has failed to map something there, and says not
    /// whether it had taken away what was there before. Nothing is mapped any more from then on, and these are left
    /// alone.
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
                // SAFETY: these addresses are this value's, and every reference into them borrowed it, or shared it.
                let unmapped = unsafe { munmap(self.place(range.start), range.len()) };
                debug_assert!(unmapped.is_ok(), "a range is unmapped once: {unmapped:?}");
            }
        }
    }
}

fn at_zero() -> io::Error {
    io::Error::other("memory was mapped at address 0")
}

/// New memory with these bytes, which nobody can change any more.
#[cfg(target_os = "linux")]
fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::Write as _;

    use rustix::fs::{MemfdFlags, fcntl_add_seals, memfd_create};
    super::backing::check_file_size(bytes.len() as u64)?;
    let memory = memfd_create("gpc-data", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(memory);
    // Cheaper than to map it: the system need not clear what is written whole.
    file.write_all(bytes)?;
    fcntl_add_seals(&file, seals())?;
    Ok(file.into())
}

/// Refuses what is not memory of this length whose bytes stay as they are.
#[cfg(target_os = "linux")]
fn check(memory: &OwnedFd, length: usize) -> io::Result<()> {
    use rustix::fs::{fcntl_get_seals, fstat, fstatfs};
    /// Of memfds, but for those of large pages, which are mapped otherwise.
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

/// No byte changes, comes or goes, for good.
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
