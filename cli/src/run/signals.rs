//! Signals that this command is sent: they are the job's.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::low_level::{emulate_default_handler, signal_name};

use crate::limits::cannot_start;

/// Those that are sent on.
const SENT_ON: [i32; 7] = [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT];

/// Signals as they come.
#[derive(Debug)]
pub(super) struct Signals {
    come: Receiver<i32>,
    /// The last one by which somebody wants the job to end; 0 before.
    ending: Arc<AtomicI32>,
}

impl Signals {
    /// From now on signals do not end this process, but those that it was started to ignore, which it goes on to ignore (`nohup`).
    ///
    /// # Errors
    /// When the system gives no thread or no signal handler.
    pub(super) fn listen() -> io::Result<Signals> {
        let ignored = ignored();
        let heard = SENT_ON.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut signals = signal_hook::iterator::Signals::new(heard)?;
        let (tell, come) = mpsc::channel();
        let ending = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&ending);
        let thread = thread::Builder::new().name("gpc-signals".into()).spawn(move || {
            // Ends with this process: whoever listens may have gone before.
            for signal in &mut signals {
                if ends(signal) {
                    seen.store(signal, Ordering::Release);
                }
                let _ = tell.send(signal);
            }
        });
        thread.map_err(cannot_start("a thread"))?;
        Ok(Signals { come, ending })
    }

    /// The last one by which somebody wants the job to end.
    pub(super) fn ending(&self) -> Option<i32> {
        Some(self.ending.load(Ordering::Acquire)).filter(|&signal| signal != 0)
    }

    /// The same for other threads: its number, or 0.
    pub(super) fn ending_flag(&self) -> Arc<AtomicI32> {
        Arc::clone(&self.ending)
    }

    /// The next one, if one comes within the limit.
    pub(super) fn next(&self, limit: Duration) -> Option<i32> {
        self.come.recv_timeout(limit).ok()
    }
}

/// The signals that this process ignores, a bit for each; none where the system does not say it.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whether somebody who sends it wants the job to end.
pub(super) fn ends(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGTERM | SIGHUP)
}

/// Stops this process, as the terminal wants it, until it is continued.
pub(super) fn stop() {
    // Where the system refuses that, the command goes on.
    let _ = emulate_default_handler(SIGTSTP);
}

/// The exit status that tells a shell of a signal.
pub(super) fn status_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Its number and name, such as `9 (SIGKILL)`.
pub(super) fn name(signal: i32) -> String {
    match signal_name(signal) {
        Some(name) => format!("{signal} ({name})"),
        None => signal.to_string(),
    }
}
