//! Lets [`chained_gpc`] nodes find each other under launchers that speak PMIx: Open MPI's `mpirun`, `prterun`, and Slurm's `srun --mpi=pmix`.
//!
//! [`Pmix`] is a launcher's key-value space ([`Space`]) by way of the system's libpmix, version 3 or later, which is loaded when it is needed: nothing links to it, and a program that has this crate starts without it, too.
//!
//! ```
//! // Not started by a launcher: nothing. Started by one whose server cannot be spoken to: an error, never a set of one process.
//! match gpc_pmix::from_env()? {
//!     Some(bootstrap) => println!("id {:?} of {:?}, says {}", bootstrap.id(), bootstrap.count(), bootstrap.launcher()),
//!     None => println!("started by nobody who says so"),
//! }
//! # Ok::<(), chained_gpc::bootstrap::BootstrapError>(())
//! ```
//!
//! All `unsafe` of the project that is about foreign code is in this crate, in the module `library`: it says what is asked of libpmix and why that is sound. Calls of libpmix may block for ever, and cannot be ended from outside; so they run on a
//! thread of their own, which owns whatever libpmix reads and writes. Who waits for it gives up after a limit, and that thread is left alone.
#![deny(unsafe_code)]

mod abi;
mod from_env;
mod library;
mod limited;
mod space;

pub use chained_gpc::bootstrap::{Space, SpaceError};
pub use from_env::{from_env, space};
pub use space::Pmix;
