//! A tree that keeps hosts together: one tree over the hosts, and the same kind of tree within each.
//!
//! The first id of each host in the list is its leader. The leaders form a tree among themselves, and each leader heads the ids of its own host; so a message
//! crosses to a host once, and a host's replies are combined before they leave it. Laid out once at the root: an explicit shape.

use crate::decimal::{self, DecimalFault, excerpt};
use crate::walk::edges;
use crate::{Id, IdList, Layout, Limits, Tree, TreeError};
use std::collections::BTreeMap;
use std::fmt;

/// Longest name of a host, bytes: that of the domain name system.
const HOST_MAX: usize = 255;

/// Which id is on which host.
///
/// As text, a *hosts file*: a line `ID HOST` for each id, `#` begins a comment, blank lines count for nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Hosts {
    names: Vec<String>,
    hosts: BTreeMap<Id, usize>,
}

/// Of pairs of an id and its host; of an id that comes twice, the last host counts.
impl<S: Into<String>> FromIterator<(Id, S)> for Hosts {
    fn from_iter<I: IntoIterator<Item = (Id, S)>>(pairs: I) -> Hosts {
        let mut hosts = Hosts::default();
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        for (id, host) in pairs {
            let host = host.into();
            let number = *numbers.entry(host.clone()).or_insert_with(|| {
                hosts.names.push(host);
                hosts.names.len() - 1
            });
            hosts.hosts.insert(id, number);
        }
        hosts
    }
}

/// Why a text is no hosts file. Lines are counted from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HostsError {
    /// A line is not `ID HOST`.
    Form {
        /// The line.
        line: u32,
        /// What stands there.
        text: String,
    },
    /// A word is no id.
    BadId {
        /// The line.
        line: u32,
        /// The word.
        text: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// An id has two lines.
    SecondLine {
        /// The line.
        line: u32,
        /// The id.
        id: Id,
    },
    /// The name of a host is longer than 255 bytes.
    LongName {
        /// The line.
        line: u32,
    },
    /// An id of the list has no line.
    NoHost {
        /// The id.
        id: Id,
    },
    /// The tree does not bear the number of hosts, or of ids on one.
    Tree(TreeError),
}

impl Hosts {
    /// Reads a hosts file's text.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn parse(text: &str) -> Result<Hosts, HostsError> {
        let mut hosts = Hosts::default();
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let words: Vec<&str> = content.split_whitespace().collect();
            let [id, host] = words[..] else { return Err(HostsError::Form { line, text: excerpt(content) }) };
            let id = decimal::parse(id).map_err(|fault| bad_id(line, id, fault))?;
            if host.len() > HOST_MAX {
                return Err(HostsError::LongName { line });
            }
            let number = *numbers.entry(host).or_insert_with(|| {
                hosts.names.push(host.to_owned());
                hosts.names.len() - 1
            });
            if hosts.hosts.insert(id, number).is_some() {
                return Err(HostsError::SecondLine { line, id });
            }
        }
        Ok(hosts)
    }

    /// The host of an id.
    pub fn host(&self, id: Id) -> Option<&str> {
        self.hosts.get(&id).map(|&number| self.names[number].as_str())
    }

    /// How many hosts there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Lays out a list, its root first: `tree` over the leaders of the hosts, and `tree` within each host.
    ///
    /// # Errors
    /// [`NoHost`](HostsError::NoHost) for an id of the list without a line, and what the tree refuses.
    pub fn layout(&self, ids: &IdList, tree: &Tree, limits: &Limits) -> Result<Layout, HostsError> {
        let members = self.members(ids)?;
        let mut parents = vec![None; ids.len() as usize];
        let mut hang = |places: &[u32]| -> Result<(), HostsError> {
            for edge in edges(tree, places.len() as u32) {
                let (parent, child) = edge.map_err(HostsError::Tree)?;
                parents[places[child as usize] as usize] = Some(places[parent as usize]);
            }
            Ok(())
        };
        let leaders: Vec<u32> = members.iter().map(|places| places[0]).collect();
        if !leaders.is_empty() {
            hang(&leaders)?;
        }
        members.iter().try_for_each(|places| hang(places))?;
        Layout::from_parents(&parents, limits).map_err(HostsError::Tree)
    }

    /// The places of the list by host, the hosts in the order in which the list comes to them.
    fn members(&self, ids: &IdList) -> Result<Vec<Vec<u32>>, HostsError> {
        let mut members: Vec<Vec<u32>> = Vec::new();
        let mut order: BTreeMap<usize, usize> = BTreeMap::new();
        for (place, id) in (0..).zip(ids.iter()) {
            let host = *self.hosts.get(&id).ok_or(HostsError::NoHost { id })?;
            let index = *order.entry(host).or_insert_with(|| {
                members.push(Vec::new());
                members.len() - 1
            });
            members[index].push(place);
        }
        Ok(members)
    }
}

fn bad_id(line: u32, text: &str, fault: DecimalFault) -> HostsError {
    let fault = match fault {
        DecimalFault::Missing => "a number is missing",
        DecimalFault::NotDigits => "not a decimal number",
        DecimalFault::TooLarge => "the number is over 4294967295",
    };
    HostsError::BadId { line, text: excerpt(text), fault }
}

impl fmt::Display for HostsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostsError::Form { line, text } => {
                write!(f, "line {line}: {text:?} is not of the form ID HOST, such as `3 node-b`")
            }
            HostsError::BadId { line, text, fault } => write!(f, "line {line}: {text:?} is no id: {fault}"),
            HostsError::SecondLine { line, id } => write!(f, "line {line}: id {id} has a line already"),
            HostsError::LongName { line } => {
                write!(f, "line {line}: the name of the host is longer than {HOST_MAX} bytes")
            }
            HostsError::NoHost { id } => write!(f, "id {id} has no line: say on which host it is"),
            HostsError::Tree(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HostsError {}
