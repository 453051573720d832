//! The test build: a copy of the sources with every bug in it behind its switch, built apart from the build that runs this test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bug::{Bug, planted};
use super::root;

/// The environment variable that names the bug that is switched on.
pub(super) const SWITCH: &str = "GPC_PLANTED";

/// What of the project a build needs.
const SOURCES: [&str; 12] = [
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "src",
    "trees",
    "pmix",
    "rendezvous",
    "impi",
    "bnr",
    "benches",
    "cli/Cargo.toml",
    "cli/src",
];

/// What every switch asks, at the end of the crate that all the others use.
const ASKED: &str = "
/// Whether a planted bug is switched on.
pub fn planted(name: &str) -> bool {
    static ON: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var(\"GPC_PLANTED\").ok()).as_deref() == Some(name)
}
";

/// Makes the test build; the path of its `gpc`.
pub(super) fn build(bugs: &[Bug]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planted");
    let (copy, target) = (folder.join("copy"), folder.join("target"));
    let mut kept = BTreeSet::new();
    for name in SOURCES {
        copy_over(name, &copy, bugs, &mut kept);
    }
    remove_others(&copy, &kept);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Its own target folder: no build waits for another's lock. What is run often is made a little faster; nobody debugs it.
    cargo.args(["build", "--quiet", "--package", "gpc-cli", "--bin", "gpc"]);
    // What simulates needs nothing else.
    cargo
        .args(["--no-default-features", "--features", "bnr"])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(&copy);
    for package in ["chained-gpc", "gpc-bnr"] {
        cargo.args(["--config", &format!("profile.dev.package.{package}.opt-level=1")]);
    }
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0").env_remove("CARGO_BUILD_TARGET");
    let output = cargo.output().expect("cargo runs this test, so it is there");
    assert!(output.status.success(), "the test build: {}", String::from_utf8_lossy(&output.stderr));
    target.join("debug").join(format!("gpc{}", std::env::consts::EXE_SUFFIX))
}

/// Copies a file or a folder, with the bugs planted. What is the same stays as it is, so that it is not built again.
fn copy_over(name: &str, copy: &Path, bugs: &[Bug], kept: &mut BTreeSet<PathBuf>) {
    let from = root().join(name);
    if from.is_dir() {
        for entry in fs::read_dir(&from).unwrap() {
            let inner = entry.unwrap().file_name();
            let inner = inner.to_str().expect("the sources have plain names");
            if inner != "target" {
                copy_over(&format!("{name}/{inner}"), copy, bugs, kept);
            }
        }
        return;
    }
    let Ok(text) = fs::read_to_string(&from) else { return };
    let mut text = planted(name, &text, bugs).unwrap();
    if name == "trees/src/lib.rs" {
        text.push_str(ASKED);
    }
    let to = copy.join(name);
    if fs::read_to_string(&to).ok().as_deref() != Some(text.as_str()) {
        fs::create_dir_all(to.parent().expect("it is inside the copy")).unwrap();
        fs::write(&to, text).unwrap();
    }
    kept.insert(to);
}

/// Removes what the project does not have any more: a file that is left could be taken for a target.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            remove_others(&path, kept);
        } else if !kept.contains(&path) {
            fs::remove_file(&path).unwrap();
        }
    }
}
