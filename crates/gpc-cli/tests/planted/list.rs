//! Judges the bugs of the list: each must be caught by its checker in its worlds, or by its tests.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a run takes long, says what became of each bug, and may have a time limit"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::bug::Bug;
use super::build::{C_LIBRARY, Product, build_what_compiles, gpc};
use super::programs::{Programs, line_of_tests};
use super::{Run, bugs, root, side_by_side, simulate};

/// Folder of the test builds.
const FOLDER: &str = "planted";

/// Enough for any machine: this time passes only if a bug makes a run endless.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of runs of the first part; see [`parts`].
const FIRST_RUNS: u32 = 100;

/// Which bugs of the list are judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Chosen {
    All,
    Names(Vec<String>),
    /// Those of files that differ from a revision.
    Changed(String),
    /// As many of one test build as fit into this time, in an order that the commit decides; those of files that differ
    /// from a revision, if one is given, are the first.
    Draw(Duration, Option<String>),
}

/// What is to be judged, in order, and the time for it.
struct Choice {
    bugs: Vec<Bug>,
    time: Option<Duration>,
}

impl Chosen {
    /// # Errors
    /// A message, if a name is not on the list, or git fails.
    fn of(self, all: &[Bug]) -> Result<Choice, String> {
        let of = |wanted: &dyn Fn(&Bug) -> bool| all.iter().filter(|bug| wanted(bug)).cloned().collect();
        let (bugs, time) = match self {
            Chosen::All => (all.to_vec(), None),
            Chosen::Names(names) => {
                if let Some(name) = names.iter().find(|name| !all.iter().any(|bug| bug.name == **name)) {
                    return Err(format!("{name:.80?} is no bug of the list"));
                }
                (of(&|bug| names.contains(&bug.name)), None)
            }
            Chosen::Changed(base) => {
                let changed = changed(&base)?;
                (of(&|bug| is_of(bug, &changed)), None)
            }
            Chosen::Draw(time, base) => {
                let changed = base.map_or(Ok(BTreeSet::new()), |base| changed(&base))?;
                let commit = git(&["rev-parse", "HEAD"])?;
                let seed = commit.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
                let seed = seed.ok_or_else(|| format!("git names no commit: {commit:.80?}"))?;
                let mut bugs = shuffled(all.to_vec(), seed);
                bugs.sort_by_key(|bug| !is_of(bug, &changed));
                // A test build takes minutes, so the first bug decides which one is made.
                let package = |bug: &Bug| bug.tests.as_ref().map(|tests| tests.package.clone());
                let first = bugs.first().and_then(package);
                bugs.retain(|bug| package(bug) == first);
                (bugs, Some(time))
            }
        };
        Ok(Choice { bugs, time })
    }
}

/// Returns the files that differ from a revision.
fn changed(base: &str) -> Result<BTreeSet<String>, String> {
    Ok(git(&["diff", "--name-only", base, "--"])?.lines().map(str::to_owned).collect())
}

fn is_of(bug: &Bug, files: &BTreeSet<String>) -> bool {
    bug.pieces.iter().any(|piece| files.contains(&piece.file))
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(root()).output();
    let output = output.map_err(|error| format!("git {}: {error}", arguments.join(" ")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

/// Shuffles by a seed, equally on every machine: with the high half of Knuth's linear congruential generator.
pub(super) fn shuffled(mut bugs: Vec<Bug>, seed: u64) -> Vec<Bug> {
    let mut state = seed;
    for last in (1..bugs.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).unwrap_or_default() % (last + 1);
        bugs.swap(last, other);
    }
    bugs
}

/// Judges the chosen bugs. Prints a line for each, how many were caught, and how to repeat each failure.
///
/// # Errors
/// A message, if the bugs cannot be judged, or one is not caught.
pub(super) fn judge(chosen: Chosen) -> Result<(), String> {
    let all = bugs();
    let Choice { bugs, time } = chosen.of(&all)?;
    let judge = Judge::build(&all, &bugs)?;
    let until = time.map(|time| Instant::now() + time);
    let results = side_by_side(&bugs, |bug| {
        if until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        let result = judge.judge(bug);
        println!("{}", result.line);
        Some(result)
    });
    let judged: Vec<(Bug, Judged)> =
        bugs.into_iter().zip(results).filter_map(|(bug, result)| Some((bug, result?))).collect();
    judge.check_silence(&judged)?;
    let missed: Vec<&(Bug, Judged)> = judged.iter().filter(|(_, result)| !result.is_caught).collect();
    for (bug, result) in &missed {
        println!("\n{}\n{}\nrepeat: .ci/planted names {}", result.line, result.said, bug.name);
    }
    println!("{} of {} bugs are caught", judged.len() - missed.len(), judged.len());
    match missed.len() {
        0 => Ok(()),
        missed => Err(format!("{missed} bugs are not caught")),
    }
}

/// Test builds with all bugs of the list.
struct Judge {
    /// Path of `gpc`. It is built only if a bug needs it.
    gpc: PathBuf,
    programs: Option<Programs>,
    /// Names of bugs that do not compile.
    dropped: BTreeSet<String>,
}

/// Result of a bug.
struct Judged {
    is_caught: bool,
    /// Line of the table.
    line: String,
    /// What the run printed, if the bug was not caught.
    said: String,
    /// The worlds that were tried.
    worlds: Option<String>,
}

impl Judge {
    /// Builds what these bugs need. All bugs are in each build, so that it stays the same whatever is chosen.
    ///
    /// # Errors
    /// The output of the compiler.
    fn build(all: &[Bug], chosen: &[Bug]) -> Result<Judge, String> {
        let mut dropped = BTreeSet::new();
        let mut build = |product: &Product<'_>| {
            let build = build_what_compiles(FOLDER, all, product)?;
            dropped.extend(build.dropped);
            Ok::<String, String>(build.messages)
        };
        if chosen.iter().any(|bug| bug.tests.is_none()) {
            build(&Product::Gpc)?;
        }
        let packages: BTreeSet<&str> =
            chosen.iter().flat_map(|bug| &bug.tests).map(|tests| tests.package.as_str()).collect();
        let (of_c, others): (BTreeSet<&str>, BTreeSet<&str>) =
            packages.into_iter().partition(|package| *package == C_LIBRARY);
        let mut messages = String::new();
        for packages in [&of_c, &others].into_iter().filter(|packages| !packages.is_empty()) {
            messages.push_str(&build(&Product::Tests(packages))?);
        }
        let programs = (!messages.is_empty()).then(|| Programs::of(FOLDER, &messages));
        Ok(Judge { gpc: gpc(FOLDER), programs, dropped })
    }

    fn judge(&self, bug: &Bug) -> Judged {
        if self.dropped.contains(&bug.name) {
            let line = format!("{:<44} does not compile", bug.name);
            return Judged { is_caught: false, line, said: bug.breaks.clone(), worlds: None };
        }
        if let (Some(_), Some(programs)) = (&bug.tests, &self.programs) {
            let result = programs.try_bug(bug);
            let line = line_of_tests(bug, &result);
            return Judged { is_caught: result.is_ok(), line, said: bug.breaks.clone(), worlds: None };
        }
        let Bug { name, breaks, checker, .. } = bug;
        let (run, worlds) = caught(&self.gpc, bug);
        let checkers: Vec<&str> = run.checkers.iter().map(String::as_str).collect();
        let line = format!("{name:<44} {:<28} {}", checkers.join(","), run.first);
        let said: String = run.said.chars().take(600).collect();
        let said = format!("{breaks} {checker} does not say so: {:?}\n{said}", run.status);
        Judged { is_caught: tells(&run, bug), line, said, worlds: Some(worlds) }
    }

    /// Checks that the worlds that catch a bug are silent without it; `.ci/seeds` tries more worlds.
    ///
    /// # Errors
    /// The worlds that are not, and their output.
    fn check_silence(&self, judged: &[(Bug, Judged)]) -> Result<(), String> {
        let lines = longest(judged.iter().filter_map(|(_, result)| result.worlds.as_deref()));
        let runs = side_by_side(&lines, |line| simulate(&self.gpc, line, None, PATIENCE));
        match lines.iter().zip(runs).find(|(_, run)| run.status != Some(0) || !run.checkers.is_empty()) {
            Some((line, run)) => Err(format!("gpc sim {line}, without a bug:\n{}", run.said)),
            None => Ok(()),
        }
    }
}

/// Whether a run complains as the bug requires.
fn tells(run: &Run, bug: &Bug) -> bool {
    run.status == Some(1) && run.checkers.contains(&bug.checker)
}

/// Tries a bug in one part of its worlds after another until one catches it. Returns the last run, and a line for all
/// parts that were tried.
fn caught(gpc: &Path, bug: &Bug) -> (Run, String) {
    let is_part = !bug.sim.contains("--seed");
    let line = |sim: &str| if is_part { up_to(sim) } else { sim.to_owned() };
    let try_part = |sim: String| (simulate(gpc, &sim, Some(&bug.name), PATIENCE), line(&sim));
    let mut parts = parts(&bug.sim).into_iter().map(try_part);
    let mut tried = parts.next().expect("there is one part at least");
    while !tells(&tried.0, bug)
        && let Some(next) = parts.next()
    {
        tried = next;
    }
    tried
}

/// Returns the line for a [part](parts) and those before it.
fn up_to(part: &str) -> String {
    let number = |text: &str| text.parse::<u32>().ok();
    let split = part.split_once("--seed ").and_then(|(what, rest)| {
        let (seed, runs) = rest.split_once(" --runs ")?;
        Some((what, number(seed)? + number(runs)? - 1))
    });
    split.map_or_else(|| part.to_owned(), |(what, runs)| format!("{what}--runs {runs}"))
}

/// Divides the arguments of `gpc sim` for many runs into parts, each with four times as many runs as the one before:
/// most bugs are caught early.
pub(super) fn parts(sim: &str) -> Vec<String> {
    let runs = sim.split_once("--runs ").and_then(|(what, runs)| Some((what, runs.parse::<u32>().ok()?)));
    let Some((what, all)) = runs.filter(|(what, all)| !what.contains("--seed") && *all > FIRST_RUNS) else {
        return vec![sim.to_owned()];
    };
    let (mut parts, mut seed, mut most) = (Vec::new(), 1, FIRST_RUNS);
    while seed <= all {
        let runs = most.min(all - seed + 1);
        parts.push(format!("{what}--seed {seed} --runs {runs}"));
        (seed, most) = (seed + runs, most.saturating_mul(4));
    }
    parts
}

#[test]
fn parts_of_many_runs_are_all_of_them() {
    let three = ["-n 4 --seed 1 --runs 100", "-n 4 --seed 101 --runs 400", "-n 4 --seed 501 --runs 1500"];
    assert_eq!(parts("-n 4 --runs 2000"), three);
    assert_eq!(parts("-n 4 --runs 501")[2], "-n 4 --seed 501 --runs 1");
    assert_eq!(three.map(up_to), ["-n 4 --runs 100", "-n 4 --runs 500", "-n 4 --runs 2000"]);
    assert_eq!(["-n 4", "-n 4 --runs 100"].map(up_to), ["-n 4", "-n 4 --runs 100"]);
    for whole in ["-n 4", "-n 4 --runs 100", "-n 4 --seed 7 --runs 200"] {
        assert_eq!(parts(whole), [whole]);
    }
}

/// Of lines that differ only in the number of runs, keeps the one with most runs, which includes the others.
fn longest<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let runs = |line: &str| line.split_once("--runs ").and_then(|(_, runs)| runs.parse::<u64>().ok());
    let mut all: BTreeMap<&str, &str> = BTreeMap::new();
    for line in lines {
        let what = line.split_once("--runs ").filter(|_| runs(line).is_some()).map_or(line, |(what, _)| what);
        let most = all.entry(what).or_insert(line);
        if runs(line) > runs(most) {
            *most = line;
        }
    }
    all.into_values().collect()
}

#[test]
fn of_lines_that_differ_in_runs_the_longest_is_enough() {
    let lines = ["-n 4 --runs 100", "-n 5", "-n 4 --runs 20", "-n 4 --runs 300", "-n 4 --runs 9 --partial"];
    assert_eq!(longest(lines.into_iter()), ["-n 4 --runs 300", "-n 4 --runs 9 --partial", "-n 5"]);
}
