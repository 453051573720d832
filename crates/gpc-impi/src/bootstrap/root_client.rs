//! The root as a client: converts the entries of its processes to a client's cluster, and the session's result to the
//! entries that each process needs.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use chained_gpc::bootstrap::Entry;
use chained_gpc::{Address, Id, Job, TimeLimit};

use super::answer::Answer;
use super::error::IDS_MAX;
use super::{JoinError, OwnProcess, Setup};
use crate::book::{self, Book, Ports};
use crate::client::{ClientEvent, ClientFault, ClientSettings, Cluster, Host, Learned, Proc, from_ip};
use crate::session::{Session, SessionError};
use crate::wire::PRIVATE_MAJOR;

/// A process of this cluster, with its entry.
#[derive(Clone, Debug)]
pub(super) struct ProcessEntry {
    /// Its id in the cluster.
    pub(super) id: Id,
    /// Its process id.
    pub(super) pid: u32,
    /// Text of its entry, unchanged.
    pub(super) text: String,
    entry: Entry,
    /// Address at which the other clusters reach it.
    address: SocketAddr,
}

impl ProcessEntry {
    /// Parses the entry of a process.
    ///
    /// # Errors
    /// Returns an error if the text is not an entry, or has no TCP address.
    pub(super) fn new(id: Id, pid: u32, text: &str) -> Result<ProcessEntry, JoinError> {
        let who = |host: &str| OwnProcess { id, known: Some((host.to_owned(), pid)) };
        let entry: Entry = text
            .parse()
            .map_err(|fault| JoinError::Nonsense { who: who("unknown"), why: format!("{fault}") })?;
        let tcp = |address: &Address| match address {
            Address::Tcp(address) => Some(*address),
            _ => None,
        };
        let beyond = entry.addresses.iter().filter(|address| !address.is_local()).find_map(tcp);
        let address = beyond.or_else(|| entry.addresses.iter().find_map(tcp));
        match address {
            Some(address) => Ok(ProcessEntry { id, pid, text: text.to_owned(), entry, address }),
            None => Err(JoinError::Unreachable { who: who(&entry.host), address: None }),
        }
    }

    /// Identifies the process in messages.
    pub(super) fn who(&self) -> OwnProcess {
        OwnProcess { id: self.id, known: Some((self.entry.host.clone(), self.pid)) }
    }
}

/// Takes part in the session for the cluster with these processes, by id, as long as `goes_on` returns true. Returns
/// the announcement for all processes, and the session, which ends with the cluster. `limit` is the time limit of the
/// whole bootstrap, for messages.
pub(super) fn join_session(
    setup: &Setup,
    processes: &[ProcessEntry],
    (limit, left): (Duration, &TimeLimit),
    mut goes_on: impl FnMut() -> bool,
) -> Result<(Answer, Session), JoinError> {
    let Setup { server, rank, methods, .. } = setup;
    let hidden = processes.iter().find(|process| process.address.ip().is_loopback());
    let unreachable = |process: &ProcessEntry| JoinError::Unreachable {
        who: process.who(),
        address: Some(process.address),
    };
    if let Some(process) = hidden.filter(|_| is_elsewhere(server)) {
        return Err(unreachable(process));
    }
    // A name may have several addresses: the one that the connection reaches counts.
    let here = Cell::new(true);
    let hides = || !here.get() && hidden.is_some();
    let hosts = hosts(processes);
    let mut settings = ClientSettings::new(*rank, methods.clone(), cluster(&hosts));
    settings.job = (*rank == 0).then(|| Job::random().0);
    let trace = |event: &ClientEvent| {
        tracing::debug!(rank, %event, "IMPI");
        if let ClientEvent::Connected(from, to) = event {
            here.set(same_machine(from.ip(), to.ip()));
        }
    };
    // A cluster that must not take part leaves before the server has assigned its seat.
    let goes_on = || !hides() && goes_on();
    let session = Session::join_within(server, settings, left, goes_on, trace).map_err(|error| {
        if let Some(process) = hidden.filter(|_| hides()) {
            return unreachable(process);
        }
        let error = match error {
            // The time that passed before the session counts, too.
            SessionError::Fault(ClientFault::Late { stage, .. }) => ClientFault::Late { stage, limit }.into(),
            error => error,
        };
        JoinError::Session { rank: *rank, server: server.clone(), error }
    })?;
    let learned = session.learned();
    if let Some(missing) = unproved(&hosts, learned) {
        tracing::warn!(rank, server, "{missing}");
    }
    let answer = answer(setup, &hosts, learned, here.get())?;
    Ok((answer, session))
}

/// The processes by host, in the order in which the hosts first appear.
fn hosts(processes: &[ProcessEntry]) -> Vec<Vec<&ProcessEntry>> {
    let mut hosts: Vec<Vec<&ProcessEntry>> = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    for process in processes {
        let host = *known.entry(process.address.ip()).or_insert_with(|| {
            hosts.push(Vec::new());
            hosts.len() - 1
        });
        hosts[host].push(process);
    }
    hosts
}

/// The client's cluster for these hosts.
fn cluster(hosts: &[Vec<&ProcessEntry>]) -> Cluster {
    let host = |processes: &Vec<&ProcessEntry>| {
        let mut pids = BTreeSet::new();
        let proc = |process: &&ProcessEntry| {
            // In containers, processes with the same address may have the same process id. A unique number takes its
            // place.
            let own = u64::from(process.pid);
            let pid = if pids.insert(own) { own } else { ((u64::from(process.id) + 1) << 32) | own };
            Proc {
                address: Some(from_ip(process.address.ip())),
                pid: Some(pid),
                port: Some(process.address.port().into()),
                key: process.entry.key,
            }
        };
        let address = processes[0].address;
        Host::new(from_ip(address.ip()), address.port(), processes.iter().map(proc).collect())
    };
    Cluster::new(hosts.iter().map(host).collect())
}

/// The announcement that follows from the session's result.
fn answer(
    setup: &Setup,
    hosts: &[Vec<&ProcessEntry>],
    learned: &Learned,
    here: bool,
) -> Result<Answer, JoinError> {
    let foreign = |cluster: &Cluster| !cluster.versions.iter().any(|version| version.major == PRIVATE_MAJOR);
    if let Some(client) = learned.clusters.iter().position(foreign) {
        return Err(JoinError::Foreign { client: client as u32 });
    }
    not_too_many(learned)?;
    known_ports(setup, learned)?;
    let book = Book::of(learned, Ports::OwnOrFirst)?;
    book.distinct()?;
    if let (Some(first), count) = (book.elsewhere.first(), book.elsewhere.len()) {
        let rank = setup.rank;
        tracing::warn!(rank, count, %first, "processes name another address (P_IPV6) than that of their host (H_IPV6), which is the one that is used");
    }
    let mut ours = hosts.iter().flatten();
    let mut ids = Vec::with_capacity(book.entries.len());
    for entry in &book.entries {
        let text = match entry.who.client == setup.rank {
            true => {
                let same = |process: &&&ProcessEntry| {
                    process.address == entry.address
                        && (!learned.own_labels || process.entry.key == entry.key)
                };
                let process = ours.next().filter(same);
                process.ok_or(JoinError::NotOurs { rank: setup.rank })?.text.clone()
            }
            false => other(entry, reach(hosts, entry.address.ip(), here)).to_string(),
        };
        ids.push((entry.path(), text));
    }
    if ours.next().is_some() {
        return Err(JoinError::NotOurs { rank: setup.rank });
    }
    let job = learned.job.map_or_else(|| digest(learned), Job);
    Ok(Answer { job, ids })
}

/// A warning for a server that does not support the labels of this project, if public keys were to be sent by them.
fn unproved(hosts: &[Vec<&ProcessEntry>], learned: &Learned) -> Option<&'static str> {
    let keys = hosts.iter().flatten().any(|process| process.entry.key.is_some());
    (keys && !learned.own_labels).then_some(
        "the IMPI server has not carried the labels of this project: the public keys of processes are not known to other clusters, whose links are proved by the secret alone",
    )
}

/// Checks that the number of processes is within the limit. Each process stores the entries of all, and one client
/// could report any number.
fn not_too_many(learned: &Learned) -> Result<(), JoinError> {
    let of = |cluster: &Cluster| cluster.hosts.iter().map(|host| host.procs.len()).sum();
    let counts: Vec<usize> = learned.clusters.iter().map(of).collect();
    let count = counts.iter().sum();
    // Of several clients with the most processes, the last one is named.
    match (0..).zip(counts).max_by_key(|(_, count)| *count) {
        Some((client, most)) if count > IDS_MAX => Err(JoinError::TooMany { count, client, most }),
        _ => Ok(()),
    }
}

/// Checks that each process's port is known: by the labels of this project, or because the process is the only one of
/// its host.
fn known_ports(setup: &Setup, learned: &Learned) -> Result<(), JoinError> {
    for (client, cluster) in (0..).zip(&learned.clusters) {
        let own = cluster.hosts.iter().flat_map(|host| &host.procs).all(|process| process.port.is_some());
        let host = cluster.hosts.iter().position(|host| host.procs.len() > 1);
        if let Some(host) = host.filter(|_| !(learned.own_labels && own)) {
            let (procs, server) = (cluster.hosts[host].procs.len(), setup.server.clone());
            return Err(JoinError::Ports { client, host, procs, server });
        }
    }
    Ok(())
}

/// The entry of another cluster's process, as this cluster sees it.
fn other(entry: &book::Entry, reach: u64) -> Entry {
    // A host name has no colons.
    let host = entry.address.ip().to_string().replace(':', "-");
    Entry { host, reach, key: entry.key, addresses: vec![Address::Tcp(entry.address)] }
}

/// The reach of an address of another cluster. A loopback address is reachable from this machine only if the server is
/// here: a cluster with loopback addresses is always on the server's machine. Any other loopback address gets a reach
/// that no process here has.
fn reach(hosts: &[Vec<&ProcessEntry>], ip: IpAddr, here: bool) -> u64 {
    let own = hosts.first().and_then(|host| host.first()).map_or(0, |root| root.entry.reach);
    if here || !ip.is_loopback() { own } else { !own }
}

/// Whether a connection leads to the machine that it comes from. If not, loopback addresses are useless to the others.
fn same_machine(from: IpAddr, to: IpAddr) -> bool {
    let (from, to) = (from.to_canonical(), to.to_canonical());
    to.is_loopback() || from == to
}

/// Whether a server, given by address and not by name, is on another machine. The system's routing decides it without
/// sending anything: it gives the local address for this destination.
fn is_elsewhere(server: &str) -> bool {
    let Ok(to) = server.parse::<SocketAddr>() else { return false };
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    from.map_or(!to.ip().is_loopback(), |from| !same_machine(from.ip(), to.ip()))
}

/// The job, if no client could send one: a 128-bit FNV-1a hash over all known values, which are the same at all
/// clients.
fn digest(learned: &Learned) -> Job {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let mut add = |value: Option<u128>| {
        // Whether there is a value counts, too.
        let bytes = value.map_or(vec![0], |value| [&[1][..], &value.to_be_bytes()].concat());
        for byte in bytes {
            hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    };
    for cluster in &learned.clusters {
        for version in &cluster.versions {
            add(Some((u128::from(version.major) << 32) | u128::from(version.minor)));
        }
        add(cluster.datalen.map(Into::into));
        for number in [cluster.tag_ub, cluster.coll_xsize, cluster.coll_maxlinear] {
            add(number.map(|number| number.cast_unsigned().into()));
        }
        for host in &cluster.hosts {
            add(host.address.map(Into::into));
            for number in [host.port, host.ackmark, host.hiwater] {
                add(number.map(Into::into));
            }
            for process in &host.procs {
                add(process.address.map(Into::into));
                add(process.pid.map(Into::into));
            }
            // Marks the end of a host's processes.
            add(None);
        }
        add(None);
    }
    Job(hash.to_be_bytes())
}

#[cfg(test)]
mod tests;
