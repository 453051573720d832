//! The timer that wakes the event loop: a timer of the system, whose expiry is an event of the poll.
//!
//! With a timeout for each sleep, the system would set up and remove a timer for every message, and the node would read
//! the clock before each sleep. Most deadlines are seconds away, and later calls have later ones: one timer stays set
//! for thousands of calls.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::chain::Time;

/// The token of the timer: like those of the waker, the listener and the control link, it precedes the tokens of links.
pub(super) const ALARM: Token = Token(3);

/// A one-shot timer.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
    /// When it expires; `None` before it is set, and after it has expired.
    at: Option<Time>,
}

impl Alarm {
    /// Creates a timer that is not set, and registers it with this poll.
    pub(super) fn new(registry: &Registry) -> io::Result<Alarm> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), ALARM, Interest::READABLE)?;
        Ok(Alarm { timer, at: None })
    }

    /// Whether it expires by `at`, or at any time if `at` is `None`.
    pub(super) fn expires_by(&self, at: Option<Time>) -> bool {
        self.at.is_some_and(|rings| at.is_none_or(|at| rings <= at))
    }

    /// Sets it to expire at `at`, and at no other time; at once, if `at` has passed.
    pub(super) fn set(&mut self, now: Time, at: Time) -> io::Result<()> {
        // Zero would turn it off.
        let left = at.since(now).max(Duration::from_nanos(1));
        let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        let it_value = Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })?;
        self.at = Some(at);
        Ok(())
    }

    /// Records that it has expired. Its counter is never read: epoll reports the expiry once (edge-triggered), and
    /// setting the timer again resets it.
    pub(super) fn note_expired(&mut self) {
        self.at = None;
    }
}

#[cfg(test)]
impl Alarm {
    /// Time until the system's timer expires; `None` if it is off.
    pub(super) fn left(&self) -> Option<Duration> {
        let left = rustix::time::timerfd_gettime(&self.timer).unwrap().it_value;
        let left = Duration::new(left.tv_sec.try_into().unwrap(), left.tv_nsec.try_into().unwrap());
        Some(left).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use mio::{Events, Poll};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Number of expiries that one poll reports within `limit`.
    fn rings(poll: &mut Poll, limit: Duration) -> usize {
        let mut events = Events::with_capacity(8);
        poll.poll(&mut events, Some(limit)).unwrap();
        events.iter().filter(|event| event.token() == ALARM && event.is_readable()).count()
    }

    #[test]
    fn each_setting_expires_once_without_a_read() {
        let mut poll = Poll::new().unwrap();
        let mut alarm = Alarm::new(poll.registry()).unwrap();
        assert_eq!((rings(&mut poll, Duration::ZERO), alarm.left()), (0, None));
        let now = Time::default().plus(SECOND);
        for at in [now.plus(Duration::from_millis(1)), now, Time::default()] {
            alarm.set(now, at).unwrap();
            assert_eq!(rings(&mut poll, 10 * SECOND), 1);
            alarm.note_expired();
            assert_eq!(rings(&mut poll, Duration::ZERO), 0, "it is reported once");
        }
    }

    #[test]
    fn a_new_setting_replaces_the_former_one() {
        let mut poll = Poll::new().unwrap();
        let mut alarm = Alarm::new(poll.registry()).unwrap();
        let now = Time::default();
        alarm.set(now, now).unwrap();
        alarm.set(now, Time::from_nanos(u64::MAX)).unwrap();
        assert!(alarm.left().unwrap() > 3600 * SECOND);
        assert_eq!(rings(&mut poll, Duration::ZERO), 0);
        alarm.set(now, now.plus(600 * SECOND)).unwrap();
        let left = alarm.left().unwrap();
        assert!(left > 60 * SECOND && left <= 600 * SECOND, "{left:?}");
    }

    #[test]
    fn only_a_sooner_deadline_needs_a_new_setting() {
        let poll = Poll::new().unwrap();
        let mut alarm = Alarm::new(poll.registry()).unwrap();
        let at = |seconds| Time::default().plus(seconds * SECOND);
        assert!(!alarm.expires_by(None) && !alarm.expires_by(Some(at(1))), "it does not ring at all");
        alarm.set(at(0), at(10)).unwrap();
        assert!(alarm.expires_by(None) && alarm.expires_by(Some(at(10))) && alarm.expires_by(Some(at(11))));
        assert!(!alarm.expires_by(Some(at(9))));
        alarm.note_expired();
        assert!(!alarm.expires_by(None) && !alarm.expires_by(Some(at(11))));
    }
}
