//! A process with a service and its store is killed with SIGKILL at random moments. Every acknowledged registration
//! survives, with its rank and data, and a repeated request does not register twice.

#![cfg(feature = "store")]
#![allow(clippy::print_stdout, reason = "what the killed process has said is what counts")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use gpc_rendezvous::store::FileStore;
use gpc_rendezvous::{
    Answer, Desk, Fault, Life, Limits, RankChoice, Registration, Request, ResourceId, ServiceThread, Spec,
    Store as _, Token,
};

/// Environment variable with the store's file, for the process that is killed.
const STORE: &str = "GPC_TEST_STORE";
/// Environment variable with the number of processes killed before it.
const ROUND: &str = "GPC_TEST_ROUND";
/// Environment variable with the resource that the earlier processes used.
const RESOURCE: &str = "GPC_TEST_RESOURCE";

/// Most registrations of one process: it is killed long before.
const MOST: u32 = 200_000;

/// Number of concurrent registrations.
const TOGETHER: u32 = 16;

/// A time limit that is long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn data(token: &str) -> Bytes {
    format!("the data of {token}, ").repeat(50).into()
}

fn register(
    desk: &Desk,
    resource: ResourceId,
    token: &str,
    then: impl FnOnce(Registration) + Send + 'static,
) {
    let data = data(token).into();
    let token = Token::new(token).unwrap();
    let request = Request::Register { resource, rank: RankChoice::Assign, token, data, life: Life::Unseen };
    let told = move |answer: Result<Answer, Fault>| match answer {
        Ok(Answer::Registered(registered)) => then(registered),
        other => panic!("{other:?}"),
    };
    desk.ask(request, told).detach();
}

/// The process that is killed.
fn killed(store: &Path, round: &str) {
    let store = FileStore::open(store).unwrap();
    let service_thread = ServiceThread::start(Limits::default(), Some(Box::new(store)), |_, _| {}).unwrap();
    let desk = service_thread.desk();
    let resource = match std::env::var(RESOURCE) {
        Ok(resource) => resource.parse().unwrap(),
        Err(_) => {
            let (told, created) = channel();
            desk.create(Spec::new(1 << 20), move |answer| told.send(answer).unwrap()).unwrap().detach();
            match created.recv_timeout(PATIENCE).unwrap() {
                Ok(Answer::Created(resource)) => resource,
                other => panic!("{other:?}"),
            }
        }
    };
    println!("\nresource {resource}");
    let (told, registered) = channel();
    let ask = |number: u32| {
        let (name, told) = (format!("task-{round}-{number}"), told.clone());
        register(desk, resource, &name.clone(), move |registered| {
            told.send((name, registered.rank)).unwrap()
        });
    };
    (0..TOGETHER).for_each(ask);
    for number in TOGETHER..MOST {
        let (name, rank) = registered.recv_timeout(PATIENCE).unwrap();
        println!("registered {name} {rank}");
        std::io::stdout().flush().unwrap();
        ask(number);
    }
}

/// Starts a process, kills it once `after` of its registrations are acknowledged, and returns what it printed.
fn kill_one(store: &Path, round: u32, resource: &str, after: usize) -> (String, Vec<(String, u32)>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "killed::what_was_acknowledged_is_there", "--nocapture", "--test-threads=1"]);
    command.env(STORE, store).env(ROUND, round.to_string());
    if !resource.is_empty() {
        command.env(RESOURCE, resource);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let (mut resource, mut acknowledged) = (String::new(), Vec::new());
    // Ends: with the process.
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        // The last line may be incomplete: its registration then counts as not acknowledged.
        let Some(line) = line.strip_suffix('\n') else { break };
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["resource", id] => resource = id.to_owned(),
            ["registered", name, rank] => acknowledged.push((name.to_owned(), rank.parse().unwrap())),
            _ => {}
        }
        if acknowledged.len() == after {
            child.kill().unwrap();
        }
    }
    assert!(!child.wait().unwrap().success(), "it did not end by itself");
    assert!(acknowledged.len() >= after, "{} of {after}", acknowledged.len());
    (resource, acknowledged)
}

#[test]
fn what_was_acknowledged_is_there() {
    if let Ok(store) = std::env::var(STORE) {
        return killed(Path::new(&store), &std::env::var(ROUND).unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (mut resource, mut acknowledged) = (String::new(), Vec::new());
    for (round, after) in (0..).zip([1, 200, 33, 2, 400, 77, 150, 5]) {
        let (same, more) = kill_one(&path, round, &resource, after);
        resource = same;
        acknowledged.extend(more);
        let kept = FileStore::open(&path).unwrap().load().unwrap();
        let mut there = BTreeMap::new();
        for (id, rank, registrant, data) in kept.registrants {
            assert_eq!(id.to_string(), resource);
            let twice = there.insert(registrant.token.as_str().to_owned(), (rank, data));
            assert_eq!(twice, None, "{:?} has registered twice", registrant.token);
        }
        for (name, rank) in &acknowledged {
            assert_eq!(there.get(name), Some(&(*rank, data(name))), "{name} in round {round}");
        }
    }
    let store = FileStore::open(&path).unwrap();
    let service_thread = ServiceThread::start(Limits::default(), Some(Box::new(store)), |_, _| {}).unwrap();
    let (told, again) = channel();
    for (name, rank) in acknowledged {
        let told = told.clone();
        let told = move |registered: Registration| told.send((registered.rank, rank)).unwrap();
        register(service_thread.desk(), resource.parse().unwrap(), &name, told);
        let (now, before) = again.recv_timeout(PATIENCE).unwrap();
        assert_eq!(now, before, "{name}");
    }
}
