//! Tests the tests: planted bugs are switched on one at a time in a test build, and a checker of `gpc sim`, or a test,
//! must catch each.
//!
//! The bugs are data (`bugs/*.txt`), so the code under test has no branch for them. ARCHITECTURE.md, "Planted bugs",
//! says how to add one.
//!
//! Test builds take minutes, so `run.rs` makes a program of its own from this code, for `.ci/planted`, `.ci/coverage`,
//! `try` and `mutate`. The tests here are those of this code, and whether the list is true of the sources.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bug;
mod build;
mod command;
mod counters;
mod file;
mod list;
mod mutants;
mod programs;
mod reached;
mod swarms;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use bug::{Bug, Tests, is_source, parse, planted, written};
#[allow(unused_imports, reason = "the program of run.rs starts here")]
pub(crate) use command::run;

/// Maximum ratio of the elapsed time of a run to its CPU time: other processes may use the cores, too.
const BUSY: u32 = 10;

/// Far more than any run takes without a bug.
const MEMORY_KIB: u64 = 4 << 20;

/// Minimum number of bugs: fewer would not cover all kinds of faults.
const BUGS_MIN: usize = 50;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the package lies in the project")
}

fn has_package(name: &str) -> bool {
    root().join(Tests::folder(name)).join("Cargo.toml").is_file()
}

fn bugs() -> Vec<Bug> {
    bug::read(&root().join("crates/gpc-cli/tests/planted/bugs"))
}

/// Returns the names of functions and modules of a package: parts of the names of its tests. Test builds say what tests
/// there are, but take minutes.
fn names_in(package: &str) -> BTreeSet<String> {
    let folder = root().join(Tests::folder(package));
    let (mut left, mut names) = (vec![folder.join("src"), folder.join("tests")], BTreeSet::new());
    while let Some(path) = left.pop() {
        if let Ok(inside) = std::fs::read_dir(&path) {
            left.extend(inside.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let words: Vec<&str> = text.split(|sign: char| !sign.is_alphanumeric() && sign != '_').collect();
            let named = words.windows(2).filter(|pair| ["fn", "mod"].contains(&pair[0]));
            names.extend(named.map(|pair| pair[1].to_owned()));
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names
}

/// Result of a run of the test build.
struct Run {
    /// Exit status.
    status: Option<i32>,
    /// The checkers that complain, and the first complaint.
    checkers: BTreeSet<String>,
    first: String,
    /// Commands that reproduce the failures.
    replays: Vec<String>,
    /// JSON output.
    summary: serde_json::Value,
    /// All output, for the case that it is not as expected.
    said: String,
}

/// Runs `gpc sim` of the test build with a bug switched on, or with none, for at most this CPU time.
fn simulate(gpc: &Path, sim: &str, bug: Option<&str>, patience: Duration) -> Run {
    simulate_with(gpc, sim, bug.map(|bug| (build::VARIABLE, OsStr::new(bug))), patience)
}

/// Runs `gpc sim` of a test build with one more environment variable.
fn simulate_with(gpc: &Path, sim: &str, variable: Option<(&str, &OsStr)>, patience: Duration) -> Run {
    let mut command = bounded(gpc, patience);
    // Bugs run in parallel, so each run has one thread.
    command.arg("sim").args(sim.split_whitespace()).args(["--output", "json"]).env("RAYON_NUM_THREADS", "1");
    command.current_dir(root()).env_remove(build::VARIABLE);
    command.envs(variable);
    let Output { status, stdout, stderr } = output(&mut command, patience * BUSY);
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let (mut violations, mut replays) = (Vec::new(), Vec::new());
    let summary = serde_json::from_str(&stdout).unwrap_or_default();
    collect(&summary, &mut violations, &mut replays);
    let checker = |violation: &String| violation.split(": ").next().unwrap_or_default().to_owned();
    Run {
        status: status.code(),
        checkers: violations.iter().map(checker).collect(),
        first: stderr.lines().next().unwrap_or_default().to_owned(),
        replays,
        summary,
        said: format!("{stdout}\n{stderr}"),
    }
}

/// Returns a command that is limited to [`MEMORY_KIB`] of memory and to this CPU time, if the system supports that: a
/// bug may take all of either.
fn bounded(gpc: &Path, patience: Duration) -> Command {
    if cfg!(not(target_os = "linux")) {
        return Command::new(gpc);
    }
    let mut command = Command::new("sh");
    let limits = format!("ulimit -v {MEMORY_KIB}; ulimit -t {}; exec \"$0\" \"$@\"", patience.as_secs());
    command.args(["-c", &limits]).arg(gpc);
    command
}

/// Runs a command to its end; an endless one is killed.
fn output(command: &mut Command, patience: Duration) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (send, ended) = channel();
    let errors = std::thread::spawn(move || {
        let mut err = Vec::new();
        stderr.read_to_end(&mut err).map(|_| err)
    });
    let reader = std::thread::spawn(move || {
        let mut out = Vec::new();
        let read = stdout.read_to_end(&mut out);
        // After the time limit, the receiver is gone.
        let _ = send.send(());
        read.map(|_| out)
    });
    if ended.recv_timeout(patience).is_err() {
        child.kill().unwrap();
    }
    let (stdout, stderr) = (reader.join().unwrap().unwrap(), errors.join().unwrap().unwrap());
    Output { status: child.wait().unwrap(), stdout, stderr }
}

/// Collects the violations of a summary at any depth, and the commands that reproduce them.
fn collect(summary: &serde_json::Value, violations: &mut Vec<String>, replays: &mut Vec<String>) {
    for (key, value) in summary.as_object().into_iter().flatten() {
        let entries = value.as_array().map(Vec::as_slice).unwrap_or_default();
        match key.as_str() {
            "violations" => {
                violations.extend(entries.iter().filter_map(|entry| entry.as_str().map(str::to_owned)))
            }
            "failures" => entries.iter().for_each(|entry| collect(entry, violations, replays)),
            "replay" => replays.extend(value.as_str().map(str::to_owned)),
            _ => {}
        }
    }
}

/// Calls a function for each item on as many threads as there are processors; returns the results in the order of the
/// items.
fn side_by_side<T: Sync, R: Send>(many: &[T], what: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, results) = (Mutex::new(0..many.len()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(index) = next.lock().unwrap().next() else { return };
                    let result = what(&many[index]);
                    results.lock().unwrap().push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn the_list_names_tests_that_there_are() {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for bug in bugs() {
        let Some(Tests { package, filters }) = bug.tests else { continue };
        let names = names.entry(package).or_insert_with_key(|package| names_in(package));
        for filter in filters {
            let part = filter.split("::").filter(|part| !part.is_empty()).last().unwrap_or_default();
            let is_named = names.iter().any(|name| name.contains(part));
            assert!(!part.is_empty() && is_named, "{}: no test is named `{filter}`", bug.name);
        }
    }
}

#[test]
fn the_list_is_true_of_the_code_as_it_is() {
    let bugs = bugs();
    let mut names = BTreeSet::new();
    let twice: Vec<&str> =
        bugs.iter().map(|bug| bug.name.as_str()).filter(|name| !names.insert(*name)).collect();
    assert_eq!(twice, [""; 0], "these names are there twice");
    assert!(bugs.len() >= BUGS_MIN, "{} bugs", bugs.len());
    for bug in &bugs {
        let Bug { name, breaks, checker, sim, tests, pieces } = bug;
        let in_worlds = !checker.is_empty() && sim.starts_with("-n ");
        assert!(!breaks.is_empty() && in_worlds != tests.is_some(), "{bug:?}");
        if let Some(Tests { package, filters }) = tests {
            assert!(!filters.is_empty(), "{name}: which tests of {package}?");
            assert!(has_package(package), "{name}: {package} is no package");
        }
        assert!(!pieces.is_empty() && pieces.iter().all(|piece| !piece.find.is_empty()), "{name}");
        assert!(pieces.iter().any(|piece| piece.replacement.contains("planted!()")), "{name} is always on");
    }
    let files: BTreeSet<&str> =
        bugs.iter().flat_map(|bug| &bug.pieces).map(|piece| piece.file.as_str()).collect();
    for file in files {
        assert!(is_source(file), "{file} is no source file of the project");
        let text =
            std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        planted(file, &text, &bugs).unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn a_bug_is_read_and_planted() {
    let text = "# For the reader.\n\n== one\nIt adds one.\nchecker: answers\nsim: -n 3\nin: src/a.rs\n- x = 1;\n+ x = 1 + i32::from(planted!());\n+ y();\n\n\
                == two\nTwo places.\nchecker: route\nsim: -n 4\nin: src/a.rs\n- z = 3;\n-   w\n+ z = 4;\nin: trees/src/b.rs\n- q\n+ planted!()\n";
    let bugs = parse(text).unwrap();
    assert_eq!((bugs.len(), bugs[0].checker.as_str(), bugs[1].pieces.len()), (2, "answers", 2));
    let code = "x = 1;\nz = 3;\n  w\n";
    let changed = "x = 1 + i32::from(gpc_trees::planted(\"one\"));\ny();\nz = 4;\n";
    let done = planted("src/a.rs", code, &bugs).unwrap();
    assert_eq!((done.text.as_str(), done.places.len()), (changed, 2));
    assert_eq!(&done.text[done.places[1].0.clone()], "z = 4;");
    let home =
        |file: &str| planted(file, "q", &parse(&format!("== a\nin: {file}\n- q\n+ planted!()\n")).unwrap());
    assert_eq!(home("crates/gpc-impi/src/a.rs").unwrap().text, "chained_gpc::trees::planted(\"a\")");
    assert_eq!(home("crates/gpc-launch/src/a.rs").unwrap().text, "gpc_trees::planted(\"a\")");
    assert_eq!(planted("trees/src/b.rs", "(q)", &bugs).unwrap().text, "(crate::planted(\"two\"))");
    let tested =
        parse("== a\nIt breaks.\ntests: gpc-launch words lines::tests\nin: src/a.rs\n- q\n+ planted!()\n")
            .unwrap();
    let tests = tested[0].tests.clone().unwrap();
    assert_eq!((tests.package.as_str(), tests.filters.len()), ("gpc-launch", 2));
    assert_eq!(parse(&written(&tested[0])).unwrap(), tested);
    assert!(planted("src/a.rs", "z = 3;\n  w", &bugs).unwrap_err().contains("`x = 1;` 0 times"));
    assert!(planted("src/a.rs", &code.repeat(2), &bugs).unwrap_err().contains("2 times"));
    let mut overlap = parse(text).unwrap();
    overlap[1].pieces[0].find = "1;\nz".into();
    assert!(planted("src/a.rs", code, &overlap).unwrap_err().contains("overlaps"));
    overlap[1].pieces[0].find = "x = 1".into();
    assert!(planted("src/a.rs", code, &overlap).unwrap_err().contains("the same text"));
}
