//! Level-n data, read and aggregated.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chained_gpc_fuzz::level::run(data));
