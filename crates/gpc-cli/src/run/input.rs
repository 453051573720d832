//! Standard input for the processes that read it: rank 0, another rank, or all.
//!
//! A single reader that runs below this process gets the descriptor itself. So nothing is read that it does not read,
//! and a terminal is a terminal. With the terminal of this session it joins the process group of this command: what a
//! shell does with the job (foreground, background, stop, interrupt) it does with both. Otherwise a thread reads, and
//! the nodes of the readers write into pipes.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read, Stdin};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use gpc_bnr::host::{Feeder, HostInput};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{getpgrp, getsid};
use rustix::termios::{tcgetpgrp, tcgetsid};

use crate::refused::Refused;
use crate::say;

/// Bytes to read at a time: the capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// Interval at which a command in the background checks whether it is in the foreground: shorter than a person needs to
/// type.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(100);

/// What to do if standard input cannot be read.
const ADVICE: &str = "redirect it from a file or a pipe, or say --stdin none";

/// State of standard input while processes read it.
#[derive(Clone, Default, Debug)]
pub(super) struct Reading {
    /// Reading failed before the end, which has been reported.
    failed: Arc<AtomicBool>,
}

impl Reading {
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// How the readers get standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StdinSource {
    /// No process reads it.
    None,
    /// The only reader gets the descriptor.
    Passed,
    /// The only reader gets the descriptor of the session's terminal, and joins the process group of this command.
    Terminal,
    /// This command reads it and passes the bytes.
    Fed,
}

/// The node of the only reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReaderPlace {
    /// This process, which is the only node.
    Only,
    /// This process, which is one of several nodes.
    Here,
    /// Another process.
    Elsewhere,
}

impl StdinSource {
    /// Returns the way to a single reader at this place.
    ///
    /// # Errors
    /// If it cannot read standard input, since that is a directory.
    pub(super) fn new(place: ReaderPlace) -> Result<StdinSource, Refused> {
        check()?;
        let stdin = io::stdin();
        Ok(match (place, stdin.is_terminal()) {
            (ReaderPlace::Only, true) if is_of_session(&stdin) => StdinSource::Terminal,
            // No job control applies to a terminal of another session.
            (ReaderPlace::Only, _) | (ReaderPlace::Here, false) => StdinSource::Passed,
            // A command that a terminal stops would be taken for lost by the other nodes.
            (ReaderPlace::Here, true) | (ReaderPlace::Elsewhere, _) => StdinSource::Fed,
        })
    }

    /// Returns the way to several processes.
    ///
    /// # Errors
    /// If they cannot read standard input, since it is a directory.
    pub(super) fn fed() -> Result<StdinSource, Refused> {
        check()?;
        Ok(StdinSource::Fed)
    }

    /// Returns what the domain needs, if a reader gets the descriptor.
    ///
    /// # Errors
    /// If this process has no descriptor left.
    pub(super) fn host_input(self) -> io::Result<Option<HostInput>> {
        let process_group = match self {
            StdinSource::None | StdinSource::Fed => return Ok(None),
            StdinSource::Passed => None,
            StdinSource::Terminal => Some(getpgrp().as_raw_nonzero().get().cast_unsigned()),
        };
        let descriptor = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Some(HostInput { descriptor, process_group }))
    }
}

/// Whether a terminal is the one that controls the session of this process.
fn is_of_session(terminal: &Stdin) -> bool {
    matches!((tcgetsid(terminal), getsid(None)), (Ok(of_terminal), Ok(own)) if of_terminal == own)
}

/// Rejects a standard input that no process can read, before anything is started.
///
/// # Errors
/// If it is a directory.
fn check() -> Result<(), Refused> {
    let is_folder = io::stdin().as_fd().try_clone_to_owned().and_then(|input| File::from(input).metadata());
    match is_folder.is_ok_and(|there| there.is_dir()) {
        true => {
            Err(Refused::File(format!("standard input is a directory, which rank 0 cannot read: {ADVICE}")))
        }
        false => Ok(()),
    }
}

/// Reads standard input on a separate thread, as fast as the slowest reader takes it. The thread ends with this
/// process, whatever it waits for.
pub(super) fn read(feeder: Feeder) -> Reading {
    let reading = Reading::default();
    let (unread, state) = (feeder.clone(), reading.clone());
    let thread = thread::Builder::new().name("gpc-input".into());
    if thread.spawn(move || feed(&feeder, &state)).is_err() {
        // If the system provides no thread, the input ends at once.
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
        say(&format!(
            "the processes have not got all of standard input, which cannot be read: {error}: {ADVICE}"
        ));
    }
    // The end of the input, also for a process that waits for it after a piece was lost. If all have ended before, that
    // is no error.
    let _ = feeder.feed(Vec::new());
}

/// A terminal, which is read only in the foreground. A process that reads it in the background is stopped by the system
/// (SIGTTIN), and here the whole command with it.
struct Terminal(Stdin);

impl Terminal {
    fn is_foreground(&self) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|foreground| foreground == getpgrp())
    }
}

impl Read for Terminal {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Ends with a line, the end of the terminal, or this process.
        loop {
            if !self.is_foreground() {
                thread::sleep(BACKGROUND_PAUSE);
                continue;
            }
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None) {
                // Input that is typed at a shell in the meantime is not for the readers.
                Ok(_) if self.is_foreground() => return Ok(rustix::io::read(&self.0, buffer)?),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Forwards input to its end, or until no process reads any more.
///
/// # Errors
/// If the input cannot be read.
fn copy(stdin: &mut impl Read, feeder: &Feeder) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        match stdin.read(&mut chunk) {
            Ok(0) => return Ok(()),
            // All readers have closed their input, or have ended.
            Ok(count) if feeder.feed(chunk[..count].to_vec()).is_err() => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
