//! The client of IMPI without I/O.
#![no_main]

use chained_gpc_fuzz::input;

#[path = "../src/impi_client.rs"]
mod impi_client;

libfuzzer_sys::fuzz_target!(|data: &[u8]| impi_client::run(data));
