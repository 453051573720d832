//! `gpc run` as users run it: real processes that are killed, flood, fork and lie; and `gpc ps`, `gpc db` and
//! `gpc kill` beside it. Whatever happens, nothing is left.
#![cfg(all(feature = "bnr", target_os = "linux"))]
#![allow(
    clippy::disallowed_methods,
    reason = "every wait has a limit; a process of another program tells of itself in /proc alone"
)]

mod bad;
mod basic;
mod bcast;
mod crashes;
mod crashes_derived;
mod crashes_hosts;
mod crashes_output;
mod crashes_random;
mod ends;
mod exec;
mod flood;
mod hosts;
mod mpi;
mod mpiexec;
mod nodes;
mod open_mpi;
mod pmi;
mod support;
mod system;
mod terminal;
mod tools;
