//! Several nodes: started by a run, and already running.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use gpc_test_support::ports;
use rustix::process::Signal;

use super::support::*;

#[test]
fn processes_are_divided_among_nodes() {
    let place = Place::new();
    let ended = ended(
        place.script("-n 7 --nodes 3", "echo $PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS"),
    );
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    assert_eq!(ended.lines().len(), 7, "{}", ended.out);
    let local: Vec<u32> =
        ended.lines().iter().map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
    assert!(local.iter().all(|count| [2, 3].contains(count)), "as even as possible: {}", ended.out);
    place.empty();
}

#[test]
fn standard_input_tags_and_statuses_go_through_nodes() {
    let place = Place::new();
    let mut command = place.script(
        "-n 6 --nodes 3 --tag-output --on-death notify",
        "echo $PMI_RANK $(wc -c); [ $PMI_RANK != 5 ] || exit 9",
    );
    command.stdin(Stdio::piped());
    let mut run = Run::start(command);
    run.write(&"x".repeat(200_000));
    let ended = run.ended();
    assert_eq!(ended.status, 9, "{}", ended.err);
    assert!(ended.err.contains("g1.5: ended with status 9"), "{}", ended.err);
    assert!(ended.out.contains("[g1.5] 5 0\n"), "{}", ended.out);
    place.empty();
}

#[test]
fn a_node_that_is_killed_ends_the_job_and_leaves_nothing() {
    let place = Place::new();
    let run = Run::start(place.script("-n 6 --nodes 3", "echo up; exec sleep 1000"));
    run.says("up", 6);
    place.domain_of(run.pid());
    place.with("node --launched --exec-allowed --id 2")[0].signal(Signal::KILL);
    let ended = run.ended();
    assert_eq!(ended.status, 1, "{}", ended.err);
    assert!(ended.err.contains("lost with node 2"), "{}", ended.err);
    place.empty();
}

#[test]
fn the_others_go_on_without_a_node_where_a_death_is_no_more_than_told() {
    let place = Place::new();
    let script = "echo up; [ $PMI_RANK = 0 ] && { read line; echo $line; exit 0; }; exec sleep 1000";
    let mut command = place.script("-n 2 --nodes 2 --on-death notify", script);
    command.stdin(Stdio::piped());
    let mut run = Run::start(command);
    run.says("up", 2);
    place.domain_of(run.pid());
    place.with("node --launched --exec-allowed --id 1")[0].signal(Signal::KILL);
    until("its process is gone", || {
        place.with("sleep 1000").iter().all(|process| !process.line.starts_with("sleep"))
    });
    run.write("still here\n");
    let ended = run.ended();
    assert_eq!(ended.status, 1, "{}", ended.err);
    assert!(
        ended.out.contains("still here") && ended.err.contains("g1.1: lost with node 1"),
        "{}",
        ended.err
    );
    place.empty();
}

#[test]
fn a_killed_head_ends_all_nodes() {
    let place = Place::new();
    let run = Run::start(place.script("-n 6 --nodes 3", "setsid sleep 1000 & echo up; exec sleep 1000"));
    run.says("up", 6);
    run.signal(Signal::KILL);
    run.ended();
    place.empty();
}

/// Starts two nodes, ids 1 and 2. Each head, ids 0 and 3, has a peers file of its own nodes: `peers-0` and `peers-3`.
pub(crate) fn daemons(place: &Place, addresses: &[String; 4], secret: bool) -> Vec<Run> {
    let lines = |ids: &[usize]| ids.iter().map(|&id| format!("{id} {}\n", addresses[id])).collect::<String>();
    for (name, ids) in [("peers", &[0, 1, 2, 3][..]), ("peers-0", &[0, 1, 2]), ("peers-3", &[1, 2, 3])] {
        fs::write(place.path(name), lines(ids)).unwrap();
    }
    if secret {
        assert_eq!(ended(place.gpc(["secret", &place.path("secret")])).status, 0);
    }
    let start = |id: &str| {
        let mut words = vec![
            "node".to_owned(),
            "--exec-allowed".into(),
            "--id".into(),
            id.into(),
            "--peers".into(),
            place.path("peers"),
        ];
        if secret {
            // Processes of one user on one machine would not need a secret.
            let proved = ["--link".into(), "tcp".into(), "--secret-file".into(), place.path("secret")];
            words.extend(proved);
        }
        let run = Run::start(place.gpc(words));
        run.complains("listens at");
        run
    };
    ["1", "2"].map(start).into_iter().collect()
}

/// Returns free addresses on loopback.
pub(crate) fn tcp() -> [String; 4] {
    ports::free().map(|address| address.to_string())
}

/// Returns addresses of this test only.
pub(crate) fn unix(test: &str) -> [String; 4] {
    [0, 1, 2, 3].map(|id| format!("unix:@gpc-{test}-{}-{id}", std::process::id()))
}

/// Returns a run of this head on the running nodes.
pub(crate) fn joined(place: &Place, head: u32, words: &str, script: &str) -> Command {
    let peers = place.path(&format!("peers-{head}"));
    place.script(&format!("--peers {peers} --id {head} {words}"), script)
}

#[test]
fn running_nodes_run_programs_for_who_has_their_secret() {
    let place = Place::new();
    let nodes = daemons(&place, &tcp(), true);
    let words = format!("-n 6 --secret-file {}", place.path("secret"));
    for _ in 0..2 {
        let ended = ended(joined(&place, 0, &words, "echo $PMI_RANK of $PMI_SIZE in $PWD"));
        let here = std::env::current_dir().unwrap();
        ended.well((0..6).map(|rank| format!("{rank} of 6 in {}", here.display())));
    }
    // With another secret, the nodes start nothing.
    assert_eq!(ended(place.gpc(["secret", &place.path("other")])).status, 0);
    let words = format!("-n 6 --secret-file {}", place.path("other"));
    let refused = ended(joined(&place, 0, &words, "echo $MPI_LOCALNRANKS"));
    assert_eq!((refused.status, refused.out.as_str()), (1, ""), "{}", refused.err);
    assert!(refused.err.ends_with("there is no node left that runs processes\n"), "{}", refused.err);
    for id in [1, 2] {
        assert!(refused.err.contains(&format!("node {id} has no part in the domain")), "{}", refused.err);
    }
    for node in nodes {
        node.signal(Signal::TERM);
        node.ended();
    }
    place.empty();
}

/// A node without `--exec-allowed` was reported by the number of a function. It and an absent node then "were lost",
/// although neither had taken part.
#[test]
fn nodes_that_take_no_part_are_named_once_with_what_to_do() {
    let place = Place::new();
    let addresses = unix("no-part");
    let lines: String = [0, 1, 2].map(|id| format!("{id} {}\n", addresses[id])).concat();
    let peers = place.path("peers-0");
    fs::write(&peers, lines).unwrap();
    let node = Run::start(place.gpc(["node", "--id", "1", "--peers", &peers]));
    node.complains("listens at");
    let refused = ended(joined(&place, 0, "-n 1", "echo never"));
    let lines: Vec<&str> = refused.err.lines().collect();
    assert_eq!((refused.status, lines.len()), (1, 3), "{}", refused.err);
    let no_part = |id| format!("gpc: node {id} has no part in the domain: ");
    assert!(
        lines[0].starts_with(&no_part(1)) && lines[0].contains("started without `--exec-allowed`"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with(&no_part(2)) && lines[1].contains("cannot connect"), "{lines:?}");
    assert!(lines[1].ends_with("see that the node runs there"), "{lines:?}");
    assert!(lines[2].ends_with("there is no node left that runs processes"), "{lines:?}");
    assert!(!refused.err.contains("0x") && !refused.err.contains("was lost"), "{}", refused.err);
    node.signal(Signal::TERM);
    node.ended();
    place.empty();
}

/// One of two nodes did not have a program. The error "cannot start it (rank 0): there is no such program" named
/// neither node nor host, and the rank of the other node ran.
#[test]
fn where_a_node_lacks_a_program_it_is_named_and_no_rank_runs() {
    let place = Place::new();
    let addresses = unix("lacks");
    let lines: String = [0, 1, 2].map(|id| format!("{id} {}\n", addresses[id])).concat();
    fs::write(place.path("peers-0"), lines).unwrap();
    fs::create_dir(place.path("bin")).unwrap();
    let program = place.path("bin/gpc-test-probe");
    fs::write(&program, format!("#!/bin/sh\necho > {}\n", place.path("ran"))).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let start = |id: &str, path: String| {
        let peers = place.path("peers-0");
        let mut command = place.gpc(["node", "--exec-allowed", "--id", id, "--peers", &peers]);
        command.env("PATH", path);
        let run = Run::start(command);
        run.complains("listens at");
        run
    };
    let nodes =
        [start("1", format!("{}:/usr/bin:/bin", place.path("bin"))), start("2", "/usr/bin:/bin".into())];
    let peers = place.path("peers-0");
    let ended = ended(place.gpc(["run", "--peers", &peers, "--id", "0", "-n", "2", "gpc-test-probe"]));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let why = format!(
        "gpc: cannot start gpc-test-probe (rank 1, host {}, node 2): there is no such program in PATH: No such file or directory\n",
        host.trim_end()
    );
    assert_eq!((ended.status, ended.err), (127, why));
    assert!(!fs::exists(place.path("ran")).unwrap(), "rank 0 has run");
    for node in nodes {
        node.signal(Signal::TERM);
        node.ended();
    }
    place.empty();
}

/// MPI libraries drop the reason of a failed spawn, and it was reported nowhere; then not if it came before the answer
/// to the run's own start.
#[test]
fn why_a_spawn_has_failed_is_on_standard_error() {
    let place = Place::new();
    let script = format!("{PMI} spawn 2 /nowhere/child; echo \"$line\"; finalize");
    let ended = ended(place.script("-n 1", &script));
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(ended.out.contains("errcodes=2,2"), "{}", ended.out);
    let first = "gpc: cannot start /nowhere/child (g2.0-1, host ";
    assert!(ended.err.starts_with(first), "{}", ended.err);
    assert!(ended.err.ends_with("): there is no such program: No such file or directory\n"), "{}", ended.err);
    place.empty();
}

#[test]
fn a_head_that_is_killed_leaves_nothing_at_running_nodes_and_they_go_on() {
    let place = Place::new();
    let nodes = daemons(&place, &unix("left"), false);
    let run = Run::start(joined(&place, 0, "-n 6", "setsid sleep 1000 & echo up; exec sleep 1000"));
    run.says("up", 6);
    run.signal(Signal::KILL);
    run.ended();
    until("nothing of it is left", || place.with("sleep 1000").is_empty());
    let ended = ended(joined(&place, 0, "-n 3", "echo again"));
    assert_eq!((ended.status, ended.out.as_str()), (0, "again\nagain\nagain\n"), "{}", ended.err);
    for node in nodes {
        node.signal(Signal::TERM);
        node.ended();
    }
    place.empty();
}

#[test]
fn two_jobs_share_running_nodes() {
    let place = Place::new();
    let nodes = daemons(&place, &unix("both"), false);
    let run = Run::start(joined(&place, 0, "-n 3", "echo up; exec sleep 1000"));
    run.says("up", 3);
    let ended = ended(joined(&place, 3, "-n 3", "echo other"));
    assert_eq!((ended.status, ended.out.as_str()), (0, "other\nother\nother\n"), "{}", ended.err);
    run.signal(Signal::TERM);
    assert_eq!(run.ended().status, 143);
    for node in nodes {
        node.signal(Signal::TERM);
        node.ended();
    }
    place.empty();
}
