//! Processes of two jobs become one set by their handles: `gpc call` with `GPC_JOB_HANDLE`, through
//! `gpc rendezvous serve`, with some processes killed.

use std::process::{Command, Stdio};

use gpc_test_support::process::{Ended, Owned, finished, first_line, spawn_piped};
use gpc_test_support::waiting::until;
use serde_json::Value;

const EXE: &str = env!("CARGO_BIN_EXE_gpc");

fn start(command: &mut Command) -> Owned {
    Owned(spawn_piped(command.stdin(Stdio::null())))
}

/// A service on its own port, without a token: on loopback.
struct Service {
    _process: Owned,
    url: String,
}

impl Service {
    fn start() -> Service {
        let mut process = start(Command::new(EXE).args(["rendezvous", "serve"]));
        let url = first_line(&mut process.0);
        Service { _process: process, url }
    }

    fn create(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(EXE);
        command.args(["rendezvous", "create", "--service", &self.url]).args(arguments);
        let (status, out, error) = finished(command);
        assert_eq!(status, Some(0), "{error}");
        out.trim().to_owned()
    }
}

/// Starts a process of a job, which calls `facts` if it becomes id 0; others reach it only on this host.
fn task(variables: &[(&str, &str)]) -> Owned {
    let mut command = Command::new(EXE);
    command.args(["call", "facts", "--output", "json", "--wait-for-peers", "60s"]);
    command.env("GPC_HOST_ADDRESS", "127.0.0.1");
    start(command.envs(variables.iter().copied()))
}

/// Checks that one process, id 0, has called all ids and printed their replies, and that the others have served it.
fn one_set(processes: Vec<Owned>) -> Value {
    let count = processes.len();
    let ends: Vec<Ended> = processes.into_iter().map(Owned::ended).collect();
    let errors: String = ends.iter().map(|(.., error)| error.as_str()).collect();
    assert!(ends.iter().all(|(status, ..)| *status == Some(0)), "{errors}");
    let printed: Vec<&str> =
        ends.iter().map(|(_, out, _)| out.as_str()).filter(|out| !out.is_empty()).collect();
    assert_eq!(printed.len(), 1, "{errors}");
    let printed: Value = serde_json::from_str(printed[0]).unwrap();
    assert_eq!(printed["nodes"], count, "{printed}");
    assert_eq!(printed["coverage"]["done"], count, "{printed}");
    printed
}

/// The service registers the data of each subjob above.
#[test]
fn two_subjobs_of_three_processes_become_six_ids() {
    let service = Service::start();
    let top = service.create(&["--capacity", "2", "--level", "2", "--joint"]);
    let subjob = |rank| service.create(&["--capacity", "3", "--parent", &top, "--rank", rank]);
    let jobs = [subjob("0"), subjob("1")];
    // Neutral names, and those of the source document.
    let of = |process: usize| match process % 2 {
        0 => vec![("GPC_JOB_HANDLE", jobs[0].as_str())],
        _ => vec![("GLOBUS_GRAM_JOB_HANDLE", jobs[1].as_str())],
    };
    one_set((0..6).map(|process| task(&of(process))).collect());
}

/// The process with rank 0 of each subjob registers above, as in the source document.
#[test]
fn subjobs_whose_tasks_control_them_become_one_set() {
    let service = Service::start();
    let top = service.create(&["--capacity", "2", "--level", "2", "--joint"]);
    let jobs = [(service.create(&["--capacity", "3"]), "0"), (service.create(&["--capacity", "1"]), "1")];
    let of = |(handle, rank): &(String, &'static str)| {
        task(&[("GPC_JOB_HANDLE", handle), ("GPC_MULTIJOB_HANDLE", &top), ("GPC_SUBJOB_RANK", rank)])
    };
    one_set(vec![of(&jobs[1]), of(&jobs[0]), of(&jobs[0]), of(&jobs[0])]);
}

/// Of three processes one is killed before all are there; the others report its rank as missing when the limit expires.
#[test]
fn a_process_that_is_killed_before_all_are_there_is_missed() {
    let service = Service::start();
    let own = service.create(&["--capacity", "3", "--joint"]);
    let tally = |wanted: u32| {
        let shows =
            || Command::new(EXE).args(["rendezvous", "show", "--output", "json", &own]).output().unwrap();
        until("the tally", || serde_json::from_slice::<Value>(&shows().stdout).unwrap()["tally"] == wanted);
    };
    let mut killed = task(&[("GPC_JOB_HANDLE", &own)]);
    tally(1);
    killed.0.kill().unwrap();
    let mut command = Command::new(EXE);
    command.args(["call", "facts", "--wait-for-peers", "1s"]).env("GPC_HOST_ADDRESS", "127.0.0.1");
    let (status, _, error) = start(command.env("GPC_JOB_HANDLE", &own)).ended();
    assert_ne!(status, Some(0));
    assert!(error.contains("2 of 3 have registered; rank 2 is missing"), "{error}");
}

#[test]
fn what_is_missing_or_wrong_is_said() {
    let service = Service::start();
    let own = service.create(&["--capacity", "1"]);
    for (variables, why) in [
        (vec![("GPC_JOB_HANDLE", own.as_str())], "create the resource at the top with --joint"),
        (vec![("GPC_SUBJOB_RANK", "0")], "set GPC_JOB_HANDLE"),
        (vec![("GPC_JOB_HANDLE", "nonsense")], "GPC_JOB_HANDLE"),
        (
            vec![("GPC_JOB_HANDLE", own.as_str()), ("GPC_RENDEZVOUS_TOKEN_FILE", "/nowhere")],
            "(from GPC_RENDEZVOUS_TOKEN_FILE or",
        ),
    ] {
        let (status, out, error) = task(&variables).ended();
        assert!(status != Some(0) && out.is_empty(), "{variables:?}");
        assert!(error.contains(why), "{error}");
    }
}

/// Processes that the command starts itself do not take part in the rendezvous.
#[test]
fn with_a_number_of_processes_the_handles_do_not_count() {
    let mut command = Command::new(EXE);
    command.args(["call", "-n", "3", "facts", "--output", "json"]);
    command.env("GPC_JOB_HANDLE", "http://127.0.0.1:1/rendezvous?000102030405060708090a0b0c0d0e0f");
    let (status, out, error) = start(&mut command).ended();
    assert_eq!(status, Some(0), "{error}");
    let printed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(printed["coverage"]["done"], 3, "{printed}");
}
