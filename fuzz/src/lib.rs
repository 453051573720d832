//! The bodies of the fuzz targets: one function each, from bytes to nothing, that panics where something does not hold.
//!
//! The targets in `fuzz_targets` call them, and so does `tests/fuzz_corpus.rs` of the project, which takes this file in by its path and replays the corpus
//! without a fuzzer. So nothing here may use a fuzzer, a clock or a thread.

pub mod bnr_seeds;
pub mod chain;
pub mod frames;
pub mod hello;
pub mod ids;
pub mod impi_seeds;
pub mod input;
pub mod level;
pub mod memory;
pub mod peering;
pub mod pmi_seeds;
pub mod rendezvous_seeds;
pub mod seeds;
pub mod tree_file;
pub mod wire;

/// A name, and the function that takes the fuzzer's bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets: each has a binary and a folder of the corpus by its name.
pub const TARGETS: [Target; 7] = [
    ("frames", frames::run),
    ("hello", hello::run),
    ("level", level::run),
    ("ids", ids::run),
    ("tree_file", tree_file::run),
    ("chain", chain::run),
    ("peering", peering::run),
];
