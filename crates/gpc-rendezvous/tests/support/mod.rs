//! Shared by tests of the state machine: a minimal driver, and a store made of maps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub(crate) mod driven;
pub(crate) mod maps;
