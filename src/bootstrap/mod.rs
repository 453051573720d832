//! Who am I, who are the others, what is the secret: what a process asks before it has a node, whatever has started it.
//!
//! A launcher that has a key-value space is one implementation of [`Space`]; what is put there, and how the rest is exchanged, does not depend on the launcher.

mod secret_file;
mod space;

pub use secret_file::{
    KEY_VARIABLE, SECRET_VARIABLE, SecretFileError, SecretFileFault, named_or_variable, read_key,
    read_secret, write_key, write_secret,
};
pub use space::{Space, SpaceError};
