//! The events of a subscription to a rendezvous service.
#![no_main]

use chained_gpc_fuzz::input;

#[path = "../src/rendezvous_events.rs"]
mod rendezvous_events;

libfuzzer_sys::fuzz_target!(|data: &[u8]| rendezvous_events::run(data));
