//! The clock of services and launchers: what their drivers read the time with, and the time limits of their waits.
//!
//! A driver gets its clock as an argument. Production code passes [`Clock::system`]; a test passes a clock that it
//! moves by hand ([`Clock::reading`]), so limits of minutes are tested in an instant. The event loop of a node has a
//! clock of its own, which it reads at most once a turn.
#![allow(clippy::disallowed_methods, reason = "this is where services and launchers read the time")]

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock that never goes back. Copies read the same time.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    /// The system's monotonic clock, which showed `zero` when it read `begun`.
    System {
        begun: Instant,
        zero: Duration,
    },
    Reading(Arc<dyn Fn() -> Duration + Send + Sync>),
}

impl Clock {
    /// A clock that starts now, at zero.
    pub fn system() -> Clock {
        Clock(Source::System { begun: Instant::now(), zero: Duration::ZERO })
    }

    /// A clock that starts now, at the time since 1970, or at `least` if that is later. Later changes of the machine's
    /// clock have no effect.
    pub fn since_1970(least: Duration) -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock(Source::System { begun: Instant::now(), zero: since.max(least) })
    }

    /// A clock that shows what `read` returns. The values must not decrease.
    pub fn reading(read: impl Fn() -> Duration + Send + Sync + 'static) -> Clock {
        Clock(Source::Reading(Arc::new(read)))
    }

    /// The time now.
    pub fn now(&self) -> Duration {
        match &self.0 {
            Source::System { begun, zero } => zero.saturating_add(begun.elapsed()),
            Source::Reading(read) => read(),
        }
    }

    /// A time limit that begins now.
    pub fn limit(&self, limit: Duration) -> TimeLimit {
        self.limit_of_which(limit, Duration::ZERO)
    }

    /// A time limit that has begun before: `passed` of it is over.
    pub fn limit_of_which(&self, limit: Duration, passed: Duration) -> TimeLimit {
        let until = self.now().saturating_add(limit.saturating_sub(passed));
        TimeLimit { until, clock: self.clone(), duration: limit }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// A time limit of a wait that may take several steps.
#[derive(Clone, Debug)]
pub struct TimeLimit {
    clock: Clock,
    until: Duration,
    duration: Duration,
}

impl TimeLimit {
    /// Time left; `None` if it is over.
    pub fn left(&self) -> Option<Duration> {
        self.until.checked_sub(self.clock.now()).filter(|left| !left.is_zero())
    }

    /// Its whole duration, for messages.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.left().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_time_limit_is_over_at_its_time_and_not_before() {
        let seconds = Arc::new(AtomicU64::new(5));
        let read = Arc::clone(&seconds);
        let clock = Clock::reading(move || Duration::from_secs(read.load(Ordering::Relaxed)));
        let limit = clock.limit(Duration::from_secs(30));
        assert_eq!(limit.left(), Some(Duration::from_secs(30)));
        seconds.store(34, Ordering::Relaxed);
        assert_eq!((limit.left(), limit.is_over()), (Some(Duration::from_secs(1)), false));
        seconds.store(35, Ordering::Relaxed);
        assert_eq!((limit.left(), limit.is_over()), (None, true));
        assert!(clock.limit(Duration::MAX).left().is_some());
        let begun = clock.limit_of_which(Duration::from_secs(30), Duration::from_secs(29));
        assert_eq!((begun.left(), begun.duration()), (Some(Duration::from_secs(1)), Duration::from_secs(30)));
        assert!(clock.limit_of_which(Duration::from_secs(30), Duration::from_secs(31)).is_over());
    }

    /// If the machine's clock was set back between two runs, a restarted service had resources that were created in its
    /// future.
    #[test]
    fn a_clock_does_not_begin_before_the_given_time_and_does_not_go_back() {
        let hour = Duration::from_secs(3600);
        let machine = Clock::since_1970(Duration::ZERO).now();
        let ahead = Clock::since_1970(machine + hour);
        assert!(ahead.now() >= machine + hour);
        assert!(Clock::since_1970(Duration::from_millis(1)).now() >= machine);
        let times: Vec<Duration> = (0..1000).map(|_| ahead.now()).collect();
        assert!(times.is_sorted());
        assert_eq!(Clock::since_1970(Duration::MAX).now(), Duration::MAX);
    }
}
