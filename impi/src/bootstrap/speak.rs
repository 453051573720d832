//! The root speaks for its cluster: what the processes have said becomes a client's cluster, and what the clients have said becomes what each process must know.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::time::Duration;

use chained_gpc::bootstrap::Entry;
use chained_gpc::{Address, Id, Job};

use super::answer::Answer;
use super::{JoinError, Own, Setup};
use crate::RelayOptions;
use crate::book::{self, Book, Ports};
use crate::client::{ClientFault, ClientSettings, Cluster, Host, Learned, Proc, from_ip};
use crate::session::{Session, SessionError, SessionOptions};
use crate::wire::PRIVATE_MAJOR;

/// A process of this cluster, by what it has said.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// Its id in the cluster.
    pub(super) id: Id,
    /// Its process id.
    pub(super) pid: u32,
    /// What it says of itself, as it came.
    pub(super) text: String,
    entry: Entry,
    /// Where the other clusters reach it.
    address: SocketAddr,
}

impl Said {
    /// Of a process that has said this.
    ///
    /// # Errors
    /// When that is no entry, or has no address over TCP.
    pub(super) fn new(id: Id, pid: u32, text: &str) -> Result<Said, JoinError> {
        let who = |host: &str| Own { id, known: Some((host.to_owned(), pid)) };
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
            Some(address) => Ok(Said { id, pid, text: text.to_owned(), entry, address }),
            None => Err(JoinError::Unreachable { who: who(&entry.host), address: None }),
        }
    }

    /// Which process it is, for people.
    pub(super) fn who(&self) -> Own {
        Own { id: self.id, known: Some((self.entry.host.clone(), self.pid)) }
    }
}

/// Takes part for a cluster, whose processes have said this, by id, as long as `goes_on`: what all of them must know, and the session, which ends with the cluster.
pub(super) fn speak(
    setup: &Setup,
    said: &[Said],
    (limit, left): (Duration, Duration),
    goes_on: impl FnMut() -> bool,
) -> Result<(Answer, Session), JoinError> {
    let Setup { server, rank, methods, .. } = setup;
    let here = is_here(server);
    if let Some(said) = said.iter().find(|said| said.address.ip().is_loopback() && !here) {
        return Err(JoinError::Unreachable { who: said.who(), address: Some(said.address) });
    }
    let hosts = hosts(said);
    let mut settings = ClientSettings::new(*rank, methods.clone(), cluster(&hosts));
    settings.job = (*rank == 0).then(|| Job::random().0);
    let relay = RelayOptions { secret: Some(setup.secret.clone()), ..RelayOptions::default() };
    let options = SessionOptions { limit: left, relay: Some(relay) };
    let trace = |event: &crate::client::ClientEvent| tracing::debug!(rank, %event, "IMPI");
    let session = Session::join_with(server, settings, options, goes_on, trace).map_err(|error| {
        let error = match error {
            // What has passed before counts, too.
            SessionError::Fault(ClientFault::Late { stage, .. }) => ClientFault::Late { stage, limit }.into(),
            error => error,
        };
        JoinError::Session { rank: *rank, server: server.clone(), error }
    })?;
    let answer = answer(setup, &hosts, session.learned(), here)?;
    Ok((answer, session))
}

/// The processes by their hosts, in the order in which those first appear.
fn hosts(said: &[Said]) -> Vec<Vec<&Said>> {
    let mut hosts: Vec<Vec<&Said>> = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    for said in said {
        let host = *known.entry(said.address.ip()).or_insert_with(|| {
            hosts.push(Vec::new());
            hosts.len() - 1
        });
        hosts[host].push(said);
    }
    hosts
}

/// What the client says of these hosts.
fn cluster(hosts: &[Vec<&Said>]) -> Cluster {
    let host = |processes: &Vec<&Said>| {
        let mut pids = BTreeSet::new();
        let proc = |said: &&Said| {
            // Within containers processes of one address may have one number; a number of another kind is as good.
            let own = u64::from(said.pid);
            let pid = if pids.insert(own) { own } else { ((u64::from(said.id) + 1) << 32) | own };
            Proc {
                address: Some(from_ip(said.address.ip())),
                pid: Some(pid),
                port: Some(said.address.port().into()),
                key: said.entry.key,
            }
        };
        let address = processes[0].address;
        Host::new(from_ip(address.ip()), address.port(), processes.iter().map(proc).collect())
    };
    Cluster::new(hosts.iter().map(host).collect())
}

/// What each process must know, by what the clients have said.
fn answer(setup: &Setup, hosts: &[Vec<&Said>], learned: &Learned, here: bool) -> Result<Answer, JoinError> {
    let foreign = |cluster: &Cluster| !cluster.versions.iter().any(|version| version.major == PRIVATE_MAJOR);
    if let Some(client) = learned.clusters.iter().position(foreign) {
        return Err(JoinError::Foreign { client: client as u32 });
    }
    known_ports(setup, learned)?;
    let book = Book::of(learned, Ports::OwnOrFirst)?;
    book.distinct()?;
    let mut ours = hosts.iter().flatten();
    let mut ids = Vec::with_capacity(book.entries.len());
    for entry in &book.entries {
        let text = match entry.who.client == setup.rank {
            true => {
                let said = ours.next().filter(|said| said.address == entry.address);
                said.ok_or(JoinError::NotOurs { rank: setup.rank })?.text.clone()
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

/// Whether each process's port is known: by labels of this project, or because it is the only one of its host.
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

/// What a process of another cluster would say of itself here.
fn other(entry: &book::Entry, reach: u64) -> Entry {
    // The name of a host has no colons.
    let host = entry.address.ip().to_string().replace(':', "-");
    Entry { host, reach, key: entry.key, addresses: vec![Address::Tcp(entry.address)] }
}

/// Who reaches an address of another cluster: where it is a loopback address, this machine, if it is the server's, for the server is reached by the other cluster, too; else nobody.
fn reach(hosts: &[Vec<&Said>], ip: IpAddr, here: bool) -> u64 {
    let own = hosts.first().and_then(|host| host.first()).map_or(0, |root| root.entry.reach);
    if here || !ip.is_loopback() { own } else { !own }
}

/// Whether the server is on this machine: what goes to its address comes from the same one. Nothing is sent. Who has loopback addresses and another machine's server says what nobody reaches.
fn is_here(server: &str) -> bool {
    let own = |to: SocketAddr| {
        let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
        let from = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect(to)?;
            socket.local_addr()
        });
        to.ip().is_loopback() || from.is_ok_and(|from| from.ip() == to.ip())
    };
    server.to_socket_addrs().is_ok_and(|mut addresses| addresses.any(own))
}

/// A name for the job where nobody could say one: FNV-1a of 128 bits over all known values, which are the same at all clients.
fn digest(learned: &Learned) -> Job {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let mut add = |value: Option<u128>| {
        // Whether there is one counts, too.
        let bytes = value.map_or(vec![0], |value| [&[1][..], &value.to_be_bytes()].concat());
        for byte in bytes {
            hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    };
    for cluster in &learned.clusters {
        for version in &cluster.versions {
            add(Some(u128::from(version.major) << 32 | u128::from(version.minor)));
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
            // Where the processes of a host end.
            add(None);
        }
        add(None);
    }
    Job(hash.to_be_bytes())
}

#[cfg(test)]
mod tests;
