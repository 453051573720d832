//! The peers of a node: a table of ids, addresses and keys, and its text form, the peers file.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use gpc_trees::sorting::collected;
use gpc_trees::{Hosts, Id};

use super::{Address, AddressError, AddressRow};
use crate::link::peering::{KeyError, PublicKey};
use crate::wire::{Job, JobError};

/// Maximum length of a line of a peers file, bytes: an id, the longest path that systems support, and a comment.
const LINE_MAX: usize = 8192;

/// The addresses of all peers, by id.
///
/// As text, a *peers file*: one line `ID ADDRESS` for each node, or `ID ADDRESS KEY` with the [public key](PublicKey)
/// that authenticates the node. At most one line `job` with 32 hexadecimal digits names the common [job](Job). `#`
/// begins a comment, and blank lines are ignored.
///
/// ```
/// use chained_gpc::{Job, Peers};
///
/// let peers: Peers = "job 00112233445566778899aabbccddeeff\n0 127.0.0.1:7000\n1 unix:@one # the other\n".parse()?;
/// assert_eq!((peers.len(), peers.job().map(Job::is_none)), (2, Some(false)));
/// # Ok::<(), chained_gpc::runtime::PeersError>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct Peers {
    /// These take precedence over the row; `None` for an id of the row that was removed.
    listed: BTreeMap<Id, Option<Address>>,
    row: Option<AddressRow>,
    job: Option<Job>,
    /// The keys of ids that are authenticated by key.
    keys: BTreeMap<Id, PublicKey>,
}

/// An invalid peers file, and its line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("peers file, line {line}: {why}")]
pub struct PeersError {
    /// The number of the line, from 1.
    pub line: usize,
    why: String,
}

impl Peers {
    /// Creates an empty table.
    pub fn new() -> Peers {
        Peers::default()
    }

    /// Sets the address of an id; returns the former one.
    pub fn insert(&mut self, id: Id, address: Address) -> Option<Address> {
        let before = self.address(id);
        self.listed.insert(id, Some(address));
        before
    }

    /// Removes an id; returns its address, if there was one.
    pub fn remove(&mut self, id: Id) -> Option<Address> {
        let before = self.address(id);
        match self.row_has(id) {
            true => drop(self.listed.insert(id, None)),
            false => drop(self.listed.remove(&id)),
        }
        self.keys.remove(&id);
        before
    }

    /// The key of an id, if one is listed.
    pub fn key(&self, id: Id) -> Option<PublicKey> {
        self.keys.get(&id).copied()
    }

    /// Sets the key of an id: over TCP, a node that claims the id must prove that it has the [private
    /// half](crate::PrivateKey). Without a key, the secret of the job is enough.
    pub fn set_key(&mut self, id: Id, key: PublicKey) {
        self.keys.insert(id, key);
    }

    /// Sets the key of an id, or removes it.
    pub(super) fn restore_key(&mut self, id: Id, key: Option<PublicKey>) {
        match key {
            Some(key) => self.keys.insert(id, key),
            None => self.keys.remove(&id),
        };
    }

    /// The job of these nodes, if it is named.
    pub fn job(&self) -> Option<Job> {
        self.job
    }

    /// Sets the job of these nodes.
    pub fn set_job(&mut self, job: Job) {
        self.job = Some(job);
    }

    /// The address of an id.
    pub fn address(&self, id: Id) -> Option<Address> {
        match self.listed.get(&id) {
            Some(listed) => listed.clone(),
            None => self.row.as_ref()?.address(id),
        }
    }

    /// Whether the address of an id is known.
    pub fn contains(&self, id: Id) -> bool {
        self.listed.get(&id).map_or_else(|| self.row_has(id), Option::is_some)
    }

    fn row_has(&self, id: Id) -> bool {
        self.row.as_ref().is_some_and(|row| row.ids().contains(&id))
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        let row = self.row.as_ref().map(AddressRow::ids).unwrap_or_default();
        let (below, rest) = (self.listed.range(..row.start), self.listed.range(row.end.max(row.start)..));
        let row = row.filter(|id| self.contains(*id));
        below.map(|(id, _)| *id).chain(row).chain(rest.map(|(id, _)| *id))
    }

    /// All ids and their addresses, by id.
    pub fn iter(&self) -> impl Iterator<Item = (Id, Address)> {
        self.ids().filter_map(|id| Some((id, self.address(id)?)))
    }

    /// The ids whose hosts are not surely this one, and the IP addresses of these hosts.
    pub(super) fn remote_ips(&self) -> impl Iterator<Item = (Id, IpAddr)> {
        let listed = self.listed.iter();
        let listed = listed.filter_map(|(id, address)| Some((*id, address.as_ref()?.remote_ip()?)));
        // No addresses are made for a row on this host.
        let row = self.row.as_ref().and_then(|row| Some((row.ids(), row.remote_ip()?)));
        let row = row.into_iter().flat_map(|(ids, ip)| ids.map(move |id| (id, ip)));
        listed.chain(row.filter(|(id, _)| !self.listed.contains_key(id)))
    }

    /// The host of each id, by its TCP address; ids with other addresses, and with those of the loopback interface, are
    /// on one host.
    pub fn hosts(&self) -> Hosts {
        let remote: BTreeMap<Id, IpAddr> = collected(self.remote_ips());
        let host = |id: Id| remote.get(&id).map_or("-".into(), IpAddr::to_string);
        self.ids().map(|id| (id, host(id))).collect()
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        let row = self.row.as_ref().map(AddressRow::ids).unwrap_or_default();
        let beside = self.listed.keys().filter(|id| !row.contains(id)).count();
        row.len() + beside - self.listed.values().filter(|address| address.is_none()).count()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Equal if ids, addresses, keys and job are equal, whether the addresses are listed or in a row.
impl PartialEq for Peers {
    fn eq(&self, other: &Peers) -> bool {
        self.job == other.job && self.keys == other.keys && self.iter().eq(other.iter())
    }
}

impl Eq for Peers {}

impl From<AddressRow> for Peers {
    fn from(row: AddressRow) -> Peers {
        Peers { row: Some(row), ..Peers::default() }
    }
}

impl FromIterator<(Id, Address)> for Peers {
    fn from_iter<I: IntoIterator<Item = (Id, Address)>>(peers: I) -> Peers {
        let listed = collected(peers.into_iter().map(|(id, address)| (id, Some(address))));
        Peers { listed, ..Peers::default() }
    }
}

impl FromStr for Peers {
    type Err = PeersError;

    fn from_str(text: &str) -> Result<Peers, PeersError> {
        let mut peers = Peers::new();
        let mut lines: BTreeMap<Address, usize> = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let error = |why: String| PeersError { line: number, why };
            let (id, address, key) = match parse_line(line).map_err(error)? {
                Line::Empty => continue,
                Line::Job(_) if peers.job.is_some() => {
                    return Err(error("a job is named a second time: all nodes are of one".into()));
                }
                Line::Job(job) => {
                    peers.job = Some(job);
                    continue;
                }
                Line::Peer(id, address, key) => (id, address, key),
            };
            if address != Address::Host
                && let Some(first) = lines.insert(address.clone(), number)
            {
                return Err(error(format!(
                    "{address} stands in line {first} already: each id listens at its own address"
                )));
            }
            if peers.insert(id, address).is_some() {
                return Err(error(format!("id {id} is there a second time: each id has one line")));
            }
            if let Some(key) = key {
                peers.set_key(id, key);
            }
        }
        Ok(peers)
    }
}

/// A parsed line of a peers file.
enum Line {
    Empty,
    Job(Job),
    Peer(Id, Address, Option<PublicKey>),
}

fn parse_line(line: &str) -> Result<Line, String> {
    if line.len() > LINE_MAX {
        return Err(format!("it is longer than {LINE_MAX} bytes"));
    }
    let content = line.split('#').next().unwrap_or_default().trim();
    if content.is_empty() {
        return Ok(Line::Empty);
    }
    let mut words = content.split_whitespace();
    let (Some(first), Some(second), third, None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(format!(
            "`{content}` is not of the form ID ADDRESS, such as `3 127.0.0.1:7003`, or ID ADDRESS KEY"
        ));
    };
    if first == "job" && third.is_none() {
        return second.parse().map(Line::Job).map_err(|error: JobError| error.to_string());
    }
    let id = first
        .parse()
        .map_err(|_| format!("`{first}` is no id: ids are whole numbers from 0 to {}", Id::MAX))?;
    let address = second.parse().map_err(|error: AddressError| error.to_string())?;
    let key = third.map(str::parse).transpose().map_err(|error: KeyError| error.to_string())?;
    Ok(Line::Peer(id, address, key))
}

impl fmt::Display for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.job.iter().try_for_each(|job| writeln!(f, "job {job}"))?;
        self.iter().try_for_each(|(id, address)| match self.key(id) {
            Some(key) => writeln!(f, "{id} {address} {key}"),
            None => writeln!(f, "{id} {address}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_peers_file_is_read_and_its_faults_name_the_line() {
        let text = "# who where\n0 127.0.0.1:7000\n\n 7\tunix:@seven # the last\n";
        let peers: Peers = text.parse().unwrap();
        assert_eq!((peers.len(), peers.address(7)), (2, Some(Address::Abstract("seven".into()))));
        assert_eq!(peers.to_string().parse::<Peers>().unwrap(), peers);
        let fault = |text: &str| text.parse::<Peers>().unwrap_err();
        assert_eq!(fault("0 127.0.0.1:1\n0 127.0.0.1:2").line, 2);
        assert!(
            fault("0 127.0.0.1:1\n\n1 127.0.0.1:1")
                .to_string()
                .contains("line 3: 127.0.0.1:1 stands in line 1")
        );
        for bad in [
            "0",
            "x 127.0.0.1:1",
            "-1 127.0.0.1:1",
            "0 127.0.0.1:1 more",
            "0 127.0.0.1:1 more and more",
            "4294967296 127.0.0.1:1",
            "0 nowhere",
        ] {
            assert_eq!(fault(bad).line, 1, "{bad}");
        }
    }

    #[test]
    fn a_row_and_single_addresses_are_one_list() {
        let row = AddressRow::names(3..6, "job-").unwrap();
        let mut peers = Peers::from(row);
        assert_eq!((peers.len(), peers.contains(5), peers.contains(6)), (3, true, false));
        let own: Address = "127.0.0.1:9".parse().unwrap();
        assert_eq!(peers.insert(4, own.clone()), Some(Address::Abstract("job-4".into())));
        assert_eq!((peers.insert(9, own.clone()), peers.insert(1, own)), (None, None));
        let text = "1 127.0.0.1:9\n3 unix:@job-3\n4 127.0.0.1:9\n5 unix:@job-5\n9 127.0.0.1:9\n";
        assert_eq!((peers.to_string(), peers.len()), (text.into(), 5));
        let listed: Peers = peers.iter().collect();
        assert!(listed == peers && listed != Peers::new() && !peers.is_empty());
        assert!(Peers::from(AddressRow::names(7..7, "x").unwrap()).is_empty());
    }

    #[test]
    fn a_peers_file_names_one_job_for_all() {
        let (job, other) = ("00112233445566778899aabbccddeeff", "f".repeat(32));
        let text = format!("0 127.0.0.1:7000\n job {job} # drawn yesterday\n");
        let peers: Peers = text.parse().unwrap();
        assert_eq!((peers.job(), peers.len()), (Some(job.parse().unwrap()), 1));
        assert_eq!(peers.to_string(), format!("job {job}\n0 127.0.0.1:7000\n"));
        assert_eq!(peers.to_string().parse(), Ok(peers.clone()));
        let mut others = peers.clone();
        others.set_job(other.parse().unwrap());
        assert!(others != peers && "0 127.0.0.1:7000".parse::<Peers>().unwrap() != peers);
        let fault = |text: String| text.parse::<Peers>().unwrap_err();
        let twice = fault(format!("job {job}\n\njob {job}\n"));
        assert_eq!(
            twice.to_string(),
            "peers file, line 3: a job is named a second time: all nodes are of one"
        );
        assert!(fault("job 12".into()).to_string().contains("line 1: `12` is no job"));
        assert!(fault("job".into()).to_string().contains("line 1: `job` is not of the form"));
    }

    #[test]
    fn a_peers_file_lists_keys() {
        let key = PublicKey([0xab; 32]);
        let text = format!("0 127.0.0.1:7000\n1 127.0.0.1:7001 {key} # known by it\n");
        let mut peers: Peers = text.parse().unwrap();
        assert_eq!((peers.key(0), peers.key(1)), (None, Some(key)));
        assert_eq!(peers.to_string().parse(), Ok(peers.clone()));
        assert!(peers != "0 127.0.0.1:7000\n1 127.0.0.1:7001".parse().unwrap());
        peers.remove(1);
        assert_eq!(peers.key(1), None);
        let fault = |text: &str| text.parse::<Peers>().unwrap_err().to_string();
        assert!(fault("1 127.0.0.1:7001 abc").contains("line 1: `abc` is no public key"));
        assert!(fault(&format!("job {} x", "0".repeat(32))).contains("`job` is no id"));
    }

    #[test]
    fn a_line_has_a_limit() {
        let line = |len: usize| format!("0 127.0.0.1:1 #{}", "x".repeat(len - 15));
        assert_eq!(line(LINE_MAX).len(), LINE_MAX);
        assert_eq!(line(LINE_MAX).parse::<Peers>().unwrap().len(), 1);
        let fault = format!("\n{}", line(LINE_MAX + 1)).parse::<Peers>().unwrap_err().to_string();
        assert_eq!(fault, "peers file, line 2: it is longer than 8192 bytes");
    }

    proptest! {
        #[test]
        fn peers_are_a_map(
            first in 0..20u32,
            count in 0..20u32,
            single in btree_map(0..50u32, 1..9999u16, 0..20),
            gone in proptest::collection::vec(0..50u32, 0..20),
        ) {
            let row = AddressRow::names(first..first + count, "p").unwrap();
            let mut model: BTreeMap<Id, Address> =
                (first..first + count).map(|id| (id, row.address(id).unwrap())).collect();
            let mut peers = Peers::from(row);
            for (id, port) in single {
                let address = Address::Tcp(([127, 0, 0, 1], port).into());
                prop_assert_eq!(peers.insert(id, address.clone()), model.insert(id, address));
                if id % 3 == 0 {
                    prop_assert_eq!(peers.remove(id / 2), model.remove(&(id / 2)));
                }
            }
            for id in gone {
                prop_assert_eq!(peers.remove(id), model.remove(&id));
            }
            prop_assert_eq!((peers.len(), peers.is_empty()), (model.len(), model.is_empty()));
            for id in 0..60 {
                prop_assert_eq!(peers.address(id), model.get(&id).cloned());
                prop_assert_eq!(peers.contains(id), model.contains_key(&id));
            }
            prop_assert_eq!(peers.iter().collect::<Vec<_>>(), model.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(&peers, &model.into_iter().collect::<Peers>());
        }
    }
}
