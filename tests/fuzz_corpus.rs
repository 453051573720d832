//! Runs the targets of `fuzz/` without a fuzzer: every input of the corpus and of the seeds, and mutations of them, go
//! through the same functions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{TestCaseError, TestRunner};

#[path = "../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "it is a library for the fuzzer's binaries")]
mod targets;

/// Longest mutated input, bytes: as in a run of the fuzzer.
const MADE_MAX: usize = 4096;

/// Number of mutated inputs of a target: a few seconds without optimisation.
const MADE: u32 = 400;

/// Targets of other packages, which replay them.
const ELSEWHERE: [&str; 9] = [
    "bnr_frames",
    "bnr_orders",
    "bnr_pmi",
    "impi_client",
    "impi_exchange",
    "impi_server",
    "rendezvous",
    "rendezvous_events",
    "run_texts",
];

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry.expect("a folder that can be read").file_name().into_string().expect("a plain name")
        })
        .collect();
    names.sort();
    names
}

/// The names and the inputs of a target's corpus.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = package().join("corpus").join(target);
    names(&folder)
        .into_iter()
        .map(|name| (name.clone(), fs::read(folder.join(name)).expect("an input")))
        .collect()
}

/// Prints the input if the target panics.
struct Trying<'a>(&'a str, &'a [u8]);

impl Drop for Trying<'_> {
    #[expect(clippy::print_stderr, reason = "the test fails, and this is what it failed with")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was {}: {:02x?}", self.0, self.1);
        }
    }
}

/// A way to mutate inputs.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, u8),
    Cut(Index, usize),
    Keep(Index),
    /// Replaces the end of the input by the end of another.
    Splice(Index, Index, Index),
    Double(Index, usize),
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>, corpus: &[(String, Vec<u8>)]) {
        let place = |index: &Index, bytes: &[u8]| index.index(bytes.len() + 1);
        match self {
            Change::Flip(at, bit) => {
                let at = place(at, bytes);
                bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << (bit % 8));
            }
            Change::Set(at, value) => {
                let at = place(at, bytes);
                bytes.get_mut(at).into_iter().for_each(|byte| *byte = *value);
            }
            Change::Insert(at, value) => bytes.insert(place(at, bytes), *value),
            Change::Cut(at, count) => {
                let at = place(at, bytes);
                bytes.drain(at..(at + count).min(bytes.len()));
            }
            Change::Keep(at) => bytes.truncate(place(at, bytes)),
            Change::Splice(at, which, from) => {
                let other = &corpus[which.index(corpus.len())].1;
                bytes.truncate(place(at, bytes));
                bytes.extend_from_slice(&other[place(from, other)..]);
            }
            Change::Double(at, count) => {
                let at = place(at, bytes);
                let again = bytes[at..(at + count).min(bytes.len())].to_vec();
                bytes.splice(at..at, again);
            }
        }
        bytes.truncate(MADE_MAX);
    }
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<Index>;
    prop_oneof![
        (index(), any::<u8>()).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (index(), any::<u8>()).prop_map(|(at, value)| Change::Set(at, value)),
        (index(), any::<u8>()).prop_map(|(at, value)| Change::Insert(at, value)),
        (index(), 1usize..20).prop_map(|(at, count)| Change::Cut(at, count)),
        index().prop_map(Change::Keep),
        (index(), index(), index()).prop_map(|(at, which, from)| Change::Splice(at, which, from)),
        (index(), 1usize..40).prop_map(|(at, count)| Change::Double(at, count)),
    ]
}

/// Replays the corpus and the seeds of a target, and mutations of them.
fn replay(target: &str) {
    let (_, run) = targets::TARGETS.into_iter().find(|(name, _)| *name == target).expect("a target");
    let mut inputs = corpus(target);
    assert!(inputs.len() >= 10, "only {} inputs of {target} are in the corpus", inputs.len());
    let seeds = targets::seeds::seeds().into_iter().filter(|seed| seed.target == target);
    inputs.extend(seeds.map(|seed| (seed.name, seed.bytes)));
    for (name, bytes) in &inputs {
        let _trying = Trying(name, bytes);
        run(bytes);
    }
    let config = ProptestConfig { cases: MADE, failure_persistence: None, ..ProptestConfig::default() };
    let made = (any::<Index>(), prop::collection::vec(change(), 1..6));
    let result = TestRunner::new(config).run(&made, |(which, changes)| {
        let (name, mut bytes) = inputs[which.index(inputs.len())].clone();
        changes.iter().for_each(|change| change.make(&mut bytes, &inputs));
        let _trying = Trying(&format!("made of {name}"), &bytes);
        run(&bytes);
        Ok::<(), TestCaseError>(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn frames() {
    replay("frames");
}

#[test]
fn hello() {
    replay("hello");
}

#[test]
fn level() {
    replay("level");
}

#[test]
fn ids() {
    replay("ids");
}

#[test]
fn tree_file() {
    replay("tree_file");
}

#[test]
fn hosts() {
    replay("hosts");
}

#[test]
fn chain() {
    replay("chain");
}

#[test]
fn peering() {
    replay("peering");
}

#[test]
fn links() {
    replay("links");
}

/// A target without a test here, a binary or a corpus would seem to be tested.
#[test]
fn every_target_has_a_binary_a_corpus_and_a_test() {
    let ours = targets::TARGETS.iter().map(|(name, _)| name.to_string());
    let ours: BTreeSet<String> = ours.collect();
    let targets: BTreeSet<String> = ours.iter().cloned().chain(ELSEWHERE.map(Into::into)).collect();
    let manifest = fs::read_to_string(package().join("Cargo.toml")).unwrap();
    let binaries =
        manifest.split("[[bin]]\nname = \"").skip(1).map(|rest| rest.split('"').next().unwrap().into());
    let here = include_str!("fuzz_corpus.rs").lines().filter_map(|line| {
        let name = line.trim().strip_prefix("replay(\"")?.strip_suffix("\");")?;
        Some(name.to_owned())
    });
    let sources = names(&package().join("fuzz_targets")).into_iter();
    let sources = sources.map(|name| name.strip_suffix(".rs").expect("a source").to_owned());
    assert_eq!(binaries.collect::<BTreeSet<String>>(), targets);
    assert_eq!(names(&package().join("corpus")).into_iter().collect::<BTreeSet<String>>(), targets);
    assert_eq!(here.collect::<BTreeSet<String>>(), ours);
    assert_eq!(sources.collect::<BTreeSet<String>>(), targets);
}
