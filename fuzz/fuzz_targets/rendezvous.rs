//! The rendezvous service without I/O.
#![no_main]

use chained_gpc_fuzz::input;

#[path = "../src/rendezvous.rs"]
mod rendezvous;

libfuzzer_sys::fuzz_target!(|data: &[u8]| rendezvous::run(data));
