//! Resolves the names of hosts when their addresses are needed. Look-ups are retried with pauses, since pods and their
//! names appear in any order.
//!
//! The look-ups of all names run concurrently, each with the rest of the time limit.
#![allow(clippy::disallowed_methods, reason = "it waits for names to appear, by the clock")]

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gpc_trees::Id;

use super::{Rule, RuleAddress};
use crate::bootstrap::{BootstrapError, HostList};
use crate::runtime::{Address, LOOK_UPS_MAX, NO_ANSWER, Resolver};
use crate::wire::Shown;

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

/// State of a name.
enum NameState {
    /// A look-up is running or queued.
    Pending {
        pause: Duration,
    },
    /// A look-up has failed; the next one starts at this time.
    Retry {
        at: Instant,
        pause: Duration,
    },
    Found(IpAddr),
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
        let found = self.found(names.collect(), limit)?;
        let address = |(id, at)| match at {
            RuleAddress::ThisHost(address) => Some((id, address)),
            RuleAddress::Host { name, port } => {
                Some((id, Address::Tcp(SocketAddr::new(*found.get(&name)?, port))))
            }
        };
        Ok(places.into_iter().filter_map(address).collect())
    }

    /// Returns one address of each of these hosts; a name may occur many times.
    fn found(&self, names: Vec<String>, limit: Duration) -> Result<BTreeMap<String, IpAddr>, BootstrapError> {
        let deadline = Instant::now() + limit;
        let mut states: BTreeMap<String, NameState> =
            names.into_iter().map(|name| (name, NameState::Pending { pause: PAUSES[0] })).collect();
        let (queue, answers) = self.threads(states.len().min(LOOK_UPS_MAX), deadline)?;
        for name in states.keys() {
            // The threads end when `queue` is dropped, or panic in the caller's function. If all have panicked,
            // `answers` is disconnected.
            let _ = queue.send(name.clone());
        }
        let mut last = None;
        // Terminates: each iteration waits for the next event, and the deadline is one.
        while states.values().any(|state| !matches!(state, NameState::Found(_))) {
            let now = Instant::now();
            if now >= deadline {
                return Err(unresolved(&states, last, limit));
            }
            let mut next = deadline;
            for (name, state) in &mut states {
                match *state {
                    NameState::Retry { at, pause } if at <= now => {
                        *state = NameState::Pending { pause };
                        let _ = queue.send(name.clone());
                    }
                    NameState::Retry { at, .. } => next = next.min(at),
                    _ => {}
                }
            }
            match answers.recv_timeout(next.saturating_duration_since(now)) {
                Ok((name, answer)) => {
                    let Some(state) = states.get_mut(&name) else { continue };
                    note(state, answer, &mut last);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(unresolved(&states, last, limit)),
            }
        }
        let found = states.into_iter().filter_map(|(name, state)| match state {
            NameState::Found(ip) => Some((name, ip)),
            _ => None,
        });
        Ok(found.collect())
    }

    /// Starts threads that look up the names that they receive, and end when the sender is dropped.
    fn threads(
        &self,
        count: usize,
        deadline: Instant,
    ) -> Result<(Sender<String>, Receiver<Answer>), BootstrapError> {
        // Bounded: each channel holds each name at most once.
        let (queue, names) = channel::<String>();
        let (answer, answers) = channel();
        let names = Arc::new(Mutex::new(names));
        for _ in 0..count {
            let (names, answer, resolver) = (Arc::clone(&names), answer.clone(), self.resolver.clone());
            let work = move || {
                // Terminates when either channel is closed.
                loop {
                    let name = names.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(name) = name else { return };
                    let left = deadline.saturating_duration_since(Instant::now());
                    let found = resolver.look_up(&name, left);
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

/// Stores the result of a look-up.
fn note(state: &mut NameState, answer: io::Result<Vec<IpAddr>>, last: &mut Option<String>) {
    let NameState::Pending { pause } = *state else { return };
    let why = match answer.map(|found| found.first().copied()) {
        Ok(Some(ip)) => {
            *state = NameState::Found(ip);
            return;
        }
        Ok(None) => "it has no address".to_owned(),
        Err(error) => error.to_string(),
    };
    *last = Some(why);
    *state = NameState::Retry { at: Instant::now() + pause, pause: PAUSES[1].min(2 * pause) };
}

/// The error that lists the names without an address.
fn unresolved(states: &BTreeMap<String, NameState>, last: Option<String>, limit: Duration) -> BootstrapError {
    let missing = states.iter().filter(|(_, state)| !matches!(state, NameState::Found(_)));
    let names: Vec<String> = missing.map(|(name, _)| name.clone()).collect();
    let count = names.len();
    let hosts = HostList::new(names).map_or_else(|error| error.to_string(), |hosts| hosts.to_string());
    let why = last.unwrap_or_else(|| NO_ANSWER.to_owned());
    BootstrapError::Unresolved {
        count,
        hosts: Shown(&hosts).to_string(),
        limit,
        why: Shown(&why).to_string(),
    }
}
