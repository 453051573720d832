//! Standard input and output as the process inherited them.
//!
//! Before `main`, Rust's runtime opens `/dev/null` in place of a closed standard descriptor, so that no file takes its
//! number. A program that checks later finds a working descriptor, and reports success for lost output. So a function
//! in the section `.init_array` (Linux), which the loader calls earlier, checks both descriptors. The `unsafe` is the
//! name of that section.
#![allow(unsafe_code)]

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, fcntl_getfd};

static INPUT_CLOSED: AtomicBool = AtomicBool::new(false);
static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the section holds pointers to functions of this type, which the loader calls once, on the only thread. The
// function needs nothing of Rust's runtime.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = check_outputs;

#[cfg(not(target_os = "linux"))]
static LOADED: extern "C" fn() = check_outputs;

extern "C" fn check_outputs() {
    let is_closed = |descriptor: BorrowedFd<'_>| fcntl_getfd(descriptor) == Err(Errno::BADF);
    INPUT_CLOSED.store(is_closed(rustix::stdio::stdin()), Ordering::Relaxed);
    OUTPUT_CLOSED.store(is_closed(rustix::stdio::stdout()), Ordering::Relaxed);
}

/// Returns what `check_outputs` found. Using `LOADED` here makes the linker keep the section.
fn found(closed: &AtomicBool) -> bool {
    black_box(LOADED);
    closed.load(Ordering::Relaxed)
}

/// Returns standard input, unbuffered. For a descriptor that cannot be read, it reports an error, where [`io::stdin`]
/// reports the end.
///
/// # Errors
/// If it was closed.
pub(super) fn input() -> io::Result<File> {
    if found(&INPUT_CLOSED) {
        return Err(io::Error::other("it is closed; redirect it from a file or a pipe"));
    }
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Standard output, unbuffered. For a descriptor that cannot be written, it reports an error, where [`io::stdout`]
/// reports success.
#[derive(Debug)]
pub(super) enum Output {
    /// Open: writes go there.
    Open(File),
    /// Closed: each write fails.
    Closed,
}

impl Output {
    /// Opens the standard output of this process.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub(super) fn new() -> io::Result<Output> {
        match found(&OUTPUT_CLOSED) {
            true => Ok(Output::Closed),
            false => Ok(Output::Open(File::from(io::stdout().as_fd().try_clone_to_owned()?))),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Open(file) => file.write(bytes),
            Output::Closed => Err(io::Error::other("it is closed; redirect it to a file, or to /dev/null")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
