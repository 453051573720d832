//! The wire format between a client and the server: commands, labels, and the reader that decodes them.
//!
//! All integers are big-endian. Every command has a head of eight bytes, its name and the length of its payload. Only
//! the server's answer to AUTH and the key have no head.
//!
//! Source: IMPI, "Startup": types, commands and labels.

mod auth;
mod command;
mod label;
mod reader;
mod version;

pub use auth::{KEY_VARIABLE, Key, KeyError, Method, Methods, NONE_VARIABLE};
pub use command::{Command, VALUES_MAX, coll, command, server_auth};
pub use label::{Label, Per};
pub use reader::{Frame, FrameError, Reader};
pub use version::{PRIVATE_MAJOR, Version, VersionsError, ascending, divide};

/// Most clients of a session: the mask of clients has as many bits.
pub const CLIENTS_MAX: u32 = 32;
