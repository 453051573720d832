//! Helpers for the tests and benchmarks of several crates.
//!
//! - `memory`: counting allocators
//! - `nodes`: nodes that a test drives, and checks that nodes hold nothing at its end, with the feature `nodes`
//! - `ports`: free addresses
//! - `process`: commands, their output, and their numbers in `/proc`
//! - `strangers`: peers in plain sockets, with the same feature, on Linux
//! - `waiting`: waits with a time limit

#![deny(unsafe_code)]

pub mod memory;
#[cfg(feature = "nodes")]
pub mod nodes;
pub mod ports;
pub mod process;
#[cfg(all(feature = "nodes", target_os = "linux"))]
pub mod strangers;
pub mod waiting;
