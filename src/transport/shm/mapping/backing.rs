//! What could end the process where it makes or touches shared memory: a limit of the length of its files, and pages
//! that the system has promised and does not have.
//!
//! Both are asked for before, so that they are errors, and the link uses its socket. The process's signals are its own:
//! none is caught, blocked or ignored here.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Resource, getrlimit};

/// Refuses memory that is longer than the files of this process may be: the system counts it as one, and would end the
/// process with a signal.
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

/// Has all pages of shared memory be there, where the system may have none left when they are touched: whoever touches
/// one then is ended with a signal.
///
/// That is so where the system takes no more memory than it has promised in all. Elsewhere a page is found or made room
/// for, as for all memory of the process; there it is left until it is touched, since to clear all of them takes longer
/// than all else that makes a link.
pub(super) fn have_pages(memory: &OwnedFd, length: u64) -> io::Result<()> {
    match counts_promises() {
        true => allocate(memory, length),
        false => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn counts_promises() -> bool {
    use std::sync::OnceLock;
    /// What the administrator has chosen seldom changes, and a file is read for it.
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
fn counts_promises() -> bool {
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

    /// Pages were there when they were first touched, or the process was ended by SIGBUS.
    #[test]
    fn pages_are_had_before_they_are_touched_though_the_size_is_sealed() {
        let memory = memfd_create("pages", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&memory, 1 << 20).unwrap();
        fcntl_add_seals(&memory, super::super::seals()).unwrap();
        assert_eq!(fstat(&memory).unwrap().st_blocks, 0);
        allocate(&memory, 1 << 20).unwrap();
        assert_eq!(fstat(&memory).unwrap().st_blocks * 512, 1 << 20);
        // Beyond what there is nothing is had, and that is an error.
        assert!(allocate(&memory, 2 << 20).is_err());
    }

    #[test]
    fn what_files_may_have_is_no_error() {
        assert!(check_file_size(0).is_ok());
        let most = getrlimit(Resource::Fsize).current;
        assert_eq!(check_file_size(u64::MAX).is_err(), most.is_some_and(|most| most < u64::MAX));
    }
}
