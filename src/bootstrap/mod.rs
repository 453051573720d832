//! Who am I, who are the others, what is the secret: what a process asks before it has a node, whatever has started it.
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
//! [`from_env`] recognizes the launcher by its variables. One that has a key-value space is one implementation of [`Space`]; what is put there, and how the rest is exchanged, does not depend on the launcher. An embedder that has an exchange of its
//! own gives it to [`Bootstrap::with_allgather`]; one whose processes know neither their ids nor their number brings them together by [`Bootstrap::with_meeting`].
//!
//! # What is exchanged
//!
//! Id 0 draws the [job](crate::Job) and the [secret](crate::Secret), and puts them into the space, which the launcher shows to its own processes alone. Every process listens, and puts its [`Entry`]: host, addresses, public key. Behind one fence each gets
//! what id 0 has put and the entries of its parent and children in a tree, and starts its node with them. The rest comes through that tree by calls of id 0. When [`Bootstrap::start`] returns, anywhere, every id knows every other one.
//!
//! Everything has a time limit, [`LIMIT`] by default, and what fails is said: who has not come, as far as the launcher tells, who has gone, who has put nonsense.

mod entry;
mod error;
mod exchange;
mod farewell;
mod host_list;
mod meeting;
mod member;
mod parts;
mod place;
mod pmi;
mod rounds;
mod rule;
mod ruled;
mod secret_file;
mod setup;
mod sources;
mod space;
mod table;
mod watch;

use std::time::Duration;

pub use crate::launchers::inherit_nothing;
pub use crate::launchers::scrub;
pub use entry::{ADDRESSES_MAX, ENTRY_MAX, Entry, EntryError, HOST_MAX};
pub use error::BootstrapError;
pub use farewell::Farewell;
pub use host_list::{HOSTS_MAX, HostList, HostListError};
pub use meeting::{Meeting, Within};
pub use member::Member;
pub use place::{HOST_ADDRESS, host_addresses};
pub use rule::{At, Resolve, Rule, rule_of};
pub use secret_file::{
    FileKind, KEY_VARIABLE, SECRET_VARIABLE, SecretFileError, SecretFileFault, named_or_variable, read_key,
    read_secret, read_token, write_key, write_secret, write_token,
};
pub use setup::Bootstrap;
pub use sources::Variables;
pub use space::{Space, SpaceError};

/// How long everything may take by default, from the first word with the launcher until each process knows the others: processes of a large job do not start at the same moment.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What the launcher says that has started this process; `None` if none has, as far as the environment tells.
///
/// # Errors
/// When there are variables of a launcher, and they are incomplete, or its server is not there: such a process must not take itself for a single one.
pub fn from_env() -> Result<Option<Bootstrap>, BootstrapError> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let variables: Variables = std::env::vars_os().filter_map(text).collect();
    sources::find(&variables)?.map(|source| source.open(LIMIT)).transpose()
}
