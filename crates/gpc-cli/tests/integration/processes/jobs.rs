//! Nodes of different jobs, run by hand: a peers file that outlived its nodes joins no other nodes.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::processes::support::{Gpc, Process, ids, json_of, run};

const OURS: &str = "aaaaaaaabbbbbbbbccccccccdddddddd";
const THEIRS: &str = "11111111222222223333333344444444";

/// Writes a peers file of ids 0 to 2, all of them at these sockets.
fn peers_file(folder: &tempfile::TempDir, name: &str, job: Option<&str>) -> PathBuf {
    let path = folder.path().join(name);
    let job = job.map(|job| format!("job {job} # drawn once\n")).unwrap_or_default();
    let line = |id| format!("{id} unix:{}/{id}.sock\n", folder.path().display());
    fs::write(&path, [job, line(0), line(1), line(2)].concat()).unwrap();
    path
}

/// Starts nodes 1 and 2 of a file.
fn nodes(peers: &Path) -> Vec<Gpc> {
    let start = |id: u32| {
        let line = format!("node --id {id} --peers {}", peers.display());
        let node = Gpc::start_in(&line, b"", &[("GPC_LOG", "warn")]);
        node.until_said(&format!("gpc: id {id} listens at "));
        node
    };
    vec![start(1), start(2)]
}

/// A second job had taken the addresses of a first one, whose peers file still existed: a call with that file called
/// functions of the second job.
#[test]
fn a_stale_peers_file_joins_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let [ours, stale, none] = [("ours", Some(OURS)), ("stale", Some(THEIRS)), ("none", None)]
        .map(|(name, job)| peers_file(&folder, name, job));
    let nodes = nodes(&ours);
    let call = |peers: &Path, more: &str| format!("call echo --peers {} --id 0 {more}", peers.display());
    assert_eq!(ids(&json_of(&call(&ours, ""))), [0, 1, 2]);
    for (peers, short) in [(&stale, "job 11111111"), (&none, "no job")] {
        for more in ["--tree flat --output json", "--tree chain --output json"] {
            let ended = run(&call(peers, more));
            let cause = ended.json()["cause"].clone();
            let message = cause["message"].as_str().unwrap();
            assert_eq!((ended.code(), &cause["stage"]), (Some(1), &"link".into()), "{}", ended.stderr);
            assert!(message.contains("is of job aaaaaaaa") && message.contains(short), "{message}");
            assert!(message.contains("peers file"), "it says what to do: {message}");
        }
        let ended = run(&call(peers, "--wait-for-peers 300ms"));
        assert!(ended.code() == Some(1) && ended.said().contains("is of job aaaaaaaa"), "{}", ended.stderr);
        for node in &nodes {
            node.until_said(short);
        }
    }
    // The nodes that were called continue.
    assert_eq!(ids(&json_of(&call(&ours, "--tree chain"))), [0, 1, 2]);
    for node in nodes {
        node.process().kill(Signal::INT);
        assert_eq!(node.end().code(), Some(0));
    }
}

/// Each launch has its own job and secret, which its processes receive. A process that only finds an address of the
/// launch is refused, and learns nothing more.
#[test]
fn processes_of_a_launch_link_with_nobody_else() {
    let call = Gpc::start("call sleep --header 60s -n 3 --link tcp --forward-first --tree flat");
    call.until_asleep(1);
    let port = port_of(&call.node(1)).expect("it listens on TCP");
    let folder = tempfile::tempdir().unwrap();
    let peers = folder.path().join("peers");
    fs::write(&peers, format!("1 127.0.0.1:{port}\n")).unwrap();
    let stranger = format!("call echo --peers {} --id 0 --ids 1 --output json", peers.display());
    let ended = run(&stranger);
    let message = ended.json()["cause"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("it refused the connection: refused;") && !message.contains("job"), "{message}");
    assert_eq!(ended.code(), Some(1));
    call.process().kill(Signal::INT);
    assert_ne!(call.end().code(), Some(0));
}

/// Returns the TCP port at which a process listens.
fn port_of(process: &Process) -> Option<u16> {
    let proc = PathBuf::from(format!("/proc/{}", process.pid.as_raw_nonzero()));
    let files = fs::read_dir(proc.join("fd")).ok()?.flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok()?.to_str().map(str::to_owned));
    let sockets: Vec<String> =
        links.filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
    let table = fs::read_to_string(proc.join("net/tcp")).ok()?;
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // The state 0A is LISTEN.
        let ours =
            *words.get(3)? == "0A" && sockets.iter().any(|socket| words.get(9) == Some(&socket.as_str()));
        ours.then(|| u16::from_str_radix(words[1].split_once(':')?.1, 16).ok())?
    })
}
