//! Starts a process with `posix_spawn`, in a session of its own or in a given process group. The standard library can
//! set a session only by a fork. A fork takes longer the larger this process is. After a fork, the C library's `execvp`
//! also passes a file that the system refuses to the shell.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::ptr;

use libc::{posix_spawn_file_actions_t, posix_spawnattr_t, sigset_t};
use rustix::process::Pid;

/// A program to execute.
pub(super) struct Image {
    /// Path, relative to `wdir`.
    pub(super) path: CString,
    /// Arguments, beginning with the program's name.
    pub(super) args: Vec<CString>,
    /// Variables as `NAME=VALUE`.
    pub(super) env: Vec<CString>,
    /// Working directory; `None` is that of this process.
    pub(super) wdir: Option<CString>,
    /// Process group of this session that it joins; `None` is a session of its own.
    pub(super) process_group: Option<Pid>,
}

/// Starts the image. The process gets each descriptor under the number beside it.
///
/// # Errors
/// System errors, including those of the working directory and of the execution.
pub(super) fn spawn(image: &Image, descriptors: &[(BorrowedFd<'_>, RawFd)]) -> io::Result<Pid> {
    let mut actions = Actions::new()?;
    for (descriptor, number) in descriptors {
        // SAFETY: `actions` is initialized.
        checked(unsafe {
            libc::posix_spawn_file_actions_adddup2(&raw mut actions.0, descriptor.as_raw_fd(), *number)
        })?;
    }
    if let Some(wdir) = &image.wdir {
        // SAFETY: `actions` is initialized, and copies the path.
        checked(unsafe { libc::posix_spawn_file_actions_addchdir_np(&raw mut actions.0, wdir.as_ptr()) })?;
    }
    let attributes = Attributes::new(image.process_group)?;
    let (args, env) = (pointers(&image.args), pointers(&image.env));
    let mut pid = 0;
    // SAFETY: all pointers are valid until the call returns, the lists end with a null pointer, and the strings are
    // only read.
    checked(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            image.path.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            args.as_ptr(),
            env.as_ptr(),
        )
    })?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("the system has made a process without a number"))
}

fn checked(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

fn pointers(strings: &[CString]) -> Vec<*mut c_char> {
    strings.iter().map(|string| string.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// Operations on descriptors and directories before the program executes.
struct Actions(posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Actions> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the call initializes the value; if the call fails, the value is not used.
        unsafe {
            checked(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            Ok(Actions(actions.assume_init()))
        }
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: the value is initialized, and not used afterwards.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

/// Attributes of the process: it leads a session or joins a process group, blocks no signal, and SIGPIPE, which Rust
/// programs ignore, has its default action.
struct Attributes(posix_spawnattr_t);

impl Attributes {
    fn new(process_group: Option<Pid>) -> io::Result<Attributes> {
        let place = match process_group {
            Some(_) => libc::POSIX_SPAWN_SETPGROUP as c_int,
            None => libc::POSIX_SPAWN_SETSID as c_int,
        };
        let flags = place | libc::POSIX_SPAWN_SETSIGMASK as c_int | libc::POSIX_SPAWN_SETSIGDEF as c_int;
        let mut attributes = MaybeUninit::uninit();
        let (none, mut pipe) = (signals(), signals());
        // SAFETY: the first call initializes the attributes; if it fails, they are not used. The signal sets are
        // initialized.
        unsafe {
            checked(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            let mut attributes = Attributes(attributes.assume_init());
            libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
            checked(libc::posix_spawnattr_setsigmask(&raw mut attributes.0, &raw const none))?;
            checked(libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, &raw const pipe))?;
            if let Some(group) = process_group {
                let group = group.as_raw_nonzero().get();
                checked(libc::posix_spawnattr_setpgroup(&raw mut attributes.0, group))?;
            }
            checked(libc::posix_spawnattr_setflags(&raw mut attributes.0, flags as _))?;
            Ok(attributes)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the value is initialized, and not used afterwards.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// The empty set of signals.
fn signals() -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the call initializes the set, and cannot fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}
