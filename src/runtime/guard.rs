//! The guard of a process: a thread that detects functions that keep the thread of an event loop for too long.
//!
//! A leader also runs default functions, see [`leader_followers`](super::leader_followers). Before each function it
//! sets the timer of the node. That is one system call, and wakes no thread while functions are short, since the next
//! function sets the timer again. If a timer expires, the guard makes another thread take the loop over. All nodes of a
//! process share one guard. It starts with the first function, sleeps while no function runs, and ends with the last
//! node.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tracing::error;

/// Timers that expire at the same time, and are seen at once.
const EVENTS: usize = 64;

/// Handler of an expired timer.
pub(super) trait Guarded: Send + Sync {
    /// Handles the expiry.
    fn expired(self: Arc<Self>);
}

/// The token of the waker, which no timer has.
const WAKER: Token = Token(usize::MAX);

/// The guard of this process, while there are timers. A child that was forked has no guard thread of its parent, and
/// gets its own.
static GUARD: Mutex<Option<(u32, Arc<Guard>)>> = Mutex::new(None);

/// See the module.
struct Guard {
    registry: Registry,
    waker: Waker,
    /// Whether no timer is left: the thread ends.
    ended: AtomicBool,
    registrations: Mutex<Registrations>,
}

#[derive(Default)]
struct Registrations {
    next: usize,
    /// One entry for each node that has run functions.
    by_token: HashMap<usize, Weak<dyn Guarded>>,
}

/// A timer registered with the guard.
pub(super) struct Timer {
    timer: OwnedFd,
    token: usize,
    guard: Arc<Guard>,
}

impl Timer {
    /// Registers a timer, which is not set, with the guard.
    ///
    /// # Errors
    /// The system's: no descriptors, no threads.
    pub(super) fn register(who: Weak<dyn Guarded>) -> io::Result<Timer> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Held until the timer is registered, so that the guard does not end meanwhile.
        let mut running = running();
        let guard = guard(&mut running)?;
        let mut registrations = guard.registrations();
        let token = registrations.next;
        registrations.next += 1;
        registrations.by_token.insert(token, who);
        drop(registrations);
        drop(running);
        let timer = Timer { timer, token, guard };
        timer.guard.registry.register(
            &mut SourceFd(&timer.timer.as_raw_fd()),
            Token(token),
            Interest::READABLE,
        )?;
        Ok(timer)
    }

    /// Sets it to expire after this time, and not before.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn set(&self, after: Duration) -> io::Result<()> {
        let seconds = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
        let it_value = Timespec { tv_sec: seconds, tv_nsec: after.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec).map(drop)?;
        Ok(())
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // Closing the timer deregisters it even if this fails.
        let _ = self.guard.registry.deregister(&mut SourceFd(&self.timer.as_raw_fd()));
        let mut running = running();
        let mut registrations = self.guard.registrations();
        registrations.by_token.remove(&self.token);
        if registrations.by_token.is_empty() {
            running.take_if(|(_, guard)| Arc::ptr_eq(guard, &self.guard));
            self.guard.ended.store(true, Ordering::SeqCst);
            if let Err(error) = self.guard.waker.wake() {
                error!(%error, "cannot stop the guard thread of functions");
            }
        }
    }
}

impl Guard {
    fn registrations(&self) -> MutexGuard<'_, Registrations> {
        // No code panics while it holds the lock.
        self.registrations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut poll: Poll) {
        let mut events = Events::with_capacity(EVENTS);
        while !self.ended.load(Ordering::SeqCst) {
            match poll.poll(&mut events, None) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return error!(%error, "the guard thread of functions failed"),
                Ok(()) => {}
            }
            for event in &events {
                let Token(token) = event.token();
                let who = self.registrations().by_token.get(&token).and_then(Weak::upgrade);
                if let Some(who) = who {
                    who.expired();
                }
            }
        }
    }
}

fn running() -> MutexGuard<'static, Option<(u32, Arc<Guard>)>> {
    // No code panics while it holds the lock.
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the guard of this process, and starts it if there is none.
fn guard(running: &mut Option<(u32, Arc<Guard>)>) -> io::Result<Arc<Guard>> {
    let process = std::process::id();
    if let Some((of, guard)) = running
        && *of == process
    {
        return Ok(guard.clone());
    }
    let poll = Poll::new()?;
    let made = Arc::new(Guard {
        registry: poll.registry().try_clone()?,
        waker: Waker::new(poll.registry(), WAKER)?,
        ended: AtomicBool::new(false),
        registrations: Mutex::default(),
    });
    let runs = made.clone();
    thread::Builder::new().name("gpc-guard".into()).spawn(move || runs.run(poll))?;
    *running = Some((process, made.clone()));
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    struct Notified(Mutex<Sender<u8>>, u8);

    impl Guarded for Notified {
        fn expired(self: Arc<Self>) {
            // The receiver may be gone at the end of a test.
            let _ = self.0.lock().unwrap().send(self.1);
        }
    }

    fn notified(name: u8) -> (Arc<Notified>, Receiver<u8>) {
        let (sender, receiver) = channel();
        (Arc::new(Notified(Mutex::new(sender), name)), receiver)
    }

    fn timer(who: &Arc<Notified>) -> Timer {
        let who: Weak<dyn Guarded> = Arc::<Notified>::downgrade(who);
        Timer::register(who).unwrap()
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn each_node_handles_each_expiry_of_its_own_timer() {
        let (sender, notified) = channel();
        let [one, two] = [1, 2].map(|name| Arc::new(Notified(Mutex::new(sender.clone()), name)));
        let (first, second) = (timer(&one), timer(&two));
        for _ in 0..3 {
            first.set(Duration::from_micros(100)).unwrap();
            assert_eq!(notified.recv_timeout(LONG), Ok(1));
            second.set(Duration::from_micros(1)).unwrap();
            assert_eq!(notified.recv_timeout(LONG), Ok(2));
        }
        assert!(notified.try_recv().is_err());
    }

    #[test]
    fn a_timer_that_is_set_anew_expires_at_its_last_time_alone() {
        let [(one, ones), (two, twos)] = [notified(1), notified(2)];
        let (first, second) = (timer(&one), timer(&two));
        first.set(Duration::from_secs(3600)).unwrap();
        second.set(Duration::from_micros(100)).unwrap();
        assert_eq!(twos.recv_timeout(LONG), Ok(2));
        assert!(ones.try_recv().is_err(), "it has an hour left");
        first.set(Duration::from_micros(1)).unwrap();
        assert_eq!(ones.recv_timeout(LONG), Ok(1));
    }

    #[test]
    fn a_dropped_node_is_not_notified_and_leaves_nothing() {
        let (one, ones) = notified(1);
        let first = timer(&one);
        let (token, guard) = (first.token, first.guard.clone());
        assert!(guard.registrations().by_token.contains_key(&token));
        first.set(Duration::from_millis(1)).unwrap();
        drop(first);
        assert!(!guard.registrations().by_token.contains_key(&token));
        drop(one);
        assert!(ones.recv().is_err());
    }
}
