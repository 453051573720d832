//! A stream of bytes, in any cuts, into the receiving side of a link.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chained_gpc_fuzz::frames::run(data));
