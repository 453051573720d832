//! Signals for this command, which are forwarded to the job.

use std::io;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use crate::limits::cannot_start;

/// Signals that are forwarded.
const SENT_ON: [i32; 7] = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT];

/// `si_code` of a signal that the kernel has sent by itself, as a terminal does to its foreground process group.
const BY_KERNEL: i32 = 0x80;

/// A signal that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrived {
    pub(super) number: i32,
    /// Whether a terminal has sent it to the whole process group of this process.
    pub(super) by_terminal: bool,
}

impl Arrived {
    /// Whether it requests the end of the job.
    pub(super) fn ends(self) -> bool {
        ends(self.number)
    }
}

/// Signals in order of arrival.
#[derive(Debug)]
pub(super) struct Signals {
    come: Receiver<Arrived>,
    /// The last signal that requests the end of the job; 0 before.
    ending: Arc<AtomicI32>,
}

impl Signals {
    /// Starts to receive signals, which then no longer end this process. Signals that were ignored at its start stay
    /// ignored (`nohup`).
    ///
    /// # Errors
    /// If the system provides no thread or no signal handler.
    pub(super) fn listen() -> io::Result<Signals> {
        let ignored = ignored();
        let heard = SENT_ON.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut signals = SignalsInfo::<WithRawSiginfo>::new(heard)?;
        let (tell, come) = mpsc::channel();
        let ending = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&ending);
        let thread = thread::Builder::new().name("gpc-signals".into()).spawn(move || {
            // Ends with this process; the receiver may be gone before.
            for info in &mut signals {
                let number = info.si_signo;
                let arrived = Arrived { number, by_terminal: info.si_code == BY_KERNEL };
                if arrived.ends() {
                    seen.store(number, Ordering::Release);
                }
                let _ = tell.send(arrived);
            }
        });
        thread.map_err(cannot_start("a thread"))?;
        Ok(Signals { come, ending })
    }

    /// Signals that the test sends.
    #[cfg(test)]
    pub(super) fn played() -> (mpsc::Sender<Arrived>, Signals) {
        let (tell, come) = mpsc::channel();
        (tell, Signals { come, ending: Arc::default() })
    }

    /// Returns the last signal that requests the end of the job.
    pub(super) fn ending(&self) -> Option<i32> {
        Some(self.ending.load(Ordering::Acquire)).filter(|&signal| signal != 0)
    }

    /// Returns the same for other threads: the number of the signal, or 0.
    pub(super) fn ending_flag(&self) -> Arc<AtomicI32> {
        Arc::clone(&self.ending)
    }

    /// From now on, the first signal that requests the end ends this process, whatever it waits for. Call it when
    /// nothing is left to end before.
    pub(super) fn end_this_process(self) {
        let ending = thread::Builder::new().name("gpc-signals-end".into());
        // Ends with this process. If the system provides no thread, signals are ignored.
        let _ = ending.spawn(move || {
            for arrived in self.come {
                match arrived.number {
                    SIGTSTP => stop(),
                    number if arrived.ends() => exit(i32::from(status_of(number))),
                    _ => {}
                }
            }
        });
    }

    /// Returns the next signal, if one arrives within the limit.
    pub(super) fn next(&self, limit: Duration) -> Option<Arrived> {
        self.come.recv_timeout(limit).ok()
    }
}

/// Returns the signals that this process ignores, as a bit mask; none if the system does not report them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whether a signal requests the end of the job.
fn ends(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGTERM | SIGHUP)
}

/// Stops this process, as the terminal requests, until it is continued.
pub(super) fn stop() {
    // If the system refuses that, the command continues.
    let _ = emulate_default_handler(SIGTSTP);
}

/// Returns the exit status that reports a signal to a shell.
pub(super) fn status_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Returns the number and name of a signal, such as `9 (SIGKILL)`.
pub(super) fn name(signal: i32) -> String {
    match signal_name(signal) {
        Some(name) => format!("{signal} ({name})"),
        None => signal.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_the_status_that_shells_give_it() {
        assert_eq!([2, 9, 15].map(status_of), [130, 137, 143]);
        assert_eq!((status_of(200), name(9).as_str(), name(999).as_str()), (u8::MAX, "9 (SIGKILL)", "999"));
        let ending: Vec<i32> = SENT_ON.into_iter().filter(|signal| ends(*signal)).collect();
        assert_eq!(ending, [SIGINT, SIGTERM, SIGHUP]);
    }
}
