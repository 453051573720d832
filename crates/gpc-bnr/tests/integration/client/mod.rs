//! Tests of the interface for processes and commands, with fake nodes.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it expects; what a started process prints is read"
)]

mod deaths;
mod fake;
mod gone;
mod puts;
mod requests;
mod started;
