//! Shared by the tests of the sources: where they are, and which ones are being replaced.

use std::fs;
use std::path::{Path, PathBuf};

/// Parts of the sources that are being replaced. New rules of style do not apply to them.
///
/// An entry is a file without `.rs`, and the folder of its modules. Remove an entry with its file.
const BEING_REPLACED: [&str; 18] = [
    // The fast path gives way to one path for all calls.
    "src/chain/alone",
    "src/chain/plans",
    "src/chain/root_replies",
    "src/chain/short_replies",
    "src/chain/spot",
    "src/chain/spots",
    "src/wire/short",
    "src/runtime/on_the_spot",
    // The halves of a link get one state.
    "src/link/answers",
    "src/link/event",
    "src/link/handing",
    "src/link/holding",
    "src/link/inbox",
    "src/link/leave",
    "src/link/outbox",
    "src/link/pace",
    "src/link/question",
    "src/link/replies",
];

/// Whether a file is being replaced; its path is relative to the project.
pub(crate) fn is_being_replaced(file: &str) -> bool {
    BEING_REPLACED
        .iter()
        .any(|part| file.strip_prefix(part).is_some_and(|rest| rest == ".rs" || rest.starts_with('/')))
}

/// The folder of the project.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a folder, in order; empty if there is no such folder.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Build output of a separate workspace is not source.
    let entries = entries.filter(|path| !path.ends_with("target"));
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] }).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files.sort();
    files
}

#[test]
fn each_part_that_is_being_replaced_exists() {
    for part in BEING_REPLACED {
        let path = root().join(part);
        assert!(path.is_dir() || path.with_extension("rs").is_file(), "remove {part} from the list");
    }
}

#[test]
fn parts_are_files_and_their_folders() {
    assert!(is_being_replaced("src/chain/spot.rs"));
    assert!(is_being_replaced("src/link/outbox/unsent.rs"));
    assert!(!is_being_replaced("src/chain/spotted.rs"));
    assert!(!is_being_replaced("src/chain/node.rs"));
}
