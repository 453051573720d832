//! The style of sources and documents.

mod documents;
mod items;
mod text;

use std::fs;

use crate::files::{root, rust_files};

/// Folders with sources.
const FOLDERS: [&str; 37] = [
    "src",
    "crates/gpc-cli/src",
    "crates/gpc-cli/tests",
    "crates/gpc-launch/src",
    "crates/gpc-launch/examples",
    "crates/gpc-launch/benches",
    "crates/gpc-sim/src",
    "crates/gpc-sim/tests",
    "crates/gpc-sim/benches",
    "crates/gpc-test-support/src",
    "crates/gpc-test-support/tests",
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
    "crates/gpc-capi/src",
    "crates/gpc-capi/tests",
    "crates/gpc-plugin/src",
    "crates/gpc-plugin/examples",
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

/// All files of the folders whose names end with this: their paths from the project, and their texts.
fn files(ending: &str) -> Vec<(String, String)> {
    let folders = FOLDERS.into_iter().filter(|folder| folder.ends_with(ending));
    let files = folders.flat_map(|folder| rust_files(&root().join(folder)));
    let read = |file: std::path::PathBuf| {
        let text = fs::read_to_string(&file).expect("a file that was just listed");
        (file.strip_prefix(root()).expect("it is below").display().to_string(), text)
    };
    files.map(read).collect()
}

/// Fails with the faults that `check` finds in the files.
#[track_caller]
fn check_files(files: &[(String, String)], check: impl Fn(&str, &str) -> Vec<String>) {
    let faults = files
        .iter()
        .flat_map(|(name, text)| check(name, text).into_iter().map(move |fault| format!("{name}: {fault}")));
    let found: Vec<String> = faults.collect();
    assert!(found.is_empty(), "untidy:\n{}", found.join("\n"));
}

#[test]
fn each_folder_has_files() {
    for folder in FOLDERS {
        assert!(!rust_files(&root().join(folder)).is_empty(), "remove {folder} from the list");
    }
}

#[test]
fn the_sources_are_tidy() {
    let sources: Vec<_> = files("src");
    check_files(&sources, |_, text| text::faults(text, true));
    let others: Vec<_> = files("").into_iter().filter(|file| !sources.contains(file)).collect();
    check_files(&others, |_, text| text::faults(text, false));
}

#[test]
fn comments_are_not_wide() {
    check_files(&files(""), |_, text| text::long_comments(text));
}

#[test]
fn structs_are_small() {
    check_files(&files("src"), |_, text| items::large_structs(text));
}

#[test]
fn questions_change_nothing() {
    check_files(&files("src"), |_, text| items::changing_questions(text));
}

#[test]
fn unsafe_code_stands_in_the_listed_files() {
    let sources = files("src");
    let files = sources.iter().filter(|(_, text)| items::has_unsafe(text));
    let mut found: Vec<&str> = files.map(|(name, _)| items::unsafe_place(name)).collect();
    found.dedup();
    let mut listed = items::UNSAFE.to_vec();
    listed.sort_by_key(|&file| found.iter().position(|&name| name == file));
    assert_eq!(found, listed, "UNSAFE, and the table in ARCHITECTURE.md, list these files");
}
