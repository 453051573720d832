//! The client without I/O: settings that it rejects, what it learns, servers that lie, and many clients with the real
//! server.

mod extra;
mod learning;
mod lying;
mod model;
mod orders;
mod refused;
mod support;
mod world;
