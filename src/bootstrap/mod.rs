//! Who am I, who are the others, what is the secret: what a process asks before it has a node, whatever has started it.
//!
//! A launcher that has a key-value space is one implementation of [`Space`]; what is put there, and how the rest is exchanged, does not depend on the launcher.

mod entry;
mod error;
mod exchange;
mod host_list;
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

pub use crate::launchers::scrub;
pub use entry::{ADDRESSES_MAX, ENTRY_MAX, Entry, EntryError, HOST_MAX};
pub use error::BootstrapError;
pub use host_list::{HOSTS_MAX, HostList, HostListError};
pub use member::Member;
pub use place::HOST_ADDRESS;
pub use rule::{At, Resolve, Rule, rule_of};
pub use secret_file::{
    KEY_VARIABLE, SECRET_VARIABLE, SecretFileError, SecretFileFault, named_or_variable, read_key,
    read_secret, write_key, write_secret,
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
