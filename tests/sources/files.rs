//! Finds the sources, for the tests of the sources.

use std::fs;
use std::path::{Path, PathBuf};

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
