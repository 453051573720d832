//! A few nodes, and whatever happens to them and between them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chained_gpc_fuzz::chain::run(data));
