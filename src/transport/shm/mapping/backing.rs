//! Checks before shared memory is created or touched: the limit of file sizes, and missing pages. Either would end the
//! process with a signal.
//!
//! A failed check is an error, and the link uses its socket. Signal handlers of the process are never changed.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Resource, getrlimit};

/// Rejects memory that is longer than files of this process may be: the system would end the process with a signal.
pub(super) fn check_file_size(length: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(most) if length > most => {
            let why =
                format!("{length} bytes of shared memory are over the limit of {most} for files (ulimit -f)");
            Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
        }
        _ => Ok(()),
    }
}

/// Allocates all pages of shared memory if the system does not overcommit. Otherwise an access to a page that the
/// system cannot provide would end the process with a signal.
///
/// With overcommit, the system provides pages on access, as for all memory of the process. Clearing all of them would
/// take longer than all other steps of a new link.
pub(super) fn allocate_pages(memory: &OwnedFd, length: u64) -> io::Result<()> {
    match is_overcommit_strict() {
        true => allocate(memory, length),
        false => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn is_overcommit_strict() -> bool {
    use std::sync::OnceLock;
    /// The setting seldom changes, and reading it opens a file.
    static STRICT: OnceLock<bool> = OnceLock::new();
    *STRICT.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|text| text.trim() == "2")
    })
}

#[cfg(target_os = "linux")]
fn allocate(memory: &OwnedFd, length: u64) -> io::Result<()> {
    check_file_size(length)?;
    Ok(rustix::fs::fallocate(memory, rustix::fs::FallocateFlags::empty(), 0, length)?)
}

#[cfg(not(target_os = "linux"))]
fn is_overcommit_strict() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: &OwnedFd, _: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::fs::{MemfdFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};

    use super::*;

    /// If pages were missing at the first access, the process was ended by SIGBUS.
    #[test]
    fn pages_are_had_before_they_are_touched_though_the_size_is_sealed() {
        let memory = memfd_create("pages", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&memory, 1 << 20).unwrap();
        fcntl_add_seals(&memory, super::super::seals()).unwrap();
        assert_eq!(fstat(&memory).unwrap().st_blocks, 0);
        allocate(&memory, 1 << 20).unwrap();
        assert_eq!(fstat(&memory).unwrap().st_blocks * 512, 1 << 20);
        // An allocation beyond the size is an error.
        assert!(allocate(&memory, 2 << 20).is_err());
    }

    #[test]
    fn memory_within_the_file_limit_is_no_error() {
        assert!(check_file_size(0).is_ok());
        let most = getrlimit(Resource::Fsize).current;
        assert_eq!(check_file_size(u64::MAX).is_err(), most.is_some_and(|most| most < u64::MAX));
    }
}
