//! PMI's clients that others have written, and this project's own, as real processes over the conversations of this package. What the requests mean is a plain model in place of a domain: one node, one lock.
#![allow(clippy::unwrap_used, reason = "a test fails so")]
#![allow(clippy::print_stdout, reason = "a process of a test says what it has found")]

mod mpi;
mod own;
mod world;
