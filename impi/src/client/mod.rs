//! The client: speaks for a cluster of hosts and processes of any shape, and learns of the others.
//!
//! Source: IMPI, "Startup": the client's side, and the meaning of the labels.

mod cluster;
mod learned;

pub use cluster::{Cluster, Host, Proc};
pub use learned::Learned;
