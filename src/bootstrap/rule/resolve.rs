//! Resolves the names of hosts when their addresses are needed. Look-ups are retried with pauses, since pods and their
//! names appear in any order.
//!
//! The look-ups of all names run concurrently, each with the rest of the time limit.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gpc_trees::Id;
use gpc_trees::sorting::collected;

use super::{Rule, RuleAddress};
use crate::bootstrap::{BootstrapError, HostList};
use crate::channel::{Receiver, Sender, channel};
use crate::runtime::{Address, LOOK_UPS_MAX, NO_ANSWER, Resolver};
use crate::wire::Shown;
use crate::{Clock, TimeLimit};

/// The first and the longest pause before a name is looked up again.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

/// A name, and the result of its look-up.
type Answer = (String, io::Result<Vec<IpAddr>>);

/// A resolver of host names that retries until a time limit.
#[derive(Clone, Debug)]
pub struct Resolve {
    resolver: Resolver,
}

impl Default for Resolve {
    /// Uses the system's resolver: `/etc/hosts`, the domain name system, and its other configured sources.
    fn default() -> Resolve {
        Resolve { resolver: Resolver::system() }
    }
}

impl Resolve {
    /// Uses a function that returns the addresses of a host, best first. It is called on several threads concurrently,
    /// and again with pauses while it fails or returns no address.
    pub fn by(look_up: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Resolve {
        Resolve { resolver: Resolver::by(look_up) }
    }

    /// Returns the addresses of these ids. Ids that the rule does not have are left out.
    ///
    /// # Errors
    /// If a host has no address within the limit: the error lists all such hosts, and the error of the last look-up.
    pub fn addresses(
        &self,
        rule: &Rule,
        ids: impl IntoIterator<Item = Id>,
        limit: Duration,
    ) -> Result<Vec<(Id, Address)>, BootstrapError> {
        let places: Vec<(Id, RuleAddress)> =
            ids.into_iter().filter_map(|id| Some((id, rule.at(id)?))).collect();
        let names = places.iter().filter_map(|(_, at)| match at {
            RuleAddress::ThisHost(_) => None,
            RuleAddress::Host { name, .. } => Some(name.clone()),
        });
        let clock = Clock::system();
        let names = self.found(Names::new(names), &clock, &clock.limit(limit))?;
        let address = |(id, at)| match at {
            RuleAddress::ThisHost(address) => Some((id, address)),
            RuleAddress::Host { name, port } => {
                Some((id, Address::Tcp(SocketAddr::new(names.ip(&name)?, port))))
            }
        };
        Ok(places.into_iter().filter_map(address).collect())
    }

    /// Finds an address of each of these names.
    fn found(&self, mut names: Names, clock: &Clock, limit: &TimeLimit) -> Result<Names, BootstrapError> {
        let (queue, answers) = self.threads(names.states.len().min(LOOK_UPS_MAX), limit)?;
        // Terminates: each iteration waits for the next event, and the end of the limit is one.
        while !names.is_complete() {
            let Some(left) = limit.left() else { return Err(names.unresolved(limit.duration())) };
            for name in names.due(clock.now()) {
                // The threads end when `queue` is dropped, or panic in the caller's function. If all have panicked,
                // `answers` is disconnected.
                let _ = queue.send(name);
            }
            let next = names.next().map_or(left, |next| next.saturating_sub(clock.now()).min(left));
            match answers.recv_timeout(next) {
                Ok((name, answer)) => names.note(&name, answer, clock.now()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(names.unresolved(limit.duration())),
            }
        }
        Ok(names)
    }

    /// Starts threads that look up the names that they receive, and end when the sender is dropped.
    fn threads(
        &self,
        count: usize,
        limit: &TimeLimit,
    ) -> Result<(Sender<String>, Receiver<Answer>), BootstrapError> {
        // Bounded: each channel holds each name at most once.
        let (queue, names) = channel::<String>();
        let (answer, answers) = channel();
        let names = Arc::new(Mutex::new(names));
        for _ in 0..count {
            let (names, answer, resolver) = (Arc::clone(&names), answer.clone(), self.resolver.clone());
            let limit = limit.clone();
            let work = move || {
                // Terminates when either channel is closed.
                loop {
                    let name = names.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(name) = name else { return };
                    let found = resolver.look_up(&name, limit.left().unwrap_or_default());
                    if answer.send((name, found)).is_err() {
                        return;
                    }
                }
            };
            let started = thread::Builder::new().name("gpc-resolve".into()).spawn(work);
            started
                .map_err(|error| BootstrapError::System { doing: "starting a thread for names", error })?;
        }
        Ok((queue, answers))
    }
}

/// State of a name.
enum NameState {
    /// A look-up is running or queued; `pause` follows if it fails.
    Pending {
        pause: Duration,
    },
    /// The next look-up starts at this time.
    Retry {
        at: Duration,
        pause: Duration,
    },
    Found(IpAddr),
}

/// The names that are looked up, without I/O.
struct Names {
    states: BTreeMap<String, NameState>,
    /// The error of the last look-up.
    last: Option<String>,
}

impl Names {
    /// Creates the look-ups of these names, all due at once; a name may occur many times.
    fn new(names: impl Iterator<Item = String>) -> Names {
        let due = |name| (name, NameState::Retry { at: Duration::ZERO, pause: PAUSES[0] });
        Names { states: collected(names.map(due)), last: None }
    }

    fn is_complete(&self) -> bool {
        self.states.values().all(|state| matches!(state, NameState::Found(_)))
    }

    /// Takes the names whose look-up is due.
    fn due(&mut self, now: Duration) -> Vec<String> {
        let mut due = Vec::new();
        for (name, state) in &mut self.states {
            if let NameState::Retry { at, pause } = *state
                && at <= now
            {
                *state = NameState::Pending { pause };
                due.push(name.clone());
            }
        }
        due
    }

    /// When the next look-up is due.
    fn next(&self) -> Option<Duration> {
        let at = |state: &NameState| if let NameState::Retry { at, .. } = state { Some(*at) } else { None };
        self.states.values().filter_map(at).min()
    }

    /// Stores the result of a look-up.
    fn note(&mut self, name: &str, answer: io::Result<Vec<IpAddr>>, now: Duration) {
        let Some(state) = self.states.get_mut(name) else { return };
        let NameState::Pending { pause } = *state else { return };
        let why = match answer.map(|found| found.first().copied()) {
            Ok(Some(ip)) => {
                *state = NameState::Found(ip);
                return;
            }
            Ok(None) => "it has no address".to_owned(),
            Err(error) => error.to_string(),
        };
        self.last = Some(why);
        *state = NameState::Retry { at: now.saturating_add(pause), pause: PAUSES[1].min(2 * pause) };
    }

    /// The address of a name, once it is found.
    fn ip(&self, name: &str) -> Option<IpAddr> {
        if let NameState::Found(ip) = self.states.get(name)? { Some(*ip) } else { None }
    }

    /// The error that lists the names without an address.
    fn unresolved(&self, limit: Duration) -> BootstrapError {
        let missing = self.states.iter().filter(|(_, state)| !matches!(state, NameState::Found(_)));
        let names: Vec<String> = missing.map(|(name, _)| name.clone()).collect();
        let count = names.len();
        let hosts = HostList::new(names).map_or_else(|error| error.to_string(), |hosts| hosts.to_string());
        let why = self.last.as_deref().unwrap_or(NO_ANSWER);
        BootstrapError::Unresolved {
            count,
            hosts: Shown(&hosts).to_string(),
            limit,
            why: Shown(why).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn names(names: &[&str]) -> Names {
        Names::new(names.iter().map(|&name| name.to_owned()))
    }

    #[test]
    fn a_name_is_looked_up_again_after_pauses_that_double_up_to_two_seconds() {
        let mut names = names(&["a", "b", "a"]);
        let begun = milliseconds(5000);
        assert_eq!(names.due(begun), ["a", "b"]);
        assert_eq!((names.due(begun), names.next()), (vec![], None), "they are being looked up");
        names.note("b", Ok(vec![IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 3])]), begun);
        let mut now = begun;
        for pause in [100, 200, 400, 800, 1600, 2000, 2000] {
            names.note("a", Ok(vec![]), now);
            let next = now + milliseconds(pause);
            assert_eq!(names.next(), Some(next));
            assert_eq!(names.due(next - Duration::from_nanos(1)), [""; 0]);
            assert_eq!(names.due(next), ["a"]);
            now = next;
        }
        assert!(!names.is_complete());
        let error = names.unresolved(milliseconds(30_000)).to_string();
        assert!(
            error.starts_with("no address was found for 1 hosts within 30s: a (it has no address)"),
            "{error}"
        );
        names.note("a", Ok(vec![IpAddr::from([10, 0, 0, 1])]), now);
        // Late and foreign answers change nothing.
        names.note("a", Err(io::Error::other("late")), now);
        names.note("c", Ok(vec![IpAddr::from([10, 0, 0, 9])]), now);
        assert!(names.is_complete() && names.next().is_none());
        let found = ["a", "b", "c"].map(|name| names.ip(name));
        assert_eq!(found, [Some(IpAddr::from([10, 0, 0, 1])), Some(IpAddr::from([10, 0, 0, 2])), None]);
    }

    #[test]
    fn names_without_an_address_are_listed_with_the_last_error() {
        let mut names = names(&["w-0.s", "w-1.s", "w-2.s", "w-3.s", "w-4.s"]);
        for name in names.due(Duration::ZERO) {
            let answer = match name.as_str() {
                "w-1.s" => Ok(vec![IpAddr::from([10, 0, 0, 1])]),
                _ => Err(io::Error::other("no such\u{1b} name")),
            };
            names.note(&name, answer, Duration::ZERO);
        }
        assert_eq!(
            names.unresolved(milliseconds(50)).to_string(),
            r"no address was found for 4 hosts within 50ms: w-[0,2-4].s (no such\u{1b} name); are they started, and do others know their names?"
        );
    }

    /// A look-up that never ends does not block the caller.
    #[test]
    fn a_name_service_that_hangs_costs_the_limit() {
        let (release, blocked) = channel::<()>();
        let blocked = Mutex::new(blocked);
        let stuck = Resolve::by(move |_| {
            let _ = blocked.lock().unwrap().recv();
            Ok(vec![])
        });
        let readings = std::sync::atomic::AtomicU64::new(0);
        let clock =
            Clock::reading(move || milliseconds(readings.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
        let error = stuck.found(names(&["w-0.s", "w-1.s"]), &clock, &clock.limit(milliseconds(10)));
        let error = error.err().unwrap().to_string();
        assert!(error.contains("w-[0-1].s (the name service does not answer)"), "{error}");
        drop(release);
    }

    /// The last answer may come until the limit, and not at it.
    #[test]
    fn a_name_may_be_found_until_the_limit() {
        for (last, is_found) in [(29_999, true), (30_000, false)] {
            let time = Arc::new(Mutex::new(Duration::ZERO));
            let (read, moved) = (time.clone(), time);
            let clock = Clock::reading(move || *read.lock().unwrap());
            let resolve = Resolve::by(move |name| {
                // The first look-up fails; the time passes with it.
                let before = std::mem::replace(&mut *moved.lock().unwrap(), milliseconds(last));
                match before {
                    Duration::ZERO => Err(io::Error::other(format!("no {name} yet"))),
                    _ => Ok(vec![IpAddr::from([10, 0, 0, 1])]),
                }
            });
            // The next look-up is due when the clock shows the limit, or a pause before it.
            let limit = clock.limit(milliseconds(30_000));
            let mut names = names(&["a"]);
            if let Some(NameState::Retry { pause, .. }) = names.states.get_mut("a") {
                *pause = Duration::ZERO;
            }
            match resolve.found(names, &clock, &limit) {
                Ok(names) => assert!(is_found && names.ip("a").is_some()),
                Err(error) => assert!(!is_found && error.to_string().contains("(no a yet)"), "{error}"),
            }
        }
    }
}
