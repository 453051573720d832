//! Connects [`chained_gpc`] nodes under launchers that speak PMIx: Open MPI's `mpirun`, `prterun`, and Slurm's `srun
//! --mpi=pmix`. [`server`] is the other side: a PMIx server for the processes of a node.
//!
//! [`Pmix`] is a launcher's key-value space ([`Space`]), accessed through the system's libpmix, version 3 or later. The
//! library is loaded when it is needed. Nothing links to it, so a program that uses this crate also starts without it.
//!
//! ```
//! // `None` without a launcher. If the launcher's server does not answer: an error, never a job of one.
//! match gpc_pmix::from_env()? {
//!     Some(bootstrap) =>
//!         println!("id {:?} of {:?}, says {}", bootstrap.id(), bootstrap.count(), bootstrap.launcher()),
//!     None => println!("not started by a launcher"),
//! }
//! # Ok::<(), chained_gpc::bootstrap::BootstrapError>(())
//! ```
//!
//! The project's `unsafe` code that calls libpmix is in the modules `library` and `server::native` of this crate, which
//! explain the calls and why they are sound. Calls of a client may block for ever and cannot be ended from outside.
//! They run on a thread of their own, which owns everything that libpmix reads and writes. A caller stops waiting after
//! a time limit and leaves that thread alone.
//!
//! # Map of the sources
//!
//! | file | for |
//! |---|---|
//! | `from_env` | detects a PMIx launcher from the environment |
//! | `process` | name of a process: namespace and rank |
//! | `space` | the key-value space of a job: put and commit, fence, get |
//! | `limited` | a thread for calls that may block for ever, and waits with a limit |
//! | `library` | libpmix, loaded at run time (`unsafe`) |
//! | `server` | the PMIx server of a node's processes, in a helper process |
//! | `server::orders`, `server::values` | messages of node and helper, and the values in them |
//! | `server::codec`, `server::protocol_error` | their encoding |
//! | `server::helper` | the helper process: carries out orders |
//! | `server::job_data`, `server::open_mpi` | what the server tells about a job; variables of Open MPI |
//! | `server::folder` | the session folder, and leftovers of killed helpers |
//! | `server::outbox` | events on their way to the node |
//! | `server::pending`, `server::requests` | unanswered upcalls of libpmix, and requests to it |
//! | `server::native::libpmix`, `server::native::lent` | calls of libpmix's server (`unsafe`); their arguments |
//! | `server::native::upcalls`, `server::native::copied` | what libpmix calls, and its arguments (`unsafe`) |
//! | `server::native::replies`, `server::native::info_array` | callbacks of libpmix, and their pairs (`unsafe`) |
//! | `abi` | the part of libpmix's C interface that is used |
#![deny(unsafe_code)]

mod abi;
mod from_env;
mod library;
mod limited;
mod process;
pub mod server;
mod space;

pub use chained_gpc::bootstrap::{Space, SpaceError};
pub use from_env::{from_env, from_env_within, space};
pub use space::Pmix;
