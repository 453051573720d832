//! Replays the corpora of this package's fuzz targets, and inputs derived from them, without a fuzzer.

use self::replay::replay;

#[path = "../../../fuzz/src/impi_client.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod impi_client;
#[path = "../../../fuzz/src/impi_exchange.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod impi_exchange;
#[path = "../../../fuzz/src/impi_server.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod impi_server;
#[path = "../../../fuzz/src/input.rs"]
#[expect(unreachable_pub, reason = "it is a part of the library of the other targets")]
mod input;
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_server() {
    replay("impi_server", impi_server::run);
}

#[test]
fn the_client() {
    replay("impi_client", impi_client::run);
}

#[test]
fn a_session_of_chosen_labels() {
    replay("impi_exchange", impi_exchange::run);
}
