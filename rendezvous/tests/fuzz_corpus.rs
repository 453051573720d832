//! The fuzz target of this package without a fuzzer: the corpus, and other inputs that are made of it.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

#[path = "../../fuzz/src/input.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is a part of the library of the other targets")]
mod input;
#[path = "../../fuzz/src/rendezvous.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod rendezvous;

fn inputs() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/rendezvous");
    let mut files: Vec<_> =
        fs::read_dir(corpus).expect("a corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 10, "only {} inputs are in the corpus", files.len());
    files.into_iter().map(|file| fs::read(file).expect("an input")).collect()
}

#[test]
fn the_corpus_and_what_is_made_of_it() {
    let inputs = inputs();
    inputs.iter().for_each(|input| rendezvous::run(input));
    // The begin of one, some bytes, and the end of another.
    let made = (any::<[Index; 4]>(), prop::collection::vec(any::<u8>(), 0..12));
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&made, |([first, cut, second, from], between)| {
        let (first, second) = (&inputs[first.index(inputs.len())], &inputs[second.index(inputs.len())]);
        let begin = &first[..cut.index(first.len() + 1)];
        rendezvous::run(&[begin, &between, &second[from.index(second.len() + 1)..]].concat());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn any_bytes() {
    let config = ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&prop::collection::vec(any::<u8>(), 0..800), |bytes| {
        rendezvous::run(&bytes);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
