//! The HTTP server, tested with plain sockets and curl, without the client of this project.
#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on is over")]

mod above;
mod by_curl;
mod declared;
mod faults;
mod hostile;
mod observers;
mod openapi;
mod page;
mod raw;
mod rendezvous;
#[cfg(feature = "tls")]
mod secure;
