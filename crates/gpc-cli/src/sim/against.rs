//! `gpc sim --against BUILD`: makes the same runs with this build and another one.
//!
//! An internal change must not change what happens in a run. If it does, the output names the first run in which the
//! builds differ, and the line of its trace. Both builds run as processes, including this one, so that both do exactly
//! the same.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

use super::output::{FirstDifference, Same, write_json};
use crate::args::{SimArgs, SimOutput};
use crate::refused::Refused;
use crate::{CommandResult, FAILED, stdout};

/// The sub-command, and the arguments that each process is given anew; all of these take a value.
const SIM: &str = "sim";
const OURS: [&str; 4] = ["--against", "--runs", "--seed", "--output"];

/// Result of many runs of one build.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct Runs {
    runs: u64,
    /// Hash over all events of all runs.
    hash: String,
}

/// One of the two builds.
struct Build<'a> {
    path: &'a Path,
    /// Arguments for both builds.
    words: &'a [OsString],
}

impl Build<'_> {
    /// Makes this number of runs.
    fn runs(&self, seed: u64, runs: u64) -> Result<Runs, Refused> {
        let (seed_word, runs_word) = (seed.to_string(), runs.to_string());
        let many = ["--seed", &seed_word, "--runs", &runs_word, "--output", "json"].map(OsStr::new);
        let said = self.output(self.words.iter().map(OsString::as_os_str).chain(many))?;
        serde_json::from_str(&said).map_err(|error| {
            let path = self.path.display();
            Refused::File(format!(
                "{path}: what it says of {runs} runs from seed {seed} on cannot be read ({error}): name a `gpc` that has these worlds"
            ))
        })
    }

    /// Returns the lines of one run's trace, without the summary after it. The length of a trace is bounded.
    fn trace(&self, replay: &str) -> Result<Vec<String>, Refused> {
        let said = self.output(replay.split_whitespace().skip(2).map(OsStr::new))?;
        Ok(said.lines().take_while(|line| line.contains(" us  ")).map(str::to_owned).collect())
    }

    /// Runs the build, and returns its output. Failed runs are not an error here.
    fn output<'a>(&self, words: impl Iterator<Item = &'a OsStr>) -> Result<String, Refused> {
        let path = self.path.display();
        let mut command = Command::new(self.path);
        command.arg(SIM).args(words).stdin(Stdio::null());
        let output = command.output().map_err(|error| {
            Refused::File(format!(
                "{path} cannot be run: {error}; --against takes the path of another build of gpc"
            ))
        })?;
        if output.stdout.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or("nothing").chars().take(400).collect::<String>();
            return Err(Refused::File(format!("{path} does not make these runs, and says: {said}")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Makes the runs with both builds. `replay` returns the command that shows the run of a seed.
pub(super) fn run(
    args: &SimArgs,
    other: &Path,
    runs: u64,
    replay: impl Fn(u64) -> Result<String, Refused>,
) -> CommandResult {
    let me = std::env::current_exe().map_err(|error| Refused::File(format!("this program: {error}")))?;
    let words = without_ours(std::env::args_os().skip_while(|word| word != SIM).skip(1));
    let [here, there] = [me.as_path(), other].map(|path| Build { path, words: &words });
    let found = first_that_differs(args.seed, runs, |seed, runs| {
        Ok(here.runs(seed, runs)? == there.runs(seed, runs)?)
    })?;
    let difference = found.map(|seed| difference(seed, replay(seed)?, &here, &there)).transpose()?;
    let same = Same { runs, seed: args.seed, against: other.display().to_string(), difference };
    stdout::write(|out| match args.output {
        SimOutput::Table => same.write_table(out),
        SimOutput::Json => write_json(&same, out),
    })?;
    Ok(if same.difference.is_none() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Returns the arguments without those that each process is given anew.
fn without_ours(mut words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut left = Vec::new();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let (name, value) = text.split_once('=').map_or((&*text, None), |(name, value)| (name, Some(value)));
        match (OURS.contains(&name), value) {
            (true, Some(_)) => {}
            (true, None) => drop(words.next()),
            (false, _) => left.push(word),
        }
    }
    left
}

/// Returns the seed of the first run that differs, by bisection.
fn first_that_differs(
    seed: u64,
    runs: u64,
    same: impl Fn(u64, u64) -> Result<bool, Refused>,
) -> Result<Option<u64>, Refused> {
    if same(seed, runs)? {
        return Ok(None);
    }
    let (mut begin, mut count) = (0, runs);
    while count > 1 {
        let half = count / 2;
        (begin, count) =
            if same(seed.wrapping_add(begin), half)? { (begin + half, count - half) } else { (begin, half) };
    }
    Ok(Some(seed.wrapping_add(begin)))
}

/// Returns where the two traces of a run begin to differ.
fn difference(
    seed: u64,
    replay: String,
    here: &Build<'_>,
    there: &Build<'_>,
) -> Result<FirstDifference, Refused> {
    let [ours, theirs] = [here.trace(&replay)?, there.trace(&replay)?];
    let same = ours.iter().zip(&theirs).take_while(|(one, two)| one == two).count();
    let at = |lines: &[String]| lines.get(same).cloned();
    Ok(FirstDifference { seed, same_lines: same as u64, here: at(&ours), there: at(&theirs), replay })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_differs_is_found() {
        for (runs, first) in [(1, 0), (2, 1), (1000, 0), (1000, 617), (1000, 999), (7, 3)] {
            let same = |seed, count| Ok(!(seed..seed + count).contains(&(50 + first)));
            assert_eq!(first_that_differs(50, runs, same), Ok(Some(50 + first)), "{runs} {first}");
        }
        assert_eq!(first_that_differs(50, 1000, |_, _| Ok(true)), Ok(None));
    }

    #[test]
    fn both_are_asked_the_same() {
        let line = "-n 24 --against old/gpc --faults all --runs 10 --seed=7 --output json --partial";
        let left = without_ours(line.split(' ').map(OsString::from));
        assert_eq!(left, ["-n", "24", "--faults", "all", "--partial"]);
    }

    /// A path that was not valid text ended the program.
    #[cfg(unix)]
    #[test]
    fn a_path_need_not_be_text() {
        use std::os::unix::ffi::OsStringExt as _;
        let path = OsString::from_vec(vec![b'/', 0xff]);
        let words = ["--against".into(), path.clone(), "--fit".into(), path.clone()];
        assert_eq!(without_ours(words.into_iter()), ["--fit".into(), path]);
    }
}
