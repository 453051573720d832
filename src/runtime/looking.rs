//! How the event loop waits: it looks at what may come, gives its core away between two looks, and sleeps.
//!
//! When to do which, `wait` decides from what the waits have brought. What comes in a ring is seen in memory, what
//! comes in a socket is asked of the system, which takes ten times as long; a node with one socket and no ring reads
//! it.

use std::io;
use std::time::Duration;

use mio::Events;

use super::alarm::ALARM;
use super::event_loop::{EventLoop, SLEEP_MAX};
use super::loop_state::EVENTS;
use super::wait::PollStep;
use crate::chain::Time;
use crate::hint::unlikely;

/// Who looks at rings asks the system no more often, which costs ten times as much as a look.
const ASK_MIN: Duration = Duration::from_micros(4);

/// Asking that brings nothing is done half as often each time, down to this: a message on a socket is found no later
/// than it would wake a sleeper.
const ASK_MAX: Duration = Duration::from_micros(32);

/// The same where others share the core: each of them asks, and to have the core again takes some of them as long.
const ASK_MAX_AMONG_OTHERS: Duration = Duration::from_micros(128);

/// Looks at rings, each of them counted, between two moments at which the node lets others have the core, or asks the
/// clock: about two microseconds.
const MOMENT: usize = 128;

/// Rings that are looked at in some tens of nanoseconds.
const FEW_RINGS: usize = 8;

/// Of so many looks one lets the core rest: it sees what has come as soon as it goes on, some tens of nanoseconds
/// later.
const RESTED: usize = 8;

impl EventLoop {
    /// Waits until something comes or is due, at most so long: looks for it a while if that pays, then sleeps. The
    /// turn's time is when it first asks for it.
    #[inline(always)]
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.clock.go_on();
        if unlikely(self.looking.armed) {
            return self.end_sleep(limit);
        }
        if unlikely(self.set_alarm_unless_due()?) {
            return self.glance_beside();
        }
        if unlikely(limit.is_zero() || self.is_busy()) {
            self.looking.active = true;
            self.looking.looked = Duration::ZERO;
            return self.glance(limit);
        }
        let (looks, mut limit) = (self.looking.active && self.looking.policy.polls(), limit);
        if looks {
            let begun = self.clock.time();
            if self.look_for_a_while(limit)? {
                return Ok(());
            }
            limit = remaining(limit, self.clock.time().since(begun));
        } else {
            self.looking.looked = Duration::ZERO;
            if self.looking.active && self.looking.policy.samples() {
                self.give_way(self.clock.now());
            }
        }
        // What the turn itself has taken was no waiting.
        let begun = self.looking.policy.learns().then(|| self.clock.now());
        let rings = self.connections.has_rings();
        if unlikely(rings) {
            self.connections.rest_rings();
        }
        self.mailbox.sleeping();
        let slept = self.sleep(limit, rings);
        if let (true, Some(begun)) = (self.looking.active, begun) {
            self.looking.policy.woken(self.clock.time().since(begun), looks);
        }
        slept
    }

    /// Sleeps, when all who may wake the node have been told; and tells them that it is awake.
    #[inline(always)]
    fn sleep(&mut self, limit: Duration, rings: bool) -> io::Result<()> {
        // What came just before sees no sleeper to wake.
        let come = unlikely(self.has_mail() || (rings && self.connections.rings_have_come()));
        let limit = if come { Duration::ZERO } else { limit };
        let slept = self.look(limit);
        self.mailbox.awake();
        self.looking.active = self.has_come();
        if rings {
            self.connections.forget_rings();
        }
        self.clock.go_on();
        slept
    }

    /// Whoever drives the node is about to wait for its descriptor: tells all who may wake it that it sleeps, and sets
    /// the alarm. Says whether nothing has come meanwhile, so that it may.
    pub(super) fn prepare_sleep(&mut self) -> io::Result<bool> {
        self.clock.go_on();
        if self.set_alarm_unless_due()? {
            return Ok(false);
        }
        if !self.looking.armed && !self.is_busy() {
            self.connections.rest_rings();
            self.mailbox.sleeping();
            self.looking.armed = true;
        }
        Ok(!(self.is_busy() || self.connections.rings_have_come() || self.may_have_more_events()))
    }

    /// The wait for the descriptor does not take place: senders need not wake it. What has come stays where it is, and
    /// the next [`prepare_sleep`](Self::prepare_sleep) sees it.
    pub(super) fn cancel_sleep(&mut self) {
        if std::mem::take(&mut self.looking.armed) {
            self.mailbox.awake();
            self.connections.look_at_rings();
        }
    }

    /// Whether the system may have had more to say than was taken: of what it has left it does not tell anew who waits
    /// for what is new alone, as other loops do.
    fn may_have_more_events(&self) -> bool {
        self.looking.events.iter().flatten().count() >= EVENTS
    }

    /// The driver has waited for the descriptor, or has not; from here on the node looks by itself again.
    #[cold]
    fn end_sleep(&mut self, limit: Duration) -> io::Result<()> {
        self.looking.armed = false;
        let busy = self.is_busy() || self.turn.rang;
        self.looking.looked = Duration::ZERO;
        let slept = self.sleep(if busy { Duration::ZERO } else { limit }, self.connections.has_rings());
        self.looking.active |= busy;
        slept
    }

    /// Looks once, without sleeping. Who wants nothing but a look is shown what there is; on the way to something else
    /// it was looked at a moment ago.
    fn glance(&mut self, limit: Duration) -> io::Result<()> {
        self.looking.events.iter_mut().for_each(Events::clear);
        self.connections.look_at_rings();
        if (limit.is_zero() && !self.connections.has_rings()) || self.ask_if_due(false) {
            self.look(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Looks once on the way to what is due.
    #[cold]
    fn glance_beside(&mut self) -> io::Result<()> {
        let busy = self.is_busy();
        self.glance(Duration::ZERO)?;
        if busy || self.has_come() {
            self.looking.active = true;
            self.looking.looked = Duration::ZERO;
        }
        Ok(())
    }

    /// Looks without sleeping, from now on, and no longer than is left from before the alarm rang; says whether
    /// something came, or the alarm rang.
    #[inline(never)]
    fn look_for_a_while(&mut self, limit: Duration) -> io::Result<bool> {
        self.looking.events.iter_mut().for_each(Events::clear);
        self.connections.look_at_rings();
        let (rings, begun) = (self.connections.rings(), self.clock.time());
        let before = std::mem::take(&mut self.looking.looked);
        let lone = if rings > 0 { None } else { self.connections.lone_socket() };
        let mut first = true;
        // Ends: the time passes.
        loop {
            // The other answers to a call come from other cores in less time than it takes to have the own one again.
            let long = (first && self.looking.awaits_more) || self.looking.policy.is_alone();
            let come = match lone {
                Some(key) => self.read_link(key, false),
                None => {
                    rings > 0
                        && (self.connections.rings_have_come() || (long && self.comes_in(MOMENT / rings)))
                }
            };
            let asks = self.ask_if_due(come) || !(come || rings > 0 || lone.is_some());
            if asks {
                self.look(Duration::ZERO)?;
            }
            let looked = self.clock.time().since(begun);
            let all = before + looked;
            if come || self.has_come() {
                self.looking.policy.found(all);
                return Ok(true);
            }
            // Nobody has sent anything, so that it says nothing about looks.
            if asks && self.has_rung() {
                self.looking.looked = all;
                return Ok(true);
            }
            match self.looking.policy.found_nothing(all) {
                _ if looked >= limit => return Ok(false),
                PollStep::Sleep => return Ok(false),
                PollStep::Again => std::hint::spin_loop(),
                PollStep::AgainAfterYield => {
                    // One look at a few rings takes no time to speak of beside what others take.
                    let at_once = !first && !long && !asks && (1..=FEW_RINGS).contains(&rings);
                    let given = if at_once { self.clock.time() } else { self.clock.now() };
                    first = false;
                    self.give_way(given);
                    continue;
                }
            }
            self.clock.now();
        }
    }

    /// Whether it is time to ask the system what has come to where the node does not look: now and then also while
    /// there is enough to do without.
    fn ask_if_due(&mut self, busy: bool) -> bool {
        let most = if self.looking.policy.is_alone() { ASK_MAX } else { ASK_MAX_AMONG_OTHERS };
        let now = self.clock.time();
        let due = now.since(self.looking.asked) >= if busy { most } else { self.looking.ask_every.min(most) };
        if due {
            self.looking.asked = now;
            self.looking.ask_every = (self.looking.ask_every * 2).clamp(ASK_MIN, most);
        }
        due
    }

    /// Lets others have the core, from a time not long ago, and learns whether any wanted it.
    fn give_way(&mut self, given: Time) {
        std::thread::yield_now();
        self.looking.policy.yielded(self.clock.now().since(given));
    }

    /// Looks at all rings so often, for less time than it takes to let others have the core.
    fn comes_in(&self, looks: usize) -> bool {
        (1..=looks).any(|at| {
            if at % RESTED == 0 {
                std::hint::spin_loop();
            }
            self.connections.rings_have_come()
        })
    }

    /// Asks the system what has happened, and waits at most so long for something.
    #[inline(always)]
    fn look(&mut self, limit: Duration) -> io::Result<()> {
        if unlikely(self.looking.events.is_none()) {
            self.looking.events = Some(Events::with_capacity(EVENTS));
        }
        let Some(events) = &mut self.looking.events else { return Ok(()) };
        // The alarm rings by then.
        let limit = Some(limit).filter(|limit| *limit < SLEEP_MAX);
        match self.poll.poll(events, limit) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => done?,
        }
        if self.has_events() {
            self.looking.ask_every = ASK_MIN;
        }
        Ok(())
    }

    /// Whether somebody wants something. That time has passed is nothing that has come.
    fn has_come(&self) -> bool {
        self.has_events()
            || self.has_mail()
            || (self.connections.has_rings() && self.connections.rings_have_come())
    }

    fn has_rung(&self) -> bool {
        self.looking.events.iter().flatten().any(|event| event.token() == ALARM)
    }
}

/// What is left of a limit. Who sleeps until something comes still does.
fn remaining(limit: Duration, passed: Duration) -> Duration {
    if limit < SLEEP_MAX { limit.saturating_sub(passed) } else { limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sleep after a look had what was left of ten seconds for a limit, which the system sets up and takes down for
    /// each.
    #[test]
    fn who_may_sleep_until_something_comes_still_may_after_a_look() {
        assert_eq!(remaining(SLEEP_MAX, Duration::from_millis(50)), SLEEP_MAX);
        let second = Duration::from_secs(1);
        assert_eq!(remaining(second, second / 4), second * 3 / 4);
        assert_eq!(remaining(second, second * 2), Duration::ZERO);
    }
}
