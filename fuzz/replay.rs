//! A fuzz target without a fuzzer, for the tests of the package it belongs to: runs the inputs of its corpus, and
//! inputs made from them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

/// Minimum number of inputs: fewer give too little variety to make others from.
const INPUTS_MIN: usize = 10;

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> =
        fs::read_dir(corpus).expect("a corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= INPUTS_MIN, "only {} inputs are in the corpus", files.len());
    files.into_iter().map(|file| fs::read(file).expect("an input")).collect()
}

/// Runs a target on its corpus, on inputs made from it (the beginning of one, some bytes, the end of another), and on
/// random bytes.
pub(crate) fn replay(target: &str, run: fn(&[u8])) {
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
