//! Call a function on many processes with one call.
pub mod chain;
#[cfg(feature = "cli")]
pub mod cli;
pub mod runtime;
pub mod wire;
