//! The command in the processes of a launcher: MPICH's hydra, which speaks PMI-1 and PMI-2. Debian:
//! `apt-get install mpich`.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]
#![allow(clippy::disallowed_methods, reason = "a process of another program tells of itself in /proc alone")]

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gpc_test_support::process::text;

const EXE: &str = env!("CARGO_BIN_EXE_gpc");

/// Debian's name of the launcher, so that no other launcher is used by mistake.
const LAUNCHER: &str = "mpiexec.mpich";

/// Enough for any machine: this time passes only if something is broken.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the launcher with these words before the command; `None` if there is no such launcher.
fn launch(before: &[&str], line: &str) -> Option<Output> {
    launch_with(before, line, &[])
}

fn launch_with(before: &[&str], line: &str, variables: &[(&str, &str)]) -> Option<Output> {
    let mut command = Command::new(LAUNCHER);
    command.args(before).args(line.split_whitespace().map(|word| word.replace("GPC", EXE)));
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    match command.output() {
        Ok(output) => Some(output),
        Err(_) => {
            println!("skipped: needs {LAUNCHER}");
            None
        }
    }
}

/// Returns the output of a command that has succeeded.
#[track_caller]
fn printed(output: &Output) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{:?}\n{out}\n{err}", output.status);
    assert_eq!(err, "");
    out
}

#[test]
fn each_process_is_an_id_and_the_result_is_printed_once() {
    let Some(output) = launch(&["-n", "8"], "GPC call facts") else { return };
    let out = printed(&output);
    let rows: Vec<&str> = out.lines().filter(|line| line.contains("host=")).collect();
    assert_eq!(rows.len(), 8, "{out}");
    for (id, row) in rows.iter().enumerate() {
        assert!(row.trim_start().starts_with(&format!("{id} ")), "{out}");
    }
    let pids: std::collections::BTreeSet<&str> =
        rows.iter().filter_map(|row| row.split(' ').find(|word| word.starts_with("pid="))).collect();
    assert_eq!(pids.len(), 8, "{out}");
    assert_eq!(out.matches("done 8 of 8").count(), 1, "{out}");
}

#[test]
fn numbers_of_processes_ways_to_the_server_and_links_are_all_the_same() {
    for (before, call) in [
        (&["-n", "1"][..], "sum"),
        (&["-n", "2"], "sum"),
        (&["-n", "3"], "sum"),
        (&["-n", "5", "-pmi-port"], "sum"),
        (&["-n", "5"], "sum --link tcp"),
        (&["-n", "5"], "sum --link unix --tree chain --ids 4,2,0,1,3"),
        (&["-n", "5"], "sum --tree hosts+flat"),
    ] {
        let Some(output) = launch(before, &format!("GPC call {call} --output json")) else { return };
        let out: serde_json::Value = serde_json::from_slice(printed(&output).as_bytes()).unwrap();
        let count: u64 = before[1].parse().unwrap();
        assert_eq!(out["coverage"]["done"], count, "{before:?} {call}: {out}");
        let sum: u64 = (1..=count).map(|id| id * id).sum();
        assert_eq!(out["replies"][0]["data"], sum.to_string(), "{before:?} {call}: {out}");
    }
}

/// As on several hosts: addresses, secret and keys instead of abstract names. The launcher is told that there are two
/// hosts.
#[test]
fn hosts_are_known_and_processes_on_several_reach_each_other_over_tcp() {
    let before = ["-launcher", "fork", "-hosts", "a,b", "-ppn", "3", "-n", "6"];
    let variables = [("GPC_HOST_ADDRESS", "127.0.0.1")];
    let line = "GPC call sum --tree hosts+binomial";
    let Some(output) = launch_with(&before, line, &variables) else { return };
    let out = printed(&output);
    assert!(out.contains("done 6 of 6") && out.contains("hosts+binomial tree"), "{out}");
    let wrong = [("GPC_HOST_ADDRESS", "my-host")];
    let output = launch_with(&before, line, &wrong).unwrap();
    assert!(!output.status.success() && text(&output.stderr).contains("GPC_HOST_ADDRESS is no IP address"));
}

#[test]
fn measurements_are_made_over_the_processes_of_the_launcher() {
    let Some(output) = launch(&["-n", "4"], "GPC bench --rounds 5 --repeat 2 --output json") else { return };
    assert!(output.status.success(), "{}", text(&output.stderr));
    let out: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&out["rows"][0]["n"], &out["rows"][0]["root"]), (&4.into(), &"thread".into()), "{out}");
    let output = launch(&["-n", "2"], "GPC bench --wait block,adaptive").unwrap();
    assert!(text(&output.stderr).contains("there is one root, which has one --wait"));
}

#[test]
fn the_launcher_sees_that_a_call_fails() {
    let Some(output) = launch(&["-n", "5"], "GPC call fail --header 3") else { return };
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}\n{err}");
    assert_eq!(
        err.lines().collect::<Vec<_>>(),
        ["gpc: id 3 failed at stage func: it was asked to fail here"]
    );
    let output = launch(&["-n", "3"], "GPC call sum --tree nonsense").unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).matches("no tree is named `nonsense`").count(), 1);
}

/// Each process runs a shell line before it becomes the command, or instead.
fn shell(before: &str, line: &str) -> Option<Output> {
    let script = format!("{before}; exec {EXE} {line}");
    let mut command = Command::new(LAUNCHER);
    let output = command.args(["-n", "4", "sh", "-c", &script]).stdin(Stdio::null()).output();
    if output.is_err() {
        println!("skipped: needs {LAUNCHER}");
    }
    output.ok()
}

#[test]
fn processes_may_start_in_any_order() {
    for late in ["0", "2"] {
        let Some(output) = shell(&format!("test $PMI_RANK = {late} && sleep 0.5"), "call sum") else {
            return;
        };
        assert!(printed(&output).contains("done 4 of 4"));
    }
}

#[test]
fn who_does_not_come_is_waited_for_up_to_a_limit() {
    let Some(output) = shell("test $PMI_RANK = 2 && exit 0", "call sum --wait-for-peers 1s") else { return };
    let err = text(&output.stderr);
    assert!(!output.status.success(), "{err}");
    assert!(err.contains("all 4 processes have come to the fence: there was no answer within"), "{err}");
    assert_eq!(text(&output.stdout).matches("done").count(), 0);
}

#[test]
fn a_process_that_is_killed_has_the_launcher_end_the_others() {
    let Some(output) = shell("test $PMI_RANK = 2 && kill -9 $$", "call sum") else { return };
    assert!(!output.status.success(), "{}", text(&output.stdout));
    assert_eq!(text(&output.stdout).matches("done").count(), 0);
}

/// A program started by `gpc call -n` took itself for a process of the launcher of `gpc call`.
#[test]
fn what_a_launcher_says_does_not_reach_processes_that_are_started_here() {
    let mut outer = Command::new(EXE);
    outer.args(["call", "sleep", "-n", "2", "--header", "2s"]).stdout(Stdio::null());
    let launchers = ["PMI_RANK", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"];
    let launchers = launchers.into_iter().chain(["GPC_IMPI_SERVER", "GPC_IMPI_RANK", "IMPI_AUTH_KEY"]);
    let launchers: Vec<&str> = launchers.collect();
    let mut outer = outer
        .envs(launchers.iter().map(|name| (name, "0")))
        .env("PMI_FD", "0")
        .env("KEPT", "1")
        .spawn()
        .unwrap();
    let parent = format!("PPid:\t{}\n", outer.id());
    let begun = Instant::now();
    let variables = loop {
        assert!(begun.elapsed() < PATIENCE, "no process was started");
        let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let child = all.into_iter().find(|path| {
            let read = |name: &str| fs::read(path.join(name)).unwrap_or_default();
            let launched = text(&read("cmdline")).contains("--launched");
            launched && text(&read("status")).contains(&parent)
        });
        if let Some(child) = child {
            break text(&fs::read(child.join("environ")).unwrap());
        }
        thread::sleep(Duration::from_millis(2));
    };
    assert!(outer.wait().unwrap().success());
    let names: Vec<&str> = variables.split('\0').filter_map(|pair| pair.split('=').next()).collect();
    assert!(names.contains(&"KEPT"), "{names:?}");
    assert!(launchers.iter().chain(&["PMI_FD"]).all(|name| !names.contains(name)), "{names:?}");
}

/// With `--wait-for-peers 2s`, a process waited for 60 s if its launcher's server did not answer.
#[test]
fn a_server_that_does_not_answer_has_the_time_of_the_command() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap().to_string();
    for command in ["call", "bench"] {
        let mut gpc = Command::new(EXE);
        gpc.args([command, "echo", "--wait-for-peers", "300ms"]).env("PMI_PORT", &server).env("PMI_ID", "5");
        let output = gpc.output().unwrap();
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        let (_, within) = err
            .split_once("to say which process this is: there was no answer within ")
            .unwrap_or_else(|| panic!("{err}"));
        // The request has what the look-up of the server and the connection to it left of the limit.
        let rest: u64 = within.lines().next().unwrap().strip_suffix("ms").unwrap().parse().unwrap();
        assert!((1..=300).contains(&rest), "{err}");
    }
}

#[test]
fn a_launcher_without_its_server_is_an_error() {
    for (variables, why) in [
        (&[("PMI_RANK", "0")][..], "neither PMI_FD nor PMI_PORT"),
        (
            &[("PMI_FD", "99"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")],
            "descriptor 99 (PMI_FD): nothing is open",
        ),
        (
            &[("PMI_FD", "1"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")],
            "no descriptor that a launcher hands over",
        ),
        (&[("PMI_PORT", "127.0.0.1:1"), ("PMI_ID", "0")], "cannot be reached at `127.0.0.1:1`"),
    ] {
        for command in ["call", "bench"] {
            let mut gpc = Command::new(EXE);
            let output = gpc.args([command, "echo"]).envs(variables.iter().copied()).output().unwrap();
            let err = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{err}");
            assert!(err.contains("PMI seems to have started this process") && err.contains(why), "{err}");
            assert_eq!(text(&output.stdout), "");
        }
    }
}
