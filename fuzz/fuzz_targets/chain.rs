//! A few nodes of the chain, with calls, failures and forged messages.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| chained_gpc_fuzz::chain::run(data));
