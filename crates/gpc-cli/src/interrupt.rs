//! Signals that end the command, such as Ctrl-C. The first one wakes the waiting thread, which ends the started
//! processes in order.
//!
//! A second signal ends the process at once. The control links of its children then close, and the children end as
//! well.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{self, JoinHandle};

use super::limits::cannot_start;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Listens for SIGINT, SIGTERM and SIGHUP until it is dropped.
#[derive(Debug)]
pub struct Interrupt {
    signal: Arc<AtomicI32>,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Interrupt {
    /// Starts to listen. The first signal calls `wake` once, on a separate thread.
    ///
    /// # Errors
    /// If the system provides no thread or no signal handler.
    pub fn listen(wake: impl FnOnce() + Send + 'static) -> io::Result<Interrupt> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handle = signals.handle();
        let signal = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&signal);
        let mut wake = Some(wake);
        let thread = thread::Builder::new().name("gpc-signals".into()).spawn(move || {
            for signal in &mut signals {
                let Some(wake) = wake.take() else { std::process::exit(status_of(signal)) };
                seen.store(signal, Ordering::Release);
                wake();
            }
        });
        let thread = thread.map_err(cannot_start("a thread"))?;
        Ok(Interrupt { signal, handle, thread: Some(thread) })
    }

    /// Returns the signal that arrived, if any.
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Acquire)).filter(|&signal| signal != 0)
    }

    /// Returns the exit status that reports the signal to a shell, such as 130 for SIGINT.
    pub fn exit_status(&self) -> Option<u8> {
        self.signal().and_then(|signal| u8::try_from(status_of(signal)).ok())
    }
}

fn status_of(signal: i32) -> i32 {
    128 + signal
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // The thread ends with the handle; a panic in `wake` was reported where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_signal_wakes_whoever_waits() {
        let (wake, woken) = mpsc::channel();
        let interrupt = Interrupt::listen(move || wake.send(()).unwrap()).unwrap();
        assert_eq!(interrupt.signal(), None);
        signal_hook::low_level::raise(SIGTERM).unwrap();
        woken.recv().unwrap();
        assert_eq!((interrupt.signal(), interrupt.exit_status()), (Some(SIGTERM), Some(143)));
    }
}
