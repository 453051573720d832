//! The end of the supervisor, and its effect on the processes.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use gpc_bnr::Exit;
use gpc_bnr::supervisor::SupervisorEvent;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Harness, PATIENCE, Process, command, member};

/// Processes of two groups, including detached ones.
fn several(harness: &mut Harness) -> Vec<Process> {
    let scripts = [
        "trap '' TERM HUP; echo ready; while :; do sleep 600; done",
        "sh -c 'sleep 600 & echo ready; wait' & wait",
        "setsid sh -c 'setsid sh -c \"echo ready; exec sleep 600\" & exit' & wait; sleep 600",
    ];
    let mut processes = Vec::new();
    for (rank, script) in (0..).zip(scripts) {
        for group in [1, 2] {
            let mut process = harness.shell(member(group, rank), script);
            assert_eq!(process.line(), "ready");
            processes.push(process);
        }
    }
    processes
}

#[test]
fn everything_ends_with_the_control_socket() {
    let mut harness = Harness::new();
    let processes = several(&mut harness);
    let supervisor = harness.supervisor.id();
    harness.supervisor.end(PATIENCE);
    for process in processes {
        assert_eq!(process.all(), "");
    }
    // The supervisor's exit status has been collected.
    assert!(!std::fs::exists(format!("/proc/{supervisor}")).unwrap());
}

#[test]
fn everything_ends_when_the_handle_is_dropped() {
    let mut harness = Harness::new();
    let mut processes = several(&mut harness);
    drop(harness);
    for process in &mut processes {
        assert!(!process.is_there());
    }
}

#[test]
fn everything_ends_when_the_supervisor_is_asked_to() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        let mut harness = Harness::new();
        let processes = several(&mut harness);
        kill_process(Pid::from_raw(harness.supervisor.id().cast_signed()).unwrap(), signal).unwrap();
        for process in processes {
            assert_eq!(process.all(), "");
        }
        assert_eq!(harness.try_event().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        harness.supervisor.abandon();
    }
}

/// The processes of a killed supervisor become children of another process and run on. The node detects the end of the
/// supervisor, and kills the processes that it finds.
#[test]
fn a_supervisor_that_is_killed_is_seen_and_what_it_has_left_is_found() {
    let mut harness = Harness::new();
    let mut processes = several(&mut harness);
    let mut gone = harness.shell(member(1, 9), "echo ready; exit 4");
    assert_eq!(gone.line(), "ready");
    assert_eq!(harness.event(), SupervisorEvent::Ended(member(1, 9), Exit::Code(4)));
    kill_process(Pid::from_raw(harness.supervisor.id().cast_signed()).unwrap(), Signal::KILL).unwrap();
    assert_eq!(harness.try_event().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert!(processes.iter_mut().all(Process::is_there));
    harness.supervisor.abandon();
    for process in processes {
        assert_eq!(process.all(), "");
    }
}

/// Variable that tells this program to act as a node with a supervisor.
const NODE: &str = "BNR_TEST_NODE";

/// The processes of the killed node share its standard error with the supervisor. Once that stream ends, none of them
/// is left.
#[test]
fn everything_ends_with_a_node_that_is_killed() {
    if std::env::var_os(NODE).is_some() {
        let mut harness = Harness::new();
        let processes = several(&mut harness);
        let supervisor = format!("ready {}\n", harness.supervisor.id());
        std::io::stderr().write_all(supervisor.as_bytes()).unwrap();
        // The parent process kills this one.
        std::thread::park();
        drop(processes);
    }
    let name = "ends::everything_ends_with_a_node_that_is_killed";
    let mut node = Command::new(std::env::current_exe().unwrap());
    node.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(NODE, "1");
    let mut node = node.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = node.stderr.take().unwrap();
    let mut said = String::new();
    while !said.ends_with('\n') {
        let mut byte = [0];
        stderr.read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
    }
    let supervisor = said.trim_end().rsplit(' ').next().unwrap();
    let children: Vec<String> = std::fs::read_dir(format!("/proc/{supervisor}/task"))
        .unwrap()
        .map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap())
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(children.len() >= 6, "{children:?}");
    node.kill().unwrap();
    node.wait().unwrap();
    // Terminates with the supervisor, which has the stream open.
    said.clear();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
    for child in children {
        let tag = std::fs::read_to_string(format!("/proc/{child}/environ")).unwrap_or_default();
        assert!(!tag.contains("GPC_BNR_GROUP=test"), "{child} is there");
    }
}

/// Starts a command and drops it, since it holds the other end of the socket.
fn spawned(mut command: Command) -> Child {
    command.spawn().unwrap()
}

#[test]
fn orders_that_make_no_sense_end_the_supervisor_with_an_error() {
    for garbage in [&b"\xff\xff\xff\xff"[..], b"\x01\0\0\0\x09", b"\x00\0\0\0", b"GET / HTTP/1.0\r\n\r\n"] {
        let (program, args) = command("");
        let (mut control, theirs) = UnixStream::pair().unwrap();
        control.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut supervisor = Command::new(program);
        supervisor.args(args).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        let mut supervisor = spawned(supervisor);
        control.write_all(garbage).unwrap();
        let mut said = Vec::new();
        let read = control.read_to_end(&mut said);
        assert!(read.is_ok() || read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
        // The supervisor may have sent its version, and nothing else; the first bytes are a length.
        let version = said.get(4..).unwrap_or_default();
        assert!(version.is_empty() || version.starts_with(b"bnr-keeper "), "{said:?}");
        assert!(said.len() < 40, "{said:?}");
        assert_eq!(supervisor.wait().unwrap().code(), Some(1), "{garbage:?}");
    }
}

/// A supervisor that may open fewer descriptors than its node expects.
#[test]
fn descriptors_that_are_lost_end_the_supervisor_and_are_not_taken_for_others() {
    let mut harness = Harness::behind("ulimit -n 40");
    let processes: Vec<_> =
        (0..60).map(|rank| harness.queue(harness.words(member(1, rank), "sleep", &["600"]))).collect();
    let error = loop {
        match harness.try_event() {
            Ok(SupervisorEvent::Started(..)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(
        [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error.kind())
    );
    harness.supervisor.abandon();
    for process in processes {
        assert_eq!(process.all(), "");
    }
}
