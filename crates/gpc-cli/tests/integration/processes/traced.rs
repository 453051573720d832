//! `gpc trace` over real nodes: something is slow somewhere, and the table names the id.
//!
//! The five things that are slow: a function, a link, a stopped process, a full queue, a child far down the tree.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;

use crate::processes::joined::Set;
use crate::processes::support::{Gpc, run, until};

/// Runs `gpc trace` until it names this id for this reason; returns the entry, and the whole table of the same time.
fn until_named(peers: &str, id: u64, doing: &str) -> (Value, String) {
    let mut found = None;
    until(&format!("gpc trace names id {id}: {doing}"), || {
        let ended = run(&format!("trace --peers {peers} --output json"));
        let value: Value = serde_json::from_slice(&ended.stdout).expect("one JSON object");
        let calls = value["calls"].as_array().expect("a list");
        let mut late = calls.iter().flat_map(|call| call["late"].as_array().expect("a list"));
        found = late.rfind(|late| late["id"] == id && late["doing"] == doing).cloned();
        found.is_some()
    });
    let table = run(&format!("trace --peers {peers}"));
    assert_eq!(table.code(), Some(0), "{}", table.stderr);
    (found.expect("it was found"), String::from_utf8(table.stdout).expect("text"))
}

fn waiting(late: &Value) -> Vec<u64> {
    late["waiting"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect()
}

/// Starts a call down a chain of nodes 1 to 3, in which this process only watches.
fn call(set: &Set, id: u32, what: &str) -> Gpc {
    let line = format!("call {what} --peers {} --id {id} --watch --tree chain --time-limit 1m", set.peers());
    Gpc::start(&line)
}

fn end(call: &Gpc) {
    call.process().kill(Signal::INT);
}

#[test]
fn a_slow_function_and_the_call_behind_it_are_named() {
    let set = Set::over_unix();
    let slow = call(&set, 7, "sleep --header 50s --ids 2");
    set.nodes[1].until_asleep(2);
    let behind = call(&set, 8, "digest --ids 1,2 --execute-first");
    let (late, table) = until_named(&set.peers(), 2, "queue");
    assert_eq!((waiting(&late), &late["behind"]), (vec![1, 8], &"sleep of id 7".into()));
    let line = |words: &str| table.lines().any(|line| line.contains(words));
    assert!(line("waits for a free worker, behind sleep of id 7  1, 8"), "{table}");
    assert!(line("runs sleep") && line("id 0 does not answer: "), "{table}");
    assert!(line("3 of 4 nodes answered; 2 calls are under way"), "{table}");
    for call in [slow, behind] {
        end(&call);
        call.end();
    }
    set.end();
}

#[test]
fn a_child_that_is_late_far_down_is_named_with_all_that_wait_for_it() {
    let set = Set::over_unix();
    let busy = call(&set, 7, "sleep --header 50s --ids 3");
    set.nodes[2].until_asleep(3);
    let waits = call(&set, 8, "sleep --header 1ms --ids 1-3");
    let (late, table) = until_named(&set.peers(), 3, "queue");
    assert_eq!(waiting(&late), [2, 1, 8], "{table}");
    for call in [busy, waits] {
        end(&call);
        call.end();
    }
    set.end();
}

/// Id 2 is busy when the call comes to it: the critical path ends there, and its time is in the queue.
#[test]
fn the_trace_of_a_call_ends_at_the_id_that_was_busy() {
    let set = Set::over_unix();
    let busy = call(&set, 7, "sleep --header 1s --ids 2");
    set.nodes[1].until_asleep(2);
    let folder = tempfile::tempdir().unwrap();
    let [picture, events] = ["call.svg", "call.json"].map(|name| folder.path().join(name));
    let line = |file: &std::path::Path| {
        let file = file.display();
        format!(
            "call digest --peers {} --id 8 --watch --ids 1-3 --tree chain --trace --trace-file {file}",
            set.peers()
        )
    };
    let ended = run(&line(&picture));
    let text = String::from_utf8(ended.stdout.clone()).unwrap();
    assert_eq!((ended.code(), &*ended.stderr), (Some(0), ""), "{text}");
    let path =
        text.split("critical path, ").nth(1).and_then(|text| text.split("\n\n").next()).expect("a path");
    let ids: Vec<&str> = path.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(ids[..3], ["8", "1", "2"], "{text}");
    let most = text.split("ids that took the most time").nth(1).and_then(|text| text.lines().nth(2));
    assert!(most.is_some_and(|line| line.trim_start().starts_with("2 ")), "{text}");
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("id 3"), "{svg}");
    assert_eq!(busy.end().code(), Some(0));
    assert_eq!(run(&line(&events)).code(), Some(0));
    let events: Value = serde_json::from_str(&std::fs::read_to_string(events).unwrap()).unwrap();
    let calls = events["traceEvents"].as_array().expect("a list").iter();
    assert_eq!(calls.filter(|event| event["name"] == "digest" && event["ph"] == "X").count(), 3);
    set.end();
}

#[test]
fn a_process_that_is_stopped_is_named() {
    let set = Set::over_unix();
    set.nodes[1].process().kill(Signal::STOP);
    let waits = call(&set, 7, "echo --ids 1-3 --dead-after 1m");
    let (late, table) = until_named(&set.peers(), 2, "silent");
    assert_eq!(waiting(&late), [1, 7]);
    assert!(table.contains("id 2 does not answer: ") && table.contains("2 of 4 nodes answered"), "{table}");
    set.nodes[1].process().kill(Signal::CONT);
    assert_eq!(waits.end().code(), Some(0));
    set.end();
}

/// A relay of connections that stops passing bytes on.
struct Relay {
    address: String,
    stalled: Arc<AtomicBool>,
}

impl Relay {
    fn to(target: String) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stalled = Arc::new(AtomicBool::new(false));
        let stalls = stalled.clone();
        // The threads end with the connections, or with the test.
        thread::spawn(move || {
            for from in listener.incoming().filter_map(Result::ok) {
                let Ok(to) = TcpStream::connect(&target) else { continue };
                for (mut from, mut to) in [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)] {
                    let stalls = stalls.clone();
                    thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            while stalls.load(Ordering::SeqCst) {
                                thread::yield_now();
                                thread::park_timeout(std::time::Duration::from_millis(5));
                            }
                            if to.write_all(&bytes[..count]).is_err() {
                                break;
                            }
                        }
                    });
                }
            }
        });
        Relay { address, stalled }
    }
}

/// The request is on a link that has stopped: its receiver has nothing of the call.
#[test]
fn a_link_that_passes_nothing_on_is_named_by_the_id_that_has_not_received_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let free = |_| TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let own: Vec<String> = (0..2).map(free).collect();
    let relay = Relay::to(own[1].clone());
    let write = |name: &str, second: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("1 {}\n2 {second}\n", own[0])).unwrap();
        path.display().to_string()
    };
    let (direct, relayed) = (write("direct", &own[1]), write("relayed", &relay.address));
    let node = |id: usize, peers: &str| {
        let listen = &own[id - 1];
        let line = format!("node --id {id} --listen {listen} --peers {peers} --link tcp --dead-after 1m");
        let node = Gpc::start(&line);
        node.until_said(&format!("gpc: id {id} listens at {listen}"));
        node
    };
    // The relay's address differs from the one at which node 2 listens, and only node 1 uses it.
    let nodes = [node(1, &relayed), node(2, &direct)];
    let line = |what: &str| {
        format!("call echo --peers {direct} --id 7 --watch --ids 1-2 --tree chain --link tcp {what}")
    };
    assert_eq!(run(&line("")).code(), Some(0));
    relay.stalled.store(true, Ordering::SeqCst);
    let waits = Gpc::start(&line("--dead-after 1m --time-limit 1m"));
    let (late, table) = until_named(&direct, 2, "not-reached");
    assert_eq!(waiting(&late), [1, 7]);
    assert!(table.contains("has not received the request"), "{table}");
    relay.stalled.store(false, Ordering::SeqCst);
    assert_eq!(waits.end().code(), Some(0));
    for node in nodes {
        node.process().kill(Signal::INT);
        assert_eq!(node.end().code(), Some(0));
    }
}

#[test]
fn nodes_without_calls_are_counted_and_none_that_answers_is_an_error() {
    let set = Set::over_unix();
    let peers = set.peers();
    let idle = run(&format!("trace --peers {peers}"));
    let text = String::from_utf8(idle.stdout).unwrap();
    assert!(text.ends_with("3 of 4 nodes answered; no call is under way\n"), "{text}");
    let file = std::fs::read_to_string(&peers).unwrap();
    set.end();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers").display().to_string();
    std::fs::write(&path, file).unwrap();
    let ended = run(&format!("trace --peers {path}"));
    assert_eq!(ended.code(), Some(1));
    assert!(ended.said().starts_with(&format!("gpc: no node of {path} answers: id 0: ")), "{}", ended.stderr);
}
