//! Address book: the processes of all clients in the order of their ids, and their addresses.
//!
//! Ids go by client, then by host, then by process. IMPI has addresses and ports of hosts only, which suffices if each
//! host has one process. If hosts have more, each process has its own port: by the label `P_PORT` of this project, or
//! by a rule that all clients agree on ([`Ports::PlusLocalRank`]). Otherwise only the first process of a host has an
//! address, that of the host.
//!
//! A process has the address of its host. If it names another one (P_IPV6 differs from H_IPV6), that one is not used,
//! because it has no port: [`Book::elsewhere`] lists such processes.
//!
//! Source: IMPI, "Startup": the labels H_IPV6, H_PORT, H_NPROCS and P_PID, and the order of hosts.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use chained_gpc::{Address, Id, Job, Peers, PublicKey};

use crate::client::{Cluster, Host, Learned, Proc, to_ip};
use crate::server::Rank;

/// Rule for the ports of processes, for a client that does not report the port of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ports {
    /// The first process of a host has the host's port; the others have no address.
    OwnOrFirst,
    /// Each process has the host's port plus its number on the host, by agreement of all clients.
    PlusLocalRank,
}

/// Identifies a process by its client, its host and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId {
    /// Rank of its client.
    pub client: Rank,
    /// Number of its host in the client, from 0.
    pub host: usize,
    /// Its number on the host, from 0.
    pub proc: usize,
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of host {} of client {}", self.proc, self.host, self.client)
    }
}

/// A process with an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The process.
    pub who: ProcessId,
    /// Address at which it listens.
    pub address: SocketAddr,
    /// Its public key.
    pub key: Option<PublicKey>,
    /// Its number among the processes of its address.
    pub pid: Option<u64>,
}

impl Entry {
    /// Path of its host: the client, and the host's address, such as `client-0/10.0.0.1`.
    pub fn path(&self) -> String {
        format!("client-{}/{}", self.who.client, self.address.ip())
    }
}

/// All processes with an address, by id.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Book {
    /// The processes by id, from 0.
    pub entries: Vec<Entry>,
    /// The job of all nodes, if client 0 has sent one.
    pub job: Option<Job>,
    /// Processes that name another address (P_IPV6) than that of their host (H_IPV6), in the order of `entries`. Their
    /// entries have the address of the host.
    pub elsewhere: Vec<ProcessId>,
}

/// Why there is no address book: the client, and its unusable value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    /// A host has no address.
    #[error("client {client} has not said at which address its host {host} is reached (H_IPV6)")]
    NoAddress {
        /// Rank of its client.
        client: Rank,
        /// Its number in the client.
        host: usize,
    },
    /// The address cannot be one of a host.
    #[error("client {client} says that its host {host} has the address {address}, which is none of a host")]
    Unusable {
        /// Rank of its client.
        client: Rank,
        /// Its number in the client.
        host: usize,
        /// The address.
        address: IpAddr,
    },
    /// A host has no port.
    #[error("client {client} has not said at which port its host {host} listens (H_PORT)")]
    NoPort {
        /// Rank of its client.
        client: Rank,
        /// Its number in the client.
        host: usize,
    },
    /// The port is out of range.
    #[error("{who} would listen at port {port}: ports are 1 to 65535")]
    Port {
        /// The process.
        who: ProcessId,
        /// The port that it reports, or that follows from the rule.
        port: u64,
    },
    /// There are more processes than ids.
    #[error("the clients have more processes than there are ids")]
    TooMany,
    /// Two processes have the same address or key.
    #[error("{one} and {other} have both {what}")]
    Twice {
        /// The first process.
        one: ProcessId,
        /// The second process.
        other: ProcessId,
        /// What they share.
        what: Shared,
    },
}

/// A property that two processes must not share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// Address and port.
    Address(SocketAddr),
    /// A public key.
    Key,
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shared::Address(address) => write!(f, "the address {address}"),
            Shared::Key => f.write_str("the same public key"),
        }
    }
}

impl Book {
    /// Makes the book from what a client has learned.
    ///
    /// # Errors
    /// Returns an error if a host with processes lacks an address, or a port that it needs, or if a port is out of
    /// range.
    pub fn of(learned: &Learned, ports: Ports) -> Result<Book, BookError> {
        let (mut entries, mut elsewhere) = (Vec::new(), Vec::new());
        for (client, cluster) in (0..).zip(&learned.clusters) {
            let own = has_ports(cluster);
            for (number, host) in cluster.hosts.iter().enumerate() {
                // A host without processes needs no address.
                if host.procs.is_empty() {
                    continue;
                }
                let ip = address(client, number, host)?;
                let listen = match (own, ports) {
                    (true, _) | (false, Ports::PlusLocalRank) => host.procs.len(),
                    (false, Ports::OwnOrFirst) => 1,
                };
                for (proc, process) in host.procs.iter().enumerate().take(listen) {
                    let who = ProcessId { client, host: number, proc };
                    let address = SocketAddr::new(ip, port(who, own, host, process)?);
                    if process.address.is_some_and(|own| to_ip(own) != ip) {
                        elsewhere.push(who);
                    }
                    entries.push(Entry { who, address, key: process.key, pid: process.pid });
                }
            }
        }
        match Id::try_from(entries.len()) {
            Ok(_) => Ok(Book { entries, job: learned.job.map(Job), elsewhere }),
            Err(_) => Err(BookError::TooMany),
        }
    }

    /// Checks that no two processes have the same address or key.
    ///
    /// # Errors
    /// Returns the first two that do.
    pub fn distinct(&self) -> Result<(), BookError> {
        let (mut addresses, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for entry in &self.entries {
            let other = entry.who;
            if let Some(one) = addresses.insert(entry.address, other) {
                return Err(BookError::Twice { one, other, what: Shared::Address(entry.address) });
            }
            if let Some(one) = entry.key.and_then(|key| keys.insert(key.0, other)) {
                return Err(BookError::Twice { one, other, what: Shared::Key });
            }
        }
        Ok(())
    }

    /// Addresses and keys of all ids, and the job.
    pub fn peers(&self) -> Peers {
        let mut peers = Peers::new();
        self.job.into_iter().for_each(|job| peers.set_job(job));
        for (id, entry) in (0..).zip(&self.entries) {
            peers.insert(id, Address::Tcp(entry.address));
            entry.key.into_iter().for_each(|key| peers.set_key(id, key));
        }
        peers
    }

    /// Text of a peers file: the job, and `ID ADDRESS KEY` for each process, without the key if it has none.
    pub fn peers_text(&self) -> String {
        self.peers().to_string()
    }

    /// Text of a hosts file: `ID client-RANK/ADDRESS` for each process. With it a tree can keep the hosts of a client
    /// together, and the processes of a host.
    pub fn hosts_text(&self) -> String {
        let lines = self.entries.iter().enumerate().map(|(id, entry)| format!("{id} {}\n", entry.path()));
        lines.collect()
    }
}

/// Whether each process of a client has its own port.
fn has_ports(cluster: &Cluster) -> bool {
    cluster.hosts.iter().flat_map(|host| &host.procs).all(|process| process.port.is_some())
}

fn address(client: Rank, number: usize, host: &Host) -> Result<IpAddr, BookError> {
    let address = to_ip(host.address.ok_or(BookError::NoAddress { client, host: number })?);
    match address.is_unspecified() || address.is_multicast() {
        true => Err(BookError::Unusable { client, host: number, address }),
        false => Ok(address),
    }
}

/// Port of a process: its own, if its client reports one for each (`own`), else by the host's port. The first process
/// has the host's port by every rule.
fn port(who: ProcessId, own: bool, host: &Host, process: &Proc) -> Result<u16, BookError> {
    let port = match process.port.filter(|_| own) {
        Some(port) => port.into(),
        None => {
            let first = host.port.ok_or(BookError::NoPort { client: who.client, host: who.host })?;
            u64::from(first).saturating_add(who.proc as u64)
        }
    };
    u16::try_from(port).ok().filter(|port| *port > 0).ok_or(BookError::Port { who, port })
}

#[cfg(test)]
mod tests;
