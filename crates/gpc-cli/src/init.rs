//! Runs the command as a child, if this is the first process of a container (process number 1).
//!
//! The system makes the first process the parent of every process there that loses its own, and only the first can take
//! their exit statuses. So it forwards signals to the command, takes the statuses of all processes that end, and ends
//! with the status of the command.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use gpc_launch::{name_of, this_program};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait};
use rustix::termios::tcsetpgrp;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

/// Signals forwarded to the child.
const HANDED_ON: [i32; 8] = [SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];

/// Whether this is the first process of a container, or of a machine.
pub(crate) fn is_first() -> bool {
    getpid().is_init()
}

/// Runs the command as a child of this process. Returns the exit status of the child, 128 + N if signal N killed it.
///
/// # Errors
/// If the child cannot be started.
pub(crate) fn run() -> io::Result<ExitCode> {
    let mut signals = Signals::new(HANDED_ON.into_iter().chain([SIGCHLD]))?;
    let program = this_program()?;
    let mut command = Command::new(&program);
    // The child leads its own process group, so that Ctrl-C at the terminal reaches it once.
    // The name of a link decides what the command does.
    let name = env::args_os().next().unwrap_or_else(|| name_of(&program));
    let child = command.arg0(name).args(env::args_os().skip(1)).process_group(0).spawn()?;
    let child = Pid::from_child(&child);
    // Fails if standard input is not a terminal.
    let _ = tcsetpgrp(io::stdin(), child);
    loop {
        if let Some(status) = reap(child) {
            return Ok(ExitCode::from(status));
        }
        for signal in signals.wait() {
            if let (true, Some(signal)) = (HANDED_ON.contains(&signal), Signal::from_named_raw(signal)) {
                // If the child has ended, the next turn finds that.
                let _ = kill_process(child, signal);
            }
        }
    }
}

/// Takes the statuses of all processes that have ended; returns that of the command if it is among them.
fn reap(child: Pid) -> Option<u8> {
    // Ends: each turn takes a process that has ended or is stopped, and there are finitely many.
    loop {
        match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) if pid == child && status.stopped() => {
                // There is no shell that could continue the command.
                let _ = kill_process_group(child, Signal::CONT);
            }
            Ok(Some((pid, status))) if pid == child => return Some(status_of(status)),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return None,
            // Not reached: the command remains a child until its end is seen here.
            Err(_) => return Some(crate::FAILED),
        }
    }
}

fn status_of(status: WaitStatus) -> u8 {
    let killed = status.terminating_signal().map(|signal| 128 + signal);
    let status = killed.or(status.exit_status()).and_then(|status| u8::try_from(status).ok());
    status.unwrap_or(crate::FAILED)
}
