//! Real processes, which find their node through environment variables.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use gpc_bnr::client::Process;
use gpc_bnr::request::{Answer, Request};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::client::fake::{Fake, identity};

/// Variable with the role of a started process.
const ROLE: &str = "GPC_TEST_ROLE";

/// Processes are started one at a time, so that none inherits the socket of another.
static STARTING: Mutex<()> = Mutex::new(());

/// The actions of the processes that the tests below start.
fn role(role: &str) {
    match role {
        "asks" => {
            let process = Process::init().unwrap();
            let again = Process::init().unwrap_err().to_string();
            let value = process.lookup("name").unwrap();
            println!("\nrank {} {} [{again}]", process.rank(), String::from_utf8(value).unwrap());
            process.finalize().unwrap();
        }
        "begins" => match Process::init() {
            Ok(process) => println!("\nrank {} of {}", process.rank(), process.size()),
            Err(error) => println!("\nfailed {:?}: {error}", error.kind()),
        },
        "waits" => {
            let process = Process::init().unwrap();
            drop(process.barrier());
        }
        other => panic!("{other}"),
    }
}

/// Starts this test again, as a process with this role.
fn start(role: &str, variables: &[(&str, &str)], socket: Option<&OwnedFd>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "client::started::a_process_asks_its_node", "--nocapture", "--test-threads=1"]);
    for name in ["GPC_BNR_FD", "PMI_FD"] {
        command.env_remove(name);
    }
    command.env(ROLE, role).envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let _one = STARTING.lock().unwrap();
    if let Some(socket) = socket {
        command.env("GPC_BNR_FD", socket.as_raw_fd().to_string());
        command.env("PMI_FD", socket.as_raw_fd().to_string());
        fcntl_setfd(socket, FdFlags::empty()).unwrap();
    }
    let child = command.spawn().unwrap();
    if let Some(socket) = socket {
        fcntl_setfd(socket, FdFlags::CLOEXEC).unwrap();
    }
    child
}

fn output(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_process_asks_its_node() {
    if let Ok(name) = std::env::var(ROLE) {
        return role(&name);
    }
    let (node, client) = UnixStream::pair().unwrap();
    let child = start("asks", &[], Some(&client.into()));
    let mut fake = Fake::new(node);
    fake.expect(&Request::Init, Ok(Answer::Identity(identity(3))));
    fake.expect(
        &Request::Lookup { name: b"name".to_vec(), wait: None },
        Ok(Answer::Value(b"value".to_vec())),
    );
    fake.expect(&Request::Finalize, Ok(Answer::Done));
    assert_eq!(fake.hear_or_end(), None);
    let said = output(child);
    assert!(said.contains("rank 3 value [") && said.contains("it was taken before"), "{said}");
}

#[test]
fn a_process_whose_node_is_not_there_says_so() {
    let failed = |variables: &[(&str, &str)], socket: Option<&OwnedFd>, why: &[&str]| {
        let said = output(start("begins", variables, socket));
        assert!(why.iter().all(|why| said.contains(why)), "{variables:?}: {said}");
    };
    failed(&[], None, &["failed Unsupported: no node has started this process", "gpc run"]);
    failed(&[("PMI_FD", "7")], None, &["failed Unsupported: another launcher", "gpc run"]);
    failed(&[("GPC_BNR_FD", "977")], None, &["failed Link", "GPC_BNR_FD=977", "nothing is open there"]);
    failed(&[("GPC_BNR_FD", "2")], None, &["failed Link", "no descriptor that a launcher hands over"]);
    failed(&[("GPC_BNR_FD", "seven")], None, &["failed Link", "GPC_BNR_FD=seven", "no number"]);
    let (node, client) = UnixStream::pair().unwrap();
    drop(node);
    failed(&[], Some(&client.into()), &["failed Link", "gone"]);
}

#[test]
fn a_process_that_is_killed_is_seen() {
    let (node, client) = UnixStream::pair().unwrap();
    let client: OwnedFd = client.into();
    let mut child = start("waits", &[], Some(&client));
    drop(client);
    let mut fake = Fake::new(node);
    fake.expect(&Request::Init, Ok(Answer::Identity(identity(0))));
    let (_, request) = fake.hear();
    assert!(matches!(request, Request::Fence { .. }), "{request:?}");
    child.kill().unwrap();
    assert_eq!(fake.hear_or_end(), None);
    assert!(!child.wait().unwrap().success());
}
