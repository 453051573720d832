//! The fuzz target of PMI without a fuzzer: the corpus, and other inputs that are made of it.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

#[path = "../../fuzz/src/bnr_pmi.rs"]
#[expect(unreachable_pub, reason = "it is a target, too")]
mod bnr_pmi;
#[path = "../../fuzz/src/input.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is a part of the library of the other targets")]
mod input;

fn inputs() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/bnr_pmi");
    let mut files: Vec<_> =
        fs::read_dir(corpus).expect("a corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 10, "only {} inputs are in the corpus", files.len());
    files.into_iter().map(|file| fs::read(file).expect("an input")).collect()
}

/// The corpus; what is made of it: the begin of one, some bytes, and the end of another; and any bytes.
#[test]
fn what_processes_say() {
    let inputs = inputs();
    inputs.iter().for_each(|input| bnr_pmi::run(input));
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let made = (any::<[Index; 4]>(), prop::collection::vec(any::<u8>(), 0..12));
    let result = TestRunner::new(config.clone()).run(&made, |([first, cut, second, from], between)| {
        let (first, second) = (&inputs[first.index(inputs.len())], &inputs[second.index(inputs.len())]);
        let begin = &first[..cut.index(first.len() + 1)];
        bnr_pmi::run(&[begin, &between, &second[from.index(second.len() + 1)..]].concat());
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let result = TestRunner::new(config).run(&prop::collection::vec(any::<u8>(), 0..800), |bytes| {
        bnr_pmi::run(&bytes);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
