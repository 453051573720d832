//! The HTTP server, tested with plain sockets and curl, without the client of this project.
#![cfg(feature = "http")]

mod above;
mod by_curl;
mod declared;
mod faults;
mod hostile;
mod observers;
mod openapi;
mod page;
pub(crate) mod raw;
mod rendezvous;
#[cfg(feature = "tls")]
mod secure;
