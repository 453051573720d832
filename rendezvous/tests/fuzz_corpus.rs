//! The fuzz target of this package without a fuzzer: the corpus, and other inputs that are made of it.

use self::replay::replay;

#[path = "../../fuzz/src/input.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is a part of the library of the other targets")]
mod input;
#[path = "../../fuzz/src/rendezvous.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod rendezvous;
#[path = "../../fuzz/replay.rs"]
mod replay;

#[test]
fn what_clients_ask() {
    replay("rendezvous", rendezvous::run);
}
