//! Rank files, files of `-configfile` and lines of `mpiexec`.
#![no_main]

#[path = "../src/cli_mpiexec.rs"]
#[allow(dead_code, reason = "the command uses more of it")]
mod mpiexec;
#[path = "../src/cli_run.rs"]
mod run;
#[path = "../src/run_texts.rs"]
mod run_texts;
#[path = "../../crates/gpc-cli/src/suggestion.rs"]
mod suggestion;
#[path = "../../crates/gpc-cli/src/words.rs"]
mod words;

libfuzzer_sys::fuzz_target!(|data: &[u8]| run_texts::run(data));
