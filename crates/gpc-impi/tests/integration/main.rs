//! Tests of IMPI start-up.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bootstrap;
mod client;
mod exchange;
mod peers;
mod serve;
mod server;
mod session;
