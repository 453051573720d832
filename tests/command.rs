//! The command as a user runs it: what it prints, where, and its exit status.

#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, Output, Stdio};

fn gpc(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpc"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

/// Exit status, standard output and standard error.
fn run(line: &str) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = gpc(line).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_tree_is_printed() {
    let drawn = "0\n├─ 1\n│  └─ 2\n└─ 3\nbinary over 4 ids: depth 2, fan-out 2; ids per level 1 2 1\n";
    assert_eq!(run("tree binary 4"), (Some(0), drawn.into(), String::new()));
    let (status, json, _) = run("tree chain 3 --format json");
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((status, &parsed["parents"]), (Some(0), &serde_json::json!([null, 0, 1])));
}

#[test]
fn a_tree_file_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.tree");
    let path = path.display();
    std::fs::write(path.to_string(), "0: 1 2 # the root\n1: 3\n").unwrap();
    let summary = format!("file:{path} over 4 ids: depth 2, fan-out 2; ids per level 1 2 1\n");
    assert_eq!(run(&format!("tree --check {path}")), (Some(0), summary, String::new()));
    let (status, json, _) = run(&format!("tree --check {path} --format json"));
    assert!(status == Some(0) && json.ends_with("\"parents\":[null,0,0,1]}\n"), "{json}");
    std::fs::write(path.to_string(), "0: 1\n1: 2\n\n2: 1\n").unwrap();
    let error = format!("gpc: {path}: lines 1, 4: position 1 has two parents, positions 0 and 2\n");
    assert_eq!(run(&format!("tree --check {path}")), (Some(1), String::new(), error));
}

#[test]
fn a_reader_who_leaves_is_no_error() {
    // More than a pipe holds, so that writing meets the closed end.
    let mut child =
        gpc("tree flat 100000 --all").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn wrong_arguments_are_told_from_failures() {
    let (status, out, error) = run("tree kary:0 8");
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(error.contains("the number is too small"), "{error}");
    let (status, out, error) = run("tree chain 100000");
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert!(error.starts_with("gpc: chain: position ") && error.ends_with("which is the limit\n"), "{error}");
    let (status, _, error) = run("tree binary 100000 --format svg");
    assert!(
        status == Some(1) && error.starts_with("gpc: a picture of 100000 ids would be too large: draw"),
        "{error}"
    );
}

/// The whole way: processes, probes, the search, the file, the table; then the file is used.
#[test]
fn links_are_measured_and_the_costs_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fit.json");
    let path = path.display();
    let (status, json, error) = run(&format!("sim --fit {path} --most 8 --rounds 2 --output json"));
    assert_eq!((status, error.as_str()), (Some(0), ""));
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    let sizes: Vec<_> =
        parsed["calls"].as_array().unwrap().iter().map(|row| row["nodes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [2, 4, 8]);
    let predicted = &parsed["calls"][2]["predicted_ns"];
    assert!(predicted.as_u64().unwrap() > 0, "{json}");
    let (status, json, error) =
        run(&format!("sim -n 8 --tree binomial --data-bytes 8 --fit {path} --output json"));
    assert_eq!((status, error.as_str()), (Some(0), ""));
    let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(&parsed["calls"][0]["took_ns"], predicted, "the same prediction");
    let (status, table, error) = run(&format!("sim --fit {path} --most 4 --rounds 1 --link tcp --tree flat"));
    assert_eq!((status, error.as_str()), (Some(0), ""));
    assert!(
        table.contains("over tcp links:\n  latency L ")
            && table.contains("\nother calls, predicted from those"),
        "{table}"
    );
}

#[test]
fn a_fit_that_is_not_there_says_how_to_make_one() {
    let (status, _, error) = run("sim -n 8 --fit /nowhere/fit.json");
    assert_eq!(status, Some(1));
    assert!(
        error.starts_with("gpc: there is no file /nowhere/fit.json: make one with `gpc sim --fit"),
        "{error}"
    );
    let (status, _, error) = run("sim --fit /nowhere/fit.json --most 4 --rounds 1");
    assert!(status == Some(1) && error.starts_with("gpc: cannot write /nowhere/fit.json: "), "{error}");
    let (status, _, error) = run("sim");
    assert!(status == Some(2) && error.contains("-n <N>"), "{error}");
    let (status, _, error) = run("sim --fit --runs 3");
    assert!(status == Some(2) && error.contains("-n <N>"), "{error}");
    let (status, _, error) = run("sim -n 4 --most 8");
    assert!(status == Some(2) && error.contains("cannot be used with"), "{error}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let (status, out, error) = run("bench");
    assert!(status == Some(2) && out.is_empty() && error.contains("-n <LIST>"), "{error}");
    for (line, said) in [
        ("bench -n 2,0", "0 is not in 1..="),
        ("bench -n 2 --bytes 64,much", "write a number of bytes, as in 64, 4k or 1M"),
        ("bench -n 2 --wait block,fast", "write block, adaptive or spin:TIME"),
        ("bench -n 2 --tree flat,kary:0", "the number is too small"),
        ("bench -n 2 --in-flight 5000", "5000 is not in 1..=4096"),
        ("bench digest -n 2 --reply-bytes 4", "cannot be used with"),
        ("bench --peers x --id 1 --link tcp", "cannot be used with"),
    ] {
        let (status, out, error) = run(line);
        assert!(status == Some(2) && out.is_empty() && error.contains(said), "{line}: {error}");
    }
    let (status, out, error) = run("bench -n 2 --compare /nowhere/run.json");
    assert!(status == Some(1) && out.is_empty(), "{error}");
    assert!(error.starts_with("gpc: /nowhere/run.json: No such file"), "nothing was started before: {error}");
}
