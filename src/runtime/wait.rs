//! How a node waits for what comes next: asleep, or looking for it a while first.
//!
//! To wake a process that sleeps on another core costs some 20 µs, twice for each hop; one that looks finds a message in less than one. But looking takes a
//! core, and where processes share cores it takes it from those that have work. So a node looks only after something has come, at most for a limit,
//! and [`Wait::Adaptive`] only as long as looking pays. Decides from what it is told: no clock in here.

use std::time::Duration;

/// How a node waits for what comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wait {
    /// Sleeps at once. The least CPU time, and a wake-up for each message.
    Block,
    /// Looks for this long after every message before it sleeps, whoever else wants the core. For processes that have a core each.
    Spin(Duration),
    /// Looks for a moment if that has lately brought something, gives the core to whoever wants it meanwhile, and sleeps otherwise.
    #[default]
    Adaptive,
}

/// How long an adaptive node looks: a round over a few processes of one machine, and about twice what it costs to be woken.
const LOOK: Duration = Duration::from_micros(50);

/// What waking a sleeper takes: a message that comes to one within this beyond [`LOOK`] would have been found by looking.
const WAKE_UP: Duration = Duration::from_micros(25);

/// Looking once takes a microsecond or two; when it took this long, another process has had the core in between.
const DISPLACED: Duration = Duration::from_micros(12);

/// The share of waits, in 256ths, that must have ended in time for the next one to begin with a look. A look that fails costs as much CPU time as four wake-ups,
/// but one that succeeds saves the caller two of them.
const WORTH: u32 = 96;

/// Waits that an adaptive node sleeps through at once when others wanted its core, at first and at most: doubled each time it happens again.
const REST: (u32, u32) = (16, 1024);

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
    /// Of the last waits, the share that ended in time, in 256ths; a moving average.
    soon: u32,
    /// Waits to sleep through at once, since others want the core.
    resting: u32,
    /// The next such rest.
    rest: u32,
}

impl Waiting {
    pub(super) fn new(wait: Wait) -> Waiting {
        Waiting { wait, soon: 256, resting: 0, rest: REST.0 }
    }

    /// Whether to look before the next sleep, now that something has come.
    pub(super) fn looks(&mut self) -> bool {
        match self.wait {
            Wait::Block => false,
            Wait::Spin(limit) => !limit.is_zero(),
            Wait::Adaptive if self.resting > 0 => {
                self.resting -= 1;
                false
            }
            Wait::Adaptive => self.soon >= WORTH,
        }
    }

    /// A look found nothing: it took so long, and all of them so far.
    pub(super) fn found_nothing(&mut self, this: Duration, all: Duration) -> Look {
        match self.wait {
            Wait::Block => Look::Enough,
            Wait::Spin(limit) if all >= limit => Look::Enough,
            Wait::Spin(_) => Look::Again,
            Wait::Adaptive if this >= DISPLACED => {
                self.displaced();
                Look::Enough
            }
            Wait::Adaptive if all >= LOOK => Look::Enough,
            Wait::Adaptive => Look::AgainAfterOthers,
        }
    }

    /// A look found something.
    pub(super) fn found(&mut self, this: Duration) {
        if self.wait == Wait::Adaptive {
            match this >= DISPLACED {
                true => self.displaced(),
                false => self.rest = REST.0,
            }
            self.learn(true);
        }
    }

    /// Something came after the node had slept, so long after it began to wait.
    pub(super) fn woken(&mut self, waited: Duration) {
        if self.wait == Wait::Adaptive {
            self.learn(waited < LOOK + WAKE_UP);
        }
    }

    fn displaced(&mut self) {
        self.resting = self.rest;
        self.rest = (self.rest * 2).min(REST.1);
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

    /// Looks until something comes or it is enough; how long that took.
    fn look(waiting: &mut Waiting, each: Duration) -> Duration {
        // Bounded: every strategy has had enough after its limit.
        for looks in 1..10_000 {
            if waiting.found_nothing(each, each * looks) == Look::Enough {
                return each * looks;
            }
        }
        panic!("it looks for ever");
    }

    #[test]
    fn blocking_never_looks_and_spinning_looks_to_its_limit_whatever_happens() {
        assert!(!Waiting::new(Wait::Block).looks());
        assert!(!Waiting::new(Wait::Spin(Duration::ZERO)).looks());
        let mut spinning = Waiting::new(Wait::Spin(20 * US));
        for _ in 0..100 {
            assert!(spinning.looks());
            assert_eq!(look(&mut spinning, US), 20 * US);
            assert_eq!(look(&mut spinning, 15 * US), 30 * US, "others do not matter to it");
            spinning.woken(Duration::from_secs(1));
        }
    }

    #[test]
    fn an_adaptive_node_stops_looking_when_nothing_comes_and_begins_again_when_it_would_pay() {
        let mut waiting = Waiting::new(Wait::Adaptive);
        let mut looked = 0;
        for _ in 0..100 {
            if waiting.looks() {
                looked += 1;
                assert_eq!(look(&mut waiting, US), LOOK);
            }
            waiting.woken(Duration::from_millis(1));
        }
        assert!((1..16).contains(&looked), "{looked} looks for nothing");
        for _ in 0..8 {
            waiting.woken(30 * US);
        }
        assert!(waiting.looks(), "messages come soon again");
        waiting.found(US);
    }

    #[test]
    fn an_adaptive_node_leaves_the_core_to_those_who_want_it() {
        let mut waiting = Waiting::new(Wait::Adaptive);
        let mut looked = 0;
        for _ in 0..5000 {
            if waiting.looks() {
                looked += 1;
                assert_eq!(look(&mut waiting, 40 * US), 40 * US, "others had the core: enough at once");
            }
            waiting.woken(30 * US);
        }
        assert!(looked < 20, "{looked} looks where processes share the core");
        // They have gone.
        for _ in 0..REST.1 {
            waiting.looks();
        }
        assert!(waiting.looks());
        waiting.found(US);
        waiting.found_nothing(40 * US, 40 * US);
        assert_eq!(waiting.resting, REST.0, "a look alone on its core forgets the rests before");
    }
}
