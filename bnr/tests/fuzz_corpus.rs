//! The fuzz targets of this package without a fuzzer: the corpus, and other inputs that are made of it.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

#[path = "../../fuzz/src/bnr_frames.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod bnr_frames;
#[path = "../../fuzz/src/bnr_orders.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod bnr_orders;
#[path = "../../fuzz/src/input.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is a part of the library of the other targets")]
mod input;
#[path = "../../fuzz/src/memory.rs"]
#[expect(unreachable_pub, reason = "it is a part of the library of the other targets")]
mod memory;

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        fs::read_dir(corpus).expect("a corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 10, "only {} inputs are in the corpus", files.len());
    files.into_iter().map(|file| fs::read(file).expect("an input")).collect()
}

/// The corpus of a target; what is made of it: the begin of one, some bytes, and the end of another; and any bytes.
fn replay(target: &str, run: fn(&[u8])) {
    let inputs = inputs(target);
    inputs.iter().for_each(|input| run(input));
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let made = (any::<[Index; 4]>(), prop::collection::vec(any::<u8>(), 0..12));
    let result = TestRunner::new(config.clone()).run(&made, |([first, cut, second, from], between)| {
        let (first, second) = (&inputs[first.index(inputs.len())], &inputs[second.index(inputs.len())]);
        let begin = &first[..cut.index(first.len() + 1)];
        run(&[begin, &between, &second[from.index(second.len() + 1)..]].concat());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let result = TestRunner::new(config).run(&prop::collection::vec(any::<u8>(), 0..800), |bytes| {
        run(&bytes);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_encodings() {
    replay("bnr_orders", bnr_orders::run);
}

#[test]
fn the_frames() {
    replay("bnr_frames", bnr_frames::run);
}

/// The seeds were written by hand, from `docs/bnr-wire.md`.
#[test]
fn the_seeds_of_the_encodings_say_something() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/bnr_orders");
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
