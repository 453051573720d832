//! Call a function on many processes with one call.
pub mod chain;
pub mod runtime;
pub mod wire;
