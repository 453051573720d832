//! Planted bugs as data: what the files under `cli/tests/planted/bugs` say, and how a bug gets into a text.
//!
//! ```text
//! == name-of-the-bug
//! What it breaks, in a sentence.
//! checker: which of the simulator's checkers must complain
//! sim: arguments of `gpc sim` that show it
//! in: a source file
//! - text that stands there exactly once
//! + what stands there instead, with `planted!()` for the question whether this bug is switched on
//! ```
//!
//! A bug may have several pieces, each with its `in:`. Lines before the first `==` that begin with `#` are for the reader.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The only word of a replacement that is not Rust as it stands.
const SWITCH: &str = "planted!()";

/// One planted bug.
#[derive(Clone, Default, Debug)]
pub(super) struct Bug {
    pub(super) name: String,
    pub(super) breaks: String,
    pub(super) checker: String,
    pub(super) sim: String,
    pub(super) pieces: Vec<Piece>,
}

/// One place that a bug changes.
#[derive(Clone, Default, Debug)]
pub(super) struct Piece {
    pub(super) file: String,
    pub(super) find: String,
    pub(super) replacement: String,
}

/// All bugs of a folder, the files in the order of their names.
pub(super) fn read(folder: &Path) -> Vec<Bug> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let parsed = |path| parse(&fs::read_to_string(path).unwrap());
    files.iter().flat_map(parsed).collect()
}

/// The bugs of one file's text.
///
/// # Panics
/// If a line is none of those that there are.
pub(super) fn parse(text: &str) -> Vec<Bug> {
    let mut bugs: Vec<Bug> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            bugs.push(Bug { name: name.into(), ..Bug::default() });
            continue;
        }
        let bug = bugs.last_mut().expect("a file begins with the name of a bug");
        match (line.split_once(": "), bug.pieces.last_mut()) {
            (_, Some(piece)) if line.starts_with('-') => add_line(&mut piece.find, line),
            (_, Some(piece)) if line.starts_with('+') => add_line(&mut piece.replacement, line),
            (Some(("in", file)), _) => bug.pieces.push(Piece { file: file.into(), ..Piece::default() }),
            (Some(("checker", checker)), None) => bug.checker = checker.into(),
            (Some(("sim", sim)), None) => bug.sim = sim.into(),
            (_, None) if bug.checker.is_empty() => bug.breaks += line,
            _ => panic!("{}: what is `{line}`?", bug.name),
        }
    }
    bugs
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line[1..].strip_prefix(' ').unwrap_or_default());
}

/// A file's text with the pieces of all bugs in it, each behind its switch.
///
/// # Errors
/// In words, if a piece's text is not there exactly once, or two pieces overlap.
pub(super) fn planted(file: &str, text: &str, bugs: &[Bug]) -> Result<String, String> {
    // In which crate the function that asks for the switch is at home.
    let home = match file.split('/').next() {
        Some("trees") => "crate",
        Some("bnr") => "chained_gpc::trees",
        _ => "gpc_trees",
    };
    let mut places: BTreeMap<usize, (&Bug, &Piece)> = BTreeMap::new();
    for bug in bugs {
        for piece in bug.pieces.iter().filter(|piece| piece.file == file) {
            let found: Vec<usize> = text.match_indices(&piece.find).map(|(at, _)| at).collect();
            let [at] = found[..] else {
                let (name, find, times) = (&bug.name, &piece.find, found.len());
                return Err(format!("{name}: {file} has `{find}` {times} times, and not once"));
            };
            if let Some((other, _)) = places.insert(at, (bug, piece)) {
                return Err(format!("{} and {} change the same text of {file}", bug.name, other.name));
            }
        }
    }
    let (mut changed, mut done) = (String::new(), 0);
    for (at, (bug, piece)) in places {
        let before =
            text.get(done..at).ok_or_else(|| format!("{}: it overlaps another in {file}", bug.name))?;
        changed.push_str(before);
        changed.push_str(&piece.replacement.replace(SWITCH, &format!("{home}::planted({:?})", bug.name)));
        done = at + piece.find.len();
    }
    changed.push_str(&text[done..]);
    Ok(changed)
}
