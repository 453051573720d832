//! The fuzz targets of this package without a fuzzer: the corpus, and other inputs that are made of it.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

#[path = "../../fuzz/src/impi_client.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod impi_client;
#[path = "../../fuzz/src/input.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is a part of the library of the other targets")]
mod input;

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        fs::read_dir(corpus).expect("a corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 10, "only {} inputs are in the corpus", files.len());
    files.into_iter().map(|file| fs::read(file).expect("an input")).collect()
}

fn replay(target: &str, run: fn(&[u8])) {
    let inputs = inputs(target);
    inputs.iter().for_each(|input| run(input));
    // The begin of one, some bytes, and the end of another.
    let made = (any::<[Index; 4]>(), prop::collection::vec(any::<u8>(), 0..12));
    let config = || ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config()).run(&made, |([first, cut, second, from], between)| {
        let (first, second) = (&inputs[first.index(inputs.len())], &inputs[second.index(inputs.len())]);
        let begin = &first[..cut.index(first.len() + 1)];
        run(&[begin, &between, &second[from.index(second.len() + 1)..]].concat());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let any_bytes = prop::collection::vec(any::<u8>(), 0..400);
    let result = TestRunner::new(config()).run(&any_bytes, |bytes| {
        run(&bytes);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn client() {
    replay("impi_client", impi_client::run);
}
