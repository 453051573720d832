//! Checks of documents: their lengths, and the list of files with `unsafe`.

use std::fs;

use super::items::UNSAFE;
use crate::files::root;

/// Words of README.md: what a visitor reads before trying it.
const README_MAX: usize = 1000;

/// Words of ARCHITECTURE.md. Each crate has a map of its own in its `lib.rs`.
const ARCHITECTURE_MAX: usize = 2500;

/// Words of the documents in `docs` together, without those in `COMPLETE`.
const DOCS_MAX: usize = 20_400;

/// Documents that have all facts of a protocol or of its limits, and are as long as that takes.
const COMPLETE: [&str; 5] = ["bnr-wire.md", "impi-wire.md", "limits.md", "pmi.md", "wire.md"];

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Says so if a text is too long.
fn excess(name: &str, words: usize, max: usize) -> Option<String> {
    (words > max).then(|| format!("{name} has {words} words, over {max}"))
}

/// The files that the table in ARCHITECTURE.md lists.
fn listed(architecture: &str) -> Vec<&str> {
    let section = architecture.split("\n### Shared memory and `unsafe`\n").nth(1).unwrap_or_default();
    let section = section.split("\n#").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| row.split('`')).filter(|word| word.ends_with(".rs")).collect()
}

#[test]
fn documents_are_short() {
    let names = fs::read_dir(root().join("docs")).expect("a folder of documents").flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let read = names.filter(|name| name.ends_with(".md") && !COMPLETE.contains(&name.as_str()));
    let docs: usize = read.map(|name| words(&document(&format!("docs/{name}")))).sum();
    assert!(docs > DOCS_MAX / 10, "only {docs} words were found");
    let found: Vec<String> = [
        excess("README.md", words(&document("README.md")), README_MAX),
        excess("ARCHITECTURE.md", words(&document("ARCHITECTURE.md")), ARCHITECTURE_MAX),
        excess("docs", docs, DOCS_MAX),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn long_documents_are_seen() {
    assert_eq!(words("# A heading\n\n| a table | of `two words` |\n"), 11);
    assert_eq!(excess("a.md", 20, 20), None);
    assert_eq!(excess("a.md", 21, 20).as_deref(), Some("a.md has 21 words, over 20"));
}

#[test]
fn architecture_lists_the_files_with_unsafe() {
    let architecture = document("ARCHITECTURE.md");
    let mut listed = listed(&architecture);
    listed.sort_unstable();
    let mut files = UNSAFE;
    files.sort_unstable();
    assert_eq!(listed, files, "the table in ARCHITECTURE.md lists the files of UNSAFE");
}

#[test]
fn listed_files_are_found_in_their_section() {
    let text = "`x.rs`\n### Shared memory and `unsafe`\n\nAs `y.rs`.\n\n| file | why |\n|---|---|\n\
        | `a.rs`, `b/c.rs` | maps `memory` |\n\n### More\n| `z.rs` | no |\n";
    assert_eq!(listed(text), ["a.rs", "b/c.rs"]);
}
