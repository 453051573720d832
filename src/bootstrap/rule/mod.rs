//! Launchers that assign ids but have no space for an exchange: the address of each id follows from a rule, and the
//! secret comes from a file.
//!
//! The variables are parsed here without I/O. Names are resolved when an address is needed, by a [`Resolve`] that the
//! caller may choose.

mod kubernetes;
mod resolve;
mod slurm;
mod tasks;

use std::path::PathBuf;

use gpc_trees::Id;

use super::variables::Variables;
use super::{BootstrapError, HostList, SECRET_VARIABLE};
use crate::runtime::{Address, AddressRow};
use crate::wire::{Job, Shown};

pub(super) use kubernetes::find as find_kubernetes;
pub use resolve::Resolve;
pub(super) use slurm::{find as find_slurm, is_task as is_slurm_task};
pub(super) use tasks::Counts;
use tasks::{IDS_MAX, Tasks};

/// The variable that overrides the rule's first TCP port.
const PORT: &str = "GPC_PORT";

/// The id of this process, and the address of each process that was started with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    launcher: &'static str,
    id: Id,
    count: u32,
    /// Unique among the sets that run at the same time in the same places.
    name: String,
    places: Places,
    secret_file: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Places {
    /// All on this host, at abstract Unix sockets, which only processes of the same user may answer.
    ThisHost(AddressRow),
    /// Several on each of some hosts; `port` is that of the first process on each host.
    Hosts { hosts: HostList, tasks: Tasks, port: u16 },
    /// Each on a host of its own, `NAME-ID.SERVICE`.
    Pods { name: String, service: String, port: u16 },
}

/// The address of an id, whose host name may be unresolved.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RuleAddress {
    /// An address of this host.
    ThisHost(Address),
    /// A TCP port of a host that is known by its name.
    Host {
        /// The name, to be resolved.
        name: String,
        /// The port.
        port: u16,
    },
}

impl Rule {
    /// The launcher of this rule, for people: `Slurm`, `Kubernetes`.
    pub fn launcher(&self) -> &'static str {
        self.launcher
    }

    /// The id of this process.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Number of processes that were started together, at least 1.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The launcher's name for the set of processes; unique among the sets in the same places at the same time.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The job of the nodes, derived from the name: the same for all of them. It is no secret.
    pub fn job(&self) -> Job {
        let mut job = [0; 16];
        // Two digests of eight bytes, of different texts: a job guards against mistakes, not against attacks.
        for (half, salt) in job.chunks_exact_mut(8).zip(["1", "2"]) {
            half.copy_from_slice(&digest(&[self.launcher, &self.name, salt]).to_le_bytes());
        }
        Job(job)
    }

    /// The file of the secret; `None` if all processes are on this host, where the system reports the user of the other
    /// process.
    pub fn secret_file(&self) -> Option<&PathBuf> {
        self.secret_file.as_ref()
    }

    /// Whether all processes are on this host.
    pub(in crate::bootstrap) fn is_here(&self) -> bool {
        matches!(self.places, Places::ThisHost(_))
    }

    /// Whether a process may be started again in place of one that has ended, as Kubernetes does.
    pub(in crate::bootstrap) fn may_restart(&self) -> bool {
        matches!(self.places, Places::Pods { .. })
    }

    /// Returns the address of an id; `None` if the id is not below the number of ids.
    pub fn at(&self, id: Id) -> Option<RuleAddress> {
        if id >= self.count {
            return None;
        }
        match &self.places {
            Places::ThisHost(row) => row.address(id).map(RuleAddress::ThisHost),
            Places::Hosts { hosts, tasks, port } => {
                let (host, local) = tasks.place(id)?;
                let port = u16::try_from(local).ok().and_then(|local| port.checked_add(local))?;
                Some(RuleAddress::Host { name: hosts.get(host as usize)?.to_owned(), port })
            }
            Places::Pods { name, service, port } => {
                Some(RuleAddress::Host { name: format!("{name}-{id}.{service}"), port: *port })
            }
        }
    }

    /// Returns the name of an id's host, equal for ids that share one; `None` if the id is not below the number of ids.
    pub fn host(&self, id: Id) -> Option<String> {
        match self.at(id)? {
            RuleAddress::ThisHost(_) => Some("localhost".to_owned()),
            RuleAddress::Host { name, .. } => Some(name),
        }
    }

    /// Checks the conditions that every rule must meet.
    fn checked(self) -> Result<Rule, BootstrapError> {
        let fault = |why: String| Err(BootstrapError::Variables { launcher: self.launcher, why });
        if self.count > IDS_MAX {
            return fault(format!(
                "it says that there are {} processes, and {IDS_MAX} are the most",
                self.count
            ));
        }
        if self.id >= self.count {
            return fault(format!("it says that this is id {} of {}: ids begin at 0", self.id, self.count));
        }
        if let Places::Hosts { tasks, port, .. } = &self.places
            && u32::from(*port) + tasks.highest() > u32::from(u16::MAX)
        {
            return fault(format!(
                "a node has {} tasks, and from port {port} on there are fewer: let {PORT} name a lower one",
                tasks.highest() + 1
            ));
        }
        if self.secret_file.is_none() && !self.is_here() {
            return fault(format!(
                "its processes are on several hosts and have no secret: write one with `gpc secret FILE` where all of them can read it, and let {SECRET_VARIABLE} name it"
            ));
        }
        Ok(self)
    }
}

/// The variables of a launcher, and its name for errors.
struct LauncherVariables<'a> {
    launcher: &'static str,
    variables: &'a Variables,
}

impl LauncherVariables<'_> {
    fn fault<T>(&self, why: String) -> Result<T, BootstrapError> {
        Err(BootstrapError::Variables { launcher: self.launcher, why })
    }

    /// The value of a variable that is not empty.
    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str, advice: &str) -> Result<&str, BootstrapError> {
        match self.get(name) {
            Some(value) => Ok(value),
            None => self.fault(format!("{name} is not set{advice}")),
        }
    }

    /// Parses a number; `None` if the variable is unset.
    fn number_if(&self, name: &str) -> Result<Option<u32>, BootstrapError> {
        let number = |value: &str| match value.parse() {
            Ok(number) if value.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
            _ => self.fault(format!("{name} is `{}`, which is no number", Shown(value))),
        };
        self.get(name).map(number).transpose()
    }

    fn number(&self, name: &str, advice: &str) -> Result<u32, BootstrapError> {
        self.text(name, advice)?;
        self.number_if(name)?.map_or_else(|| self.fault(format!("{name} is not set{advice}")), Ok)
    }

    /// The port that the user has set.
    fn port(&self) -> Result<Option<u16>, BootstrapError> {
        match self.number_if(PORT)?.map(u16::try_from) {
            None => Ok(None),
            Some(Ok(port)) if port > 0 => Ok(Some(port)),
            Some(_) => self.fault(format!("{PORT} is no TCP port: 1 to 65535 are")),
        }
    }

    fn secret_file(&self) -> Option<PathBuf> {
        self.get(SECRET_VARIABLE).map(PathBuf::from)
    }
}

/// FNV-1a over texts: the same in every process.
fn digest(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
