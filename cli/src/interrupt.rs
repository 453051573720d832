//! Ctrl-C and its like: told to whoever waits, so that what was started is ended in order.
//!
//! A second signal ends the process at once; the control links of its children close then, and they end as well.

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
    /// From now on the first signal calls `wake`, on a thread of its own, once.
    ///
    /// # Errors
    /// When the system gives no thread or no signal handler.
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

    /// The signal that came, if one did.
    pub fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Acquire)).filter(|&signal| signal != 0)
    }

    /// The exit status that tells a shell of the signal that came, such as 130 for SIGINT.
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
            // It ends with the handle; a panic in `wake` has been reported where it happened.
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
