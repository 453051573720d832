//! The client without I/O: what it refuses to say, what it learns, servers that lie, and many clients with the real server.
#![allow(clippy::unwrap_used, reason = "helper functions of tests")]

mod extra;
mod learning;
mod lying;
mod model;
mod refused;
mod support;
