//! Runs the fuzz targets of this package without a fuzzer: on the corpus, and on inputs derived from it.

use std::fs;
use std::path::Path;

use self::replay::replay;

#[path = "../../../fuzz/src/bnr_frames.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod bnr_frames;
#[path = "../../../fuzz/src/bnr_orders.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod bnr_orders;
#[path = "../../../fuzz/src/bnr_pmi.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod bnr_pmi;
#[path = "../../../fuzz/src/input.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is a part of the library of the other targets")]
mod input;
#[path = "../../../fuzz/src/memory.rs"]
#[expect(unreachable_pub, reason = "it is a part of the library of the other targets")]
mod memory;
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_encodings() {
    replay("bnr_orders", bnr_orders::run);
}

#[test]
fn the_frames() {
    replay("bnr_frames", bnr_frames::run);
}

#[test]
fn what_processes_say_in_pmi() {
    replay("bnr_pmi", bnr_pmi::run);
}

/// The seeds were written by hand from `docs/bnr-wire.md`.
#[test]
fn the_seeds_of_the_encodings_say_something() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/bnr_orders");
    let files = fs::read_dir(corpus).expect("a corpus").map(|file| file.expect("a file").path());
    let seeds = files.filter(|path| path.to_string_lossy().contains("/seed-"));
    let mut count = 0;
    for seed in seeds {
        let input = fs::read(&seed).expect("an input");
        let versioned = [&[gpc_bnr::codec::VERSION], &input[1..]].concat();
        let error = match input[0] {
            0 => gpc_bnr::codec::decode_order(&versioned).err(),
            1 => gpc_bnr::codec::decode_report(&versioned).err(),
            2 => gpc_bnr::codec::decode_up(&input[1..]).err(),
            _ => gpc_bnr::codec::decode_down(&input[1..]).err(),
        };
        assert_eq!(error, None, "{}", seed.display());
        count += 1;
    }
    assert!(count >= 20, "{count} seeds");
}
