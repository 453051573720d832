//! `gpc run --hosts`: nodes on other hosts, started by a replacement of ssh that runs its command on this machine. The
//! head listens nowhere, so nodes reach it by the links that it has opened.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::support::*;

/// The name of a host selects its behaviour.
const STAND_IN: &str = r#"#!/bin/sh
host=$1
shift
case $host in
    down*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255;;
    hang*) exec sleep 1000;;
esac
exec "$@"
"#;

/// A program that ignores SIGTERM, with a child in a session of its own.
const STUBBORN: &str = "trap '' TERM; setsid sleep 1000 & echo up; while :; do sleep 1000; done";

/// Returns the replacement of ssh.
fn stand_in(place: &Place) -> String {
    let path = place.path("rsh");
    fs::write(&path, STAND_IN).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

/// Returns a run on these hosts, each process of which runs a script.
fn over(place: &Place, words: &str, script: &str) -> Command {
    place.script(&format!("--rsh {} --hosts {words}", stand_in(place)), script)
}

/// Returns a run on these hosts of a program.
pub(crate) fn over_program(place: &Place, words: &str, program: &[&str]) -> Command {
    run_program(place, &format!("--rsh {} --hosts {words}", stand_in(place)), program)
}

/// Returns a run with these words of a program.
pub(crate) fn run_program(place: &Place, words: &str, program: &[&str]) -> Command {
    let words = ["run"].into_iter().chain(words.split_whitespace());
    place.gpc(words.chain(program.iter().copied()))
}

/// Returns the agent of a node, which has a thread of that name.
#[track_caller]
pub(crate) fn agent(place: &Place, id: u32) -> Process {
    let has = |process: &Process| {
        let tasks = fs::read_dir(format!("/proc/{}/task", process.pid.as_raw_nonzero()));
        let names = tasks.into_iter().flatten().flatten().map(|task| task.path().join("comm"));
        names.map(fs::read_to_string).any(|name| name.is_ok_and(|name| name == format!("gpc-{id}\n")))
    };
    until_some("the agent runs", || place.with("node --agent").into_iter().find(has))
}

#[test]
fn programs_on_hosts_know_ranks_sizes_and_who_shares_a_host() {
    let place = Place::new();
    for (words, size, mapping) in [
        ("a,b,c", 3, "(vector,(0,3,1))"),
        ("a,b,c --per-host 2", 6, "(vector,(0,3,2))"),
        ("h[1-9] --fan-out 2", 9, "(vector,(0,9,1))"),
    ] {
        let script = format!(
            "{PMI} get PMI_process_mapping; [[ $line == *'value={mapping}'* ]] || echo \"$line\"
             put k$PMI_RANK v$PMI_RANK; fence; get k0; [[ $line == *'value=v0'* ]] || echo \"$line\"
             # The head knows the names: a node tells it over the link that the head has opened.
             ask \"cmd=publish_name service=s$PMI_RANK port=p\"; [[ $line == *rc=0* ]] || echo \"$line\"
             finalize; echo $PMI_RANK of $PMI_SIZE, $MPI_LOCALNRANKS here in $PWD"
        );
        // Without its links the head would wait for output.
        let ended = ended(over(&place, &format!("{words} --time-limit 20s"), &script));
        let (here, folder) = (if size == 6 { 2 } else { 1 }, std::env::current_dir().unwrap());
        let line = |rank| {
            let folder = folder.display();
            format!("{rank} of {size}, {here} here in {folder}")
        };
        ended.well((0..size).map(line));
        assert_eq!(ended.err, "");
        place.nothing_left();
    }
}

#[test]
fn input_output_and_the_status_go_through_links_that_the_head_has_opened() {
    let place = Place::new();
    let script = "echo $PMI_RANK $(wc -c); [ $PMI_RANK != 2 ] || exit 9";
    let mut command = over(&place, "a,b,c --tag-output --on-death notify", script);
    command.stdin(Stdio::piped());
    let mut run = Run::start(command);
    run.write(&"x".repeat(200_000));
    let ended = run.ended();
    assert_eq!((ended.status, ended.err.as_str()), (9, "gpc: g1.2: ended with status 9\n"));
    assert_eq!(ended.lines(), ["[g1.0] 0 200000", "[g1.1] 1 0", "[g1.2] 2 0"]);
    // Of two programs none has all slots by default.
    let words = ["--hosts", "a:2,b", "echo", "one", ":", "echo", "two"];
    let rsh = stand_in(&place);
    let both = super::support::ended(place.gpc(["run", "--rsh", &rsh].into_iter().chain(words)));
    both.well(["one", "two"]);
    place.nothing_left();
}

/// In a job of a batch system the hosts are those of the job, unless a launcher has started this process.
#[test]
fn a_run_takes_the_allocation_that_it_stands_in() {
    let place = Place::new();
    let nodes = place.path("nodes");
    fs::write(&nodes, "n1\nn2\nn1\n").unwrap();
    let run = |words: &str, variables: &[(&str, &str)]| {
        let mut command = place.script(words, "echo $PMI_SIZE");
        command.envs(variables.iter().copied()).env("PBS_NODEFILE", &nodes);
        ended(command)
    };
    run("--launcher fork", &[]).well(["3", "3", "3"]);
    run("--launcher fork -n 2", &[]).well(["2", "2"]);
    run("--here", &[]).well(["1"]);
    run("-n 2 --nodes 2", &[]).well(["2", "2"]);
    let job = ("SLURM_JOB_NODELIST", "n[1-3]");
    run("--launcher fork", &[job]).well(["3", "3", "3"]);
    run("", &[("SLURM_JOB_NODELIST", "n7.cluster"), ("SLURMD_NODENAME", "n7")]).well(["1"]);
    for of_launcher in [[("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "1")], [("PMI_RANK", "0"), ("X", "")]] {
        let stayed = run("", &[&[job], &of_launcher[..]].concat());
        assert_eq!((stayed.status, stayed.out.as_str()), (0, "1\n"), "{}", stayed.err);
        let line = "gpc: a launcher has started this process within a job of Slurm: it stays on this machine";
        assert!(stayed.err.starts_with(line), "{}", stayed.err);
    }
    place.nothing_left();
}

#[test]
fn every_host_that_cannot_be_started_is_named_and_nothing_runs() {
    let place = Place::new();
    let words = "a,down1,b,hang1,down2 --start-limit 2s";
    let failed = ended(over(&place, words, &format!("echo > {}", place.path("ran"))));
    let lines: Vec<&str> = failed.err.lines().collect();
    assert_eq!((failed.status, lines[0]), (1, "gpc: 3 processes could not be started"), "{lines:?}");
    for (line, why) in lines[1..].iter().zip([
        "ids 2,5, hosts down[1-2]: exit status 255: ssh: connect to host HOST",
        "id 4, host hang1: it did not answer within 2 s",
    ]) {
        assert!(line.starts_with(why), "{lines:?}");
    }
    assert!(lines.len() == 3 && !fs::exists(place.path("ran")).unwrap(), "{lines:?}");
    place.nothing_left();
}

#[test]
fn a_head_that_is_killed_leaves_nothing_on_any_host() {
    let place = Place::new();
    let run = Run::start(over(&place, "h[1-7] --fan-out 2", STUBBORN));
    run.says("up", 7);
    place.domain_of(run.pid());
    run.signal(Signal::KILL);
    assert_eq!(run.ended().status, 137);
    place.nothing_left();
    // The first signal is passed on to the processes, the second one kills them.
    let script = "trap 'echo told' TERM; setsid sleep 1000 & echo up; while :; do sleep 1000; done";
    let run = Run::start(over(&place, "h[1-7] --fan-out 2", script));
    run.says("up", 7);
    run.signal(Signal::TERM);
    run.says("told", 7);
    run.signal(Signal::TERM);
    assert_eq!(run.ended().status, 143);
    place.nothing_left();
}

#[test]
fn an_agent_that_is_killed_ends_the_job_and_its_host_is_named() {
    let place = Place::new();
    // The first one has started others, the last one none.
    for id in [1, 7] {
        let run = Run::start(over(&place, "h[1-7] --fan-out 2", STUBBORN));
        run.says("up", 7);
        place.domain_of(run.pid());
        agent(&place, id).signal(Signal::KILL);
        let ended = run.ended();
        assert_eq!(ended.status, 1, "{}", ended.err);
        // With a host, those below it are lost.
        let whom = if id == 1 { "nodes 1-4 were" } else { "node 7 was" };
        let why = format!("gpc: {whom} lost: host h{id}: killed by signal 9 (SIGKILL)");
        assert!(ended.err.contains(&why), "{}", ended.err);
        assert!(ended.err.contains(&format!("lost with node {id}")), "{}", ended.err);
        place.nothing_left();
    }
}

/// The port was one of the head's machine, so it was refused with hosts.
#[test]
fn programs_of_torch_find_each_other_over_hosts() {
    let place = Place::new();
    let script =
        "[ $MASTER_PORT -gt 0 ] && echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR";
    let found = ended(over(&place, "a:2,b:1 --env-for torch", script));
    let address = found.out.lines().next().and_then(|line| line.split(' ').nth(2)).unwrap_or_default();
    assert!(address.parse::<std::net::IpAddr>().is_ok_and(|address| !address.is_unspecified()), "{found:?}");
    found.well(["0/3 0/2", "1/3 1/2", "2/3 0/1"].map(|line| format!("{line} {address}")));
    place.nothing_left();
}

/// `%h` was refused with hosts.
#[test]
fn files_of_output_have_the_names_of_their_hosts() {
    let place = Place::new();
    let words = format!("a:2,b:1 --out-file {}/%h.%r", place.path(""));
    ended(over(&place, &words, "echo $GPC_BNR_NODE")).well::<String>([]);
    for (name, node) in [("a.0", "1\n"), ("a.1", "1\n"), ("b.2", "2\n")] {
        assert_eq!(fs::read_to_string(place.path(name)).unwrap(), node, "{name}");
    }
    place.nothing_left();
}

/// The command ran on the machine of `gpc run`, so it was refused with hosts.
#[test]
fn the_command_at_the_time_limit_runs_on_each_host_with_its_own_processes() {
    let place = Place::new();
    let file = place.path("pid");
    // Each process of these hosts has the id that it has written.
    let script = format!("echo $$ > {file}.$PMI_RANK; echo up >&2; while :; do sleep 0.05; done");
    let command = format!(
        "echo $GPC_BNR_NODE $(echo $GPC_PIDS | wc -w); for p in $GPC_PIDS; do grep -lx $p {file}.* >&2; done; sleep 1000 & [ $GPC_BNR_NODE = 1 ] || exit 3"
    );
    let words = ["--time-limit", "20s", "--on-timeout", &command, "bash", "-c", &script];
    let ran = ended(over_program(&place, "a:2,b,c:1 -n 3", &words));
    assert_eq!((ran.status, ran.out.as_str()), (124, ""), "{}", ran.err);
    let mut lines: Vec<&str> =
        ran.err.lines().filter(|line| line.contains(": ") && !line.starts_with("gpc: ")).collect();
    lines.sort_unstable();
    let pid = |host: &str, rank: u32| format!("{host}: {file}.{rank}");
    let expected = [pid("a", 0), pid("a", 1), "a: 1 2".to_owned(), pid("b", 2), "b: 2 1".into()];
    assert_eq!(lines, expected, "{}", ran.err);
    let said = "gpc: the command of --on-timeout has failed: host b: ended with status 3
";
    assert!(ran.err.contains(said), "{}", ran.err);
    place.nothing_left();
}

#[test]
fn a_process_that_is_killed_ends_the_job_on_all_hosts() {
    let place = Place::new();
    let run = Run::start(over(&place, "a,b,c", STUBBORN));
    run.says("up", 3);
    place.domain_of(run.pid());
    place.member("g1.1").signal(Signal::KILL);
    let ended = run.ended();
    ended.failed(137, "gpc: g1.1: killed by signal 9 (SIGKILL)");
    place.nothing_left();
}

#[test]
fn a_run_that_ends_while_hosts_are_being_reached_leaves_nothing() {
    let place = Place::new();
    for signal in [Signal::KILL, Signal::INT] {
        let run = Run::start(over(&place, "a,hang[1-3] --start-limit 10m", "true"));
        until("hosts are being reached", || place.with("sleep 1000").len() >= 3);
        run.signal(signal);
        let ended = run.ended();
        assert_eq!(ended.status, 128 + signal.as_raw(), "{}", ended.err);
        place.nothing_left();
    }
}

/// `--hosts` was the option for running nodes.
#[test]
fn a_file_of_running_nodes_is_not_a_list_of_hosts() {
    let place = Place::new();
    let peers = place.path("peers");
    fs::write(&peers, "0 127.0.0.1:7000\n").unwrap();
    let refused = ended(place.gpc(["run", "--hosts", &peers, "true"]));
    assert_eq!(refused.status, 2);
    assert!(refused.err.contains(&format!("join them with --peers {peers}")), "{}", refused.err);
}

#[test]
fn slots_are_filled_by_host_or_in_turn_and_then_again() {
    let place = Place::new();
    for (words, nodes, mapping) in [
        ("a:2,b", &[1, 1, 2][..], "(vector,(0,1,2),(1,1,1))"),
        ("a:2,b -n 4", &[1, 1, 2, 1], "(vector,(0,1,2),(1,1,1),(0,1,1))"),
        ("a:2,b --map-by node", &[1, 2, 1], "(vector,(0,2,1),(0,1,1))"),
        ("a:2,b --ppn 1 -n 4", &[1, 2, 1, 2], "(vector,(0,2,1),(0,2,1))"),
    ] {
        let script = format!(
            "{PMI} get PMI_process_mapping; [[ $line == *'value={mapping}'* ]] || echo \"$line\"
             finalize; echo $PMI_RANK on $GPC_BNR_NODE"
        );
        let ended = ended(over(&place, words, &script));
        ended.well(nodes.iter().enumerate().map(|(rank, node)| format!("{rank} on {node}")));
    }
    place.nothing_left();
}

/// Returns the processors in a line of `--report-bindings`, and the object.
fn reported(line: &str) -> Option<(&str, &str)> {
    line.split_once(": cpus ")?.1.strip_suffix(')')?.split_once(" (")
}

#[test]
fn processes_are_bound_and_their_processors_reported() {
    let place = Place::new();
    let script = "sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status";
    for (bind, object) in
        [("none", "not bound"), ("core", "core 0"), ("socket", "socket "), ("numa", "NUMA node ")]
    {
        let words = format!("a --bind {bind} --map-by core --report-bindings");
        let ended = ended(over(&place, &words, script));
        let (cpus, name) = reported(ended.err.trim_end()).expect(&ended.err);
        assert_eq!((ended.status, ended.out.trim_end()), (0, cpus), "{}", ended.err);
        assert!(ended.err.starts_with("gpc: g1.0 on host ") && name.starts_with(object), "{}", ended.err);
    }
    place.nothing_left();
}

#[test]
fn a_rank_file_places_each_rank() {
    let place = Place::new();
    let file = place.path("ranks");
    let script = "echo $PMI_RANK on $GPC_BNR_NODE";
    let run = |text: &str, words: &str| {
        fs::write(&file, text).unwrap();
        ended(over(&place, &format!("a,b --rank-file {file} {words}"), script))
    };
    run("rank 1=a\nrank 0=b # first\nrank 2=b\n", "").well(["0 on 2", "1 on 1", "2 on 2"]);
    let own = ended(place.script("-n 1 --report-bindings", "true"));
    let own: u32 = reported(own.err.trim_end()).unwrap().0.split(['-', ',']).next().unwrap().parse().unwrap();
    let bound = run(&format!("rank 0=a slot={own}"), "--report-bindings");
    assert_eq!(
        (bound.status, reported(bound.err.trim_end())),
        (0, Some((own.to_string().as_str(), "listed")))
    );
    for (text, words, status, why) in [
        ("rank 0=c", "", 1, "rank 0 is to run on c, and the hosts are a, b: add it to --hosts"),
        ("rank 0=a slot=0:1", "", 1, "line 1: `slot=0:1`: write processors"),
        ("rank 0=a", "-n 2", 2, "2 processes: --rank-file places 1 ranks"),
        ("rank 0=a slot=1023", "", 1, "cannot bind it: processors 1023 are not all among those"),
    ] {
        let refused = run(text, words);
        assert_eq!((refused.status, refused.out.as_str()), (status, ""), "{text}: {}", refused.err);
        assert!(refused.err.contains(why), "{text}: {}", refused.err);
    }
    place.nothing_left();
}
