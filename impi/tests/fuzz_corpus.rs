//! The fuzz targets of this package without a fuzzer: the corpus, and other inputs that are made of it.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

#[path = "../../fuzz/src/impi_client.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod impi_client;
#[path = "../../fuzz/src/impi_server.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod impi_server;
#[path = "../../fuzz/src/input.rs"]
#[expect(unreachable_pub, reason = "it is a part of the library of the other targets")]
mod input;

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
fn the_server() {
    replay("impi_server", impi_server::run);
}

#[test]
fn the_client() {
    replay("impi_client", impi_client::run);
}
