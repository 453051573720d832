//! Standard input, which is that of rank 0.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read, Stdin};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use gpc_bnr::host::Feeder;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::refused::Refused;
use crate::say;

/// How much is read at a time, bytes: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// How often a command in the background looks whether it is in the foreground again: quicker than a person types.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(100);

/// What to do where standard input cannot be read.
const ADVICE: &str = "redirect it from a file or a pipe, or say --stdin none";

/// Standard input while rank 0 reads it.
#[derive(Clone, Default, Debug)]
pub(super) struct Reading {
    /// It could not be read to its end, which has been said.
    failed: Arc<AtomicBool>,
}

impl Reading {
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// Refuses a standard input that rank 0 cannot read, before anything is started.
///
/// # Errors
/// When it is a directory.
pub(super) fn check() -> Result<(), Refused> {
    let is_folder = io::stdin().as_fd().try_clone_to_owned().and_then(|input| File::from(input).metadata());
    match is_folder.is_ok_and(|there| there.is_dir()) {
        true => {
            Err(Refused::File(format!("standard input is a directory, which rank 0 cannot read: {ADVICE}")))
        }
        false => Ok(()),
    }
}

/// Reads standard input on a thread of its own, as fast as rank 0 takes it. It ends with this process, whatever it waits for.
pub(super) fn read(feeder: Feeder) -> Reading {
    let reading = Reading::default();
    let (unread, state) = (feeder.clone(), reading.clone());
    let thread = thread::Builder::new().name("gpc-input".into());
    if thread.spawn(move || feed(&feeder, &state)).is_err() {
        // The system has no thread: what rank 0 reads is at its end.
        let _ = unread.feed(Vec::new());
    }
    reading
}

fn feed(feeder: &Feeder, state: &Reading) {
    let stdin = io::stdin();
    let is_terminal = stdin.is_terminal();
    let copied = match is_terminal {
        true => copy(&mut Terminal(stdin), feeder),
        false => copy(&mut stdin.lock(), feeder),
    };
    if let Err(error) = &copied
        && !is_terminal
    {
        state.failed.store(true, Ordering::Relaxed);
        say(&format!("rank 0 has not got all of standard input, which cannot be read: {error}: {ADVICE}"));
    }
    if copied.unwrap_or(true) {
        // The end. Nobody is left to be told that it came too late.
        let _ = feeder.feed(Vec::new());
    }
}

/// A terminal, which is read in the foreground only: the system stops a process that reads it in the background, and here the whole command with it (SIGTTIN).
struct Terminal(Stdin);

impl Terminal {
    fn is_foreground(&self) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|foreground| foreground == getpgrp())
    }
}

impl Read for Terminal {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Ends: with a line, the end of the terminal, or this process.
        loop {
            if !self.is_foreground() {
                thread::sleep(BACKGROUND_PAUSE);
                continue;
            }
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None) {
                // Who types at a shell meanwhile does not type for rank 0.
                Ok(_) if self.is_foreground() => return Ok(rustix::io::read(&self.0, buffer)?),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Hands on what can be read, to its end; whether somebody reads it that far.
///
/// # Errors
/// When it cannot be read.
fn copy(stdin: &mut impl Read, feeder: &Feeder) -> io::Result<bool> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match stdin.read(&mut chunk) {
            Ok(0) => return Ok(true),
            // Rank 0 has closed its input, or has ended.
            Ok(count) if feeder.feed(chunk[..count].to_vec()).is_err() => return Ok(false),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
