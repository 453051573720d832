//! The program of `gpc impi client ... -- PROGRAM`: the session lasts as long as it runs.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitCode};
use std::sync::{Arc, OnceLock};

use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::Failure;
use crate::interrupt::Interrupt;

/// A running program.
pub(super) struct Command {
    child: Child,
    /// Sends the first signal that would end this process to the program instead. The session then ends in order.
    _interrupt: Interrupt,
}

impl Command {
    /// Starts the program with the standard input and output of this process.
    pub(super) fn start(program: &OsStr, arguments: &[OsString]) -> Result<Command, Failure> {
        let process = Arc::new(OnceLock::<OwnedFd>::new());
        let told = Arc::clone(&process);
        // Before the program starts, so that no signal is lost in between.
        let interrupt = Interrupt::listen(move || {
            // If the program has already ended, the signal is dropped.
            let _ = told.get().map(|process| pidfd_send_signal(process, Signal::TERM));
        })?;
        let child = std::process::Command::new(program).args(arguments).spawn();
        let child = child.map_err(|error| {
            format!(
                "cannot start {}: {error}; name a program that there is",
                chained_gpc::Shown(&program.to_string_lossy())
            )
        })?;
        let opened = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        // The child is not reaped yet, so the process number is still its own.
        let _ = opened.map(|opened| process.set(opened));
        Ok(Command { child, _interrupt: interrupt })
    }

    /// Waits until the program ends, and returns its exit status as a shell does.
    pub(super) fn wait(mut self) -> Result<ExitCode, Failure> {
        let status = self.child.wait()?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into())
    }
}
