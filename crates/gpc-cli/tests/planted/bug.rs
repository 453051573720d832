//! Planted bugs as data: parses the files under `crates/gpc-cli/tests/planted/bugs`, or a given file, and plants bugs
//! in a source text.
//!
//! ```text
//! == name-of-the-bug
//! A sentence on what it breaks.
//! checker: which of the simulator's checkers must complain
//! sim: arguments of `gpc sim` that show it
//! in: a source file
//! - text that occurs there exactly once
//! + replacement, in which `planted!()` is true if this bug is switched on
//! ```
//!
//! A bug that no simulated world reaches has one line in place of `checker:` and `sim:`, the tests that must fail:
//!
//! ```text
//! tests: PACKAGE FILTER [FILTER...]
//! ```
//!
//! Each filter is a part of the names of some tests of that package, as `cargo test` takes it; the name of a test
//! program is the first part of the names of its tests.
//!
//! A bug may have several pieces, each with its `in:`. Lines that begin with `#` are comments. A file given by hand
//! needs none of `checker:`, `sim:` and `tests:`, and `tests:` no filter: then all tests of the package are run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// The only word of a replacement that is not Rust.
pub(super) const SWITCH: &str = "planted!()";

/// Maximum length of a name: a longer one does not fit a table.
const NAME_MAX: usize = 80;

/// A planted bug.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Bug {
    pub(super) name: String,
    pub(super) breaks: String,
    pub(super) checker: String,
    pub(super) sim: String,
    pub(super) tests: Option<Tests>,
    pub(super) pieces: Vec<Piece>,
}

/// The tests that must fail if a bug is switched on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Tests {
    pub(super) package: String,
    /// Parts of the names of tests. If there are none, all tests of the package.
    pub(super) filters: Vec<String>,
}

impl Tests {
    /// Parses the rest of a line `tests:`; `None` if it is empty.
    fn of(line: &str) -> Option<Tests> {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some(Tests { package: words.next()?, filters: words.collect() })
    }

    /// Formats the tests like the line.
    pub(super) fn written(&self) -> String {
        [&self.package].into_iter().chain(&self.filters).map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Returns the folder of a package, from that of the project.
    pub(super) fn folder(package: &str) -> String {
        match package {
            "chained-gpc" => String::new(),
            "gpc-trees" => "trees".into(),
            package => format!("crates/{package}"),
        }
    }
}

/// A change of a bug in one place.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Piece {
    pub(super) file: String,
    pub(super) find: String,
    pub(super) replacement: String,
}

/// A changed text, with the position of each piece (in bytes) and the name of its bug.
#[derive(Default, Debug)]
pub(super) struct Planted {
    pub(super) text: String,
    pub(super) places: Vec<(Range<usize>, String)>,
}

/// Returns all bugs of a folder, the files in the order of their names.
pub(super) fn read(folder: &Path) -> Vec<Bug> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|path| read_file(path).unwrap_or_else(|why| panic!("{why}"))).collect()
}

/// Returns the bugs of one file.
///
/// # Errors
/// A message with the file, the line, and what to do.
pub(super) fn read_file(path: &Path) -> Result<Vec<Bug>, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("{}: {error}: give the path of a text file with bugs", path.display()))?;
    parse(&text).map_err(|why| format!("{}:{why}", path.display()))
}

/// Parses the text of a file of bugs.
///
/// # Errors
/// The number of the line, what is wrong with it, and what to do.
pub(super) fn parse(text: &str) -> Result<Vec<Bug>, String> {
    let mut bugs: Vec<Bug> = Vec::new();
    let mut names = BTreeSet::new();
    let mut begun = 0;
    for (line, number) in text.lines().zip(1..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("== ") {
            check_last(&bugs).map_err(|why| format!("{begun}: {why}"))?;
            begun = number;
            check_name(name).map_err(|why| format!("{number}: {why}"))?;
            if !names.insert(name) {
                return Err(format!("{number}: `{name}` is there twice: give one of them another name"));
            }
            bugs.push(Bug { name: name.into(), ..Bug::default() });
            continue;
        }
        let bug = bugs.last_mut().ok_or_else(|| {
            format!("{number}: a bug begins with a line `== its-name`; put one before this line")
        })?;
        add(bug, line).map_err(|why| format!("{number}: {}: {why}", bug.name))?;
    }
    check_last(&bugs).map_err(|why| format!("{begun}: {why}"))?;
    if bugs.is_empty() {
        return Err("1: there is no bug in it: a bug begins with a line `== its-name`".into());
    }
    Ok(bugs)
}

fn check_name(name: &str) -> Result<(), String> {
    let fits = |sign: char| sign.is_ascii_alphanumeric() || "-_.:/".contains(sign);
    match !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(fits) {
        true => Ok(()),
        false => Err(format!("{name:.80?} is no name: take at most {NAME_MAX} letters, digits and `-_.:/`")),
    }
}

/// Adds a line after the first to a bug.
fn add(bug: &mut Bug, line: &str) -> Result<(), String> {
    match (line.split_once(": "), bug.pieces.last_mut()) {
        (_, Some(piece)) if line.starts_with('-') && piece.replacement.is_empty() => {
            add_line(&mut piece.find, line)
        }
        (_, Some(_)) if line.starts_with('-') => {
            return Err("a line `-` after a line `+`: begin another piece with `in:`".into());
        }
        (_, Some(piece)) if line.starts_with('+') => add_line(&mut piece.replacement, line),
        (Some(("in", file)), _) => bug.pieces.push(Piece { file: file.into(), ..Piece::default() }),
        (Some(("checker", checker)), None) => bug.checker = checker.into(),
        (Some(("sim", sim)), None) => bug.sim = sim.into(),
        (Some(("tests", tests)), None) => {
            bug.tests =
                Some(Tests::of(tests).ok_or("which tests? Write `tests: PACKAGE FILTER [FILTER...]`")?);
        }
        (_, None)
            if bug.checker.is_empty()
                && bug.sim.is_empty()
                && bug.tests.is_none()
                && !line.starts_with(['-', '+']) =>
        {
            if !bug.breaks.is_empty() {
                bug.breaks.push(' ');
            }
            bug.breaks += line;
        }
        (_, None) if line.starts_with(['-', '+']) => {
            return Err("which file? Put a line `in: src/…` before it".into());
        }
        _ => {
            return Err(format!(
                "what is {line:.80?}? After `in:` come lines `- text that is there` and `+ text instead`"
            ));
        }
    }
    Ok(())
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line[1..].strip_prefix(' ').unwrap_or_default());
}

/// Checks that the last bug of a file is complete.
fn check_last(bugs: &[Bug]) -> Result<(), String> {
    let Some(Bug { name, checker, sim, tests, pieces, .. }) = bugs.last() else { return Ok(()) };
    if tests.is_some() && !(checker.is_empty() && sim.is_empty()) {
        return Err(format!("{name}: either tests catch it, or a checker: remove `tests:`, or the others"));
    }
    if pieces.is_empty() {
        return Err(format!(
            "{name} changes nothing: add `in: FILE`, `- text that is there`, `+ text instead`"
        ));
    }
    if let Some(piece) = pieces.iter().find(|piece| piece.find.is_empty()) {
        let file = &piece.file;
        return Err(format!(
            "{name}: which text of {file}? Add a line `- text that stands there exactly once`"
        ));
    }
    if !pieces.iter().any(|piece| piece.replacement.contains(SWITCH)) {
        return Err(format!("{name} is always on: let its `+` lines ask `{SWITCH}`"));
    }
    Ok(())
}

/// Formats a bug like the files.
pub(super) fn written(bug: &Bug) -> String {
    let Bug { name, breaks, checker, sim, tests, pieces } = bug;
    let tests = tests.as_ref().map(Tests::written).unwrap_or_default();
    let mut text = format!("== {name}\n");
    // Writing to a string never fails.
    for (head, line) in [("", breaks), ("checker: ", checker), ("sim: ", sim), ("tests: ", &tests)] {
        if !line.is_empty() {
            let _ = writeln!(text, "{head}{line}");
        }
    }
    for Piece { file, find, replacement } in pieces {
        let _ = writeln!(text, "in: {file}");
        for (sign, lines) in [('-', find), ('+', replacement)] {
            lines.split('\n').for_each(|line| {
                let _ = writeln!(text, "{}", format!("{sign} {line}").trim_end());
            });
        }
    }
    text
}

/// Returns the position of a piece in the text of its file.
///
/// # Errors
/// A message, if its text does not occur exactly once.
pub(super) fn place(bug: &Bug, piece: &Piece, text: &str) -> Result<Range<usize>, String> {
    let Piece { file, find, .. } = piece;
    let times = text.match_indices(find.as_str()).count();
    match text.find(find.as_str()) {
        Some(at) if times == 1 => Ok(at..at + find.len()),
        _ => Err(format!(
            "{}: {file} has `{find}` {times} times, and not once: copy the text from the file, with as much around it as makes it unique",
            bug.name
        )),
    }
}

/// Whether a path is that of a source file of a crate, from the folder of the project.
pub(super) fn is_source(file: &str) -> bool {
    let inside = |path: &str| path.split('/').nth(1) == Some("src");
    let of_crate = file.strip_prefix("crates/").is_some_and(inside);
    (of_crate || file.starts_with("src/") || file.starts_with("trees/src/")) && !file.contains("..")
}

/// Returns the question whether a bug is switched on, for the crate of a file.
fn switch_of(file: &str, bug: &str) -> String {
    let of = |folders: &[&str]| folders.iter().any(|folder| file.starts_with(folder));
    let home = match file {
        // It depends on nothing.
        _ if of(&["crates/gpc-plugin/"]) => {
            return format!("std::env::var_os(\"GPC_PLANTED\").is_some_and(|on| on == {bug:?})");
        }
        _ if of(&["trees/"]) => "crate",
        // These depend on the library; the others have both.
        _ if of(&["crates/gpc-bnr/", "crates/gpc-capi/", "crates/gpc-impi/"]) => "chained_gpc::trees",
        _ if of(&["crates/gpc-pmix/", "crates/gpc-rendezvous/"]) => "chained_gpc::trees",
        _ => "gpc_trees",
    };
    format!("{home}::planted({bug:?})")
}

/// Plants the pieces of all bugs in a file's text, each behind its switch.
///
/// # Errors
/// A message, if the text of a piece does not occur exactly once, or two pieces overlap.
pub(super) fn planted(file: &str, text: &str, bugs: &[Bug]) -> Result<Planted, String> {
    let mut places: BTreeMap<usize, (&Bug, &Piece)> = BTreeMap::new();
    for bug in bugs {
        for piece in bug.pieces.iter().filter(|piece| piece.file == file) {
            let at = place(bug, piece, text)?.start;
            if let Some((other, _)) = places.insert(at, (bug, piece)) {
                return Err(format!("{} and {} change the same text of {file}", bug.name, other.name));
            }
        }
    }
    let (mut changed, mut done) = (Planted::default(), 0);
    for (at, (bug, piece)) in places {
        let before =
            text.get(done..at).ok_or_else(|| format!("{}: it overlaps another in {file}", bug.name))?;
        changed.text.push_str(before);
        let begin = changed.text.len();
        changed.text.push_str(&piece.replacement.replace(SWITCH, &switch_of(file, &bug.name)));
        changed.places.push((begin..changed.text.len(), bug.name.clone()));
        done = at + piece.find.len();
    }
    changed.text.push_str(&text[done..]);
    Ok(changed)
}
