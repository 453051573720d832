//! Requests of a process in PMI-1 and PMI-2.
#![no_main]

use chained_gpc_fuzz::input;

#[path = "../src/bnr_pmi.rs"]
mod bnr_pmi;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bnr_pmi::run(data));
