//! The server as a state machine: what it answers to whom and when, what it takes and what it refuses, and how a session ends.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod checks;
mod driven;
mod examples;
mod interleavings;
mod limits;
mod orders;
mod table;
mod vanishing;
