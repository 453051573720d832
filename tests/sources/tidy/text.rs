//! Checks of the text of a file: sizes, leftovers, comments, its first and its last line.

/// Lines of a source file with its unit tests: one idea, without long scrolling.
const FILE_MAX: usize = 700;

/// Lines of a function: a screen.
const FUNCTION_MAX: usize = 70;

/// Columns of a comment line. `rustfmt` does not wrap comments.
const COMMENT_MAX: usize = 120;

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

/// Comment lines that are too long.
pub(crate) fn long_comments(text: &str) -> Vec<String> {
    let columns = |line: &str| line.chars().count();
    let is_long = |line: &str| line.trim_start().starts_with("//") && columns(line) > COMMENT_MAX;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| is_long(line));
    lines
        .map(|(number, line)| {
            format!("line {number}: a comment of {} columns, over {COMMENT_MAX}", columns(line))
        })
        .collect()
}

/// Faults of a file; `sizes` includes those of size.
pub(crate) fn faults(text: &str, sizes: bool) -> Vec<String> {
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

#[test]
fn long_comments_are_seen() {
    let line = |columns: usize| format!("    //! {}", "é".repeat(columns - 8));
    assert_eq!(long_comments(&line(COMMENT_MAX)), [""; 0]);
    assert_eq!(
        long_comments(&format!("x\n{}", line(COMMENT_MAX + 1))),
        ["line 2: a comment of 121 columns, over 120"]
    );
    assert_eq!(long_comments(&"x".repeat(COMMENT_MAX + 1)), [""; 0]);
}
