//! Replays the corpora of this package's fuzz targets, and inputs derived from them, without a fuzzer.

use self::replay::replay;

#[path = "../../../fuzz/src/input.rs"]
#[expect(unreachable_pub, reason = "it is a part of the library of the other targets")]
mod input;
#[path = "../../../fuzz/src/rendezvous.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod rendezvous;
#[path = "../../../fuzz/src/rendezvous_events.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod rendezvous_events;
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn what_clients_ask() {
    replay("rendezvous", rendezvous::run);
}

#[test]
fn the_events_of_a_subscription() {
    replay("rendezvous_events", rendezvous_events::run);
}
