//! Files of a crate do not import each other in a circle.
//!
//! An import is a `use`, or a path in the code that leads to another module through `crate`, `super` or an imported
//! name. It counts for the file that defines the item: `mod.rs`, `lib.rs` and `main.rs` may re-export, and a module may
//! name what is in its own modules. Tests do not count, and neither do calls of methods, which need no import.

mod imports;
mod modules;
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{root, rust_files};
use imports::Imports;

/// Folders of the sources of each crate, relative to the project.
fn crates() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("crates")).expect("a folder of crates").flatten();
    let below = entries.map(|entry| Path::new("crates").join(entry.file_name()).join("src"));
    let mut folders: Vec<PathBuf> = below.filter(|folder| root().join(folder).is_dir()).collect();
    folders.extend(["src".into(), "trees/src".into()]);
    folders.sort();
    folders
}

/// The circle, with the items on each edge.
fn describe(folder: &str, circle: &BTreeSet<String>, imports: &Imports) -> String {
    let mut lines = vec![format!("{folder}: {} files import each other:", circle.len())];
    for (file, uses) in imports.iter().filter(|(file, _)| circle.contains(*file)) {
        for (other, items) in uses.iter().filter(|(other, _)| circle.contains(*other)) {
            let items: Vec<&str> = items.iter().map(String::as_str).collect();
            lines.push(format!("  {file} uses {other}: {}", items.join(", ")));
        }
    }
    lines.join("\n")
}

#[test]
fn no_files_import_each_other() {
    let mut found = Vec::new();
    let mut seen = 0;
    for folder in crates() {
        let text = |file: &str| fs::read_to_string(root().join(&folder).join(file)).ok();
        let folder = folder.display().to_string();
        for start in ["lib.rs", "main.rs"].into_iter().filter(|start| text(start).is_some()) {
            let modules = modules::read(start, &text);
            let imports = imports::between_files(&modules);
            seen += imports.len();
            for circle in imports::circles(&imports) {
                found.push(describe(&folder, &circle, &imports));
            }
        }
    }
    let all: usize = crates().iter().map(|folder| rust_files(&root().join(folder)).len()).sum();
    assert!(seen > all / 2, "only {seen} of {all} files were read");
    assert!(
        found.is_empty(),
        "move an item of each circle to a file below the others:\n{}",
        found.join("\n")
    );
}
