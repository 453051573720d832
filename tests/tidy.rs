//! Checks of style: sizes, leftovers, and the first line of each file.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a source file with its unit tests: one idea, without long scrolling.
const FILE_MAX: usize = 700;

/// Lines of a function: a screen.
const FUNCTION_MAX: usize = 70;

/// Folders with sources.
const FOLDERS: [&str; 31] = [
    "src",
    "crates/gpc-cli/src",
    "crates/gpc-cli/tests",
    "crates/gpc-launch/src",
    "crates/gpc-launch/examples",
    "crates/gpc-launch/benches",
    "crates/gpc-sim/src",
    "crates/gpc-sim/tests",
    "crates/gpc-sim/benches",
    "trees/src",
    "trees/tests",
    "crates/gpc-pmix/src",
    "crates/gpc-pmix/tests",
    "crates/gpc-pmix/examples",
    "crates/gpc-rendezvous/src",
    "crates/gpc-rendezvous/tests",
    "crates/gpc-rendezvous/benches",
    "crates/gpc-impi/src",
    "crates/gpc-impi/benches",
    "crates/gpc-impi/tests",
    "crates/gpc-impi/examples",
    "crates/gpc-bnr/src",
    "crates/gpc-bnr/benches",
    "crates/gpc-bnr/tests",
    "crates/gpc-bnr/examples",
    "tests",
    "benches",
    "examples",
    "fuzz/src",
    "fuzz/fuzz_targets",
    "fuzz/examples",
];

/// Leftovers that must not be committed. Written in two parts, so that this file does not match.
const LEFTOVERS: [&str; 8] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("db", "g!("),
    concat!("#[ig", "nore"),
    concat!("allow(dead", "_code)"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Build output of a separate workspace is not source.
    let entries = entries.filter(|path| !path.ends_with("target"));
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    files
}

/// First line and length of every function, as formatted by rustfmt: it ends at the closing line of the same depth.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let begins = |line: &str| {
        let mut words = line.split_whitespace().take_while(|word| !word.starts_with("//"));
        words.by_ref().find(|word| !is_qualifier(word)) == Some("fn")
    };
    let length = |start: usize| {
        let ends = |line: &&str| depth(line) == depth(lines[start]) && line.trim_start().starts_with('}');
        let one_line = lines[start].ends_with([';', '}']);
        if one_line { 1 } else { lines[start..].iter().position(ends).map_or(1, |last| last + 1) }
    };
    (0..lines.len()).filter(|&line| begins(lines[line])).map(|line| (line + 1, length(line))).collect()
}

fn is_qualifier(word: &str) -> bool {
    word.starts_with("pub") || ["const", "async", "unsafe", "extern", "\"C\""].contains(&word)
}

/// Faults of a file; `sizes` includes those of size.
fn faults(text: &str, sizes: bool) -> Vec<String> {
    let mut found = Vec::new();
    if !text.starts_with("//!") {
        found.push("does not begin with //! and what it is for".into());
    }
    if !text.ends_with('\n') || text.ends_with("\n\n") {
        found.push("does not end with one line break".into());
    }
    let lines = text.lines().count();
    if sizes && lines > FILE_MAX {
        found.push(format!("has {lines} lines, over {FILE_MAX}"));
    }
    for (line, length) in functions(text).into_iter().filter(|&(_, length)| sizes && length > FUNCTION_MAX) {
        found.push(format!("line {line}: a function of {length} lines, over {FUNCTION_MAX}"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        if line.ends_with([' ', '\t', '\r']) {
            found.push(format!("line {number}: white space at its end"));
        }
        let words = LEFTOVERS.iter().filter(|word| line.contains(**word));
        found.extend(words.map(|word| format!("line {number}: `{word}`")));
    }
    found
}

#[test]
fn the_sources_are_tidy() {
    let mut found = Vec::new();
    let mut seen = 0;
    for folder in FOLDERS {
        for file in sources(&root().join(folder)) {
            seen += 1;
            let text = fs::read_to_string(&file).unwrap();
            let name = file.strip_prefix(root()).unwrap().display().to_string();
            found.extend(
                faults(&text, folder.ends_with("src")).iter().map(|fault| format!("{name}: {fault}")),
            );
        }
    }
    assert!(seen > 50, "only {seen} files were found");
    assert!(found.is_empty(), "untidy:\n{}", found.join("\n"));
}

#[test]
fn what_is_untidy_is_seen() {
    let whole = |lines: usize| format!("//! A file.\n{}", "x\n".repeat(lines));
    let function = |lines: usize| {
        format!("//! A file.\n    pub(crate) const fn f(\n{}    }}\n", "        x\n".repeat(lines))
    };
    assert_eq!(faults(&whole(FILE_MAX - 1), true), Vec::<String>::new());
    assert_eq!(faults(&whole(FILE_MAX), true).len(), 1);
    assert_eq!(faults(&whole(FILE_MAX), false), Vec::<String>::new());
    assert_eq!(faults(&function(FUNCTION_MAX - 2), true), Vec::<String>::new());
    assert_eq!(faults(&function(FUNCTION_MAX - 1), true).len(), 1);
    for leftover in LEFTOVERS {
        assert_eq!(faults(&format!("//! A file.\nx {leftover}\n"), true).len(), 1, "{leftover}");
    }
    for bad in ["// No.\n", "", "//! A file.\n\n", "//! A file.\nx \n", "//! A file."] {
        assert!(!faults(bad, true).is_empty(), "{bad:?}");
    }
}
