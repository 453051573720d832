//! How the event loop waits for events: busy polling of rings and sockets, yielding the core, or blocking in epoll.
//!
//! [`wait`](super::wait) decides from the durations of earlier waits. A ring is checked in memory. A socket is checked
//! with epoll, which takes ten times as long. A node with one socket and no ring reads the socket instead.

use std::io;
use std::time::Duration;

use mio::Events;

use super::alarm::ALARM;
use super::event_loop::{EventLoop, SLEEP_MAX};
use super::loop_state::EVENTS;
use super::wait::PollStep;
use crate::branch_hint::unlikely;
use crate::chain::Time;

/// Minimum time between two calls of epoll while the node polls rings. A call costs ten times as much as a ring check.
const EPOLL_INTERVAL_MIN: Duration = Duration::from_micros(4);

/// Maximum time between two calls. The interval doubles after each call without an event. It delays a message on a
/// socket no longer than a wake-up takes.
const EPOLL_INTERVAL_MAX: Duration = Duration::from_micros(32);

/// The same if other processes share the core: each of them calls epoll, and a yield takes about as long.
const EPOLL_INTERVAL_MAX_SHARED: Duration = Duration::from_micros(128);

/// Number of ring checks between two yields or readings of the clock: about two microseconds.
const RING_CHECKS: usize = 128;

/// Number of rings that are checked in some tens of nanoseconds.
const FEW_RINGS: usize = 8;

/// One of this many checks executes a pause instruction, which delays the next check by some tens of nanoseconds.
const CHECKS_PER_PAUSE: usize = 8;

impl EventLoop {
    /// Waits for work or a deadline, up to `limit`: polls for a while if that saves time, then sleeps. The time of the
    /// turn is read on first use.
    #[inline(always)]
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.clock.invalidate();
        if unlikely(self.polling.is_armed) {
            return self.end_sleep(limit);
        }
        if unlikely(self.set_alarm_unless_due()?) {
            return self.poll_once_when_due();
        }
        if unlikely(limit.is_zero() || self.is_busy()) {
            self.polling.is_active = true;
            self.polling.polled_for = Duration::ZERO;
            return self.poll_once(limit);
        }
        let (polls, mut limit) = (self.polling.is_active && self.polling.policy.should_poll(), limit);
        if polls {
            let begun = self.clock.time();
            if self.busy_poll(limit)? {
                return Ok(());
            }
            limit = remaining(limit, self.clock.time().since(begun));
        } else {
            self.polling.polled_for = Duration::ZERO;
            if self.polling.is_active && self.polling.policy.count_unpolled_wait() {
                self.yield_core(self.clock.now());
            }
        }
        // The duration of the turn itself is not part of the wait.
        let begun = self.polling.policy.needs_durations().then(|| self.clock.now());
        let rings = self.connections.has_rings();
        if unlikely(rings) {
            self.connections.enable_ring_notifications();
        }
        self.mailbox.prepare_sleep();
        let slept = self.sleep(limit, rings);
        if let (true, Some(begun)) = (self.polling.is_active, begun) {
            self.polling.policy.record_wake(self.clock.time().since(begun), polls);
        }
        slept
    }

    /// Sleeps. Peers and other threads have been notified that the node sleeps, and learn here that it is awake.
    #[inline(always)]
    fn sleep(&mut self, limit: Duration, rings: bool) -> io::Result<()> {
        // A sender that wrote before the flag was set did not wake the node.
        let has_message = unlikely(self.has_mail() || (rings && self.connections.has_ready_ring()));
        let limit = if has_message { Duration::ZERO } else { limit };
        let slept = self.poll_events(limit);
        self.mailbox.set_awake();
        self.polling.is_active = self.has_work();
        if rings {
            self.connections.retain_active_rings();
        }
        self.clock.invalidate();
        slept
    }

    /// Prepares the driver's wait for the node's descriptor: from now on peers and other threads wake it, and the alarm
    /// is set. Returns whether there is still no work.
    pub(super) fn prepare_sleep(&mut self) -> io::Result<bool> {
        self.clock.invalidate();
        if self.set_alarm_unless_due()? {
            return Ok(false);
        }
        if !self.polling.is_armed && !self.is_busy() {
            self.connections.enable_ring_notifications();
            self.mailbox.prepare_sleep();
            self.polling.is_armed = true;
        }
        Ok(!(self.is_busy() || self.connections.has_ready_ring() || self.may_have_more_events()))
    }

    /// Cancels the driver's wait for the descriptor: senders need not wake the node. Arrived events stay queued, and
    /// the next [`prepare_sleep`](Self::prepare_sleep) finds them.
    pub(super) fn cancel_sleep(&mut self) {
        if std::mem::take(&mut self.polling.is_armed) {
            self.mailbox.set_awake();
            self.connections.disable_ring_notifications();
        }
    }

    /// Whether epoll may have more events than the last call returned. An edge-triggered outer loop is not notified of
    /// these again.
    fn may_have_more_events(&self) -> bool {
        self.polling.events.iter().flatten().count() >= EVENTS
    }

    /// Ends the driver's wait for the descriptor, whether or not it took place. The node polls again from now on.
    #[cold]
    fn end_sleep(&mut self, limit: Duration) -> io::Result<()> {
        self.polling.is_armed = false;
        let busy = self.is_busy() || self.turn.is_due;
        self.polling.polled_for = Duration::ZERO;
        let slept = self.sleep(if busy { Duration::ZERO } else { limit }, self.connections.has_rings());
        self.polling.is_active |= busy;
        slept
    }

    /// Polls once without sleeping. It calls epoll if the limit is zero and there are no rings, or if a call is due.
    fn poll_once(&mut self, limit: Duration) -> io::Result<()> {
        self.polling.events.iter_mut().for_each(Events::clear);
        self.connections.disable_ring_notifications();
        if (limit.is_zero() && !self.connections.has_rings()) || self.claim_epoll(false) {
            self.poll_events(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Polls once before a deadline is handled.
    #[cold]
    fn poll_once_when_due(&mut self) -> io::Result<()> {
        let busy = self.is_busy();
        self.poll_once(Duration::ZERO)?;
        if busy || self.has_work() {
            self.polling.is_active = true;
            self.polling.polled_for = Duration::ZERO;
        }
        Ok(())
    }

    /// Polls without sleeping, up to the limit of the policy, which includes the time polled before the alarm expired.
    /// Returns whether there is work or the alarm has expired.
    #[inline(never)]
    fn busy_poll(&mut self, limit: Duration) -> io::Result<bool> {
        self.polling.events.iter_mut().for_each(Events::clear);
        self.connections.disable_ring_notifications();
        let (rings, begun) = (self.connections.ring_count(), self.clock.time());
        let before = std::mem::take(&mut self.polling.polled_for);
        let lone = if rings > 0 { None } else { self.connections.lone_socket() };
        let mut first = true;
        // Terminates: the time passes.
        loop {
            // Further answers of a call arrive from other cores sooner than a yield returns.
            let spins = (first && self.polling.expects_more) || self.polling.policy.is_alone();
            let has_message = match lone {
                Some(key) => self.read_link(key, false),
                None => {
                    rings > 0
                        && (self.connections.has_ready_ring()
                            || (spins && self.spin_on_rings(RING_CHECKS / rings)))
                }
            };
            let calls_epoll = self.claim_epoll(has_message) || !(has_message || rings > 0 || lone.is_some());
            if calls_epoll {
                self.poll_events(Duration::ZERO)?;
            }
            let polled_for = self.clock.time().since(begun);
            let all = before + polled_for;
            if has_message || self.has_work() {
                self.polling.policy.record_success(all);
                return Ok(true);
            }
            // An expired alarm is not a message, so the policy does not record it.
            if calls_epoll && self.has_alarm_expired() {
                self.polling.polled_for = all;
                return Ok(true);
            }
            match self.polling.policy.record_empty_poll(all) {
                _ if polled_for >= limit => return Ok(false),
                PollStep::Sleep => return Ok(false),
                PollStep::Again => std::hint::spin_loop(),
                PollStep::AgainAfterYield => {
                    // Checking a few rings takes no time compared with other processes, so the clock is not read again.
                    let at_once = !first && !spins && !calls_epoll && (1..=FEW_RINGS).contains(&rings);
                    let yielded_at = if at_once { self.clock.time() } else { self.clock.now() };
                    first = false;
                    self.yield_core(yielded_at);
                    continue;
                }
            }
            self.clock.now();
        }
    }

    /// Returns whether epoll is due, and starts the next interval. While the node is busy, epoll is due less often.
    fn claim_epoll(&mut self, busy: bool) -> bool {
        let most =
            if self.polling.policy.is_alone() { EPOLL_INTERVAL_MAX } else { EPOLL_INTERVAL_MAX_SHARED };
        let now = self.clock.time();
        let due = now.since(self.polling.last_epoll)
            >= if busy { most } else { self.polling.epoll_interval.min(most) };
        if due {
            self.polling.last_epoll = now;
            self.polling.epoll_interval = (self.polling.epoll_interval * 2).clamp(EPOLL_INTERVAL_MIN, most);
        }
        due
    }

    /// Yields the core, and records how long that took since `yielded_at`.
    fn yield_core(&mut self, yielded_at: Time) {
        std::thread::yield_now();
        self.polling.policy.record_yield(self.clock.now().since(yielded_at));
    }

    /// Checks all rings this many times. That takes less time than a yield.
    fn spin_on_rings(&self, checks: usize) -> bool {
        (1..=checks).any(|at| {
            if at % CHECKS_PER_PAUSE == 0 {
                std::hint::spin_loop();
            }
            self.connections.has_ready_ring()
        })
    }

    /// Calls epoll, which waits up to `limit`.
    #[inline(always)]
    fn poll_events(&mut self, limit: Duration) -> io::Result<()> {
        if unlikely(self.polling.events.is_none()) {
            self.polling.events = Some(Events::with_capacity(EVENTS));
        }
        let Some(events) = &mut self.polling.events else { return Ok(()) };
        // The alarm expires by then.
        let limit = Some(limit).filter(|limit| *limit < SLEEP_MAX);
        match self.poll.poll(events, limit) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => done?,
        }
        if self.has_events() {
            self.polling.epoll_interval = EPOLL_INTERVAL_MIN;
        }
        Ok(())
    }

    /// Whether an event, mail or bytes in a ring have arrived. An expired alarm does not count.
    fn has_work(&self) -> bool {
        self.has_events()
            || self.has_mail()
            || (self.connections.has_rings() && self.connections.has_ready_ring())
    }

    fn has_alarm_expired(&self) -> bool {
        self.polling.events.iter().flatten().any(|event| event.token() == ALARM)
    }
}

/// The rest of a time limit. A sleep without a limit keeps [`SLEEP_MAX`].
fn remaining(limit: Duration, passed: Duration) -> Duration {
    if limit < SLEEP_MAX { limit.saturating_sub(passed) } else { limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sleep after polling had the rest of ten seconds as its limit. The system set up and removed a timer for each
    /// sleep.
    #[test]
    fn an_unlimited_sleep_stays_unlimited_after_polling() {
        assert_eq!(remaining(SLEEP_MAX, Duration::from_millis(50)), SLEEP_MAX);
        let second = Duration::from_secs(1);
        assert_eq!(remaining(second, second / 4), second * 3 / 4);
        assert_eq!(remaining(second, second * 2), Duration::ZERO);
    }
}
