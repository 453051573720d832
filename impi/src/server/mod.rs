//! The server without I/O: it collects by label what the clients say, and broadcasts it. Connections, bytes and the time come in, and what is to be sent goes out.
//!
//! It knows nothing of the meaning of labels, apart from the optional [checks](Check): one that it does not know is collected and broadcast like any other.
//!
//! Source: IMPI, "Startup": the server and its commands AUTH, IMPI, COLL, DONE and FINI.

mod check;
mod collecting;
mod event;
mod failure;
mod joining;
mod machine;
mod relay;
mod seat;
mod settings;

pub use check::Check;
pub use event::{Event, Stage};
pub use failure::{Failure, Waits};
pub use machine::{Input, Output, Server};
pub use relay::RelaySettings;
pub use settings::{Settings, SettingsError};

/// A connection, by a number of the driver's own that it never uses again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// The rank of a client among the clients of a session, 0 to 31.
pub type Rank = u32;
