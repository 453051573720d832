//! Tries the bugs of a given file, and automatic mutants, in worlds or with tests: for
//! `crates/gpc-cli/tests/planted/try FILE` and `crates/gpc-cli/tests/planted/mutate`.

#![allow(clippy::print_stdout, reason = "a run takes long, and says of each bug what became of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::bug::{Bug, Piece, Tests, is_source, parse, place, planted, read_file, written};
use super::build::{Product, build_what_compiles, gpc};
use super::list::shuffled;
use super::mutants::mutants;
use super::programs::{Missed, Programs, line_of_tests};
use super::swarms::{Caught, Mode, NEVER_ENDS, all_modes, caught, differs, line, sound, summary};
use super::{has_package, root, side_by_side};

/// Files without simulated code: worlds have a model instead of real proofs, and read no files. This code has other
/// tests.
pub(super) const NOT_SIMULATED: [&str; 4] = [
    "src/chain/involved.rs",
    "src/link/peering/key.rs",
    "src/link/peering/noise.rs",
    "src/link/peering/secret.rs",
];

/// Maximum number of bugs in a build: every bug makes it a little slower.
const BATCH_MAX: usize = 400;

/// Mutants that nothing catches and that break nothing, with the reason; and bugs that nothing catches.
const EXPLAINED: [&str; 2] = ["harmless.txt", "holes.txt"];

/// Tests of the library that may catch a bug in simulated code which no world shows.
const LIBRARY: [&str; 6] = ["chain::", "peering::", "wire::", "bad_bytes::", "short_frames::", "runtime::"];

/// Folders of the test builds, one for each task, since both may run at once.
const FOLDERS: [&str; 2] = ["given", "mutants"];

/// Arguments of a run of mutants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MutantOptions {
    /// Prefixes of the paths of files.
    files: Vec<String>,
    /// Seed of the sample.
    seed: u64,
    /// Size of the sample, spread over all files.
    count: usize,
    /// Prefix of the names of modes.
    modes: String,
    /// File to which the bugs are written, instead of running them.
    list: Option<PathBuf>,
}

impl MutantOptions {
    /// # Errors
    /// A message with the argument, and the possible ones.
    pub(super) fn of(line: &str) -> Result<MutantOptions, String> {
        let files = vec!["src/chain/".into(), "src/link/peering/".into()];
        let mut options = MutantOptions { files, seed: 1, count: 300, modes: String::new(), list: None };
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word}: and what? {USAGE}"))?;
            let number =
                || value.parse().map_err(|_| format!("{word} {value:.40?}: that is no number. {USAGE}"));
            match word {
                "--files" => options.files = value.split(',').map(str::to_owned).collect(),
                "--seed" => options.seed = number()?,
                "--count" => options.count = usize::try_from(number()?).unwrap_or(usize::MAX),
                "--modes" => options.modes = value.into(),
                "--list" => options.list = Some(value.into()),
                _ => return Err(format!("{word:.40?}: there is no such argument. {USAGE}")),
            }
        }
        Ok(options)
    }
}

const USAGE: &str = "Arguments: --files BEGINNING-OF-PATH,… --seed NUMBER --count NUMBER --modes BEGINNING-OF-NAME --list FILE";

/// Positions of the bugs of a build, by file.
type ChangedRanges<'a> = BTreeMap<&'a str, Vec<Range<usize>>>;

/// Bugs, and what caught each of them.
type Results = Vec<(Bug, Option<Caught>)>;

/// Divides bugs among as few builds as possible: two bugs of one build never change the same text.
///
/// # Errors
/// A message, if the file or the text of a bug does not exist.
fn batches(bugs: &[Bug]) -> Result<Vec<Vec<Bug>>, String> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut batches: Vec<(Vec<Bug>, ChangedRanges<'_>)> = Vec::new();
    for bug in bugs {
        let mut places: Vec<(&str, Range<usize>)> = Vec::new();
        for piece in &bug.pieces {
            let Piece { file, .. } = piece;
            if !texts.contains_key(file.as_str()) {
                texts.insert(file, source(&bug.name, file)?);
            }
            let at = place(bug, piece, &texts[file.as_str()])?;
            if places.iter().any(|(other, there)| other == file && overlap(there, &at)) {
                return Err(format!(
                    "{}: two of its pieces change the same text of {file}: make one of them",
                    bug.name
                ));
            }
            places.push((file, at));
        }
        let free = |taken: &ChangedRanges<'_>| {
            let is_free = |(file, at): &(&str, Range<usize>)| {
                taken.get(file).into_iter().flatten().all(|there| !overlap(there, at))
            };
            places.iter().all(is_free)
        };
        let room = batches.iter_mut().find(|(batch, taken)| batch.len() < BATCH_MAX && free(taken));
        let (batch, taken) = match room {
            Some(found) => found,
            None => {
                batches.push(Default::default());
                batches.last_mut().expect("it was just put there")
            }
        };
        batch.push(bug.clone());
        places.into_iter().for_each(|(file, at)| taken.entry(file).or_default().push(at));
    }
    Ok(batches.into_iter().map(|(batch, _)| batch).collect())
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Returns the text of the source file of a bug.
///
/// # Errors
/// A message, if it does not exist.
fn source(bug: &str, file: &str) -> Result<String, String> {
    if !is_source(file) {
        return Err(format!(
            "{bug}: {file:.80?} is no source file of the project: bugs go into src, trees/src or crates/NAME/src"
        ));
    }
    fs::read_to_string(root().join(file)).map_err(|error| {
        format!(
            "{bug}: {file}: {error}: `in:` takes the path of a source file, from the folder of the project"
        )
    })
}

/// Builds the bugs and tries each of them: those with tests by these, the others in worlds. Of given bugs, those that
/// no world shows are also tried with the tests of the library; a mutant that makes tests endless is caught. Prints a
/// line for each bug. Returns the results, and the names of bugs that do not compile.
///
/// # Errors
/// A message, if the bugs cannot be tried.
fn tried(
    folder: &str,
    bugs: &[Bug],
    of: &str,
    is_given: bool,
) -> Result<(Results, BTreeSet<String>), String> {
    let (mut results, mut dropped) = (Vec::new(), BTreeSet::new());
    for mut batch in batches(bugs)? {
        if batch.iter().any(|bug| bug.tests.is_none()) {
            let build = build_what_compiles(folder, &batch, &Product::Gpc)?;
            batch.retain(|bug| !build.dropped.contains(&bug.name));
            dropped.extend(build.dropped);
            let in_worlds: Vec<Bug> = batch.iter().filter(|bug| bug.tests.is_none()).cloned().collect();
            results.extend(tried_in_worlds(folder, in_worlds, of, is_given)?);
        }
        if batch.iter().any(|bug| bug.tests.is_some()) {
            let (found, not_compiled) = tried_by_tests(folder, &batch, (!is_given).then_some(NEVER_ENDS))?;
            results.extend(found);
            dropped.extend(not_compiled);
        }
    }
    Ok((results, dropped))
}

/// Tries bugs of the build in that folder in worlds.
fn tried_in_worlds(folder: &str, bugs: Vec<Bug>, of: &str, with_tests: bool) -> Result<Results, String> {
    let gpc = gpc(folder);
    let reached = |mode: &Mode| bugs.iter().any(|bug| mode.reaches(bug));
    let wanted = all_modes().into_iter().filter(|mode| mode.name.starts_with(of) && reached(mode));
    let modes = sound(&gpc, wanted.collect())?;
    let judged = side_by_side(&bugs, |bug| {
        let caught = caught(&gpc, bug, &modes);
        println!("{}", line(bug, caught.as_ref()));
        caught
    });
    let mut judged: Results = bugs.into_iter().zip(judged).collect();
    let left: Vec<Bug> =
        judged.iter().filter(|(_, caught)| caught.is_none()).map(|(bug, _)| bug.clone()).collect();
    if with_tests && !left.is_empty() {
        let found = tried_by_library(folder, &left, |bug| differs(&gpc, bug, &modes))?;
        let escaped = judged.iter_mut().filter(|(_, caught)| caught.is_none());
        escaped.zip(found).for_each(|((_, caught), found)| *caught = found);
    }
    Ok(judged)
}

/// Tries bugs that compile with the tests of the library, and then otherwise.
fn tried_by_library(
    folder: &str,
    bugs: &[Bug],
    or_else: impl Fn(&Bug) -> Option<Caught> + Sync,
) -> Result<Vec<Option<Caught>>, String> {
    let tests = Tests { package: "chained-gpc".into(), filters: LIBRARY.map(str::to_owned).into() };
    let build = build_what_compiles(folder, bugs, &Product::Tests(&[tests.package.as_str()].into()))?;
    let programs = Programs::of(folder, &build.messages);
    Ok(side_by_side(bugs, |bug| {
        let caught = match programs.try_with(&bug.name, &tests) {
            Ok((by, _)) => Some(Caught { mode: "tests".into(), by, runs: None }),
            Err(Missed::Unfit(why)) => {
                println!("{}: {why}", bug.name);
                or_else(bug)
            }
            Err(_) => or_else(bug),
        };
        println!("{}", line(bug, caught.as_ref()));
        caught
    }))
}

/// Tries those bugs of a batch that name tests. Returns the bugs that do not compile, too. `endless` says what a run
/// that does not end counts as.
fn tried_by_tests(
    folder: &str,
    batch: &[Bug],
    endless: Option<&str>,
) -> Result<(Results, BTreeSet<String>), String> {
    let packages = batch.iter().flat_map(|bug| &bug.tests).map(|tests| tests.package.as_str()).collect();
    let build = build_what_compiles(folder, batch, &Product::Tests(&packages))?;
    let left = batch.iter().filter(|bug| bug.tests.is_some() && !build.dropped.contains(&bug.name));
    let left: Vec<Bug> = left.cloned().collect();
    let programs = Programs::of(folder, &build.messages);
    let caught = side_by_side(&left, |bug| {
        let result = programs.try_bug(bug);
        println!("{}", line_of_tests(bug, &result));
        let by = match (result, endless) {
            (Ok((test, _)), _) => test,
            (Err(Missed::TooLong(_)), Some(endless)) => endless.to_owned(),
            (Err(_), _) => return None,
        };
        Some(Caught { mode: "tests".into(), by, runs: None })
    });
    Ok((left.into_iter().zip(caught).collect(), build.dropped))
}

/// Returns the mutants of a sample, and the number of all mutants. They are taken from each file in turn, so that small
/// files have their share.
fn sample(options: &MutantOptions) -> Result<(Vec<Bug>, usize), String> {
    let mut files = Vec::new();
    for folder in ["crates", "src", "trees"] {
        sources(&root().join(folder), folder, &mut files);
    }
    files.retain(|file| is_source(file));
    files.retain(|file| options.files.iter().any(|begin| file.starts_with(begin.as_str())));
    files.retain(|file| !NOT_SIMULATED.contains(&file.as_str()));
    if files.is_empty() {
        return Err(format!("no source file begins with any of {:?}", options.files));
    }
    let mut all = 0;
    let mut rest: Vec<std::vec::IntoIter<Bug>> = Vec::new();
    for (file, number) in files.iter().zip(0..) {
        let mut found = mutants(file, &source("a mutant", file)?)?;
        found.iter_mut().for_each(|bug| bug.tests = tests_of(file));
        all += found.len();
        rest.push(shuffled(found, options.seed.wrapping_add(number)).into_iter());
    }
    let mut turns = Vec::new();
    while turns.len() < all {
        turns.extend(rest.iter_mut().filter_map(Iterator::next));
    }
    let chosen: Vec<Bug> = batches(&turns)?.into_iter().flatten().take(options.count).collect();
    Ok((chosen, all))
}

/// Returns the tests for mutants of a file; `None` if worlds judge its code.
fn tests_of(file: &str) -> Option<Tests> {
    let mut parts = file.split('/');
    match (parts.next()?, parts.next()?) {
        _ if file.starts_with("crates/gpc-bnr/src/domain/") => None,
        ("src", "chain" | "peering" | "wire") => None,
        // All tests of the library take too long.
        ("src", part) => {
            let part = part.trim_end_matches(".rs");
            Some(Tests { package: "chained-gpc".into(), filters: vec![format!("{part}::")] })
        }
        ("trees", _) => Some(Tests { package: "gpc-trees".into(), filters: Vec::new() }),
        (_, package) => Some(Tests { package: package.into(), filters: Vec::new() }),
    }
}

/// Collects the paths of a folder's sources, without tests.
fn sources(folder: &Path, name: &str, files: &mut Vec<String>) {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for inner in names {
        let (path, inner_name) = (folder.join(&inner), format!("{name}/{inner}"));
        if path.is_dir() && !["target", "tests"].contains(&inner.as_str()) {
            sources(&path, &inner_name, files);
        } else if inner.ends_with(".rs") && inner != "tests.rs" {
            files.push(inner_name);
        }
    }
}

/// Returns the bugs of a file beside this one.
fn beside(name: &str) -> Vec<Bug> {
    read_file(&root().join("crates/gpc-cli/tests/planted").join(name)).unwrap_or_else(|why| panic!("{why}"))
}

/// Returns the explained survivors, harmless ones and known holes: the name of the file for each change.
fn explained() -> BTreeMap<Vec<Piece>, &'static str> {
    let of = |name: &'static str| beside(name).into_iter().map(move |bug| (bug.pieces, name));
    EXPLAINED.into_iter().flat_map(of).collect()
}

/// Tries the bugs of a file.
///
/// # Errors
/// A message, if one is not caught or does not compile, or the file cannot be read.
pub(super) fn try_file(path: &Path) -> Result<(), String> {
    let bugs = read_file(path)?;
    for (bug, tests) in bugs.iter().flat_map(|bug| bug.tests.as_ref().map(|tests| (bug, tests))) {
        if !has_package(&tests.package) {
            return Err(format!("{}: {:.80?} is no package of the project", bug.name, tests.package));
        }
    }
    let (results, dropped) = tried(FOLDERS[0], &bugs, "", true)?;
    for name in &dropped {
        println!("{name:<44} does not compile");
    }
    println!("{}", summary(&results));
    let escaped = results.iter().filter(|(_, caught)| caught.is_none()).count();
    match (dropped.len(), escaped) {
        (0, 0) => Ok(()),
        (0, escaped) => Err(format!("{escaped} are not caught")),
        (dropped, _) => {
            Err(format!("{dropped} do not compile; `cargo check` with the replacement in place says why"))
        }
    }
}

/// Tries a sample of automatic mutants.
///
/// # Errors
/// A message, if one survives without an explanation, or the mutants cannot be tried.
pub(super) fn mutate(options: &MutantOptions) -> Result<(), String> {
    let (bugs, all) = sample(options)?;
    println!("{} of {all} mutants", bugs.len());
    if let Some(path) = &options.list {
        let text: Vec<String> = bugs.iter().map(written).collect();
        return fs::write(path, text.join("\n")).map_err(|error| format!("{}: {error}", path.display()));
    }
    let (results, dropped) = tried(FOLDERS[1], &bugs, &options.modes, false)?;
    let explained = explained();
    let mut survivors = String::new();
    let (mut known, mut unknown) = (BTreeMap::<&str, usize>::new(), 0);
    for (bug, _) in results.iter().filter(|(_, caught)| caught.is_none()) {
        match explained.get(&bug.pieces) {
            Some(file) => *known.entry(file).or_default() += 1,
            None => {
                unknown += 1;
                // Writing to a string never fails.
                let _ = writeln!(survivors, "{}", written(bug));
            }
        }
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("survivors.txt");
    fs::write(&path, &survivors).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("\n{survivors}{} do not compile\n{}", dropped.len(), summary(&results));
    println!("{unknown} survive for no known reason, see {}; known: {known:?}", path.display());
    match unknown {
        0 => Ok(()),
        unknown => Err(format!(
            "{unknown} survive; for each: a checker, a test, or an entry in one of {EXPLAINED:?}"
        )),
    }
}

#[test]
fn what_survives_is_still_there() {
    for name in EXPLAINED {
        for bug in beside(name) {
            assert!(!bug.breaks.is_empty(), "{name}: no reason stands with {}", bug.name);
            let placed = batches(std::slice::from_ref(&bug));
            placed.unwrap_or_else(|why| {
                panic!("{name}: {why}\nIf the code has changed, remove the entry: it is to be thought over again.")
            });
        }
    }
    assert!(!all_modes().is_empty());
}

#[test]
fn a_bad_file_says_where_and_what_to_do() {
    let bad = [
        ("", "1: there is no bug in it"),
        ("# only a word\n", "there is no bug"),
        ("in: src/chain/call.rs\n", "1: a bug begins with"),
        ("== a\n== b\n", "1: a changes nothing"),
        ("== a b\n", "is no name"),
        ("== a\nin: f\n- x\n+ planted!()\n== a\n", "5: `a` is there twice"),
        ("== a\n- x\n", "2: a: which file?"),
        ("== a\nin: f\n+ planted!()\n", "1: a: which text of f?"),
        ("== a\nin: f\n- x\n+ y\n", "1: a is always on"),
        ("== a\nin: f\n- x\n+ planted!()\n- z\n", "5: a: a line `-` after"),
        ("== a\ntests: \n", "2: a: which tests?"),
        ("== a\nchecker: c\ntests: gpc-launch a\nin: f\n- x\n+ planted!()\n", "1: a: either tests"),
        ("== a\nin: f\nx\n", "3: a: what is \"x\"?"),
    ];
    for (text, expected) in bad {
        let why = parse(text).unwrap_err();
        assert!(why.contains(expected), "{text:?}: {why}");
    }
    let of = |file: &str, find: &str| {
        let text = format!("== a\nin: {file}\n- {find}\n+ planted!()\n");
        batches(&parse(&text).unwrap()).unwrap_err()
    };
    assert!(of("src/chain/nowhere.rs", "x").contains("`in:` takes the path"));
    assert!(of("/etc/passwd", "x").contains("is no source file"));
    assert!(of("src/chain/mod.rs", "no such text").contains("0 times, and not once"));
    assert!(read_file(Path::new("/nowhere")).unwrap_err().contains("give the path"));
    assert!(MutantOptions::of("--count many").unwrap_err().contains("that is no number"));
    assert!(MutantOptions::of("--color 1").unwrap_err().contains("no such argument"));
    assert!(MutantOptions::of("--seed").unwrap_err().contains("and what?"));
}

#[test]
fn mutants_are_bugs_that_can_be_planted_and_written_down() {
    let mut options = MutantOptions { count: usize::MAX, ..MutantOptions::of("").unwrap() };
    options.files.push("trees/src/".into());
    let (bugs, all) = sample(&options).unwrap();
    assert!(bugs.len() == all && all > 1000, "{all}");
    let text: Vec<String> = bugs.iter().map(written).collect();
    assert_eq!(parse(&text.join("\n")).unwrap(), bugs);
    let files: BTreeSet<&str> = bugs.iter().map(|bug| bug.pieces[0].file.as_str()).collect();
    for batch in batches(&bugs).unwrap() {
        for file in &files {
            planted(file, &source("a mutant", file).unwrap(), &batch).unwrap();
        }
    }
}

#[test]
fn what_is_changed_is_what_was_meant() {
    let code = "fn f(a: u32, b: u32) -> bool {\n    if a < b && b > 7 {\n        return true;\n    }\n    g(a, b);\n    false\n}\n";
    let found = mutants("src/x.rs", code).unwrap();
    let texts: Vec<(&str, &str)> =
        found.iter().map(|bug| (bug.pieces[0].find.as_str(), bug.pieces[0].replacement.as_str())).collect();
    for expected in [
        ("a < b", "(if planted!() { a <= b } else { a < b })"),
        ("a < b", "(planted!() || (a < b))"),
        ("b > 7", "(!planted!() && (b > 7))"),
        ("a < b && b > 7", "(if planted!() { a < b || b > 7 } else { a < b && b > 7 })"),
        ("return true;", "if !planted!() { return true; }"),
        ("g(a, b);", "if !planted!() { g(a, b); }"),
        ("g(a, b)", "(if planted!() { g(b, a) } else { g(a, b) })"),
        ("7", "(if planted!() { 7 + 1 } else { 7 })"),
        ("false", "(planted!() != false)"),
        ("f(a: u32, b: u32) -> bool {", "f(a: u32, b: u32) -> bool { if planted!() { return true; }"),
    ] {
        assert!(
            texts.iter().any(|(find, instead)| (*find, *instead) == expected),
            "{expected:?} in {texts:#?}"
        );
    }
}
