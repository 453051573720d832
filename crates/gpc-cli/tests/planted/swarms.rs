//! The worlds in which a bug is tried (`modes.txt`): which of them catches it, after how many runs, by which checker.

#![allow(
    clippy::disallowed_methods,
    reason = "how long the worlds take without a bug says when one with a bug never ends"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::bug::{Bug, Piece};
use super::list::parts;
use super::{Run, root, simulate};

/// A run is endless if it takes more than this multiple of the CPU time of a run without a bug, plus [`BESIDES`]. CPU
/// time is independent of other load.
const SLOWER: u32 = 10;

/// Constant part of the limit; see [`SLOWER`].
const BESIDES: Duration = Duration::from_secs(10);

/// Time limit of a run without a bug, and maximum of the limit with a bug.
const PATIENCE: Duration = Duration::from_secs(900);

/// Options for worlds of nodes that link, and of groups; other worlds have calls.
const PEERING: &str = "--peering";
const GROUPS: &str = "--groups";

/// Worlds of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mode {
    pub(super) name: String,
    pub(super) sim: String,
    /// CPU time limit of an endless run.
    pub(super) patience: Duration,
    /// Hash of all events without a bug, once it is known.
    pub(super) hash: Option<String>,
}

/// Name for bugs that change the events without a complaint of a checker.
pub(super) const AGAINST: &str = "against";

/// Name for bugs with which a run does not end.
pub(super) const NEVER_ENDS: &str = "never-ends";

/// How a bug was caught.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Caught {
    /// The worlds.
    pub(super) mode: String,
    /// The checkers that complained, or that it panicked or was endless.
    pub(super) by: String,
    /// Number of runs; `None` if it is not known.
    pub(super) runs: Option<u64>,
}

impl Mode {
    /// Whether the code of a bug runs in these worlds.
    pub(super) fn reaches(&self, bug: &Bug) -> bool {
        // Nodes of groups are chains with a domain above.
        let without: &[&str] = match (self.is(PEERING), self.is(GROUPS)) {
            (true, _) => &["src/chain/", "trees/", "crates/gpc-bnr/"],
            (_, true) => &["src/link/"],
            _ => &["crates/gpc-bnr/"],
        };
        let is_without = |piece: &Piece| without.iter().any(|folder| piece.file.starts_with(folder));
        !bug.pieces.iter().all(is_without)
    }

    /// Whether its worlds are of this kind.
    fn is(&self, kind: &str) -> bool {
        self.sim.split_whitespace().any(|word| word == kind)
    }
}

/// Parses modes.
///
/// # Errors
/// The number of the line, what is wrong with it, and what to do.
fn modes_of(text: &str) -> Result<Vec<Mode>, String> {
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let mode = |(line, number): (&str, u32)| match line.split_once(": ") {
        Some((name, sim)) if sim.starts_with("-n ") => {
            Ok(Mode { name: name.into(), sim: sim.into(), patience: BESIDES, hash: None })
        }
        _ => Err(format!("{number}: {line:.80?} is no mode: write `name: -n IDS …`, arguments of `gpc sim`")),
    };
    lines.map(mode).collect()
}

/// Runs every mode without a bug. None may complain, and the time of each, which is at least its CPU time, determines
/// when a run with a bug is endless.
///
/// # Errors
/// A message with the mode and its output.
pub(super) fn sound(gpc: &Path, modes: Vec<Mode>) -> Result<Vec<Mode>, String> {
    let timed = |mut mode: Mode| {
        let begun = Instant::now();
        let run = simulate(gpc, &mode.sim, None, PATIENCE);
        if run.status != Some(0) || !run.checkers.is_empty() {
            let said: String = run.said.chars().take(2000).collect();
            return Err(format!(
                "gpc sim {} complains without a bug, so it cannot judge one:\n{said}",
                mode.sim
            ));
        }
        mode.patience = (begun.elapsed() * SLOWER + BESIDES).min(PATIENCE);
        mode.hash = hash(&run);
        Ok(mode)
    };
    modes.into_iter().map(timed).collect()
}

/// Tries a bug in one mode after another until one catches it.
pub(super) fn caught(gpc: &Path, bug: &Bug, modes: &[Mode]) -> Option<Caught> {
    modes.iter().filter(|mode| mode.reaches(bug)).find_map(|mode| {
        parts(&mode.sim).iter().find_map(|part| {
            let run = simulate(gpc, part, Some(&bug.name), mode.patience);
            by(&run).map(|by| Caught { mode: mode.name.clone(), by, runs: runs(&run, &mode.sim) })
        })
    })
}

/// Returns the first mode in which a bug changes the events, as `gpc sim --against` finds it for two builds.
pub(super) fn differs(gpc: &Path, bug: &Bug, modes: &[Mode]) -> Option<Caught> {
    let with_hash = modes.iter().filter(|mode| mode.hash.is_some() && mode.reaches(bug));
    with_hash
        .filter(|mode| hash(&simulate(gpc, &mode.sim, Some(&bug.name), mode.patience)) != mode.hash)
        .map(|mode| Caught { mode: AGAINST.into(), by: mode.name.clone(), runs: None })
        .next()
}

fn hash(run: &Run) -> Option<String> {
    run.summary.get("hash")?.as_str().map(str::to_owned)
}

/// Returns what complains of a run, if anything does.
fn by(run: &Run) -> Option<String> {
    let checkers: Vec<&str> = run.checkers.iter().map(String::as_str).collect();
    match run.status {
        _ if !checkers.is_empty() => Some(checkers.join(",")),
        None => Some(NEVER_ENDS.into()),
        Some(0) => None,
        // It was killed, or standard error has the reason.
        Some(_) => Some("panic".into()),
    }
}

/// Returns the number of the first failing run, from its seed.
fn runs(run: &Run, sim: &str) -> Option<u64> {
    let seed =
        |line: &str| -> Option<u64> { line.split("--seed ").nth(1)?.split_whitespace().next()?.parse().ok() };
    let first = seed(sim).unwrap_or(1);
    run.replays
        .iter()
        .filter_map(|replay| seed(replay))
        .map(|seed| seed.wrapping_sub(first).wrapping_add(1))
        .min()
}

/// Returns the number of bugs caught by the default swarm, by other modes, and by nothing; also the number for each
/// checker.
pub(super) fn summary(results: &[(Bug, Option<Caught>)]) -> String {
    let of = |wanted: fn(&Caught) -> bool| {
        results.iter().filter(|(_, caught)| caught.as_ref().is_some_and(wanted)).count()
    };
    let swarm = of(|caught| caught.mode.starts_with("default"));
    let longer = of(|caught| caught.mode.starts_with("longer"));
    let all = of(|_| true);
    let mut checkers: BTreeMap<&str, usize> = BTreeMap::new();
    for checker in results.iter().flat_map(|(_, caught)| caught).flat_map(|caught| caught.by.split(',')) {
        *checkers.entry(checker).or_default() += 1;
    }
    let checkers: Vec<String> = checkers.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let tests = of(|caught| caught.mode == "tests");
    let differ = of(|caught| caught.mode == AGAINST);
    let (others, nothing, many) = (all - swarm - longer - tests - differ, results.len() - all, results.len());
    format!(
        "of {many}: {swarm} caught by the default swarm, {longer} more by ten times as many runs of it, {others} by other modes, {tests} by tests alone, {differ} because something else happens than without them, {nothing} by nothing\nby checker, or test: {}",
        checkers.join(", ")
    )
}

/// Returns a line of the table.
pub(super) fn line(bug: &Bug, caught: Option<&Caught>) -> String {
    let name = &bug.name;
    match caught {
        None => format!("{name:<44} not caught"),
        Some(Caught { mode, by, runs: Some(runs) }) => format!("{name:<44} {mode:<24} run {runs:<6} {by}"),
        Some(Caught { mode, by, runs: None }) => format!("{name:<44} {mode:<24} {:<10} {by}", "-"),
    }
}

/// Returns the modes of the default swarm without groups: only calls and links are counted.
pub(super) fn default_modes() -> Vec<Mode> {
    let modes = all_modes().into_iter();
    modes.filter(|mode| mode.name.starts_with("default") && !mode.is(GROUPS)).collect()
}

/// Returns the modes of the file beside this one.
pub(super) fn all_modes() -> Vec<Mode> {
    let path = root().join("crates/gpc-cli/tests/planted/modes.txt");
    let text = std::fs::read_to_string(&path).unwrap();
    modes_of(&text).unwrap_or_else(|why| panic!("{}:{why}", path.display()))
}

#[test]
fn a_bug_is_tried_where_its_code_runs() {
    let bug = |files: &[&str]| Bug {
        pieces: files.iter().map(|file| Piece { file: (*file).into(), ..Piece::default() }).collect(),
        ..Bug::default()
    };
    let tried = |files: &[&str]| {
        let bug = bug(files);
        let modes = "calls: -n 4 --runs 1\nlinks: -n 4 --peering --runs 1\nboth: -n 4 --links peering --runs 1\ngroups: -n 4 --groups --runs 1\n";
        let modes = modes_of(modes).unwrap();
        modes.into_iter().filter(|mode| mode.reaches(&bug)).map(|mode| mode.name).collect::<Vec<_>>()
    };
    assert_eq!(tried(&["src/chain/call.rs"]), ["calls", "both", "groups"]);
    assert_eq!(tried(&["src/link/peering/peer.rs"]), ["calls", "links", "both"]);
    assert_eq!(tried(&["crates/gpc-bnr/src/domain/deaths.rs"]), ["groups"]);
    assert_eq!(
        tried(&["crates/gpc-bnr/src/order.rs", "src/link/peering/peer.rs"]),
        ["calls", "links", "both", "groups"]
    );
    assert_eq!(tried(&["src/wire/head.rs"]), ["calls", "links", "both", "groups"]);
}
