//! The collecting server of IMPI without I/O.
#![no_main]

use chained_gpc_fuzz::input;

#[path = "../src/impi_server.rs"]
mod impi_server;

libfuzzer_sys::fuzz_target!(|data: &[u8]| impi_server::run(data));
