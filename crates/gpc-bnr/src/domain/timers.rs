//! Timers of a node, by due time.

use std::collections::BTreeMap;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::outgoing::Delivery;
use crate::fault::Fault;
use crate::names::Member;
use crate::order::Meeting;

/// Delay before an order is sent again to a node that was not reached. Repeats until the head declares the node lost.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// Most orders that wait for a retry, and reports that wait for the start of a group. An unreachable node is declared
/// lost, and a report is used, within seconds; beyond this bound the oldest are dropped.
const RETRIES_MAX: usize = 1 << 14;

/// The action of a timer.
#[derive(Debug)]
pub(super) enum Timer {
    /// The time limit of a member in a collective request.
    Limit(Meeting, Member),
    /// Collect again.
    Collect(Meeting),
    /// Send an order again to nodes that were not reached.
    Retry(Vec<Id>, Delivery),
    /// Handle again the report of a failed request whose group had not started here.
    Failed { root: Id, meeting: Meeting, fault: Fault, until: Duration },
    /// Ask again for the data of a process whose group had not started here. Each open question has one.
    Fetch { number: u64, until: Duration },
    /// At the head: a request has waited long enough for a global name.
    Name(Vec<u8>, u64),
    /// Repeat the head's standing call.
    Watch,
    /// End the domain here: the head has not watched this node for too long.
    Unwatched,
    /// Check a process whose link has closed, after the time it had to end.
    Unlinked(Member),
    /// Give up the remaining work after the end of the domain.
    GiveUp,
}

/// Key of a timer: due time, then sequence number.
pub(super) type TimerKey = (Duration, u64);

/// All timers, by due time.
#[derive(Default, Debug)]
pub(super) struct Timers {
    next: u64,
    due: BTreeMap<TimerKey, Timer>,
    /// Number of the timers that [`RETRIES_MAX`] bounds.
    bounded: usize,
}

impl Timer {
    fn is_bounded(&self) -> bool {
        matches!(self, Timer::Retry(..) | Timer::Failed { .. })
    }
}

impl Timers {
    pub(super) fn at(&mut self, due: Duration, timer: Timer) -> TimerKey {
        if timer.is_bounded() {
            self.bounded += 1;
            if self.bounded > RETRIES_MAX {
                self.give_up_oldest();
            }
        }
        let key = (due, self.next);
        self.next += 1;
        self.due.insert(key, timer);
        key
    }

    fn give_up_oldest(&mut self) {
        let oldest = self.due.iter().find(|(_, timer)| timer.is_bounded()).map(|(key, _)| *key);
        if let Some(oldest) = oldest {
            self.cancel(oldest);
        }
    }

    pub(super) fn cancel(&mut self, key: TimerKey) {
        if self.due.remove(&key).is_some_and(|timer| timer.is_bounded()) {
            self.bounded -= 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.due.clear();
        self.bounded = 0;
    }

    /// All timers that are set.
    #[cfg(any(feature = "sim", feature = "snapshot"))]
    pub(super) fn all(&self) -> impl Iterator<Item = &Timer> {
        self.due.values()
    }

    /// Number of the timers that [`RETRIES_MAX`] bounds, as counted.
    #[cfg(any(feature = "sim", feature = "snapshot"))]
    pub(super) fn bounded(&self) -> usize {
        self.bounded
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due.first_key_value().map(|((due, _), _)| *due)
    }

    pub(super) fn pop(&mut self, now: Duration) -> Option<Timer> {
        let (due, _) = *self.due.first_key_value()?.0;
        let timer = (due <= now).then(|| self.due.pop_first())??.1;
        if timer.is_bounded() {
            self.bounded -= 1;
        }
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(id: Id) -> Timer {
        let order = std::sync::Arc::new(crate::order::Order::Watch);
        let continuation = super::super::outgoing::Continuation::Nothing;
        Timer::Retry(vec![id], Delivery { order, limit: PAUSE, continuation })
    }

    fn at(timers: &mut Timers, millis: u64, timer: Timer) -> TimerKey {
        timers.at(Duration::from_millis(millis), timer)
    }

    #[test]
    fn timers_fire_in_order_and_not_before_they_are_due() {
        let mut timers = Timers::default();
        at(&mut timers, 20, Timer::Watch);
        let cancelled = at(&mut timers, 5, Timer::Watch);
        at(&mut timers, 10, retry(3));
        at(&mut timers, 10, Timer::GiveUp);
        timers.cancel(cancelled);
        assert_eq!(timers.next_due(), Some(Duration::from_millis(10)));
        assert!(timers.pop(Duration::from_micros(9_999)).is_none());
        let now = Duration::from_millis(10);
        assert!(matches!(timers.pop(now), Some(Timer::Retry(ids, _)) if ids == [3]));
        assert!(matches!(timers.pop(now), Some(Timer::GiveUp)));
        assert!(timers.pop(now).is_none());
        assert_eq!((timers.next_due(), timers.bounded), (Some(Duration::from_millis(20)), 0));
    }

    /// Retries to a node that was never reached took memory without a bound.
    #[test]
    fn beyond_the_bound_the_oldest_retry_is_dropped_and_no_other_timer() {
        let mut timers = Timers::default();
        at(&mut timers, 0, Timer::Watch);
        let keys: Vec<_> =
            (0..RETRIES_MAX).map(|id| at(&mut timers, 1 + id as u64, retry(id as Id))).collect();
        timers.cancel(keys[5]);
        timers.cancel(keys[5]);
        at(&mut timers, 1 << 20, retry(0));
        assert_eq!((timers.bounded, timers.due.len()), (RETRIES_MAX, RETRIES_MAX + 1));
        at(&mut timers, 1 << 21, retry(1));
        assert_eq!((timers.bounded, timers.due.len()), (RETRIES_MAX, RETRIES_MAX + 1));
        assert!(!timers.due.contains_key(&keys[0]) && timers.due.contains_key(&keys[1]));
        assert_eq!(timers.next_due(), Some(Duration::ZERO));
        timers.clear();
        assert_eq!((timers.bounded, timers.next_due()), (0, None));
    }
}
