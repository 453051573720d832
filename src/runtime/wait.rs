//! How a node waits for the next message: blocking, polling, or adaptive polling.
//!
//! To wake a process that sleeps on another core costs some 20 µs, twice for each hop; one that looks finds a message in less than one. But looking takes a
//! core, and where processes share cores it takes it from those that have work. So a node looks only after something has come, at most for a limit,
//! and [`Wait::Adaptive`] only as long as looking pays. Decides from what it is told: no clock in here.

use std::time::Duration;

/// How a node waits for what comes next.
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
    /// Polls for this long after every message before it sleeps, whether or not other processes want the core. For processes that have a core each.
    Spin(Duration),
    /// Adaptive polling: polls for up to 50 µs as long as that has lately been faster than to sleep (500 µs where other processes take the core each time), yields the core between two polls, and sleeps otherwise.
    #[default]
    Adaptive,
}

/// How long an adaptive node looks: a round over a few processes of one machine, and about twice what it costs to be woken.
const LOOK: Duration = Duration::from_micros(50);

/// The same where others want the core whenever it is given away: then it is they who have the time, and what a look takes is the way to them and back. A round over 64 processes on two cores
/// takes 160 µs through rings and 310 over Unix sockets where they look so long, 400 and 450 where they fall asleep after [`LOOK`]; over TCP 410 down a flat tree and 570.
const LOOK_AMONG_OTHERS: Duration = Duration::from_micros(500);

/// To give the core away takes less than this where nobody wants it, 0.2 µs, and more where another looks, too, 0.7.
const TAKEN: Duration = Duration::from_nanos(500);

/// The share of waits, in 256ths, that must have ended in time for the next one to begin with a look. A look that fails costs little, since whoever has work gets the core between any two of its
/// steps; but where processes share cores, time passes at each step, and few looks end in time.
const WORTH: u32 = 128;

/// A look that has taken so long gave its core to somebody who has work of his own and keeps it: a whole slice of the system's scheduler, some milliseconds.
const COSTLY: Duration = Duration::from_millis(1);

/// After a costly look, so many waits do without one; twice as many after the next, up to the most.
const PAUSE_MIN: u32 = 64;
const PAUSE_MAX: u32 = 8192;

/// One in so many waits without a look gives its core away.
const SAMPLED: u32 = 64;

/// What becomes of one look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// Once more.
    Again,
    /// Once more, when the others have had their turn.
    AgainAfterOthers,
    /// Enough: sleep.
    Enough,
}

/// Decides for one node how long it looks, from what its waits have brought.
#[derive(Debug)]
pub(super) struct Waiting {
    wait: Wait,
    /// How long an adaptive node looks at present.
    limit: Duration,
    /// Of the last waits, the share that ended in time, in 256ths; a moving average.
    soon: u32,
    /// Waits without a look since the core was given away last.
    blind: u32,
    /// Waits that are still to do without a look.
    pause: u32,
    /// How many will, after the next costly one.
    next_pause: u32,
}

impl Waiting {
    pub(super) fn new(wait: Wait) -> Waiting {
        Waiting { wait, limit: LOOK, soon: 256, blind: 0, pause: 0, next_pause: PAUSE_MIN }
    }

    /// Whether to look before the next sleep, now that something has come.
    pub(super) fn looks(&self) -> bool {
        match self.wait {
            Wait::Block => false,
            Wait::Spin(limit) => !limit.is_zero(),
            Wait::Adaptive => self.pause == 0 && self.soon >= WORTH,
        }
    }

    /// Whether how long a wait took means anything.
    pub(super) fn learns(&self) -> bool {
        self.wait == Wait::Adaptive
    }

    /// Between two looks the node gave its core away, and had it again after so long.
    pub(super) fn gave_way(&mut self, took: Duration) {
        self.limit = if took < TAKEN { LOOK } else { LOOK_AMONG_OTHERS };
        self.note_cost(took);
    }

    /// Whether a node that does not look is to give its core away all the same, to know who else wants it: who sleeps for long may have been put to sleep by others that look.
    pub(super) fn samples(&mut self) -> bool {
        if self.wait != Wait::Adaptive || self.pause > 0 {
            return false;
        }
        self.blind = (self.blind + 1) % SAMPLED;
        self.blind == 0
    }

    /// Whether nobody else wanted the core when it was given away last.
    pub(super) fn is_alone(&self) -> bool {
        self.limit == LOOK
    }

    /// A look found nothing; so long this wait has taken so far.
    pub(super) fn found_nothing(&mut self, all: Duration) -> Look {
        self.note_cost(all);
        match self.wait {
            Wait::Block => Look::Enough,
            Wait::Spin(limit) if all >= limit => Look::Enough,
            Wait::Spin(_) => Look::Again,
            Wait::Adaptive if all >= self.limit => Look::Enough,
            Wait::Adaptive => Look::AgainAfterOthers,
        }
    }

    /// A look found something after so long.
    pub(super) fn found(&mut self, all: Duration) {
        if self.wait == Wait::Adaptive {
            self.learn(all < self.in_time());
            // It trusts the machine again slowly: a costly look is paid for by many good ones.
            self.next_pause = self.next_pause.saturating_sub(1).max(PAUSE_MIN);
            self.note_cost(all);
        }
    }

    /// Stops looking for a while if a look has taken so long that others must have had the core.
    fn note_cost(&mut self, all: Duration) {
        if self.wait == Wait::Adaptive && all >= COSTLY {
            self.pause = self.next_pause;
            self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
        }
    }

    /// Something came after the node had slept so long, and had looked before that or not.
    pub(super) fn woken(&mut self, slept: Duration, looked: bool) {
        if self.wait == Wait::Adaptive {
            self.pause = self.pause.saturating_sub(1);
            // What a whole look did not find did not come in time, however soon after it; and the look has cost what it takes, too.
            self.learn(!looked && slept < self.in_time());
            if looked {
                self.learn(false);
            }
        }
    }

    /// What comes to a sleeper a quarter later than the longest look ends would have been found by looking: to be woken takes as long.
    fn in_time(&self) -> Duration {
        self.limit + self.limit / 4
    }

    fn learn(&mut self, in_time: bool) {
        let new = if in_time { 256 } else { 0 };
        self.soon = (self.soon * 7 + new) / 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Looks until it is enough, each step taking so long; how long that took.
    fn look(waiting: &mut Waiting, each: Duration) -> Duration {
        let looks = (1..).find(|&looks| waiting.found_nothing(each * looks) == Look::Enough);
        each * looks.expect("every strategy has had enough at some time")
    }

    #[test]
    fn blocking_never_looks_and_spinning_looks_to_its_limit_whatever_happens() {
        assert!(!Waiting::new(Wait::Block).looks());
        assert!(!Waiting::new(Wait::Spin(Duration::ZERO)).looks());
        let mut spinning = Waiting::new(Wait::Spin(20 * US));
        for _ in 0..100 {
            assert!(spinning.looks());
            assert_eq!(spinning.found_nothing(US), Look::Again, "it gives the core to nobody");
            assert_eq!(look(&mut spinning, US), 20 * US);
            assert_eq!(look(&mut spinning, 15 * US), 30 * US);
            spinning.woken(Duration::from_secs(1), true);
        }
    }

    #[test]
    fn an_adaptive_node_stops_looking_when_nothing_comes_and_begins_again_when_it_would_pay() {
        let mut waiting = Waiting::new(Wait::Adaptive);
        let mut looked = 0;
        for _ in 0..100 {
            if waiting.looks() {
                looked += 1;
                assert_eq!(waiting.found_nothing(US), Look::AgainAfterOthers);
                assert_eq!(look(&mut waiting, US), LOOK);
            }
            let looked = waiting.looks();
            waiting.woken(Duration::from_millis(1), looked);
        }
        assert!((1..16).contains(&looked), "{looked} looks for nothing");
        for _ in 0..8 {
            waiting.woken(30 * US, false);
        }
        assert!(waiting.looks(), "messages come soon again");
        waiting.found(US);
        assert!(waiting.looks());
    }

    /// 64 processes on two cores looked for 50 µs each and fell asleep, one after the other, though a round of looks takes 160: their calls took 400.
    #[test]
    fn an_adaptive_node_looks_longer_while_others_take_the_core_that_it_gives_away() {
        let mut waiting = Waiting::new(Wait::Adaptive);
        assert!(waiting.is_alone());
        waiting.gave_way(US);
        assert!(!waiting.is_alone());
        assert_eq!(look(&mut waiting, 20 * US), LOOK_AMONG_OTHERS);
        // What comes after the rounds of all the others comes in time.
        (0..100).for_each(|_| waiting.found(400 * US));
        assert!(waiting.looks());
        waiting.gave_way(US / 5);
        assert!(waiting.is_alone());
        assert_eq!(look(&mut waiting, US), LOOK);
        (0..8).for_each(|_| waiting.found(400 * US));
        assert!(!waiting.looks(), "it would have the core for itself all that time");
    }

    /// Down a binomial tree over 64 processes on two cores each look ended a little too soon, and what came then was taken for in time: calls took longer than asleep.
    #[test]
    fn what_comes_soon_after_a_look_that_failed_does_not_speak_for_the_next_one() {
        let mut waiting = Waiting::new(Wait::Adaptive);
        waiting.gave_way(US);
        let looks = (0..100).filter(|_| {
            let looked = waiting.looks();
            waiting.woken(if looked { 10 * US } else { 510 * US }, looked);
            looked
        });
        // Asleep it would come soon enough, so that a look is tried again now and then.
        assert!((1..40).contains(&looks.count()));
    }

    /// Where processes share the core, each step of a look takes as long as the others want: it ends with the first that is too long.
    #[test]
    fn an_adaptive_node_looks_no_longer_than_its_limit_though_others_have_the_core() {
        assert_eq!(look(&mut Waiting::new(Wait::Adaptive), 200 * US), 200 * US);
    }

    /// Beside a compiler on every core, each look gave its core away for a slice of 4 ms, and each wait that was short without a look brought the next one on: a call in ten took 4 ms
    /// where asleep it takes 0.1.
    #[test]
    fn an_adaptive_node_does_not_look_for_a_while_after_it_has_lost_its_core() {
        let mut waiting = Waiting::new(Wait::Adaptive);
        let mut costly = 0;
        for _ in 0..100_000 {
            if waiting.looks() {
                costly += 1;
                // What was looked for has come meanwhile, or has not.
                match costly % 2 {
                    0 => waiting.found(4000 * US),
                    _ => drop(look(&mut waiting, 4000 * US)),
                }
            }
            waiting.woken(30 * US, false);
        }
        assert!((1..24).contains(&costly), "{costly} looks that cost a slice each");
        // The others have gone: looks pay again, and cost nothing.
        (0..PAUSE_MAX).for_each(|_| waiting.woken(30 * US, false));
        assert!(waiting.looks());
        for _ in 0..PAUSE_MAX {
            waiting.found(US);
        }
        assert_eq!(waiting.next_pause, PAUSE_MIN);
    }
}
