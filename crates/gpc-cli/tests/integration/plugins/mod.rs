//! Libraries of functions that `--load` names: examples in three languages, and libraries that should not be loaded or
//! misuse what they get.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

mod hostile;
mod in_rust;
mod joined;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::processes::support::{Ended, json_of, run};

/// A folder with libraries that a test has built.
struct Built {
    folder: tempfile::TempDir,
}

/// The folder of a package.
fn package(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// Runs a compiler, which must succeed.
fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Built {
    /// An empty folder; `None` without a compiler for C or C++, which is reported.
    fn with(compiler: &str) -> Option<Built> {
        match Command::new(compiler).arg("--version").output() {
            Ok(found) if found.status.success() => Some(Built { folder: tempfile::tempdir().unwrap() }),
            _ => {
                println!("skipped: needs a {} compiler", if compiler == "cc" { "C" } else { "C++" });
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds a library without a warning; returns its path.
    fn library(&self, compiler: &str, standard: &str, source: &Path, define: &str) -> String {
        let path = self.path(&format!("{}{define}.so", source.file_stem().unwrap().display()));
        succeeds(
            Command::new(compiler)
                .arg(format!("-std={standard}"))
                .args([
                    "-Wall",
                    "-Wextra",
                    "-pedantic",
                    "-Werror",
                    "-Wno-unused-function",
                    "-D_DEFAULT_SOURCE",
                ])
                .args(["-shared", "-fPIC", "-fvisibility=hidden"])
                .arg(format!("-DCASE={}", if define.is_empty() { "0" } else { define }))
                .arg("-I")
                .arg(package("gpc-capi").join("include"))
                .arg(source)
                .arg("-o")
                .arg(&path),
        );
        path.to_str().unwrap().to_owned()
    }

    /// The example in C.
    fn in_c(&self) -> String {
        self.library("cc", "c99", &package("gpc-capi").join("examples/plugin.c"), "")
    }
}

/// The example in Rust, built as a user builds it. Its folder stays as long as the result.
fn in_rust() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    succeeds(
        Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--offline", "--package", "gpc-plugin", "--example", "words"])
            .arg("--target-dir")
            .arg(folder.path())
            // What a debugger needs would count as code.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .current_dir(env!("CARGO_MANIFEST_DIR")),
    );
    let path = folder.path().join("debug/examples/libwords.so").to_str().unwrap().to_owned();
    (folder, path)
}

/// The symbols that a library exports, without those that C++ templates leave behind, and those that it needs.
fn symbols(library: &str) -> [Vec<String>; 2] {
    ["--defined-only", "--undefined-only"].map(|which| {
        let output = Command::new("nm").args(["-D", which, library]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let strong =
            text.lines().filter(|line| line.contains(" D ") || line.contains(" T ") || line.contains(" U "));
        strong.filter_map(|line| line.split_whitespace().last().map(str::to_owned)).collect()
    })
}

/// A plug-in exports one symbol, and resolves none of the program.
fn stands_alone(library: &str) {
    let [exported, needed] = symbols(library);
    assert_eq!(exported, ["cgpc_plugin_entry"], "{library}");
    assert!(!needed.iter().any(|name| name.contains("cgpc") || name.contains("gpc_")), "{needed:?}");
}

/// Standard output of a command that succeeds.
fn output(ended: &Ended) -> &str {
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    str::from_utf8(&ended.stdout).unwrap()
}

#[test]
fn a_library_in_c_adds_a_function_a_callback_and_a_tree() {
    let Some(built) = Built::with("cc") else { return };
    let library = built.in_c();
    stands_alone(&library);
    let call = |more: &str| json_of(&format!("call load -n 8 --load {library} {more}"));
    let each = call("");
    let replies = each["replies"].as_array().unwrap();
    assert_eq!(replies.len(), 8);
    for (id, reply) in replies.iter().enumerate() {
        assert!(reply["data"].as_str().unwrap().ends_with(&format!(" {id}")), "{reply}");
    }
    let least = call("--callback least --tree thirds");
    let merged = least["replies"].as_array().unwrap();
    assert_eq!((merged.len(), &least["callback"], &least["tree"]), (1, &"least".into(), &"thirds".into()));
    assert_eq!(least["level"], 2, "8 ids below three each");
    let load = merged[0]["data"].as_str().unwrap().split(' ').next().unwrap();
    assert!(load.parse::<f64>().is_ok_and(|load| load >= 0.0), "{load}");
    // All that the command line can say at once.
    let line = format!("call load -n 8 --load {library} --callback least --tree thirds --no-reply");
    let ended = run(&line);
    let said = "no replies were requested: an id that is done has executed load; least got empty replies\n";
    assert!(output(&ended).ends_with(said), "{}", output(&ended));
    let none = json_of(&line);
    assert_eq!((&none["no_reply"], none["replies"].as_array().unwrap().len()), (&true.into(), 0));
    assert_eq!(none["coverage"]["done"], 8);
}

#[test]
fn a_library_in_cpp_fails_a_call_by_an_exception() {
    let Some(built) = Built::with("c++") else { return };
    let library = built.library("c++", "c++17", &package("gpc-capi").join("examples/plugin.cpp"), "");
    stands_alone(&library);
    let data = built.path("data");
    std::fs::write(&data, [1, 2, 3]).unwrap();
    let line = format!("call mean -n 4 --load {library} --callback means");
    let means = json_of(&format!("{line} --data {}", data.display()));
    assert_eq!(means["replies"][0]["data"], "2.000000 of 12");
    let ended = run(&line);
    assert_eq!(ended.code(), Some(1));
    assert!(
        ended
            .stderr
            .contains("failed at stage func (failed, code -19): no data have no mean: pass some with --data"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_library_in_rust_needs_a_crate_that_has_nothing_of_the_library() {
    let (folder, library) = in_rust();
    stands_alone(&library);
    let data = folder.path().join("data");
    std::fs::write(&data, "one two  three\nfour ").unwrap();
    let line = format!("call words -n 9 --load {library} --data {}", data.display());
    let most = json_of(&format!("{line} --callback most --tree thirds"));
    assert_eq!((&most["replies"][0]["data"], most["replies"].as_array().unwrap().len()), (&"4".into(), 1));
    assert_eq!(json_of(&line)["replies"].as_array().unwrap().len(), 9);
    let later = json_of(&format!("call later -n 3 --load {library} --header hello"));
    assert_eq!(later["replies"][2]["data"], "hello");
    let code = std::fs::metadata(&library).unwrap().len();
    assert!(code < 2 << 20, "a plug-in of {code} bytes has more than itself");
}

/// The examples of two languages have a tree of the same name.
#[test]
fn two_libraries_do_not_share_a_name() {
    let Some(built) = Built::with("cc") else { return };
    let (_folder, first) = in_rust();
    let second = built.in_c();
    let ended = run(&format!("call words -n 2 --load {first} --load {second}"));
    assert_eq!(ended.code(), Some(1));
    assert_eq!(
        ended.said(),
        format!("gpc: cannot load {second}: a tree named thirds is registered already ({first} has it)")
    );
}

/// `--load lib.so` names a file of the current folder, and no library elsewhere.
#[test]
fn a_library_is_not_searched_for() {
    let Some(built) = Built::with("cc") else { return };
    std::fs::rename(built.in_c(), built.path("c.so")).unwrap();
    let gpc = |folder: &Path, searched: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpc"));
        command.args(["call", "load", "-n", "3", "--load", "c.so"]).current_dir(folder);
        command.env("LD_LIBRARY_PATH", searched);
        gpc_test_support::process::finished(command)
    };
    let (status, out, error) = gpc(built.folder.path(), Path::new("/"));
    assert!(status == Some(0) && out.contains("done 3 of 3"), "{out}{error}");
    let (status, _, error) = gpc(Path::new("/"), built.folder.path());
    assert!(status == Some(1) && error.starts_with("gpc: cannot load c.so: No such file"), "{error}");
}

#[test]
fn processes_on_other_hosts_load_the_same_path() {
    let Some(built) = Built::with("cc") else { return };
    let library = built.in_c();
    // A replacement of ssh that runs the command here.
    let shell = built.path("rsh");
    std::fs::write(&shell, "#!/bin/sh\nshift\nexec \"$@\"\n").unwrap();
    succeeds(Command::new("chmod").arg("700").arg(&shell));
    let hosts = format!("--hosts a,b,c --fan-out 1 --rsh {}", shell.display());
    let value = json_of(&format!("call load --load {library} {hosts}"));
    assert_eq!(value["coverage"]["done"], 4);
}
