//! The chain from outside: nodes, messages between them, and nothing that the crate does not export.

mod driver;
mod failures;
mod hostile;
mod limits;
mod model;
mod one;
mod properties;
mod steps;
mod world;
