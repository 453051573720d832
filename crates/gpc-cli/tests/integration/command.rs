//! The command as users run it: its output and its exit status.

use std::process::{Command, Output, Stdio};

use gpc_test_support::process::finished;

fn gpc(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpc"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

/// Returns exit status, standard output and standard error.
fn run(line: &str) -> (Option<i32>, String, String) {
    finished(gpc(line))
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

/// The example file has clusters of 3, 2 and 2 hosts. A call enters each cluster once, and each host in it once.
#[test]
fn a_hosts_file_keeps_clusters_together() {
    let drawn = |tree: &str| {
        let mut command = gpc(&format!("tree hosts:examples/three-clusters.hosts+{tree} 7"));
        let output = command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
        String::from_utf8(output.stdout).unwrap()
    };
    let binomial = "0\n├─ 1\n├─ 2\n├─ 3\n│  └─ 4\n└─ 5\n   └─ 6\n";
    let summary =
        "hosts:examples/three-clusters.hosts+binomial over 7 ids: depth 2, fan-out 4; ids per level 1 4 2\n";
    assert_eq!(drawn("binomial"), [binomial, summary].concat());
    let chain = "0\n├─ 1\n│  └─ 2\n└─ 3\n   ├─ 4\n   └─ 5\n      └─ 6\n";
    assert!(drawn("chain").starts_with(chain), "{}", drawn("chain"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts");
    std::fs::write(&path, "0 red/a\n1 red//b\n").unwrap();
    let (status, out, error) = run(&format!("tree hosts:{}+chain 2", path.display()));
    assert_eq!((status, out.as_str()), (Some(1), ""));
    let fault = "line 2: a name is missing in \"red//b\": write CLUSTER/HOST, with one `/` between two names and none at the ends";
    assert_eq!(error, format!("gpc: {}: {fault}\n", path.display()));
}

#[test]
fn a_reader_who_leaves_is_no_error() {
    // More than a pipe holds, so that the writer meets the closed end.
    let mut child =
        gpc("tree flat 100000 --all").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

/// `gpc sim -n 64 --compare binary,flat --svg time.svg` drew the picture, and printed no table.
#[test]
fn trees_that_are_drawn_are_compared_too() {
    let picture = "--svg time.svg 2>said && test -s time.svg && grep -q 'wrote time.svg: 2 trees' said";
    let table = |more: &str| {
        let (status, out, error) =
            shell(&format!("$gpc sim -n 64 --compare binary,flat {more} && cat said 2>/dev/null; true"));
        assert_eq!((status, error.as_str()), (Some(0), ""), "{out}");
        out
    };
    let plain = table("");
    assert!(plain.starts_with("tree ") && plain.lines().count() == 3, "{plain}");
    let drawn = table(picture);
    assert!(drawn.starts_with(&plain), "{drawn}");
    let json = table(&picture.replace("--svg", "--output json --svg"));
    assert!(json.starts_with('[') && json.contains("\"tree\":\"flat\""), "{json}");
}

/// A misspelled name was rejected with a list of all names, without the one that was probably meant.
#[test]
fn a_name_with_a_slip_has_the_one_that_was_meant() {
    for (line, said) in [
        (
            "call ech -n 4",
            "id 0, this process, has no function named `ech` (did you mean `echo`?); it has: digest, echo,",
        ),
        ("bench sm -n 2", "no function is named `sm` (did you mean `sum`?); these are:"),
        ("call echo -n 4 --tree binry", "no tree is named `binry` (did you mean `binary`?); write binary,"),
        ("tree binomal 4", "no tree is named `binomal` (did you mean `binomial`?); write binary,"),
        ("sim -n 4 --compare flt,chain", "no tree is named `flt` (did you mean `flat`?); write binary,"),
        ("rendezvos serve", "there is no sub-command `rendezvos` (did you mean `rendezvous`?)"),
        ("run --bind cor echo", "--bind cor: write none, core, socket or numa (did you mean `core`?)"),
    ] {
        let (status, out, error) = run(line);
        assert_eq!((status, out.as_str(), error.lines().count()), (Some(2), "", 1), "{line}: {error}");
        assert!(error.starts_with(&format!("gpc: {said}")), "{line}: {error}");
    }
}

/// Runs a shell line in a folder of its own. Returns exit status, standard output and standard error.
fn shell(line: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder.path()).stdin(Stdio::null());
    let output = command.env("gpc", env!("CARGO_BIN_EXE_gpc")).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// `gpc tree binary 4 >&-` lost its output and exited with 0: Rust's runtime had opened `/dev/null` in place of the
/// closed descriptor. With a descriptor that could not be written the output was lost, too.
#[test]
fn output_that_is_lost_is_an_error() {
    for line in [
        "tree binary 4",
        "tree --help",
        "--version",
        "help call",
        "call echo -n 2 --header hello",
        "sim -n 8",
        "secret --key own.key",
        "level encode json",
        "run -n 1 echo hello",
        "db list",
        "impi -server -help",
    ] {
        for closed in [">&-", "1</dev/null"] {
            let (status, out, error) = shell(&format!("echo '[\"a\"]' >json; exec $gpc {line} {closed}"));
            assert_eq!((status, out.as_str()), (Some(1), ""), "{line} {closed}: {error}");
            assert!(error.starts_with("gpc: ") && error.lines().count() == 1, "{line} {closed}: {error}");
            let why = if closed == ">&-" { "it is closed; redirect it" } else { "Bad file descriptor" };
            assert!(error.contains(why), "{line} {closed}: {error}");
        }
    }
    // A command that writes nothing loses nothing.
    let (status, _, error) = shell("exec $gpc secret job.secret >&-");
    assert_eq!(status, Some(0), "{error}");
    let (status, _, error) = shell("exec $gpc tree binary 4 >/dev/null");
    assert_eq!((status, error.as_str()), (Some(0), ""));
}

/// A standard input that was a directory, or closed, counted as empty: the result was the digest of no data, and status
/// 0.
#[test]
fn input_that_cannot_be_read_is_an_error() {
    for (line, said) in [
        (
            "call digest -n 2 --data - </",
            "cannot read the data of --data from standard input: Is a directory",
        ),
        ("call digest -n 2 --data - <&-", "cannot read the data of --data from standard input: it is closed"),
        ("call digest -n 2 --data - 0>x", "from standard input: Bad file descriptor"),
        ("level decode - </", "cannot read the level-n data from standard input: Is a directory"),
        ("run -n 1 cat </", "standard input is a directory, which rank 0 cannot read: redirect it"),
    ] {
        let (status, out, error) = shell(&format!("exec $gpc {line}"));
        assert!(status == Some(1) && out.is_empty() && error.contains(said), "{line}: {status:?} {error}");
    }
    // Standard input is not read.
    assert_eq!(shell("exec $gpc run --stdin none echo a </"), (Some(0), "a\n".into(), String::new()));
    assert_eq!(shell("exec $gpc run cat <&-"), (Some(0), String::new(), String::new()));
}

/// `--data /dev/zero` took 22 GB, until the system killed a process.
#[test]
fn data_without_an_end_are_within_the_budget() {
    let (status, out, error) = shell("ulimit -v 1000000; exec $gpc call digest -n 2 --data /dev/zero");
    assert_eq!((status, out.as_str()), (Some(1), ""), "{error}");
    let said = "gpc: cannot read the data of --data /dev/zero: it is longer than ";
    assert!(error.starts_with(said) && error.contains(": send less"), "{error}");
}

/// `printf 'a\nb\nc\n' | while read h; do gpc run -n 1 echo $h; done` printed `a`: the first run had read the rest of
/// the list.
#[test]
fn a_loop_keeps_its_list_where_a_run_reads_no_input() {
    let lines = |option: &str| {
        shell(&format!("printf 'a\nb\nc\n' | while read h; do $gpc run {option} -n 1 echo $h; done")).1
    };
    assert_eq!([lines("--stdin none"), lines(""), lines("--nodes 2")], ["a\nb\nc\n"; 3]);
    let some = shell("printf 'a\nb\nc\n' | { $gpc run -n 2 bash -c 'read h; echo $h'; cat; }");
    assert_eq!(some.1.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let reads = shell("printf 'a\nb\n' | $gpc run --stdin 0 -n 2 cat");
    assert_eq!(reads, (Some(0), "a\nb\n".into(), String::new()), "rank 0 alone, as by default");
    assert_eq!(shell("printf 'a\nb\n' | $gpc run --stdin none cat"), (Some(0), String::new(), String::new()));
}

#[test]
fn wrong_arguments_are_told_from_failures() {
    let (status, out, error) = run("tree kary:0 8");
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(error.contains("the number is too small"), "{error}");
    let (status, out, error) = run("tree chain 100000");
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(error.starts_with("gpc: chain: position ") && error.ends_with("which is the limit\n"), "{error}");
    let (status, _, error) = run("tree binary 100000 --format svg");
    assert!(
        status == Some(2) && error.starts_with("gpc: a picture of 100000 ids would be too large: draw"),
        "{error}"
    );
}

/// Some wrong arguments ended with status 1, like a failed call, and others were accepted. A script could not tell a
/// typing error from a dead process.
#[test]
fn every_slip_of_the_pen_exits_with_2_and_says_what_to_write() {
    for (line, said) in [
        ("call nothing -n 4", "id 0, this process, has no function named `nothing`"),
        ("call echo -n 4 --ids 9", "--ids names id 9, but with -n 4 the ids are 0 to 3"),
        ("call echo -n 4 --ids 0-2 --watch", "--watch keeps id 0, this process, out of the call"),
        ("call echo -n 1 --watch", "there is no other id"),
        ("call echo -n 4 --id 2", "--id 2 goes with --peers FILE"),
        ("call echo -n 4 --dead-after 1ms", "--dead-after 1ms is too short"),
        ("call echo -n 4 --wait 10s", "write --wait-for-peers 10s"),
        ("call echo -n 4 --wait-for-peers 10s", "cannot be used with"),
        ("node --id 1", "--peers <FILE>"),
        ("tree", "TREE or --check FILE is missing"),
        ("tree binary", "say over how many ids, as in `gpc tree binary 16`"),
        ("tree oak 4", "no tree is named `oak`"),
        ("sim -n 16 --crash 99@5", "--crash names id 99, but with -n 16 the ids are 0 to 15"),
        ("sim -n 16 --crash 3@1,16@9", "--crash names id 16"),
        ("sim -n 4 --runs 3 --compare flat", "--runs and --compare do not go together"),
        ("sim -n 4 --reply-bytes 3", "--reply-bytes is 0 for no replies, or at least 4"),
        ("sim -n 4 --tree oak", "no tree is named `oak`"),
        ("sim --fit none --tree loggp", "name a lag, as in loggp:4"),
        ("bench -n 2 --time 0s", "--time 0s leaves no time for a turn"),
        ("bench nothing -n 2", "no function is named `nothing`"),
    ] {
        let (status, out, error) = run(line);
        assert!(status == Some(2) && out.is_empty() && error.contains(said), "{line}: {status:?} {error}");
    }
}

/// `gpc tree ok.tree` reported an unknown tree, and listed every word but the missing one.
#[test]
fn a_tree_file_that_lacks_its_word_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("oak"), "0: 1\n").unwrap();
    let path = folder.path().join("ok.tree");
    std::fs::write(&path, "0: 1\n").unwrap();
    let (status, _, error) = run(&format!("tree {}", path.display()));
    assert!(status == Some(2), "{error}");
    for (line, said) in [
        ("tree ok.tree", "the tree of a file is written file:ok.tree"),
        ("call echo -n 2 --tree ./oak", "the tree of a file is written file:./oak"),
        ("tree oak", "no tree is named `oak`, but a file is: write file:oak"),
        ("call echo -n 2 --tree oak", "no tree is named `oak`, but a file is: write file:oak"),
        ("sim -n 2 --tree oak", "no tree is named `oak`, but a file is: write file:oak"),
    ] {
        let Output { status, stderr, .. } = gpc(line).current_dir(folder.path()).output().unwrap();
        let error = String::from_utf8(stderr).unwrap();
        assert!(status.code() == Some(2) && error.contains(said), "{line}: {error}");
    }
}

/// An interrupt before the last run discarded hours of simulated worlds.
#[test]
fn a_swarm_that_is_interrupted_prints_what_it_has() {
    let mut swarm = gpc("sim -n 8 --runs 1000000000 --output json");
    let swarm = swarm.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = rustix::process::Pid::from_raw(swarm.id().try_into().unwrap()).unwrap();
    // Once the process catches the signal, it is interrupted; before, the signal would end it.
    let hears = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", swarm.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(caught, 16).unwrap() & 1 << 1 != 0
    };
    while !hears() {
        std::thread::yield_now();
    }
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let Output { status, stdout, stderr } = swarm.wait_with_output().unwrap();
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(130), "{error}");
    let summary: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    let runs = summary["runs"].as_u64().unwrap();
    assert!(runs < 1_000_000_000 && summary["interrupted"] == true, "{summary}");
    assert_eq!(error, format!("gpc: interrupted after {runs} of 1000000000 runs\n"));
}

/// If there was no room for the new picture, the old one was lost. The limit on file sizes stands for a full disk; its
/// signal also ended the process without a message.
#[test]
fn a_file_that_cannot_be_written_whole_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("time.svg");
    let line = format!("sim -n 8 --compare flat,chain --svg {}", path.display());
    let (status, _, error) = run(&line);
    assert_eq!(status, Some(0));
    assert!(error.starts_with(&format!("gpc: wrote {}: ", path.display())), "{error}");
    let picture = std::fs::read(&path).unwrap();
    let script = format!("ulimit -f 1 && exec {} {line}", env!("CARGO_BIN_EXE_gpc"));
    let Output { status, stderr, .. } = Command::new("sh").args(["-c", &script]).output().unwrap();
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{error}");
    assert!(error.starts_with(&format!("gpc: cannot write {}: File too large", path.display())), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), picture);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "what was begun is gone");
}

/// The call was refused because of the 64 descriptors that it did not need.
#[test]
fn a_call_over_one_id_needs_few_descriptors() {
    let script = format!("ulimit -n 24 && exec {} call echo -n 1", env!("CARGO_BIN_EXE_gpc"));
    let Output { status, stderr, .. } = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!((status.code(), String::from_utf8(stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn the_help_says_what_a_node_needs() {
    let (status, help, _) = run("node --help");
    assert_eq!(status, Some(0));
    assert!(help.contains("Usage: gpc node --id <I> --peers <FILE> [OPTIONS]"), "{help}");
    let words: Vec<&str> = help.split_whitespace().collect();
    assert!(words.join(" ").contains("by default that of this id in the peers file"), "{help}");
}

/// The complete path: processes, probes, the search, the file, the table; then the file is used.
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
    assert!(status == Some(2) && error.contains("-n is missing: write `gpc sim -n <N>"), "{error}");
    let (status, _, error) = run("sim -n 4 --most 8");
    assert!(status == Some(2) && error.contains("cannot be used with"), "{error}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let (status, out, error) = run("bench");
    assert!(status == Some(2) && out.is_empty() && error.contains("-n LIST"), "{error}");
    for (line, said) in [
        ("bench -n 2,0", "-n 0: write a number from 1 to 4096"),
        ("bench -n 2 --bytes 64,much", "write a number of bytes, as in 64, 4k or 1M"),
        ("bench -n 2 --wait block,fast", "write block, adaptive or spin:TIME"),
        ("bench -n 2 --tree flat,kary:0", "the number is too small"),
        ("bench -n 2 --in-flight 5000", "--in-flight 5000: write a number from 1 to 4096"),
        ("bench digest -n 2 --reply-bytes 4", "cannot be used with"),
        ("bench --peers x --id 1 --link tcp", "cannot be used with"),
    ] {
        let (status, out, error) = run(line);
        assert!(status == Some(2) && out.is_empty() && error.contains(said), "{line}: {error}");
    }
    let (status, out, error) = run("bench -n 2 --compare /nowhere/run.json");
    assert!(status == Some(1) && out.is_empty(), "{error}");
    assert!(
        error.starts_with("gpc: cannot read the earlier results /nowhere/run.json: No such file"),
        "nothing was started before: {error}"
    );
}
