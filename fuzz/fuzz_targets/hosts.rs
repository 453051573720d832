//! Lists of hosts, host files, and the hosts of batch systems.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chained_gpc_fuzz::hosts::run(data));
