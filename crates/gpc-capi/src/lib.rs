//! The C interface of `chained-gpc`: `chained_gpc.h` and the library behind it.
//!
//! Programs in C and C++ make, execute and merge chained calls with it. The header documents each function: who owns
//! which pointer until when, from where it may be called, its errors. `docs/c.md` in the repository is the
//! introduction.
//!
//! # Rules of the interface
//!
//! - Every function returns a [`status`]: 0, a small positive number that is not an error, or a negative number.
//!   `cgpc_last_error` has the rest.
//! - Handles are numbers in the form of pointers, and are looked up, never followed. A freed or wrong handle is an
//!   error.
//! - No panic crosses the border, and no exception of a function of the application.
//! - The library installs no signal handler, starts no thread that was not asked for, and has no state but the table of
//!   handles and the last error of each thread. Several contexts of a process do not know each other.
//! - In a forked child the handles of the parent are errors, and nothing touches the parent's links.
//!
//! # Map of the sources
//!
//! | file | for |
//! |---|---|
//! | `abi` | exported functions and their types; all `unsafe` code |
//! | `abi/pointers` | the border: pointers, errors, panics |
//! | `abi/frames`, `abi/callees` | running functions and their handles; functions of C as functions of the library |
//! | `abi/plugin`, `abi/loading` | tables of functions for plug-ins; loads plug-ins (feature `plugins`) |
//! | `abi/near`, `abi/exclusive` | objects that a thread has used lately; a value of one thread at a time |
//! | `abi/fork` | the handler in forked children |
//! | `abi/rendezvous`, `rendezvous_types`, `subscription` | `gpc_rendezvous.h` (feature `rendezvous`) |
//! | `abi/impi`, `impi_types` | `impi.h` (feature `impi`) |
//! | `abi/bnr`, `bnr_groups`, `bnr_spawn`, `bnr_types` | `bnr.h` (feature `bnr`) |
//! | `bnr` | the process of `bnr.h`: its link, open groups and notices; `specs`: what a spawn starts |
//! | `rendezvous`, `impi` | clients and subscriptions; sessions; their errors |
//! | `armci` | ARMCI's interface: `process`, `calls`, `handlers`, `collective`, `memory`, `locks`, and `shared` state |
//! | `status`, `error` | statuses; errors, and the last one of each thread |
//! | `handles`, `process` | the table of handles; forks of the process |
//! | `context`, `launched`, `registry` | a node and what drives it; its start with others; the functions of a context |
//! | `calls`, `tokens`, `trees` | calls in flight and outcomes; deferred replies; trees of calls |
#![deny(unsafe_code)]

pub mod abi;
pub mod armci;
#[cfg(feature = "bnr")]
mod bnr;
mod calls;
mod context;
mod error;
mod handles;
#[cfg(feature = "impi")]
mod impi;
mod launched;
mod process;
mod registry;
#[cfg(feature = "rendezvous")]
mod rendezvous;
pub mod status;
mod tokens;
mod trees;
