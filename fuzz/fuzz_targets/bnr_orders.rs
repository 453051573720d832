//! Decoders of the messages between nodes and processes, and between the nodes of a domain.
#![no_main]

use chained_gpc_fuzz::{input, memory};

#[path = "../src/bnr_orders.rs"]
mod bnr_orders;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bnr_orders::run(data));
