//! The texts that people write about trees.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chained_gpc_fuzz::tree_file::run(data));
