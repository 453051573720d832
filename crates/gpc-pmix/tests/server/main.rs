//! The helper process of a PMIx server with real programs: of Open MPI, and of PMIx alone.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's helper panics like the test itself")]
#![allow(clippy::disallowed_methods, reason = "a test waits for real processes, within a limit")]

mod ends;
mod node;
mod open_mpi;
mod pmix;
