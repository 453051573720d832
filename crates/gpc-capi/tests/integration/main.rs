//! Tests of the C interface: the header, and programs in C and C++ that use it.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod armci;
mod bnr;
mod every;
mod examples;
mod header;
mod package;
mod plugin;
mod programs;
mod services;
