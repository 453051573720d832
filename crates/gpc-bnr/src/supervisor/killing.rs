//! Schedule of signals for a group that is being killed. The caller supplies the time.

use std::time::Duration;

use super::EMPTY_LIMIT;

/// The first pause between two SIGKILLs; each further pause is twice as long.
pub(super) const PAUSE: Duration = Duration::from_millis(2);

/// Time after the first SIGKILL at which remaining processes are moved into a control group. Most processes have ended
/// by then.
pub(super) const STUBBORN: Duration = Duration::from_secs(1);

/// The longest pause.
pub(super) const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A group that is being killed. Times are measured from any fixed point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Killing {
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// SIGTERM has not been sent. Holds the end of the grace period.
    Ordered(Duration),
    /// SIGTERM has been sent. Holds the end of the grace period.
    Terminating(Duration),
    /// SIGKILL has been sent. It is repeated at `next`, then after `pause`, and abandoned at `last`.
    Killed { next: Duration, pause: Duration, last: Duration },
}

/// The next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KillAction {
    /// Nothing yet.
    Wait,
    /// Send SIGTERM to the process groups.
    Terminate,
    /// Send SIGKILL to all remaining processes.
    Kill,
    /// Send SIGKILL, and kill through a control group.
    Enclose,
    /// Stop: the remaining processes cannot be killed.
    GiveUp,
}

impl Killing {
    /// Starts a kill now, with or without a grace period.
    pub(super) fn new(now: Duration, grace: Option<Duration>) -> Killing {
        let stage = match grace {
            Some(grace) => Stage::Ordered(now.saturating_add(grace)),
            None => Stage::killed(now),
        };
        Killing { stage }
    }

    /// Another order to kill the group. The earlier end of the grace period wins.
    pub(super) fn order_again(&mut self, now: Duration, grace: Option<Duration>) {
        let end = now.saturating_add(grace.unwrap_or_default());
        match &mut self.stage {
            Stage::Ordered(until) | Stage::Terminating(until) => *until = end.min(*until),
            Stage::Killed { .. } => {}
        }
    }

    /// The action that is due now. Each is returned once.
    pub(super) fn step(&mut self, now: Duration) -> KillAction {
        match self.stage {
            Stage::Ordered(until) if now < until => {
                self.stage = Stage::Terminating(until);
                KillAction::Terminate
            }
            Stage::Terminating(until) if now < until => KillAction::Wait,
            Stage::Ordered(_) | Stage::Terminating(_) => {
                self.stage = Stage::killed(now);
                self.step(now)
            }
            Stage::Killed { last, .. } if now >= last => KillAction::GiveUp,
            Stage::Killed { next, .. } if now < next => KillAction::Wait,
            Stage::Killed { pause, last, .. } => {
                let next = now.saturating_add(pause);
                self.stage = Stage::Killed { next, pause: (pause * 2).min(PAUSE_MAX), last };
                let stubborn = now.saturating_add(EMPTY_LIMIT) >= last.saturating_add(STUBBORN);
                if stubborn { KillAction::Enclose } else { KillAction::Kill }
            }
        }
    }

    /// Time at which [`step`](Killing::step) next has an action.
    pub(super) fn next(&self) -> Duration {
        match self.stage {
            Stage::Ordered(_) => Duration::ZERO,
            Stage::Terminating(until) => until,
            Stage::Killed { next, last, .. } => next.min(last),
        }
    }
}

impl Stage {
    fn killed(now: Duration) -> Stage {
        Stage::Killed { next: now, pause: PAUSE, last: now.saturating_add(EMPTY_LIMIT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn asked_first_and_killed_after_the_grace() {
        let mut killing = Killing::new(ms(5), Some(ms(100)));
        assert_eq!(killing.next(), Duration::ZERO);
        assert_eq!(killing.step(ms(5)), KillAction::Terminate);
        assert_eq!((killing.step(ms(104)), killing.next()), (KillAction::Wait, ms(105)));
        assert_eq!(killing.step(ms(105)), KillAction::Kill);
        assert_eq!(killing.step(ms(105)), KillAction::Wait);
        assert_eq!(killing.next(), ms(107));
    }

    #[test]
    fn without_a_grace_it_is_killed_again_and_again_but_not_for_ever() {
        for grace in [None, Some(Duration::ZERO)] {
            let mut killing = Killing::new(ms(0), grace);
            let mut kills = 0;
            let mut now = ms(0);
            loop {
                match killing.step(now) {
                    KillAction::Kill => {
                        assert!(now < STUBBORN);
                        kills += 1;
                    }
                    KillAction::Enclose => {
                        assert!(now >= STUBBORN);
                        kills += 1;
                    }
                    KillAction::Wait => now = killing.next(),
                    KillAction::GiveUp => break,
                    KillAction::Terminate => panic!("SIGTERM without a grace period"),
                }
            }
            assert_eq!(now, EMPTY_LIMIT);
            assert!((100..=110).contains(&kills), "{kills}");
        }
    }

    #[test]
    fn a_second_order_may_hurry_it_and_never_delays_it() {
        let mut killing = Killing::new(ms(0), Some(ms(1000)));
        assert_eq!(killing.step(ms(0)), KillAction::Terminate);
        killing.order_again(ms(10), Some(ms(5000)));
        assert_eq!(killing.next(), ms(1000));
        killing.order_again(ms(20), Some(ms(30)));
        assert_eq!(killing.next(), ms(50));
        killing.order_again(ms(30), None);
        assert_eq!(killing.step(ms(30)), KillAction::Kill);
        let before = killing;
        killing.order_again(ms(40), Some(ms(9000)));
        assert_eq!(killing, before);
    }
}
