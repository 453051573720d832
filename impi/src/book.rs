//! The address book: who the processes of all clients are, in the order of their ids, and where they listen.
//!
//! Ids go by client, then by host, then by process. IMPI has addresses and ports of hosts alone, which is enough where each host has one process. Where hosts have more, each process has a port of its own: by the label `P_PORT` of this project, or by a rule
//! that all agree on ([`Ports::PlusLocalRank`]); else the first process of a host stands for it, and alone has an address.
//!
//! A process has the address of its host. Where it names another one (P_IPV6 that is not H_IPV6) that one is not used, for it has no port: [`Book::elsewhere`] says whose.
//!
//! Source: IMPI, "Startup": the labels H_IPV6, H_PORT, H_NPROCS and P_PID, and the order of hosts.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use chained_gpc::{Address, Id, Job, Peers, PublicKey};

use crate::client::{Cluster, Host, Learned, Proc, to_ip};
use crate::server::Rank;

/// Where the processes of a host listen whose client does not say it for each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ports {
    /// The first one at the port of its host, the others nowhere.
    OwnOrFirst,
    /// Each at the port of its host plus its number there, as all have agreed.
    PlusLocalRank,
}

/// Which process it is: of which client, on which host, the how-manieth there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Who {
    /// The rank of its client.
    pub client: Rank,
    /// Number of its host in the client, from 0.
    pub host: usize,
    /// Its number on the host, from 0.
    pub proc: usize,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of host {} of client {}", self.proc, self.host, self.client)
    }
}

/// A process that has an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which one it is.
    pub who: Who,
    /// Where it listens.
    pub address: SocketAddr,
    /// The key that it is known by.
    pub key: Option<PublicKey>,
    /// Its number among the processes of its address.
    pub pid: Option<u64>,
}

impl Entry {
    /// The path of its host: its client, and the address of the host, `client-0/10.0.0.1`.
    pub fn path(&self) -> String {
        format!("client-{}/{}", self.who.client, self.address.ip())
    }
}

/// All processes that have an address, by id.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Book {
    /// By id, from 0.
    pub entries: Vec<Entry>,
    /// The job of all of them, where the client with rank 0 has said one.
    pub job: Option<Job>,
    /// Those who name another address (P_IPV6) than that of their host (H_IPV6), in the same order. They stand here with that of their host.
    pub elsewhere: Vec<Who>,
}

/// Why there is no address book: who has said what of no use.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    /// A host has no address.
    #[error("client {client} has not said at which address its host {host} is reached (H_IPV6)")]
    NoAddress {
        /// The rank of its client.
        client: Rank,
        /// Its number there.
        host: usize,
    },
    /// An address that is none of a host.
    #[error("client {client} says that its host {host} has the address {address}, which is none of a host")]
    Unusable {
        /// The rank of its client.
        client: Rank,
        /// Its number there.
        host: usize,
        /// What it says.
        address: IpAddr,
    },
    /// A host has no port.
    #[error("client {client} has not said at which port its host {host} listens (H_PORT)")]
    NoPort {
        /// The rank of its client.
        client: Rank,
        /// Its number there.
        host: usize,
    },
    /// A number that is no port.
    #[error("{who} would listen at port {port}: ports are 1 to 65535")]
    Port {
        /// Whose it is.
        who: Who,
        /// What it, or the rule, says.
        port: u64,
    },
    /// There are more processes than ids.
    #[error("the clients have more processes than there are ids")]
    TooMany,
    /// Two processes are the same.
    #[error("{one} and {other} have both {what}")]
    Twice {
        /// The first.
        one: Who,
        /// The second.
        other: Who,
        /// What they have in common.
        what: Shared,
    },
}

/// What two processes cannot have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// An address with its port.
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
    /// Of what a client has learned.
    ///
    /// # Errors
    /// When a host that has processes has no address or no port where it needs one, or a number is no port.
    pub fn of(learned: &Learned, ports: Ports) -> Result<Book, BookError> {
        let (mut entries, mut elsewhere) = (Vec::new(), Vec::new());
        for (client, cluster) in (0..).zip(&learned.clusters) {
            let own = has_ports(cluster);
            for (number, host) in cluster.hosts.iter().enumerate() {
                // A host without processes is nobody's.
                if host.procs.is_empty() {
                    continue;
                }
                let ip = address(client, number, host)?;
                let listen = match (own, ports) {
                    (true, _) | (false, Ports::PlusLocalRank) => host.procs.len(),
                    (false, Ports::OwnOrFirst) => 1,
                };
                for (proc, process) in host.procs.iter().enumerate().take(listen) {
                    let who = Who { client, host: number, proc };
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

    /// Checks that no two processes have one address or one key.
    ///
    /// # Errors
    /// The first two that do.
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

    /// Where each id is reached, with the keys and the job.
    pub fn peers(&self) -> Peers {
        let mut peers = Peers::new();
        self.job.into_iter().for_each(|job| peers.set_job(job));
        for (id, entry) in (0..).zip(&self.entries) {
            peers.insert(id, Address::Tcp(entry.address));
            entry.key.into_iter().for_each(|key| peers.set_key(id, key));
        }
        peers
    }

    /// As a peers file: the job, and `ID ADDRESS KEY` for each process, without the key where it has none.
    pub fn peers_text(&self) -> String {
        self.peers().to_string()
    }

    /// As a hosts file: `ID client-RANK/ADDRESS` for each process, so that a tree can keep the hosts of a client together, and the processes of a host.
    pub fn hosts_text(&self) -> String {
        let lines = self.entries.iter().enumerate().map(|(id, entry)| format!("{id} {}\n", entry.path()));
        lines.collect()
    }
}

/// Whether each process of a client has a port of its own.
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

/// The port of a process whose client has one for each (`own`), or else by that of its host, of which the first process has that one by every rule.
fn port(who: Who, own: bool, host: &Host, process: &Proc) -> Result<u16, BookError> {
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
