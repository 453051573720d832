//! Lists of ids, as text and in wire form.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chained_gpc_fuzz::ids::run(data));
