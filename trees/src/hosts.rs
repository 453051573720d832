//! Trees that keep hosts and groups of hosts together: one tree over the groups, and the same kind of tree within each,
//! down to the ids of a host.
//!
//! The first id of each group in the list is its leader. The leaders form a tree, and each leader heads its own group.
//! So a message enters a group once, and the group's replies are combined before they leave it. The tree is laid out
//! once at the root, as an explicit shape.

use crate::decimal::{self, DecimalFault, excerpt};
use crate::grouping::{Grouping, LEVELS_MAX, SEPARATOR};
use crate::sorting::collected;
use crate::walk::edges;
use crate::{Id, IdList, Layout, Limits, Tree, TreeError};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum length of the name of a host or a group, in bytes: that of the domain name system.
const HOST_MAX: usize = 255;

/// The host of each id.
///
/// The name of a host is a path: its groups, from the outermost one, then the host, as in `CLUSTER/RACK/HOST`. It has
/// at most eight names with a `/` between two of them, and one name if there are no groups. Paths of different length
/// may be mixed. Different paths are different hosts, even if their last names are equal. A host `a` beside hosts `a/b`
/// and `a/c` is in group `a`, as a part of it like `b` and `c`.
///
/// The text form is a *hosts file*: a line `ID HOST` for each id; `#` begins a comment, and blank lines are ignored.
///
/// ```
/// use gpc_trees::{Hosts, IdList, Limits, Tree};
///
/// let hosts = Hosts::parse("0 x/a\n1 y/a\n2 x/b\n3 y/b\n4 x/b\n")?;
/// assert_eq!((hosts.len(), hosts.host(4)), (4, Some("x/b")));
/// let ids: IdList = "0-4".parse()?;
/// let layout = hosts.layout(&ids, &Tree::Chain, &Limits::default())?;
/// // Id 0 calls id 1, which heads y, and id 2, which heads b in x.
/// assert_eq!(layout.apply(&ids)?.to_string(), "0-1,3,2,4");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Hosts {
    names: Vec<String>,
    /// The index of the name of each id's host. There are at most as many names as ids.
    hosts: BTreeMap<Id, u32>,
}

/// Collects pairs of an id and its host; if an id occurs twice, its last host counts.
///
/// Unlike a hosts file, every input is accepted: a name in a path may be empty or of any length, and the text after
/// seven `/` is one name.
impl<S: Into<String>> FromIterator<(Id, S)> for Hosts {
    fn from_iter<I: IntoIterator<Item = (Id, S)>>(pairs: I) -> Hosts {
        Hosts::of(&collected(pairs.into_iter().map(|(id, host)| (id, host.into()))))
    }
}

/// Why a text is not a hosts file. Lines are counted from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HostsError {
    /// A line is not `ID HOST`.
    Form {
        /// The line.
        line: u32,
        /// Its text.
        text: String,
    },
    /// A word is not an id.
    BadId {
        /// The line.
        line: u32,
        /// The word.
        text: String,
        /// The error.
        fault: &'static str,
    },
    /// An id has two lines.
    SecondLine {
        /// The line.
        line: u32,
        /// The id.
        id: Id,
    },
    /// The name of a host, or of a group that it is in, is longer than 255 bytes.
    LongName {
        /// The line.
        line: u32,
    },
    /// The path of a host has an empty name: two `/` side by side, or one at an end.
    EmptyName {
        /// The line.
        line: u32,
        /// The path.
        text: String,
    },
    /// The path of a host has more than eight names.
    TooManyLevels {
        /// The line.
        line: u32,
        /// Number of names.
        levels: usize,
    },
    /// An id of the list has no line.
    NoHost {
        /// The id.
        id: Id,
    },
    /// The tree does not support the number of hosts, or of ids on a host.
    Tree(TreeError),
}

impl Hosts {
    /// Parses the text of a hosts file.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn parse(text: &str) -> Result<Hosts, HostsError> {
        let mut hosts = BTreeMap::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let words: Vec<&str> = content.split_whitespace().collect();
            let [id, host] = words[..] else { return Err(HostsError::Form { line, text: excerpt(content) }) };
            let id = decimal::parse(id).map_err(|fault| bad_id(line, id, fault))?;
            check_path(line, host)?;
            if hosts.insert(id, host.to_owned()).is_some() {
                return Err(HostsError::SecondLine { line, id });
            }
        }
        Ok(Hosts::of(&hosts))
    }

    /// Numbers the names in the order of their ids, so that equal contents compare equal in any input order, and a name
    /// without ids is dropped.
    fn of(named: &BTreeMap<Id, String>) -> Hosts {
        let mut hosts = Hosts::default();
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        for (&id, host) in named {
            let number = numbers.get(host.as_str()).copied().unwrap_or(hosts.names.len());
            if number == hosts.names.len() {
                numbers.insert(host, number);
                hosts.names.push(host.clone());
            }
            hosts.hosts.insert(id, number as u32);
        }
        hosts
    }

    /// The host of an id, as a whole path.
    pub fn host(&self, id: Id) -> Option<&str> {
        self.hosts.get(&id).map(|&number| self.names[number as usize].as_str())
    }

    /// Number of hosts, which is the number of different paths; groups are not counted.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no hosts.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Lays out a list that starts with the root. `tree` is used over the leaders of the outermost groups, and within
    /// each group over the leaders of its groups, down to the ids of one host.
    ///
    /// The leader of a group is its first id in the list. The time is that of sorting the list, and grows with the
    /// number of levels; nothing recurses.
    ///
    /// # Errors
    /// [`NoHost`](HostsError::NoHost) for an id of the list without a line, and the errors of the tree.
    pub fn layout(&self, ids: &IdList, tree: &Tree, limits: &Limits) -> Result<Layout, HostsError> {
        let grouping = self.grouping(ids)?;
        let mut parents = vec![None; ids.len() as usize];
        for places in grouping.parts() {
            for edge in edges(tree, places.len() as u32) {
                let (parent, child) = edge.map_err(HostsError::Tree)?;
                parents[places[child as usize] as usize] = Some(places[parent as usize]);
            }
        }
        Layout::from_parents(&parents, limits).map_err(HostsError::Tree)
    }

    /// Returns the groups of a list.
    fn grouping(&self, ids: &IdList) -> Result<Grouping<'_>, HostsError> {
        let mut grouping = Grouping::default();
        // Number of the host in the grouping, by number of its name.
        let mut there: BTreeMap<u32, usize> = BTreeMap::new();
        for (place, id) in (0..).zip(ids.iter()) {
            let name = *self.hosts.get(&id).ok_or(HostsError::NoHost { id })?;
            match there.get(&name) {
                Some(&host) => grouping.same_host(place, host),
                None => {
                    there.insert(name, grouping.new_host(place, &self.names[name as usize]));
                }
            }
        }
        Ok(grouping)
    }
}

/// Checks that a word is a valid path of a host.
fn check_path(line: u32, host: &str) -> Result<(), HostsError> {
    let names = || host.split(SEPARATOR);
    let levels = names().count();
    if levels > LEVELS_MAX {
        return Err(HostsError::TooManyLevels { line, levels });
    }
    if names().any(str::is_empty) {
        return Err(HostsError::EmptyName { line, text: excerpt(host) });
    }
    if names().any(|name| name.len() > HOST_MAX) {
        return Err(HostsError::LongName { line });
    }
    Ok(())
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
                write!(
                    f,
                    "line {line}: the name of the host, or of a group that it is in, is longer than {HOST_MAX} bytes"
                )
            }
            HostsError::EmptyName { line, text } => write!(
                f,
                "line {line}: a name is missing in {text:?}: write CLUSTER/HOST, with one `/` between two names and none at the ends"
            ),
            HostsError::TooManyLevels { line, levels } => write!(
                f,
                "line {line}: the host is {levels} levels deep, and {LEVELS_MAX} are the most: make one name of two levels"
            ),
            HostsError::NoHost { id } => write!(f, "id {id} has no line: say on which host it is"),
            HostsError::Tree(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HostsError {}
