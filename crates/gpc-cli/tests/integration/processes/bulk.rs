//! Long data through chains of processes: their memory, and processes that die meanwhile.

use std::fs::File;

use rustix::process::Signal;
use serde_json::Value;

use crate::processes::size::OWN_KIB_MAX;
use crate::processes::support::{Gpc, Process, coverage, ids, until};

const MIB: u64 = 1 << 20;

/// Creates a sparse file of zeros.
fn zeros(len: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    File::options().write(true).open(file.path()).unwrap().set_len(len).unwrap();
    file
}

/// Maximum memory of a node for a body, in KiB: a window of 4 MiB, the two segments that its link to the child has cut,
/// the two segments that it reads into, and overhead of the allocator.
const IN_PASSING_KIB_MAX: u64 = 8 << 10;

#[test]
fn long_data_pass_through_a_process_that_holds_a_window_of_them() {
    let data = zeros(64 * MIB);
    for link in ["tcp", "unix", "shm"] {
        let call = Gpc::start(&format!(
            "call digest -n 3 --tree chain --link {link} --forward-first --time-limit 2m --output json --data {}",
            data.path().display()
        ));
        until("both nodes run", || [1, 2].iter().all(|&id| call.find_node(id).is_some()));
        let nodes = [1, 2].map(|id| call.node(id));
        let mut most = [0; 2];
        until("the nodes end", || {
            let now = [0, 1].map(|index| nodes[index].own_kib_max_if_alive());
            (0..2).for_each(|index| most[index] = most[index].max(now[index].unwrap_or_default()));
            now == [None; 2]
        });
        let ended = call.end();
        assert_eq!((ended.code(), coverage(&ended.json())), (Some(0), [3, 0, 0, 0]), "{}", ended.stderr);
        for kib in most {
            assert!((1..OWN_KIB_MAX + IN_PASSING_KIB_MAX).contains(&kib), "{link}: {most:?} KiB");
        }
    }
}

#[test]
fn a_process_that_is_killed_while_data_pass_through_it_ends_the_call() {
    let data = zeros(512 * MIB);
    for (link, killed) in [("tcp", 3), ("unix", 1), ("unix", 5), ("shm", 1), ("shm", 3), ("shm", 5)] {
        let call = Gpc::start(&format!(
            "call digest -n 6 --tree chain --link {link} --forward-first --time-limit 5m --output json --data {}",
            data.path().display()
        ));
        // Reading mapped data makes no system call, so the CPU time of the function shows its progress.
        until("data pass", || call.find_node(killed).and_then(|node| node.ticks()) >= Some(3));
        call.node(killed).kill(Signal::KILL);
        let ended = call.end();
        let value = ended.json();
        ended.blames_the_link_of(killed, link);
        // The root has all data from the start, and those above the killed id may have received them.
        assert!(coverage(&value)[0] <= u64::from(killed), "an id below the killed one is done: {value}");
    }
}

/// Starts a partial call and kills id 2 while data pass through it; `None` if it was over before that.
fn partial_call_without(link: &str, data: &tempfile::NamedTempFile) -> Option<Value> {
    let call = Gpc::start(&format!(
        "call digest -n 5 --tree chain --link {link} --forward-first --partial --time-limit 2m --output json --data {}",
        data.path().display()
    ));
    let mut runs = false;
    until("data come, or all have passed", || {
        let kept = call.find_node(2).and_then(|node| node.own_kib_max_if_alive());
        runs |= kept.is_some();
        kept > Some(OWN_KIB_MAX + (2 << 10)) || runs && kept.is_none()
    });
    let killed = call.find_node(2).is_some_and(|node| node.kill_if_alive(Signal::KILL));
    let value = call.end().json();
    (killed && coverage(&value)[0] < 5).then_some(value)
}

/// Data that an adopter may request are retained, and the other processes succeed.
///
/// A busy machine let all data pass before this test saw that some had come.
#[test]
fn a_partial_call_goes_on_without_a_process_that_is_killed_while_data_pass() {
    let data = zeros(24 * MIB);
    for link in ["unix", "shm"] {
        let value = (0..20).find_map(|_| partial_call_without(link, &data));
        let value =
            value.expect("a kill in time: a call takes a hundred times as long as a look at its process");
        let replies: Vec<&str> = value["replies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|reply| reply["data"].as_str().unwrap())
            .collect();
        assert_eq!(replies.len(), 4, "{link}: {value}");
        let whole = |reply: &&str| *reply == replies[0] && reply.ends_with(&format!(" {}", 24 * MIB));
        assert!(replies.iter().all(whole), "{link}: {value}");
        assert!(!ids(&value).contains(&2));
    }
}

/// Processes without descriptors can neither create sealed memory nor keep what they receive. They map received data,
/// release them, and forward them through the rings.
#[test]
fn processes_without_a_descriptor_to_spare_pass_data_on_all_the_same() {
    let data = zeros(512 * MIB);
    let call = Gpc::start(&format!(
        "call digest -n 4 --tree chain --link shm --forward-first --time-limit 5m --output json --data {}",
        data.path().display()
    ));
    // What a node opens with its first function: a guard of functions, of which the thread is the last part.
    let is_guarded = |id| {
        let node: Option<Process> = call.find_node(id);
        node.is_some_and(|node| node.thread_names().contains(&"gpc-guard\n".to_owned()))
    };
    until("data pass", || [1, 2, 3].into_iter().all(is_guarded));
    [1, 2, 3].iter().for_each(|&id| call.node(id).take_descriptors_away());
    let ended = call.end();
    assert_eq!((ended.code(), coverage(&ended.json())), (Some(0), [4, 0, 0, 0]), "{}", ended.stderr);
}
