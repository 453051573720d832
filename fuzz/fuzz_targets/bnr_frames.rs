//! Both sides of a connection that uses this project's own frames.
#![no_main]

use chained_gpc_fuzz::input;

#[path = "../src/bnr_frames.rs"]
mod bnr_frames;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bnr_frames::run(data));
