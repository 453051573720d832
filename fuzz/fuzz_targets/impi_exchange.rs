//! A session of IMPI whose owner chooses the labels.
#![no_main]

use chained_gpc_fuzz::input;

#[path = "../src/impi_exchange.rs"]
mod impi_exchange;

libfuzzer_sys::fuzz_target!(|data: &[u8]| impi_exchange::run(data));
