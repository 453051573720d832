//! What nodes, processes and nodes of a domain say, as bytes.
#![no_main]

use chained_gpc_fuzz::{input, memory};

#[path = "../src/bnr_orders.rs"]
mod bnr_orders;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bnr_orders::run(data));
