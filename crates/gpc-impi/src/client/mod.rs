//! The client without I/O: sends the values of a cluster of any shape, and interprets those of all clients.
//!
//! Source: IMPI, "Startup": the client's side, and the meaning of the labels.

mod address;
mod answers;
mod cluster;
mod event;
mod exchange;
mod fault;
mod incoming;
mod learn;
mod learn_error;
mod learned;
mod machine;
mod settings;
mod values;
#[cfg(test)]
mod worlds;

use address::canonical;
pub use address::{from_ip, to_ip};
pub use cluster::{Cluster, Host, Proc};
pub use event::{ClientEvent, ClientStage};
pub use exchange::{Exchange, ExchangeSettings, SendError};
pub use fault::{ClientFault, Violation};
pub use learn_error::LearnError;
pub use learned::Learned;
pub use machine::{Client, ClientInput, ClientOutput};
pub use settings::{ClientSettings, ClientSettingsError, Place};
