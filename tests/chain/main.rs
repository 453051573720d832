//! The chain from outside: nodes, messages between them, and nothing that the crate does not export.

mod driver;
mod model;
mod one;
mod properties;
mod world;
