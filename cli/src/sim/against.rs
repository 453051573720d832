//! `gpc sim --against BUILD`: the same runs with two builds, this one and that one. A change of the inside is to change nothing that happens; where it does, this says in which run first, and at which line of its trace.
//!
//! Both builds run as processes, this one too, so that both do exactly the same.

use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

use super::output::{FirstDifference, Same, write_json};
use crate::args::{SimArgs, SimOutput};
use crate::refused::Refused;
use crate::{CommandResult, FAILED, stdout};

/// Arguments that are given to each process anew, and how many words each has behind it.
const OURS: [(&str, usize); 4] = [("--against", 1), ("--runs", 1), ("--seed", 1), ("--output", 1)];

/// Lines of a trace that are read from a build at most: as many as one keeps, and its summary.
const LINES_MAX: usize = (1 << 20) + 64;

/// What a build says of many runs.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
struct Runs {
    runs: u64,
    /// Of all events of all of them.
    hash: String,
}

/// One of the two.
struct Build<'a> {
    path: &'a Path,
    /// What both are asked.
    words: &'a [String],
}

impl Build<'_> {
    /// What so many runs come to.
    fn runs(&self, seed: u64, runs: u64) -> Result<Runs, Refused> {
        let many =
            ["--seed", &seed.to_string(), "--runs", &runs.to_string(), "--output", "json"].map(str::to_owned);
        let said = self.output(self.words.iter().chain(&many))?;
        serde_json::from_str(&said).map_err(|error| {
            let path = self.path.display();
            Refused::File(format!(
                "{path}: what it says of {runs} runs from seed {seed} on cannot be read ({error}): name a `gpc` that has these worlds"
            ))
        })
    }

    /// The lines of one run's trace, without what the machine says of it.
    fn trace(&self, line: &str) -> Result<Vec<String>, Refused> {
        let words: Vec<String> = line.split_whitespace().skip(2).map(str::to_owned).collect();
        let said = self.output(words.iter())?;
        let lines = said.lines().take(LINES_MAX).filter(|line| !line.contains(" of this machine"));
        Ok(lines.map(str::to_owned).collect())
    }

    /// What it writes. That runs fail is for its own command to say.
    fn output<'a>(&self, words: impl Iterator<Item = &'a String>) -> Result<String, Refused> {
        let path = self.path.display();
        let mut command = Command::new(self.path);
        command.arg("sim").args(words).stdin(Stdio::null());
        let output = command.output().map_err(|error: io::Error| {
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

/// Makes the runs with both builds. `replay` gives the command that shows the run of a seed.
pub(super) fn run(
    args: &SimArgs,
    other: &Path,
    runs: u64,
    replay: impl Fn(u64) -> Result<String, Refused>,
) -> CommandResult {
    let me = std::env::current_exe().map_err(|error| Refused::File(format!("this program: {error}")))?;
    let words = without_ours(std::env::args().skip(2));
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

/// The arguments without those that each process is given anew.
fn without_ours(words: impl Iterator<Item = String>) -> Vec<String> {
    let (mut left, mut skip) = (Vec::new(), 0);
    for word in words {
        let ours = OURS.iter().find(|(name, _)| word.split('=').next() == Some(*name));
        match ours {
            _ if skip > 0 => skip -= 1,
            Some((_, behind)) => skip = if word.contains('=') { 0 } else { *behind },
            None => left.push(word),
        }
    }
    left
}

/// The seed of the first of so many runs that differs: halves what is left, until one is.
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

/// Where the two traces of a run part.
fn difference(
    seed: u64,
    replay: String,
    here: &Build<'_>,
    there: &Build<'_>,
) -> Result<FirstDifference, Refused> {
    let [ours, theirs] = [here.trace(&replay)?, there.trace(&replay)?];
    // The hash of all stands behind them.
    let of_trace = |lines: &[String]| lines.iter().take_while(|line| line.contains(" us  ")).count();
    let (mine, other) = (&ours[..of_trace(&ours)], &theirs[..of_trace(&theirs)]);
    let same = mine.iter().zip(other).take_while(|(one, two)| one == two).count();
    let at = |lines: &[String]| lines.get(same).cloned();
    Ok(FirstDifference { seed, same_lines: same as u64, here: at(mine), there: at(other), replay })
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
        let left = without_ours(line.split(' ').map(str::to_owned));
        assert_eq!(left, ["-n", "24", "--faults", "all", "--partial"]);
    }
}
