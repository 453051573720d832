//! Delays the answers to wrong tokens, and limits how often events that strangers can cause are logged.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Most events that are logged in each [`WHILE`], so that a stranger cannot fill the log.
const LOGGED_MAX: u32 = 10;

/// After this time the count starts again.
const WHILE: Duration = Duration::from_secs(10);

/// Delay of each answer.
const LATE: Duration = Duration::from_millis(200);

/// Recent wrong tokens.
#[derive(Default, Debug)]
pub(super) struct WrongTokens(LogLimit);

/// Limits the log lines for a frequent event.
#[derive(Default, Debug)]
pub(super) struct LogLimit(Mutex<Option<(Instant, u32)>>);

impl WrongTokens {
    /// Logs a wrong token, and returns when the request may be answered.
    pub(super) async fn token(&self, from: IpAddr) {
        if let Some(last) = self.0.logged(Instant::now()) {
            tracing::warn!(%from, "a request has a wrong token{last}");
        }
        sleep(LATE).await;
    }
}

impl LogLimit {
    /// Counts an event. Returns the text to append to its log line, or `None` if it is not to be logged.
    pub(super) fn logged(&self, now: Instant) -> Option<&'static str> {
        let last =
            |count| if count == LOGGED_MAX { "; further ones are not logged for some seconds" } else { "" };
        self.count(now).map(last)
    }

    /// The number of the event, or `None` if it is not to be logged.
    fn count(&self, now: Instant) -> Option<u32> {
        let mut of_late = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = of_late.filter(|(since, _)| *since + WHILE > now).unwrap_or((now, 0));
        let count = count.saturating_add(1);
        *of_late = Some((since, count));
        (count <= LOGGED_MAX).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_in_ten_seconds_are_logged() {
        let (wrong, begin) = (LogLimit::default(), Instant::now());
        let logged = |at: u64| wrong.count(begin + Duration::from_secs(at)).is_some();
        assert_eq!((0..100).filter(|_| logged(0)).count(), 10);
        assert!(!logged(9));
        assert!(logged(10));
    }
}
