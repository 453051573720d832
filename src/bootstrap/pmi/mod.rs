//! PMI-1 and PMI-2, the interfaces that MPICH's `hydra`, Slurm (`srun --mpi=pmi2`) and similar launchers offer to their
//! processes.
//!
//! Over an inherited descriptor PMI-1 is tried first: hydra and Slurm's plugin `pmi2` both serve it there, and it needs
//! three lines where PMI-2 needs longer messages. If the server refuses PMI-1, the client requests PMI-2 over the same
//! descriptor. In port mode (`PMI_PORT` and `PMI_ID`), the server reports which process has connected; only PMI-1 has
//! this mode.
//!
//! `client` is the session without I/O, `messages` are its requests and responses, and `one` and `two` encode them.
//! `link` is the socket, and `space` implements [`Space`](super::Space).

mod client;
mod link;
mod mapping;
mod messages;
mod one;
mod process;
mod space;
#[cfg(test)]
mod tests;
mod two;

use std::os::fd::RawFd;
use std::time::Duration;

use gpc_trees::Id;

use self::client::Version;
use self::link::Link;
use self::process::Process;
use self::space::{PmiSpace, Unopened};
use super::source::Source;
use super::variables::Variables;
use super::{Bootstrap, BootstrapError, SpaceError};
use crate::launchers::PMI_FD;
use crate::wire::Shown;
use crate::{Clock, TimeLimit};

/// The launcher's name in errors until the server has been reached.
const PMI: &str = "PMI";

/// The address of the server, and the identity of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Pmi {
    /// An inherited descriptor.
    Descriptor { number: RawFd, process: Process },
    /// `HOST:PORT`, and the number that identifies this process to the server.
    Port { server: String, process: Process },
}

/// Looks for PMI's variables: `PMI_FD`, `PMI_RANK` and `PMI_SIZE`, or `PMI_PORT` and `PMI_ID`.
pub(super) fn find(variables: &Variables) -> Option<Result<Box<dyn Source>, BootstrapError>> {
    let has = |name: &str| variables.contains_key(name);
    let found = if has(PMI_FD) {
        descriptor(variables)
    } else if has("PMI_PORT") {
        port(variables)
    } else if has("PMI_RANK") || has("PMI_ID") {
        Err(error(format!(
            "neither {PMI_FD} nor PMI_PORT says where its server is: start this program by the launcher itself, or take its variables (PMI_*) out of the environment"
        )))
    } else {
        return None;
    };
    Some(found.map(|pmi| Box::new(pmi) as Box<dyn Source>))
}

fn descriptor(variables: &Variables) -> Result<Pmi, BootstrapError> {
    let number = number::<RawFd>(variables, PMI_FD)?;
    let (id, count) = (number_of(variables, "PMI_RANK")?, number_of(variables, "PMI_SIZE")?);
    if id >= count {
        return Err(error(format!("PMI_RANK={id} is not below PMI_SIZE={count}")));
    }
    let job = variables.get("PMI_JOBID").filter(|job| is_plain(job)).cloned();
    Ok(Pmi::Descriptor { number, process: Process { id, count, job, ..Process::default() } })
}

fn port(variables: &Variables) -> Result<Pmi, BootstrapError> {
    let server = variables.get("PMI_PORT").cloned().unwrap_or_default();
    let process = Process { id: number_of(variables, "PMI_ID")?, ..Process::default() };
    Ok(Pmi::Port { server, process })
}

fn number_of(variables: &Variables, name: &str) -> Result<Id, BootstrapError> {
    number::<Id>(variables, name)
}

fn number<N: std::str::FromStr>(variables: &Variables, name: &str) -> Result<N, BootstrapError> {
    let value = variables.get(name).ok_or_else(|| error(format!("{name} is missing")))?;
    value.trim().parse().map_err(|_| error(format!("{name}=`{}` is no number of its kind", Shown(value))))
}

/// Whether the text is valid in a PMI message.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b";=".contains(&byte))
}

fn error(why: String) -> BootstrapError {
    BootstrapError::Variables { launcher: PMI, why }
}

impl Source for Pmi {
    fn open(self: Box<Self>, limit: Duration) -> Result<Bootstrap, BootstrapError> {
        let clock = Clock::system();
        let limit = clock.limit(limit);
        let (link, process) = match *self {
            Pmi::Descriptor { number, process } => {
                let link = Link::inherited(number).map_err(|system| {
                    error(format!(
                        "its server cannot be reached over descriptor {number} ({PMI_FD}): {system}. Start this program by the launcher itself, or take its variables (PMI_*) out of the environment"
                    ))
                })?;
                (link, process)
            }
            Pmi::Port { server, process } => {
                let link = Link::connect(&server, &limit).map_err(|system| {
                    error(format!(
                        "its server cannot be reached at `{}` (PMI_PORT): {system}",
                        Shown(&server)
                    ))
                })?;
                (link, process)
            }
        };
        open(link, &process, (&clock, &limit))
    }
}

/// Opens a space in the first version that the server supports.
fn open(link: Link, process: &Process, limit: (&Clock, &TimeLimit)) -> Result<Bootstrap, BootstrapError> {
    let first = PmiSpace::open(link, Version::One, process.clone(), limit);
    let (link, refused) = match first {
        Ok(space) => return Bootstrap::with_space(Box::new(space)),
        Err(Unopened::Failed(error)) => return Err(error.into()),
        Err(Unopened::OtherVersion(link, refused)) => (link, refused),
    };
    match PmiSpace::open(link, Version::Two, process.clone(), limit) {
        Ok(space) => Bootstrap::with_space(Box::new(space)),
        Err(Unopened::Failed(error) | Unopened::OtherVersion(_, error)) => {
            let why = format!("{}; before that, {}: {}", error.why, refused.launcher, refused.why);
            Err(SpaceError { why, ..error }.into())
        }
    }
}
