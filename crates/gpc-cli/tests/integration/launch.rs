//! Node processes that `gpc call` starts and ends: real processes of the real command.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::{ControlFlow, Range};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chained_gpc::runtime::{Address, Peers};
use chained_gpc::{LinkKind, Secret};
use gpc_launch::{Launch, LaunchError, Plan};
use rustix::process::{Pid, Signal, kill_process};

const EXE: &str = env!("CARGO_BIN_EXE_gpc");

/// Enough for any machine: this time passes only if something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

fn plan(ids: Range<u32>, link: LinkKind, others: Peers) -> Plan {
    let mut plan = Plan::new(ids, EXE, &["node", "--launched", "--id"]);
    (plan.link, plan.others) = (link, others);
    plan
}

fn start(count: u32, link: LinkKind) -> Launch {
    let others = Peers::from_iter([(0, "127.0.0.1:1".parse().unwrap())]);
    Launch::start(&plan(1..count + 1, link, others)).unwrap()
}

fn pid(launch: &Launch, id: u32) -> Pid {
    Pid::from_raw(launch.process_of(id).unwrap().cast_signed()).unwrap()
}

/// Whether the process is gone; a zombie would still exist.
fn is_gone(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid).is_err()
}

fn connect(address: &Address) {
    match address {
        Address::Tcp(address) => drop(TcpStream::connect(address).unwrap()),
        #[cfg(target_os = "linux")]
        Address::Abstract(name) => {
            use std::os::linux::net::SocketAddrExt as _;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
            drop(UnixStream::connect_addr(&address).unwrap());
        }
        other => panic!("{other} is no address of a launch"),
    }
}

#[test]
fn processes_are_there_at_once_and_none_is_left() {
    for link in [LinkKind::Tcp, LinkKind::DEFAULT] {
        let mut launch = start(8, link);
        assert_eq!(launch.peers().len(), 9, "the other one is kept");
        for id in 1..=8 {
            connect(&launch.peers().address(id).unwrap());
            assert_eq!(launch.exit_of(id, Duration::ZERO), None);
        }
        assert_eq!((launch.process_of(0), launch.process_of(9)), (None, None));
        let pids: Vec<Pid> = (1..=8).map(|id| pid(&launch, id)).collect();
        let ended = launch.end(PATIENCE);
        assert_eq!((ended.killed, ended.failed), (vec![], vec![]));
        assert!(pids.into_iter().all(is_gone));
    }
}

#[test]
fn a_launch_has_a_secret_of_its_own_or_that_of_its_plan() {
    let launches = [start(1, LinkKind::DEFAULT), start(1, LinkKind::Tcp)];
    assert_ne!(launches[0].secret(), launches[1].secret());
    assert!(launches[0].secret().is_some());
    let secret = Secret::random().unwrap();
    let mut given = plan(1..2, LinkKind::Tcp, Peers::new());
    given.secret = Some(secret.clone());
    let launch = Launch::start(&given).unwrap();
    assert_eq!(launch.secret(), Some(&secret));
    assert!(!format!("{launch:?} {given:?}").contains(&**secret.to_text()));
    for launch in launches.into_iter().chain([launch]) {
        let ended = launch.end(PATIENCE);
        assert_eq!((ended.killed, ended.failed), (vec![], vec![]));
    }
}

/// Orders that exceed the buffer of the control link were written before the process that reads them was started.
#[test]
fn orders_of_any_length_are_taken() {
    let others: Peers = (10..30_000).map(|id| (id, format!("unix:@other-{id}").parse().unwrap())).collect();
    let launch = Launch::start(&plan(1..3, LinkKind::Tcp, others)).unwrap();
    assert_eq!((launch.peers().len(), launch.peers().contains(29_999)), (29_992, true));
    let ended = launch.end(PATIENCE);
    assert_eq!((ended.killed, ended.failed), (vec![], vec![]));
}

/// Several threads start processes: if one fails, all processes that were started end.
#[test]
fn a_launch_that_is_stopped_leaves_nothing() {
    /// No other test uses these ids.
    const FIRST: u32 = 700_000;
    let asked = AtomicU32::new(0);
    let plan = plan(FIRST..FIRST + 64, LinkKind::DEFAULT, Peers::new());
    let stopped = Launch::start_observed(&plan, |_| match asked.fetch_add(1, Ordering::Relaxed) {
        20.. => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(stopped, Err(LaunchError::Stopped)));
    assert!((20..20 + 64).contains(&asked.into_inner()), "each thread asks once more at most");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    let left: Vec<String> = lines.filter(|line| line.contains("\0--id\x007000")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn dropping_a_launch_ends_its_processes() {
    let launch = start(2, LinkKind::Tcp);
    let pids = [pid(&launch, 1), pid(&launch, 2)];
    drop(launch);
    assert!(pids.into_iter().all(is_gone));
}

#[test]
fn a_process_that_was_killed_is_named_with_its_signal() {
    let mut launch = start(3, LinkKind::DEFAULT);
    kill_process(pid(&launch, 2), Signal::KILL).unwrap();
    let how = "killed by signal 9 (SIGKILL)";
    assert_eq!(launch.exit_of(2, PATIENCE).as_deref(), Some(how));
    assert_eq!(launch.exit_of(2, PATIENCE).as_deref(), Some(how), "asked again");
    assert_eq!(launch.exit_of(1, Duration::ZERO), None);
    assert_eq!(launch.exit_of(77, PATIENCE), None);
    let ended = launch.end(PATIENCE);
    assert_eq!((ended.killed, ended.failed), (vec![], vec![(2, how.to_owned())]));
}

#[test]
fn a_process_that_does_not_end_is_killed() {
    let launch = start(2, LinkKind::Tcp);
    let stopped = pid(&launch, 1);
    kill_process(stopped, Signal::STOP).unwrap();
    let ended = launch.end(Duration::from_millis(200));
    assert!(ended.killed.contains(&1) && ended.failed.is_empty());
    assert!(is_gone(stopped));
}

/// Starts a process like those of a launch. Returns it with the parent's end of its control link.
fn by_hand(id: u32, input: Stdio) -> (Child, UnixStream) {
    let (control, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(EXE)
        .args(["node", "--launched", "--id", &id.to_string()])
        .stdin(input)
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child, control)
}

fn refused(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

/// The resources of a node end with it, so its connections read the end. (This test used to check that the port accepts
/// no connection. In one of many runs it did: a process that another test was starting held a copy of the listening
/// socket for a moment.)
#[test]
fn a_node_ends_when_its_parent_dies() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (child, mut control) = by_hand(5, Stdio::from(OwnedFd::from(listener)));
    control.write_all(format!("ports 5 127.0.0.1 {}\nend\n", address.port()).as_bytes()).unwrap();
    let mut link = TcpStream::connect(address).unwrap();
    link.set_read_timeout(Some(PATIENCE)).unwrap();
    // The system does the same to the links of a killed parent.
    drop(control);
    assert!(child.wait_with_output().unwrap().status.success());
    let ended = link.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
    assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
}

#[test]
fn a_node_that_is_launched_wrongly_says_why() {
    let socket = || Stdio::from(OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap()));
    let with_orders = |input: Stdio, orders: &str| {
        let (child, mut control) = by_hand(5, input);
        control.write_all(orders.as_bytes()).unwrap();
        control.shutdown(std::net::Shutdown::Write).unwrap();
        let mut nothing = Vec::new();
        control.read_to_end(&mut nothing).unwrap();
        assert!(nothing.is_empty(), "nothing is written to the control link");
        refused(child.wait_with_output().unwrap())
    };
    // If the parent is gone, nothing is reported.
    assert_eq!(with_orders(socket(), "ports 5 127.0.0.1 1\n"), "");
    assert_eq!(with_orders(socket(), ""), "");
    assert_eq!(
        with_orders(socket(), "ports 4 127.0.0.1 1\nend\n"),
        "gpc: no address is known for id 5 itself\n"
    );
    assert!(with_orders(socket(), "ports 5 nowhere 1\nend\n").contains("is no row of addresses: write"));
    assert!(with_orders(socket(), "end\n").contains("started this node: there is no row of addresses"));
    assert!(with_orders(socket(), "ports 5 127.0.0.1 1\nend\n").contains("and should be at 127.0.0.1:1"));
    assert!(
        with_orders(Stdio::null(), "ports 5 127.0.0.1 1\nend\n")
            .starts_with("gpc: the listening socket of id 5: ")
    );
    let alone =
        Command::new(EXE).args(["node", "--launched", "--id", "5"]).stdin(Stdio::null()).output().unwrap();
    assert!(refused(alone).contains("--launched is for processes that `gpc call` starts"));
}
