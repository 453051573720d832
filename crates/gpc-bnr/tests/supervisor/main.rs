//! Tests of the supervisor with real processes. The supervisor is this program, started again.
#![allow(clippy::unwrap_used, reason = "tests")]

mod crowd;
mod enclosing;
mod ends;
mod killing;
mod starting;
mod support;
