//! Bootstrap: how a process gets its id, the addresses of the other processes and the job's secret from its launcher.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use chained_gpc::{Call, Functions, bootstrap};
//!
//! let functions = Functions::new();
//! let hello = functions.func("hello", |_, _| Ok(()))?;
//! let Some(bootstrap) = bootstrap::from_env()? else { return Err("start me by a launcher".into()) };
//! let mut member = bootstrap.start(&functions, |builder| builder.workers(2))?;
//! match member.id() {
//!     0 => drop(member.call(Call::new(hello).ids(0..member.count()))?.wait()?),
//!     _ => drop(member.serve_until_left()?),
//! }
//! member.finish(Duration::from_secs(1))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`from_env`] recognizes the launcher by its variables. A launcher with a key-value space is an implementation of
//! [`Space`]; the values that are put there, and the rest of the exchange, do not depend on the launcher. An embedder
//! with an exchange of its own passes it to [`Bootstrap::with_allgather`]. If its processes know neither their ids nor
//! their number, it passes a meeting to [`Bootstrap::with_meeting`].
//!
//! # What is exchanged
//!
//! Id 0 draws the [job](crate::Job) and the [secret](crate::Secret), and puts them into the space, which only the
//! launcher's own processes can read. Every process listens, and puts its [`Entry`]: host, addresses, public key. After
//! one fence each process gets the values of id 0 and the entries of its parent and children in a tree, and starts its
//! node with them. Calls of id 0 through that tree exchange the rest. When [`Bootstrap::start`] returns, at any id,
//! every id knows every other one.
//!
//! Everything has a time limit, [`LIMIT`] by default. An error names its cause: the ids that have not arrived (as far
//! as the launcher reports them), that have gone, or that have put invalid values.

mod allocation;
mod driven;
mod endpoint;
mod entry;
mod error;
mod exchange;
mod farewell;
mod host_file;
mod host_list;
mod meeting;
mod member;
mod parts;
mod place;
mod pmi;
mod root_loss;
mod rounds;
mod rule;
mod rule_bootstrap;
mod secret_file;
mod setup;
mod slot_list;
mod source;
mod sources;
mod space;
mod table;
mod trust;
mod variables;
mod watch;

use gpc_trees::sorting::collected;
use std::time::{Duration, Instant};

pub use crate::launchers::{inherit_nothing, inherited_socket, keep_socket, scrub};
pub use allocation::{Allocation, AllocationError, BatchSystem};
pub use entry::{ADDRESSES_MAX, ENTRY_MAX, Entry, EntryError, HOST_MAX};
pub use error::BootstrapError;
pub use farewell::Farewell;
pub use host_file::{HostFileError, HostFileFault, read_host_file};
pub use host_list::{HOSTS_MAX, HostList, HostListError, SLOTS_MAX};
pub use meeting::{Meeting, MeetingLimit};
pub use member::{Member, Serving};
pub use place::host_addresses;
pub use rule::{Resolve, Rule, RuleAddress};
pub use secret_file::{
    FileKind, KEY_VARIABLE, SECRET_VARIABLE, SecretFileError, SecretFileFault, named_or_variable, read_key,
    read_secret, read_token, write_key, write_secret, write_token,
};
pub use setup::{Bootstrap, LIMIT};
pub use slot_list::{HostSlots, SlotList};
pub use sources::rule_of;
pub use space::{Space, SpaceError};
pub use variables::{HOST_ADDRESS, Variables};

/// Returns the bootstrap of the launcher that started this process; `None` if the environment names no launcher.
///
/// # Errors
/// If the variables of a launcher are incomplete, or its server cannot be reached: such a process must not run as a job
/// of one process.
pub fn from_env() -> Result<Option<Bootstrap>, BootstrapError> {
    Ok(from_env_within(LIMIT)?.map(|bootstrap| bootstrap.limit(LIMIT)))
}

/// The same with a time limit of the whole bootstrap, which counts from this call. The launcher's server gets the rest
/// of it for the look-up of its name, the connection and each response.
///
/// # Errors
/// Those of [`from_env`].
#[allow(clippy::disallowed_methods, reason = "the time limit counts from this call")]
pub fn from_env_within(limit: Duration) -> Result<Option<Bootstrap>, BootstrapError> {
    let begun = Instant::now();
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let variables: Variables = collected(std::env::vars_os().filter_map(text));
    let bootstrap = sources::find(&variables)?.map(|source| source.open(limit)).transpose()?;
    Ok(bootstrap.map(|bootstrap| bootstrap.limit_since(begun, limit)))
}
