//! Login sessions of the web page: each has a random name in a cookie, so that the browser does not store the service
//! token.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chained_gpc::Secret;
use tokio::time::Instant;

use crate::token::ServiceToken;

/// Most sessions. A further one ends the oldest.
const SESSIONS_MAX: usize = 256;

/// Duration of a session.
pub(super) const SESSION: Duration = Duration::from_secs(12 * 3600);

/// The sessions, the oldest first.
#[derive(Default, Debug)]
pub(super) struct Sessions(Mutex<VecDeque<(Instant, ServiceToken)>>);

impl Sessions {
    /// Begins a session and returns its name.
    ///
    /// # Errors
    /// Returns an error if the system has no randomness.
    pub(super) fn begin(&self, now: Instant) -> io::Result<String> {
        let name = ServiceToken::of(&Secret::random()?);
        let text = name.to_text().to_string();
        let mut sessions = self.living(now);
        if sessions.len() == SESSIONS_MAX {
            sessions.pop_front();
        }
        sessions.push_back((now, name));
        Ok(text)
    }

    /// Whether there is a session with this name. The comparison takes the same time for every wrong name.
    pub(super) fn has(&self, name: &str, now: Instant) -> bool {
        let Ok(name) = name.parse() else { return false };
        self.living(now).iter().fold(false, |found, (_, session)| found | (*session == name))
    }

    fn living(&self, now: Instant) -> MutexGuard<'_, VecDeque<(Instant, ServiceToken)>> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while sessions.front().is_some_and(|(begun, _)| *begun + SESSION <= now) {
            sessions.pop_front();
        }
        sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lasts_for_a_while() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let name = sessions.begin(now).unwrap();
        assert!(sessions.has(&name, now + SESSION / 2));
        assert!(!sessions.has(&"0".repeat(64), now));
        assert!(!sessions.has("", now));
        assert!(!sessions.has(&name, now + SESSION));
    }

    #[test]
    fn a_session_too_many_ends_the_oldest() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let names: Vec<String> = (0..=SESSIONS_MAX).map(|_| sessions.begin(now).unwrap()).collect();
        assert!(!sessions.has(&names[0], now));
        assert!(names[1..].iter().all(|name| sessions.has(name, now)));
    }
}
