//! Replays the corpus of this package's fuzz target, and inputs derived from it, without a fuzzer.

use self::replay::replay;

#[path = "../../../fuzz/src/input.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is a part of the library of the other targets")]
mod input;
#[path = "../../../fuzz/src/rendezvous.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod rendezvous;
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn what_clients_ask() {
    replay("rendezvous", rendezvous::run);
}
