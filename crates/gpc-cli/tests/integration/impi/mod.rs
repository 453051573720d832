//! `gpc impi` as users run it: real servers and clients, some of which are killed, and clients in plain sockets, some
//! of which lie.
#![cfg(all(feature = "impi", target_os = "linux"))]

mod bounds;
mod keys;
mod losses;
mod sessions;
mod support;
mod usage;
