//! The tests of the crate, for a bug that no world shows. They are built once, with every bug behind its switch, and
//! run for each bug.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::build::{VARIABLE, build_tests};
use super::output;
use super::swarms::Caught;

/// Tests of the crate that may catch a bug in simulated code; others take minutes, or test the simulator.
const TARGETS: [&str; 6] =
    ["bad_bytes", "chain", "runtime", "short_frames", "streaming_replies", "wire_bytes"];

/// Time limit of all tests of one target, since a bug may make a test wait forever.
const PATIENCE: Duration = Duration::from_secs(300);

/// Builds the test programs with these bugs.
///
/// # Errors
/// The output of the compiler.
pub(super) fn programs(folder: &str) -> Result<Vec<PathBuf>, String> {
    let targets = TARGETS.iter().flat_map(|target| ["--test", target]);
    build_tests(folder, &["--lib"].into_iter().chain(targets).collect::<Vec<_>>())
}

/// Runs them with one bug switched on; returns the first test that fails.
pub(super) fn caught(programs: &[PathBuf], bug: &str, folder: &Path) -> Option<Caught> {
    programs.iter().find_map(|program| {
        let mut command = Command::new(program);
        command.current_dir(folder).env(VARIABLE, bug);
        let output = output(&mut command, PATIENCE);
        let said = String::from_utf8_lossy(&output.stdout);
        let failed = said.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let by = match (output.status.success(), failed) {
            (true, _) => return None,
            (false, Some(test)) => test.to_owned(),
            // The program panicked outside a test, or did not end.
            (false, None) => program.file_stem()?.to_string_lossy().into_owned(),
        };
        Some(Caught { mode: "tests".into(), by, runs: None })
    })
}
