//! The server without I/O: it collects values by label from the clients, and broadcasts them. Inputs are connections,
//! bytes and the time; outputs are bytes to send.
//!
//! The server does not interpret labels, apart from the optional [checks](Check): it collects and broadcasts an unknown
//! label like any other.
//!
//! Source: IMPI, "Startup": the server and its commands AUTH, IMPI, COLL, DONE and FINI.

mod check;
mod collecting;
mod event;
mod failure;
mod joining;
mod machine;
mod seat;
mod settings;

pub use check::Check;
pub use event::{Event, Stage};
pub use failure::{Failure, WaitingFor};
pub use machine::{Input, Output, Server};
pub use settings::{Settings, SettingsError};

/// Number of a connection, chosen by the driver, which uses each number once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// Rank of a client in a session, 0 to 31.
pub type Rank = u32;
