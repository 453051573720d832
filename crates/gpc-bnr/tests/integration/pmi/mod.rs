//! Tests of PMI with real processes: clients written by others, and this project's own client. They use the
//! conversations of this package. A plain model with one node and one lock takes the place of a domain.
#![allow(clippy::print_stdout, reason = "a process of a test says what it has found")]

mod mpi;
mod own;
mod world;
