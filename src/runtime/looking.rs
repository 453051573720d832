//! How the event loop waits: it looks at what may come, gives its core away between two looks, and sleeps.
//!
//! When to do which, `wait` decides from what the waits have brought. What comes in a ring is seen in memory, what comes in a socket is asked of the system, which takes ten times as long; a node with one socket and no ring reads it.

use std::io;
use std::time::Duration;

use mio::Events;

use super::event_loop::{EVENTS, EventLoop};
use super::wait::Look;
use crate::chain::Time;

/// Who looks at rings asks the system no more often, which costs ten times as much as a look.
const ASK_MIN: Duration = Duration::from_micros(4);

/// Asking that brings nothing is done half as often each time, down to this: a message on a socket is found no later than it would wake a sleeper.
const ASK_MAX: Duration = Duration::from_micros(32);

/// The same where others share the core: each of them asks, and to have the core again takes some of them as long.
const ASK_MAX_AMONG_OTHERS: Duration = Duration::from_micros(128);

/// Looks at rings, each of them counted, between two moments at which the node lets others have the core, or asks the clock: about two microseconds.
const MOMENT: usize = 128;

/// Rings that are looked at in some tens of nanoseconds.
const FEW_RINGS: usize = 8;

/// Of so many looks one lets the core rest: it sees what has come as soon as it goes on, some tens of nanoseconds later.
const RESTED: usize = 8;

impl EventLoop {
    /// Waits until something comes, at most so long: looks for it a while if that pays, then sleeps. What time it is then is the turn's time.
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<()> {
        if limit.is_zero() || self.is_busy() {
            self.active = true;
            self.now = self.clock.now();
            return self.glance(limit);
        }
        let (looks, deadline) = (self.active && self.waiting.looks(), self.next_deadline());
        // To ask the clock takes as long as a tenth of a short call: once for both.
        if looks || deadline.is_some() {
            self.now = self.clock.now();
        }
        let limit = self.rest(deadline, limit);
        let begun = self.now;
        if looks && self.look_for_a_while(limit)? {
            return Ok(());
        }
        if !looks && self.active && self.waiting.samples() {
            self.give_way(self.clock.now());
        }
        let limit = limit.saturating_sub(self.now.since(begun));
        // What the turn itself has taken was no waiting.
        let begun = if self.waiting.learns() { self.clock.now() } else { self.now };
        self.links.rest_rings();
        self.mailbox.sleeping();
        // What came just before sees no sleeper to wake.
        let limit = if self.has_mail() || self.links.rings_have_come() { Duration::ZERO } else { limit };
        let slept = self.look(limit);
        self.mailbox.awake();
        self.active = self.has_come();
        self.links.forget_rings();
        self.now = self.clock.now();
        if self.active {
            self.waiting.woken(self.now.since(begun), looks);
        }
        slept
    }

    /// Looks once, without sleeping. Who wants nothing but a look is shown what there is; on the way to something else it was looked at a moment ago.
    fn glance(&mut self, limit: Duration) -> io::Result<()> {
        self.events.iter_mut().for_each(Events::clear);
        self.links.look_at_rings();
        if (limit.is_zero() && !self.links.has_rings()) || self.is_to_ask(false) {
            self.look(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Looks without sleeping, from now on; says whether something came.
    #[inline(never)]
    fn look_for_a_while(&mut self, limit: Duration) -> io::Result<bool> {
        self.events.iter_mut().for_each(Events::clear);
        self.links.look_at_rings();
        let (rings, begun) = (self.links.rings(), self.now);
        let lone = if rings > 0 { None } else { self.links.lone_socket() };
        let mut first = true;
        // Ends: the time passes.
        loop {
            // The other answers to a call come from other cores in less time than it takes to have the own one again.
            let long = (first && self.awaits_more) || self.waiting.is_alone();
            let come = match lone {
                Some(key) => self.read_link(self.now, key, false),
                None => {
                    rings > 0 && (self.links.rings_have_come() || (long && self.comes_in(MOMENT / rings)))
                }
            };
            let asks = self.is_to_ask(come) || !(come || rings > 0 || lone.is_some());
            if asks {
                self.look(Duration::ZERO)?;
            }
            let all = self.now.since(begun);
            if come || self.has_come() {
                self.waiting.found(all);
                return Ok(true);
            }
            match self.waiting.found_nothing(all) {
                _ if all >= limit => return Ok(false),
                Look::Enough => return Ok(false),
                Look::Again => std::hint::spin_loop(),
                Look::AgainAfterOthers => {
                    // One look at a few rings takes no time to speak of beside what others take.
                    let at_once = !first && !long && !asks && (1..=FEW_RINGS).contains(&rings);
                    let given = if at_once { self.now } else { self.clock.now() };
                    first = false;
                    self.give_way(given);
                    continue;
                }
            }
            self.now = self.clock.now();
        }
    }

    /// Whether it is time to ask the system what has come to where the node does not look: now and then also while there is enough to do without.
    fn is_to_ask(&mut self, busy: bool) -> bool {
        let most = if self.waiting.is_alone() { ASK_MAX } else { ASK_MAX_AMONG_OTHERS };
        let due = self.now.since(self.asked) >= if busy { most } else { self.ask_every.min(most) };
        if due {
            self.asked = self.now;
            self.ask_every = (self.ask_every * 2).clamp(ASK_MIN, most);
        }
        due
    }

    /// Lets others have the core, from a time not long ago, and learns whether any wanted it.
    fn give_way(&mut self, given: Time) {
        std::thread::yield_now();
        self.now = self.clock.now();
        self.waiting.gave_way(self.now.since(given));
    }

    /// Looks at all rings so often, for less time than it takes to let others have the core.
    fn comes_in(&self, looks: usize) -> bool {
        (1..=looks).any(|at| {
            if at % RESTED == 0 {
                std::hint::spin_loop();
            }
            self.links.rings_have_come()
        })
    }

    /// Asks the system what has happened, and waits at most so long for something.
    fn look(&mut self, limit: Duration) -> io::Result<()> {
        let events = self.events.get_or_insert_with(|| Events::with_capacity(EVENTS));
        match self.poll.poll(events, Some(limit)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => done?,
        }
        if self.has_events() {
            self.ask_every = ASK_MIN;
        }
        Ok(())
    }

    fn has_come(&self) -> bool {
        self.events.as_ref().is_some_and(|events| !events.is_empty())
            || self.has_mail()
            || self.links.rings_have_come()
    }
}
