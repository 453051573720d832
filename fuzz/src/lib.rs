//! The bodies of the fuzz targets: one function each, which takes bytes and panics if a property does not hold.
//!
//! The targets in `fuzz_targets` call them. So does `tests/fuzz_corpus.rs` of the project, which includes this file by
//! its path and replays the corpus without a fuzzer. Therefore no code here may use a fuzzer, a clock or a thread.

pub mod bnr_seeds;
pub mod chain;
pub mod frames;
pub mod hello;
pub mod hosts;
pub mod ids;
pub mod impi_seeds;
pub mod input;
pub mod level;
pub mod links;
pub mod memory;
pub mod peering;
pub mod pmi_seeds;
pub mod rendezvous_seeds;
pub mod seeds;
pub mod text_seeds;
pub mod tree_file;
pub mod wire;

/// The name of a target, and the function that takes the bytes of the fuzzer.
pub type Target = (&'static str, fn(&[u8]));

/// All targets: each has a binary and a folder of the corpus with its name.
pub const TARGETS: [Target; 9] = [
    ("frames", frames::run),
    ("hello", hello::run),
    ("level", level::run),
    ("ids", ids::run),
    ("tree_file", tree_file::run),
    ("hosts", hosts::run),
    ("chain", chain::run),
    ("peering", peering::run),
    ("links", links::run),
];
