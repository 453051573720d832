//! The links of two nodes, and of one with a hostile peer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chained_gpc_fuzz::links::run(data));
