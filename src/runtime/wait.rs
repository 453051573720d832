//! How a node waits for the next message: blocking, busy polling, or adaptive polling.
//!
//! Waking a process that sleeps on another core costs some 20 µs, twice for each hop; a polling process finds a message
//! in less than one. But polling occupies a core, and where processes share cores, it takes the core from those that
//! have work. So a node polls only after a message has arrived, up to a limit. [`Wait::Adaptive`] polls only as long as
//! that saves time. The policy depends on its inputs alone, and reads no clock.

use std::time::Duration;

/// How a node waits for the next message.
///
/// ```
/// use std::time::Duration;
///
/// use chained_gpc::{Functions, LinkKind, LocalNodes, Wait};
///
/// let functions = Functions::new();
/// // Each node has a core of its own: a message is found within a microsecond.
/// let wait = Wait::Spin(Duration::from_micros(100));
/// let nodes = LocalNodes::start_with(2, LinkKind::Unix, &functions, |_, node| node.wait(wait))?;
/// # let _ = nodes;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Wait {
    /// Sleeps at once. The least CPU time, and a wake-up for each message.
    Block,
    /// Polls for this long after every message before it sleeps, even if other processes want the core. For processes
    /// that have a core each.
    Spin(Duration),
    /// Adaptive polling: polls for up to 50 µs as long as that has recently been faster than sleeping (500 µs if other
    /// processes take the core each time). Yields the core between two polls, and sleeps otherwise.
    #[default]
    Adaptive,
}

/// How long an adaptive node polls: a round over a few processes of one machine, and about twice the cost of a wake-up.
const POLL_LIMIT: Duration = Duration::from_micros(50);

/// The same if other processes take the core whenever the node yields. Then most of the time is theirs, and polling
/// costs only two switches. With this limit, a round over 64 processes on two cores takes 160 µs through rings, and 310
/// µs over Unix sockets. With [`POLL_LIMIT`], it takes 400 and 450 µs. Over TCP it takes 410 µs down a flat tree
/// instead of 570.
const POLL_LIMIT_AMONG_OTHERS: Duration = Duration::from_micros(500);

/// Maximum time of a yield if no process wants the core: it takes 0.2 µs then, and 0.7 µs if another process polls,
/// too.
const IDLE_YIELD_MAX: Duration = Duration::from_nanos(500);

/// The share of waits, in 256ths, that must have ended in time for the next one to begin with polling. Polling in vain
/// costs little, since other processes get the core between any two polls. But where processes share cores, each yield
/// takes time, and polling seldom ends in time.
const IN_TIME_MIN: u32 = 128;

/// Polling that takes this long has yielded the core to a process that has work and keeps it: a whole slice of the
/// system's scheduler, some milliseconds.
const COSTLY_WAIT: Duration = Duration::from_millis(1);

/// Number of waits without polling after a costly one; it doubles with each further one, up to the maximum.
const PAUSE_MIN: u32 = 64;
const PAUSE_MAX: u32 = 8192;

/// One in this many waits without polling yields the core.
const SAMPLE_PERIOD: u32 = 64;

/// What to do after an unsuccessful poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PollStep {
    /// Poll again.
    Again,
    /// Yield the core, then poll again.
    AgainAfterYield,
    /// Stop polling and sleep.
    Sleep,
}

/// Decides for one node how long it polls, from the results of its waits.
#[derive(Debug)]
pub(super) struct PollPolicy {
    wait: Wait,
    /// How long an adaptive node polls at present.
    limit: Duration,
    /// The share of the last waits that ended in time, in 256ths; a moving average.
    in_time_share: u32,
    /// Number of waits without polling since the last yield.
    unsampled_waits: u32,
    /// Number of remaining waits without polling.
    pause: u32,
    /// Number of waits without polling after the next costly one.
    next_pause: u32,
}

impl PollPolicy {
    pub(super) fn new(wait: Wait) -> PollPolicy {
        PollPolicy {
            wait,
            limit: POLL_LIMIT,
            in_time_share: 256,
            unsampled_waits: 0,
            pause: 0,
            next_pause: PAUSE_MIN,
        }
    }

    /// Whether to poll before the next sleep, after a message has arrived.
    pub(super) fn should_poll(&self) -> bool {
        match self.wait {
            Wait::Block => false,
            Wait::Spin(limit) => !limit.is_zero(),
            Wait::Adaptive => self.pause == 0 && self.in_time_share >= IN_TIME_MIN,
        }
    }

    /// Whether the durations of waits are needed.
    pub(super) fn needs_durations(&self) -> bool {
        self.wait == Wait::Adaptive
    }

    /// Records the duration of a yield between two polls.
    pub(super) fn record_yield(&mut self, took: Duration) {
        self.limit = if took < IDLE_YIELD_MAX { POLL_LIMIT } else { POLL_LIMIT_AMONG_OTHERS };
        self.note_cost(took);
    }

    /// Counts a wait without polling. Returns whether the node should yield anyway, to find out whether other processes
    /// want the core: its long sleeps may be due to others that poll.
    pub(super) fn count_unpolled_wait(&mut self) -> bool {
        if self.wait != Wait::Adaptive || self.pause > 0 {
            return false;
        }
        self.unsampled_waits = (self.unsampled_waits + 1) % SAMPLE_PERIOD;
        self.unsampled_waits == 0
    }

    /// Whether no other process wanted the core at the last yield.
    pub(super) fn is_alone(&self) -> bool {
        self.limit == POLL_LIMIT
    }

    /// Records an unsuccessful poll; `all` is the duration of this wait so far.
    pub(super) fn record_empty_poll(&mut self, all: Duration) -> PollStep {
        self.note_cost(all);
        match self.wait {
            Wait::Block => PollStep::Sleep,
            Wait::Spin(limit) if all >= limit => PollStep::Sleep,
            Wait::Spin(_) => PollStep::Again,
            Wait::Adaptive if all >= self.limit => PollStep::Sleep,
            Wait::Adaptive => PollStep::AgainAfterYield,
        }
    }

    /// Records a successful poll; `all` is the duration of this wait.
    pub(super) fn record_success(&mut self, all: Duration) {
        if self.wait == Wait::Adaptive {
            self.learn(all < self.in_time());
            // Recovers slowly: one costly wait offsets many good ones.
            self.next_pause = self.next_pause.saturating_sub(1).max(PAUSE_MIN);
            self.note_cost(all);
        }
    }

    /// Stops polling for a while if a wait took so long that other processes must have had the core.
    fn note_cost(&mut self, all: Duration) {
        if self.wait == Wait::Adaptive && all >= COSTLY_WAIT {
            self.pause = self.next_pause;
            self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
        }
    }

    /// Records a message that arrived after a sleep; `polled` is whether the node polled before it.
    pub(super) fn record_wake(&mut self, slept: Duration, polled: bool) {
        if self.wait == Wait::Adaptive {
            self.pause = self.pause.saturating_sub(1);
            // A message that arrives after unsuccessful polling is late, even if the sleep was short. The polling has
            // cost time as well, so it counts twice.
            self.learn(!polled && slept < self.in_time());
            if polled {
                self.learn(false);
            }
        }
    }

    /// A message that arrives in a sleep up to a quarter longer than the limit would have been found by polling: the
    /// wake-up takes that long.
    fn in_time(&self) -> Duration {
        self.limit + self.limit / 4
    }

    fn learn(&mut self, in_time: bool) {
        let new = if in_time { 256 } else { 0 };
        self.in_time_share = (self.in_time_share * 7 + new) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Polls until the limit, with this duration for each step; returns the total.
    fn poll(policy: &mut PollPolicy, each: Duration) -> Duration {
        let polls = (1..).find(|&polls| policy.record_empty_poll(each * polls) == PollStep::Sleep);
        each * polls.expect("every strategy stops polling")
    }

    #[test]
    fn blocking_never_polls_and_spinning_polls_to_its_limit() {
        assert!(!PollPolicy::new(Wait::Block).should_poll());
        assert!(!PollPolicy::new(Wait::Spin(Duration::ZERO)).should_poll());
        let mut spinning = PollPolicy::new(Wait::Spin(20 * US));
        for _ in 0..100 {
            assert!(spinning.should_poll());
            assert_eq!(spinning.record_empty_poll(US), PollStep::Again, "it never yields the core");
            assert_eq!(poll(&mut spinning, US), 20 * US);
            assert_eq!(poll(&mut spinning, 15 * US), 30 * US);
            spinning.record_wake(Duration::from_secs(1), true);
        }
    }

    #[test]
    fn an_adaptive_node_stops_polling_in_vain_and_begins_again_when_it_pays() {
        let mut policy = PollPolicy::new(Wait::Adaptive);
        let mut polled = 0;
        for _ in 0..100 {
            if policy.should_poll() {
                polled += 1;
                assert_eq!(policy.record_empty_poll(US), PollStep::AgainAfterYield);
                assert_eq!(poll(&mut policy, US), POLL_LIMIT);
            }
            let polled = policy.should_poll();
            policy.record_wake(Duration::from_millis(1), polled);
        }
        assert!((1..16).contains(&polled), "{polled} polls for nothing");
        for _ in 0..8 {
            policy.record_wake(30 * US, false);
        }
        assert!(policy.should_poll(), "messages come soon again");
        policy.record_success(US);
        assert!(policy.should_poll());
    }

    /// 64 processes on two cores polled for 50 µs each and fell asleep, one after the other. A round of polls took 160
    /// µs, so their calls took 400 µs.
    #[test]
    fn an_adaptive_node_polls_longer_while_others_take_the_core_that_it_yields() {
        let mut policy = PollPolicy::new(Wait::Adaptive);
        assert!(policy.is_alone());
        policy.record_yield(US);
        assert!(!policy.is_alone());
        assert_eq!(poll(&mut policy, 20 * US), POLL_LIMIT_AMONG_OTHERS);
        // Messages that arrive after the rounds of all other processes are in time.
        (0..100).for_each(|_| policy.record_success(400 * US));
        assert!(policy.should_poll());
        policy.record_yield(US / 5);
        assert!(policy.is_alone());
        assert_eq!(poll(&mut policy, US), POLL_LIMIT);
        (0..8).for_each(|_| policy.record_success(400 * US));
        assert!(!policy.should_poll(), "it would have the core for itself all that time");
    }

    /// Down a binomial tree over 64 processes on two cores, polling always ended a little too soon. The messages that
    /// followed counted as in time, and calls took longer than without polling.
    #[test]
    fn a_message_soon_after_polling_in_vain_does_not_speak_for_polling() {
        let mut policy = PollPolicy::new(Wait::Adaptive);
        policy.record_yield(US);
        let polls = (0..100).filter(|_| {
            let polled = policy.should_poll();
            policy.record_wake(if polled { 10 * US } else { 510 * US }, polled);
            polled
        });
        // Without polling the messages would be in time, so polling is tried again now and then.
        assert!((1..40).contains(&polls.count()));
    }

    /// Where processes share the core, each step takes as long as the others want: polling ends with the first step
    /// that exceeds the limit.
    #[test]
    fn an_adaptive_node_polls_no_longer_than_its_limit_though_others_have_the_core() {
        assert_eq!(poll(&mut PollPolicy::new(Wait::Adaptive), 200 * US), 200 * US);
    }

    /// With a compiler on every core, polling yielded the core for a slice of 4 ms each time. Each short wait without
    /// polling caused the next polling. One call in ten took 4 ms, where it takes 0.1 ms without polling.
    #[test]
    fn an_adaptive_node_does_not_poll_for_a_while_after_it_has_lost_its_core() {
        let mut policy = PollPolicy::new(Wait::Adaptive);
        let mut costly = 0;
        for _ in 0..100_000 {
            if policy.should_poll() {
                costly += 1;
                // The awaited message has arrived meanwhile, or has not.
                match costly % 2 {
                    0 => policy.record_success(4000 * US),
                    _ => drop(poll(&mut policy, 4000 * US)),
                }
            }
            policy.record_wake(30 * US, false);
        }
        assert!((1..24).contains(&costly), "{costly} polls that cost a slice each");
        // The other processes have gone: polling pays again, and costs nothing.
        (0..PAUSE_MAX).for_each(|_| policy.record_wake(30 * US, false));
        assert!(policy.should_poll());
        for _ in 0..PAUSE_MAX {
            policy.record_success(US);
        }
        assert_eq!(policy.next_pause, PAUSE_MIN);
    }
}
