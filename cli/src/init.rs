//! The first process of a container (process number 1): the system makes it the parent of every process there that loses its own, and only it can take their exit statuses.
//!
//! So the command runs as a child of it. The first process hands signals on to the child, takes the statuses of all that end, and ends with the child's.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use chained_gpc::launch::{name_of, this_program};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait};
use rustix::termios::tcsetpgrp;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

/// Signals that are handed on.
const HANDED_ON: [i32; 8] = [SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];

/// Whether this is the first process of a container, or of a machine.
pub(crate) fn is_first() -> bool {
    getpid().is_init()
}

/// Runs the command as a child of this process; the exit status of the child, 128 + N if signal N has killed it.
///
/// # Errors
/// The system's: the child cannot be started.
pub(crate) fn run() -> io::Result<ExitCode> {
    let mut signals = Signals::new(HANDED_ON.into_iter().chain([SIGCHLD]))?;
    let program = this_program()?;
    let mut command = Command::new(&program);
    // A process group of its own: Ctrl-C at the terminal reaches the child once.
    let child = command.arg0(name_of(&program)).args(env::args_os().skip(1)).process_group(0).spawn()?;
    let child = Pid::from_child(&child);
    // Fails where standard input is no terminal.
    let _ = tcsetpgrp(io::stdin(), child);
    loop {
        if let Some(status) = reap(child) {
            return Ok(ExitCode::from(status));
        }
        for signal in signals.wait() {
            if let (true, Some(signal)) = (HANDED_ON.contains(&signal), Signal::from_named_raw(signal)) {
                // It may have ended: the next turn sees it.
                let _ = kill_process(child, signal);
            }
        }
    }
}

/// Takes the statuses of all that have ended; that of the command, if it is among them.
fn reap(child: Pid) -> Option<u8> {
    // Ends: each turn takes a process that has ended or is stopped, and there are finitely many.
    loop {
        match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) if pid == child && status.stopped() => {
                // No shell is there that could continue it.
                let _ = kill_process_group(child, Signal::CONT);
            }
            Ok(Some((pid, status))) if pid == child => return Some(status_of(status)),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return None,
            // The command cannot be a child no longer without having been seen to end.
            Err(_) => return Some(crate::FAILED),
        }
    }
}

fn status_of(status: WaitStatus) -> u8 {
    let killed = status.terminating_signal().map(|signal| 128 + signal);
    let status = killed.or(status.exit_status()).and_then(|status| u8::try_from(status).ok());
    status.unwrap_or(crate::FAILED)
}
