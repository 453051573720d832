//! Bootstrap by a rule: every address follows from the id, so nothing is exchanged, and no server reports which
//! processes have started.
//!
//! A process listens once its children in the tree listen, and goes on once its parent listens. So when the children of
//! id 0 listen, all processes do. A late process is waited for, not treated as lost.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use gpc_trees::sorting::collected;
use gpc_trees::{Id, IdList};

use super::BootstrapError;
use super::endpoint::Endpoint;
use super::entry::{Entry, host_name};
use super::exchange::neighbours;
use super::place::{self, Place};
use super::rule::{Resolve, Rule};
use crate::TimeLimit;
use crate::link::peering::Secret;
use crate::runtime::{Address, Listener};

/// Time limit of one connection attempt: a host that is off sends no error.
const LOOK: Duration = Duration::from_secs(1);

/// The first and the longest pause between two attempts, which doubles between them.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(250)];

/// A rule, with the means to resolve its host names.
pub(super) struct RuleBootstrap {
    pub(super) rule: Rule,
    pub(super) resolve: Resolve,
    /// `None` if all processes are on this host.
    pub(super) secret: Option<Secret>,
}

impl RuleBootstrap {
    /// Waits until the children of this process in the tree listen, then listens. Returns its entry, its listener and
    /// key, and the entries of its neighbours.
    pub(super) fn meet(
        &self,
        wanted: Option<IpAddr>,
        limit: &TimeLimit,
    ) -> Result<(Entry, Endpoint, BTreeMap<Id, Entry>), BootstrapError> {
        let rule = &self.rule;
        let (parent, children) = neighbours(rule.id(), rule.count());
        let ids = [rule.id()].into_iter().chain(parent).chain(children.iter().copied());
        let mut found: BTreeMap<Id, Address> = collected(self.resolve.addresses(rule, ids, left(limit))?);
        let awaited: Vec<(Id, Address)> =
            children.iter().filter_map(|id| Some((*id, found.get(id)?.clone()))).collect();
        wait_for(&awaited, limit)?;
        let own = found.remove(&rule.id()).ok_or(BootstrapError::NoAddress)?;
        let all_local = own.is_local() && found.values().all(Address::is_local);
        let (listener, reached) = listen(&own, all_local, wanted, left(limit))?;
        let Place { host, reach } = Place::this_host();
        // An address of this host has this host's reach; the reach of others is unknown.
        let here = |address: &Address| if address.is_local() { reach } else { 0 };
        let entry = |(id, address): (Id, Address)| {
            let host = host_name(&rule.host(id).unwrap_or_default());
            (id, Entry { host, reach: here(&address), key: None, addresses: vec![address] })
        };
        let host = if rule.is_here() { host } else { host_name(&rule.host(rule.id()).unwrap_or_default()) };
        let (key, own) = Endpoint::drawn(listener, &reached)?;
        Ok((
            Entry { host, reach, key, addresses: vec![reached] },
            own,
            collected(found.into_iter().map(entry)),
        ))
    }
}

/// Listens at the own address; returns the listener and the address at which others reach it.
fn listen(
    own: &Address,
    all_local: bool,
    wanted: Option<IpAddr>,
    left: Duration,
) -> Result<(Listener, Address), BootstrapError> {
    let bind = |address: Address| match Listener::bind(&address) {
        Ok(listener) => Ok((listener, address)),
        Err(error) => Err(BootstrapError::Listen { address, error }),
    };
    let Address::Tcp(tcp) = own else { return bind(own.clone()) };
    let at = |ip: IpAddr| Address::Tcp(SocketAddr::new(ip, tcp.port()));
    let candidates = match wanted {
        Some(ip) => vec![ip],
        None if all_local || !tcp.ip().is_loopback() => vec![tcp.ip()],
        // On the host itself, its name often resolves to a loopback address, and to another one elsewhere.
        None => place::addresses_within(left)?,
    };
    if let Some(bound) = candidates.iter().find_map(|ip| bind(at(*ip)).ok()) {
        return Ok(bound);
    }
    if all_local {
        return bind(own.clone());
    }
    // Address translation may map the address that others reach to a local one.
    let any = match tcp.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let (listener, _) = bind(at(any))?;
    Ok((listener, at(candidates.first().copied().unwrap_or(tcp.ip()))))
}

/// Waits until a process listens at each of these addresses.
#[expect(clippy::disallowed_methods, reason = "no event announces that another process listens")]
pub(super) fn wait_for(awaited: &[(Id, Address)], limit: &TimeLimit) -> Result<(), BootstrapError> {
    let (whole, mut pause) = (left(limit), PAUSES[0]);
    let mut missing: Vec<&(Id, Address)> = awaited.iter().collect();
    // Terminates: the time limit passes.
    loop {
        missing.retain(|(_, address)| !address.is_answered(LOOK.min(left(limit)).max(PAUSES[0])));
        let Some((_, first)) = missing.first() else { return Ok(()) };
        if left(limit).is_zero() {
            let ids = IdList::from_ids(missing.iter().map(|(id, _)| *id));
            let ids = ids.map_or_else(|error| error.to_string(), |ids| ids.to_string());
            return Err(BootstrapError::Absent { ids, address: first.clone(), limit: whole });
        }
        thread::sleep(pause.min(left(limit)));
        pause = PAUSES[1].min(2 * pause);
    }
}

fn left(limit: &TimeLimit) -> Duration {
    limit.left().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::Clock;

    fn address(name: &str) -> Address {
        Address::Abstract(format!("gpc-rule-bootstrap-{name}-{}", std::process::id()))
    }

    /// A neighbour may listen until the limit. The clock decides, and the neighbour appears when it is read, so that
    /// nothing waits for the time.
    #[test]
    fn neighbours_are_waited_for_until_the_limit_and_not_longer() {
        for (seconds, name) in [(0, "at once"), (59, "late"), (60, "too late")] {
            let [first, second] = ["first", "second"].map(|which| address(&format!("{which} {name}")));
            let (listening, late) = (Mutex::new(vec![Listener::bind(&first).unwrap()]), second.clone());
            let readings = AtomicUsize::new(0);
            let clock = Clock::reading(move || match readings.fetch_add(1, Ordering::Relaxed) {
                // The limit begins, and the whole of it is read.
                0 | 1 => Duration::ZERO,
                // The first look.
                2 if seconds > 0 => Duration::ZERO,
                // A wait without an end would read it for ever.
                reading if reading > 100 => panic!("the limit is over"),
                reading => {
                    if reading == 3 || seconds == 0 {
                        listening.lock().unwrap().extend(Listener::bind(&late).ok().filter(|_| seconds < 60));
                    }
                    Duration::from_secs(seconds)
                }
            });
            let limit = clock.limit(Duration::from_secs(60));
            let awaited = [(4, first.clone()), (7, second.clone())];
            match wait_for(&awaited, &limit) {
                Ok(()) => assert!(seconds < 60, "{name}"),
                Err(BootstrapError::Absent { ids, address, limit }) => {
                    assert_eq!((ids.as_str(), address, limit.as_secs()), ("7", second, 60), "{name}");
                    assert_eq!(seconds, 60);
                }
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }

    #[test]
    fn all_that_are_missing_are_named() {
        let clock = Clock::reading(|| Duration::ZERO);
        let awaited: Vec<(Id, Address)> = [1, 2, 4].map(|id| (id, address(&format!("nobody {id}")))).to_vec();
        let error = wait_for(&awaited, &clock.limit(Duration::ZERO)).unwrap_err().to_string();
        assert!(
            error.starts_with("nobody listens for ids 1-2,4 within 0ns, the first of them at unix:@"),
            "{error}"
        );
        assert!(wait_for(&[], &clock.limit(Duration::ZERO)).is_ok());
    }
}
