//! The server as a state machine: its outputs, its checks and limits, and the end of a session.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod checks;
mod driven;
mod examples;
mod interleavings;
mod limits;
mod orders;
mod table;
mod vanishing;
