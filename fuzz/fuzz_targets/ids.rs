//! Lists of ids, as text and as the wire carries them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chained_gpc_fuzz::ids::run(data));
