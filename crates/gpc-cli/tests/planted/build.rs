//! The test build: a copy of the sources with every bug behind its switch, separate from the build that runs this test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bug::{Bug, planted};
use super::root;

/// Environment variable with the name of the bug that is switched on.
pub(super) const VARIABLE: &str = "GPC_PLANTED";

/// Features for the worlds of groups.
const BNR: &[&str] = &["--features", "bnr"];

/// Files and folders of the project that a build, or a test, needs. The crate that all others use comes last.
const SOURCES: [&str; 11] = [
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "src",
    "crates",
    "benches",
    "docs",
    "examples",
    "fuzz",
    "tests",
    "trees",
];

/// The function that every switch calls, added to the end of the crate that all others use.
const SWITCH_FUNCTION: &str = "
/// Whether a planted bug is switched on.
pub fn planted(name: &str) -> bool {
    static ON: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var(\"GPC_PLANTED\").ok()).as_deref() == Some(name)
}
";

/// File of the crate that all others use.
pub(super) const SHARED: &str = "trees/src/lib.rs";

/// What a test build makes.
pub(super) enum Product<'a> {
    /// The command `gpc`, for worlds of groups too.
    Gpc,
    /// The test programs of packages, with all their features.
    Tests(&'a BTreeSet<&'a str>),
}

/// A test build.
pub(super) struct Build {
    /// Cargo's messages, one JSON object a line.
    pub(super) messages: String,
    /// Names of bugs with which it does not compile, and which it does not have.
    pub(super) dropped: BTreeSet<String>,
}

/// Makes a test build of changed sources in a folder of that name, which is kept. Returns the path of its `gpc`.
pub(super) fn build_changed(folder: &str, change: &mut Change<'_>) -> PathBuf {
    copy_changed(folder, change);
    // Worlds of calls and of links need no groups.
    let output = cargo(folder, &[]).arg("--quiet").output().expect("cargo runs this test, so it is there");
    assert!(output.status.success(), "the test build: {}", String::from_utf8_lossy(&output.stderr));
    gpc(folder)
}

/// A program of tests.
pub(super) struct TestProgram {
    pub(super) package: String,
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// Returns the programs of tests in the messages of cargo, those of libraries first: they take least time.
pub(super) fn programs(messages: &str) -> Vec<TestProgram> {
    let program = |line: &str| {
        let entry: serde_json::Value = serde_json::from_str(line).ok()?;
        let path = entry["executable"].as_str().filter(|_| entry["profile"]["test"] == true)?;
        let package = package(entry["package_id"].as_str()?)?.to_owned();
        let name = entry["target"]["name"].as_str()?.to_owned();
        let is_test = entry["target"]["kind"][0] == "test";
        Some((is_test, TestProgram { package, name, path: path.into() }))
    };
    let mut programs: Vec<(bool, TestProgram)> = messages.lines().filter_map(program).collect();
    programs.sort_by_key(|(is_test, _)| *is_test);
    programs.into_iter().map(|(_, program)| program).collect()
}

/// Returns the name in the id of a package: `path+file:///a/name#0.1.0`, or `path+file:///a/folder#name@0.1.0`.
fn package(id: &str) -> Option<&str> {
    let (path, end) = id.split_once('#')?;
    end.split_once('@').map(|(name, _)| name).or_else(|| path.rsplit('/').next())
}

/// Makes the test build of the bugs that compile, in a folder of that name, which is kept. Each attempt omits at least
/// one more, so this ends.
///
/// # Errors
/// A message, if the sources do not compile for another reason, or a text does not occur.
pub(super) fn build_what_compiles(
    folder: &str,
    bugs: &[Bug],
    product: &Product<'_>,
) -> Result<Build, String> {
    let mut dropped = BTreeSet::new();
    loop {
        let left: Vec<Bug> = bugs.iter().filter(|bug| !dropped.contains(&bug.name)).cloned().collect();
        let places = copy_all(folder, &left);
        let mut cargo = match product {
            Product::Gpc => cargo(folder, BNR),
            Product::Tests(packages) => cargo_tests(folder, packages),
        };
        let output = cargo.args(["--message-format", "json"]).output();
        let output = output.expect("cargo runs this test, so it is there");
        let messages = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(Build { messages, dropped });
        }
        let blamed = blamed(&messages, &places);
        if blamed.is_empty() {
            return Err(format!(
                "the test build fails, and no bug is to blame for it. Does the project build without bugs?\n{}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        dropped.extend(blamed);
    }
}

/// By file of a copy: positions of the pieces (in bytes), and the names of their bugs.
type Places = BTreeMap<String, Vec<(Range<usize>, String)>>;

/// Returns the bugs that the compiler's errors blame: those whose text has an error. If there are none, those whose
/// text an error also points at. If there are none, all bugs of the files that the errors point at.
fn blamed(messages: &str, places: &Places) -> BTreeSet<String> {
    let errors: Vec<Vec<serde_json::Value>> = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .map(|entry| entry["message"].clone())
        .filter(|message| message["level"] == "error")
        .map(|message| message["spans"].as_array().cloned().unwrap_or_default())
        .collect();
    let overlap = |span: &serde_json::Value, whole_file: bool| -> Vec<String> {
        let at = |name: &str| span[name].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or_default();
        let (begin, end) = (at("byte_start"), at("byte_end"));
        let file = span["file_name"].as_str().unwrap_or_default().replace('\\', "/");
        let inside = places.get(&file).into_iter().flatten();
        let inside =
            inside.filter(|(place, _)| whole_file || (place.start < end.max(begin + 1) && begin < place.end));
        inside.map(|(_, name)| name.clone()).collect()
    };
    let mut blamed = BTreeSet::new();
    for spans in &errors {
        let of = |primary: bool, whole_file: bool| -> Vec<String> {
            let spans = spans.iter().filter(|span| !primary || span["is_primary"] == true);
            spans.flat_map(|span| overlap(span, whole_file)).collect()
        };
        let found = [of(true, false), of(false, false)].into_iter().find(|names| !names.is_empty());
        blamed.extend(found.unwrap_or_default());
    }
    if blamed.is_empty() {
        blamed.extend(errors.iter().flatten().flat_map(|span| overlap(span, true)));
    }
    blamed
}

fn folder_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Returns the path of the `gpc` of a test build.
pub(super) fn gpc(folder: &str) -> PathBuf {
    folder_of(folder).join("target/debug").join(format!("gpc{}", std::env::consts::EXE_SUFFIX))
}

/// Returns the copy of the sources in a folder.
pub(super) fn copied(folder: &str) -> PathBuf {
    folder_of(folder).join("copy")
}

/// Returns the command that builds the copy.
fn cargo(folder: &str, features: &[&str]) -> Command {
    let mut cargo = cargo_in(folder, "build");
    // Optimized, since it runs often and is never debugged: the build takes half a minute longer, and each run a third
    // of the time.
    cargo.args(["--package", "gpc-cli", "--bin", "gpc"]);
    // Simulation needs no other feature, and takes two thirds of the time with this allocator.
    cargo.args(["--no-default-features", "--features", "mimalloc"]).args(features);
    let simulated = ["chained-gpc", "gpc-trees", "gpc-sim", "gpc-bnr"];
    for package in simulated.into_iter().chain(["bytes", "libmimalloc-sys", "mimalloc", "smallvec"]) {
        cargo.args(["--config", &format!("profile.dev.package.{package}.opt-level=2")]);
    }
    cargo
}

/// Returns the command that builds the test programs of packages. Examples and benchmarks are not among them.
fn cargo_tests(folder: &str, packages: &BTreeSet<&str>) -> Command {
    let mut cargo = cargo_in(folder, "test");
    cargo.args(["--no-run", "--tests", "--all-features"]);
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    if packages.contains(C_LIBRARY) {
        // Its shared library has one name in all builds, and its tests take the one beside them.
        cargo.env("CARGO_BUILD_BUILD_DIR", folder_of(folder).join("of-c"));
    }
    cargo
}

/// The package of the C library. Its tests are built apart from others.
pub(super) const C_LIBRARY: &str = "gpc-capi";

/// Returns a cargo command in the copy. Its products have their own folder, so that they replace no others; what is
/// built on the way to them, above all other packages, is shared with the build of this program.
fn cargo_in(folder: &str, command: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg(command).arg("--target-dir").arg(folder_of(folder).join("target")).current_dir(copied(folder));
    let shared =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is a folder of the target folder");
    cargo.env("CARGO_BUILD_BUILD_DIR", shared);
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0").env_remove("CARGO_BUILD_TARGET");
    cargo
}

/// Copies all that a build needs, with the bugs planted.
fn copy_all(folder: &str, bugs: &[Bug]) -> Places {
    let mut places = Places::new();
    copy_changed(folder, &mut |name, text| {
        let planted = planted(name, text, bugs).unwrap_or_else(|why| panic!("{why}"));
        places.insert(name.into(), planted.places);
        match name == SHARED {
            true => planted.text + SWITCH_FUNCTION,
            false => planted.text,
        }
    });
    places
}

/// Returns the text of a file in the copy, from its path and its text.
type Change<'a> = dyn FnMut(&str, &str) -> String + 'a;

/// Copies all that a build needs, with each file changed.
fn copy_changed(folder: &str, change: &mut Change<'_>) {
    let copy = copied(folder);
    let mut kept = BTreeSet::new();
    for name in SOURCES {
        copy_over(name, &copy, change, &mut kept);
    }
    remove_others(&copy, &kept);
}

/// Copies a file or a folder. An unchanged file is not written, so that it is not built again.
fn copy_over(name: &str, copy: &Path, change: &mut Change<'_>, kept: &mut BTreeSet<PathBuf>) {
    let from = root().join(name);
    if from.is_dir() {
        for entry in fs::read_dir(&from).unwrap() {
            let inner = entry.unwrap().file_name();
            let inner = inner.to_str().expect("the sources have plain names");
            if inner != "target" {
                copy_over(&format!("{name}/{inner}"), copy, change, kept);
            }
        }
        return;
    }
    let Ok(bytes) = fs::read(&from) else { return };
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => change(name, &text).into_bytes(),
        Err(no_text) => no_text.into_bytes(),
    };
    let to = copy.join(name);
    if fs::read(&to).ok().as_deref() != Some(bytes.as_slice()) {
        fs::create_dir_all(to.parent().expect("it is inside the copy")).unwrap();
        fs::write(&to, bytes).unwrap();
        // Tests run some of the files.
        fs::set_permissions(&to, fs::metadata(&from).unwrap().permissions()).unwrap();
    }
    kept.insert(to);
}

/// Removes files that the project no longer has: cargo could take a remaining file for a target.
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
