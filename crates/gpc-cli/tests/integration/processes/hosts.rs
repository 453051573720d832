//! Processes on other hosts, started through a tree by a replacement of ssh that runs its command on this machine.
//! Hosts that do not answer are named; whatever ends, nothing is left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::processes::support::{Ended, Gpc, Process, coverage, ids, until};

/// The name of a host selects its behaviour.
const STAND_IN: &str = r#"#!/bin/sh
host=$1
shift
case $host in
    down*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255;;
    hang*) exec sleep 1000;;
    babble*) exec yes welcome;;
    noise*) head -c 100000 /dev/zero; exec sleep 1000;;
    deaf*) exec sleep 1000 >&- ;;
    greets*) echo "chained-gpc-agent 1"; exec sleep 1000;;
    false*) echo "chained-gpc-agent 1"; echo "here 1 nowhere"; exec sleep 1000;;
    motd*) echo "Last login: today"; echo "a word of warning" >&2;;
    copy*) tee "$COPY/$host" | "$@"; exit;;
    child*) "$@"; exit;;
    gone*)
        exec 3<"$1"
        rm "$1"
        shift
        exec /proc/self/fd/3 "$@";;
    newer*) echo "chained-gpc-agent 2"; exec sleep 1000;;
    shut*) echo "Connection reset by 127.0.0.1 port 22" >&2; exit 255;;
    drop*)
        dropped=$(cat "$COPY/$host" 2>/dev/null || echo 0)
        if [ "$dropped" -lt "$((${host#drop} % 5))" ]; then
            echo "$((dropped + 1))" >"$COPY/$host"
            echo "kex_exchange_identification: Connection closed by remote host" >&2
            echo "Connection closed by 127.0.0.1 port 22" >&2
            exit 255
        fi;;
esac
exec "$@"
"#;

/// A call that lasts far longer than any test.
const LONG: &str = "--header 10m --time-limit 20m --output json";

struct StandIn {
    folder: tempfile::TempDir,
}

impl StandIn {
    fn new() -> StandIn {
        let folder = tempfile::tempdir().unwrap();
        let stand_in = StandIn { folder };
        fs::write(stand_in.path(), STAND_IN).unwrap();
        fs::set_permissions(stand_in.path(), fs::Permissions::from_mode(0o700)).unwrap();
        stand_in
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("rsh")
    }

    fn start(&self, line: &str) -> Gpc {
        let folder = self.folder.path().to_str().unwrap();
        Gpc::start_in(
            &format!("{line} --rsh {}", self.path().display()),
            b"",
            &[("COPY", folder), ("PMI_RANK", "3"), ("SLURM_PROCID", "3")],
        )
    }

    fn run(&self, line: &str) -> Ended {
        self.start(line).end()
    }
}

/// Returns the process of an id's node, which has a thread of that name.
fn agent(call: &Gpc, id: u32) -> Process {
    let name = format!("gpc-{id}\n");
    let has = |process: &Process| process.thread_names().contains(&name);
    call.processes().into_iter().find(has).unwrap_or_else(|| panic!("id {id} is not running"))
}

#[test]
fn hosts_and_processes_on_each_are_called_in_their_order() {
    let stand_in = StandIn::new();
    for (hosts, per_host, fan_out, n) in
        [("a", 1, 8, 2), ("a,motd", 1, 1, 3), ("a,b[01-16]", 2, 3, 35), ("h[1-5]", 3, 1, 16)]
    {
        for link in ["shm", "tcp"] {
            let line = format!(
                "call facts --hosts {hosts} --per-host {per_host} --fan-out {fan_out} --link {link} --output json"
            );
            let ended = stand_in.run(&line);
            assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{hosts}");
            let value = ended.json();
            assert_eq!(ids(&value), (0..n).collect::<Vec<_>>());
            let replies = value["replies"].as_array().unwrap();
            let pid = |reply: &serde_json::Value| {
                reply["data"].as_str().unwrap().split(' ').nth(1).unwrap().to_owned()
            };
            let mut pids: Vec<String> = replies.iter().map(pid).collect();
            pids.sort();
            pids.dedup();
            assert_eq!(pids.len() as u64, n, "each id is a process of its own");
        }
    }
}

#[test]
fn the_tree_knows_the_hosts_and_the_root_may_watch() {
    let stand_in = StandIn::new();
    let ended = stand_in.run("call sum --hosts a,b[1-3] --per-host 4 --tree hosts+flat --output json");
    let value = ended.json();
    // Flat over the root and four hosts, and flat within each.
    assert_eq!(
        (ended.code(), value["level"].as_u64(), &value["tree"]),
        (Some(0), Some(2), &"hosts+flat".into())
    );
    let watched = stand_in.run("call echo --hosts a,b --watch --output json").json();
    assert_eq!(ids(&watched), [1, 2]);
    let some = stand_in.run("call echo --hosts a,b,c --ids 3,1 --output json").json();
    assert_eq!(ids(&some), [0, 3, 1]);
}

/// Each slot gets a process, in the order of the list, and `--per-host` overrides them.
#[test]
fn a_host_has_as_many_processes_as_slots() {
    let stand_in = StandIn::new();
    let file = stand_in.folder.path().join("machines");
    fs::write(&file, "a:2   # hydra\nb slots = 1 max_slots=4\nchild1\nmotd1\nchild1\n").unwrap();
    let file = file.display();
    for (hosts, n) in [
        ("--hosts a:2,child1:3 --per-host 1".to_owned(), 3),
        ("--hosts b[1-2]:2,a,b2".to_owned(), 7),
        (format!("--hostfile {file}"), 7),
        (format!("--hostfile {file} --per-host 3"), 13),
    ] {
        let ended = stand_in.run(&format!("call echo {hosts} --tree hosts+flat --output json"));
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{hosts}");
        let value = ended.json();
        assert_eq!(ids(&value), (0..n).collect::<Vec<_>>(), "{hosts}");
    }
    let ended = stand_in.run("call echo --hosts a:2,down1:3 --tree flat");
    let why = "ids 3-5, host down1: exit status 255: ssh: connect to host down1 port 22: No route to host";
    assert_eq!(ended.stderr, format!("gpc: 3 processes could not be started\n{why}\n"));
    fs::write(stand_in.folder.path().join("machines"), "a\nb cores=2\n").unwrap();
    let ended = stand_in.run(&format!("bench --hostfile {file}"));
    assert_eq!(ended.code(), Some(1));
    let begins = format!("gpc: host file {file}, line 2: `cores=2` is none of the settings of a host: write");
    assert!(ended.stderr.starts_with(&begins), "{}", ended.stderr);
}

/// With 40 names of one host, whose ssh server has the default `MaxStartups 10:30:100`, every start failed.
#[test]
fn connections_that_are_dropped_are_tried_again() {
    for fan_out in [8, 40] {
        // Two of three attempts are dropped.
        let stand_in = StandIn::new();
        let ended = stand_in.run(&format!("call echo --hosts drop[1-40] --fan-out {fan_out} --output json"));
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""));
        assert_eq!(ids(&ended.json()).len(), 41);
    }
    let ended = StandIn::new().run("call echo --hosts shut[1-3] --start-limit 2s");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines[0], "gpc: 3 processes could not be started");
    // The last attempt of a host may be under way at the limit.
    let whys = [
        ": exit status 255 at each attempt: Connection reset by 127.0.0.1 port 22",
        ": it did not answer within 2 s",
    ];
    assert!(lines[1..].iter().all(|line| whys.iter().any(|why| line.ends_with(why))), "{lines:?}");
}

/// A node starts the others of its host from its own executable, even after the file was replaced or removed.
#[test]
fn a_program_that_is_removed_while_it_starts_others_starts_itself() {
    let stand_in = StandIn::new();
    let copy = stand_in.folder.path().join("gpc");
    fs::copy(env!("CARGO_BIN_EXE_gpc"), &copy).unwrap();
    let line = format!("call echo --hosts gone1:6 --fan-out 2 --remote-gpc {} --output json", copy.display());
    let ended = stand_in.run(&line);
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(ids(&ended.json()).len(), 7);
    assert!(!copy.exists());
}

#[test]
fn failures_are_folded_by_their_cause() {
    let ended = StandIn::new().run("call echo --hosts down[01-03],a,down7:2,newer1 --start-limit 20s");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(
        lines,
        [
            "gpc: 6 processes could not be started",
            "ids 1-3,5-6, hosts down[01-03,7]: exit status 255: ssh: connect to host HOST port 22: No route to host",
            "id 7, host newer1: its program speaks version 2 of the agents' protocol, and this one version 1: all hosts need the same version of the program",
        ]
    );
}

/// Without a remote shell all hosts are this machine.
#[test]
fn hosts_may_be_this_machine() {
    for hosts in ["a:2,b[1-3]", "x", "a[1-9] --fan-out 2 --per-host 2"] {
        let ended = Gpc::start(&format!("call echo --hosts {hosts} --launcher fork --output json")).end();
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{hosts}");
    }
    let ended = Gpc::start("call echo --hosts a,b --launcher fork --rsh ssh").end();
    assert_eq!((ended.code(), ended.stdout.len()), (Some(2), 0), "{}", ended.stderr);
    let ended = Gpc::start_in("call echo --hosts a --launcher pbs", b"", &[("PBS_JOBID", "")]).end();
    assert!(ended.stderr.contains("PBS_JOBID is not set"), "{}", ended.stderr);
}

/// A replacement of `srun`: it writes its words down, and runs the command on this machine.
const SRUN: &str = r#"#!/bin/sh
echo "$*" >>"$COPY/srun.log"
while [ "${1#--}" != "$1" ]; do shift; done
exec "$@"
"#;

#[test]
fn the_hosts_of_an_allocation_have_their_slots() {
    let stand_in = StandIn::new();
    let file = stand_in.folder.path().join("nodes");
    fs::write(&file, "n1\nn1\nn2\nn1\n").unwrap();
    let (file, folder) = (file.to_str().unwrap(), stand_in.folder.path().to_str().unwrap());
    let ends = |line: &str, variables: &[(&str, &str)]| Gpc::start_in(line, b"", variables).end();
    let fork = "call echo --hosts alloc --launcher fork --output json";
    for variables in [
        &[("PBS_NODEFILE", file)][..],
        &[("LSB_MCPU_HOSTS", "n1 3 n2 1")],
        &[("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_TASKS_PER_NODE", "3,1")],
    ] {
        let ended = ends(fork, variables);
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{variables:?}");
        assert_eq!(ids(&ended.json()).len(), 5);
    }
    let none = ends(fork, &[]);
    assert_eq!(none.code(), Some(1));
    assert!(none.stderr.contains("in no allocation, since none of SLURM_JOB_NODELIST, "), "{}", none.stderr);
    let wrong = ends(fork, &[("PBS_NODEFILE", "/nowhere/nodes")]);
    assert!(
        wrong.stderr.contains("cannot read the hosts of the allocation /nowhere/nodes: "),
        "{}",
        wrong.stderr
    );
    // Hosts of a job of Slurm are reached by `srun`.
    let srun = stand_in.folder.path().join("srun");
    fs::write(&srun, SRUN).unwrap();
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let job = [("SLURM_JOB_NODELIST", "n[1-3]"), ("COPY", folder), ("PATH", &path)];
    let ended = ends("call echo --hosts n[1-2] --output json", &job);
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""));
    let log = fs::read_to_string(stand_in.folder.path().join("srun.log")).unwrap();
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    assert!(lines[0].contains(" --nodelist=n1 ") && lines[1].contains(" --nodelist=n2 "), "{log}");
    // A host that is not in the job is reached by ssh, and so are all of them then.
    let ended = ends("call echo --hosts n1,no-such-host.invalid --start-limit 10s", &job);
    assert!(ended.stderr.contains("exit status 255: ssh: "), "{}", ended.stderr);
}

/// In a job of LSF or SGE the hosts were reached by ssh, which such clusters often forbid: the job's own command is
/// taken. It works from the first host alone, so all hosts are reached from there.
#[test]
fn hosts_of_lsf_and_sge_are_reached_by_the_command_of_the_job() {
    let stand_in = StandIn::new();
    let folder = stand_in.folder.path();
    let rows: String = (1..=12).map(|host| format!("n{host} 1 all.q@n{host} UNDEFINED\n")).collect();
    let pairs = (1..=12).map(|host| format!("n{host} 1")).collect::<Vec<_>>().join(" ");
    let file = folder.join("rows");
    fs::write(&file, rows).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let common = [("COPY", folder.to_str().unwrap()), ("PATH", path.as_str())];
    for (command, words, job) in [
        ("blaunch", "HOST", ("LSB_MCPU_HOSTS", pairs.as_str())),
        ("qrsh", "-inherit HOST", ("PE_HOSTFILE", file.to_str().unwrap())),
    ] {
        let log = folder.join(format!("{command}.log"));
        let skip = words.split(' ').map(|_| "shift; ").collect::<String>();
        let script = format!("#!/bin/sh\necho \"$PPID $*\" >>\"{}\"\n{skip}exec \"$@\"\n", log.display());
        let at = folder.join(command);
        fs::write(&at, script).unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(0o700)).unwrap();
        let ended =
            Gpc::start_in("call echo --hosts alloc --output json", b"", &[&common[..], &[job]].concat());
        let ended = ended.end();
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{command}");
        let log = fs::read_to_string(log).unwrap();
        let lines: Vec<(&str, &str)> = log.lines().map(|line| line.split_once(' ').unwrap()).collect();
        for host in 1..=12 {
            let start = format!("{} /", words.replace("HOST", &format!("n{host}")));
            assert!(lines.iter().any(|(_, line)| line.starts_with(&start)), "{log}");
        }
        assert!(lines.len() == 12 && lines.iter().all(|(parent, _)| *parent == lines[0].0), "{log}");
        // Without the command, or for another host, ssh remains.
        let line = "call echo --hosts n1,no-such-host.invalid --start-limit 10s";
        let other = Gpc::start_in(line, b"", &[&common[..], &[job]].concat()).end();
        assert!(other.stderr.contains("exit status 255: ssh: "), "{}", other.stderr);
        fs::remove_file(at).unwrap();
    }
}

/// Kinds of failing hosts, and their messages.
const FAILING: [(&str, &str); 7] = [
    ("down1", "host down1: exit status 255: ssh: connect to host down1 port 22: No route to host"),
    ("hang1", "host hang1: it did not answer within 2 s"),
    ("babble1", "host babble1: it says much that is nothing of this program, such as `welcome`"),
    ("noise1", "host noise1: it says a line of more than 4096 bytes"),
    ("deaf1", "host deaf1: it closed its standard output"),
    ("greets1", "host greets1: it did not answer within 2 s"),
    ("false1", "host false1: it says `here 1 nowhere`, which no agent says here"),
];

#[test]
fn a_host_that_does_not_answer_is_named_with_what_was_said_there() {
    let stand_in = StandIn::new();
    for (host, why) in FAILING {
        let ended = stand_in.run(&format!("call echo --hosts a,{host},b --per-host 2 --start-limit 2s"));
        assert_eq!((ended.code(), ended.stdout.len()), (Some(1), 0), "{}", ended.stderr);
        assert_eq!(ended.stderr, format!("gpc: 2 processes could not be started\nids 3-4, {why}\n"));
    }
    let all: Vec<&str> = FAILING.iter().map(|(host, _)| *host).collect();
    let ended = stand_in.run(&format!("call echo --hosts a,{} --start-limit 2s", all.join(",")));
    assert!(ended.stderr.starts_with("gpc: 7 processes could not be started\n"), "{}", ended.stderr);
    // Two of them have the same cause.
    let late = "ids 3,7, hosts hang1,greets1: it did not answer within 2 s\n";
    let is_told = |why: &str| ended.stderr.contains(why) || why.ends_with(" it did not answer within 2 s");
    assert!(FAILING.iter().all(|(_, why)| is_told(why)) && ended.stderr.contains(late), "{}", ended.stderr);
}

/// Each host is at the head of a share, so that another host starts its share.
#[test]
fn a_partial_call_goes_on_without_them_and_one_lost_host_costs_no_other() {
    let stand_in = StandIn::new();
    for (host, why) in FAILING {
        for fan_out in [1, 2] {
            let ended = stand_in.run(&format!(
                "call echo --hosts {host},a,b,c,d,e --fan-out {fan_out} --start-limit 2s --partial --output json"
            ));
            let value = ended.json();
            assert_eq!((ended.code(), coverage(&value)), (Some(1), [6, 0, 1, 0]), "{}", ended.stderr);
            assert_eq!(ids(&value), [0, 2, 3, 4, 5, 6]);
            let missing = &value["missing"][0];
            assert_eq!((&missing["id"], &missing["status"]), (&1.into(), &"unreached".into()));
            assert_eq!(missing["cause"]["message"], why);
            // The same message was also printed before the call.
            assert_eq!(ended.stderr, format!("gpc: id 1 failed at stage link (unreachable): {why}\n"));
        }
    }
}

#[test]
fn what_a_login_shell_prints_does_no_harm_and_a_wrong_program_is_named() {
    let stand_in = StandIn::new();
    assert_eq!(stand_in.run("call echo --hosts motd[1-9] --fan-out 2").code(), Some(0));
    let ended = stand_in.run("call echo --hosts a --remote-gpc /nowhere/gpc");
    let line = ended.stderr.lines().nth(1).unwrap_or_default();
    assert!(line.starts_with("id 1, host a: exit status 127: ") && line.contains("/nowhere/gpc"), "{line}");
    let ended = Gpc::start("call echo --hosts a --rsh /nowhere/ssh").end();
    assert_eq!(
        ended.stderr,
        "gpc: 1 process could not be started\nid 1, host a: cannot run /nowhere/ssh: No such file or directory (os error 2)\n"
    );
}

#[test]
fn an_agent_in_the_middle_that_is_killed_ends_the_call_and_all_below_it() {
    let stand_in = StandIn::new();
    for (signal, hosts) in [(Signal::KILL, "h[1-7]"), (Signal::TERM, "h[1-7]"), (Signal::KILL, "child[1-7]")]
    {
        let call = stand_in.start(&format!("call sleep --hosts {hosts} --fan-out 2 --forward-first {LONG}"));
        (0..8).for_each(|id| call.until_asleep(id));
        agent(&call, 1).kill(signal);
        // The agents below see the end of their input, and no process waits for that.
        let ended = call.end_soon();
        let value = ended.json();
        assert_eq!((ended.code(), &value["cause"]["stage"]), (Some(1), &"link".into()), "{}", ended.stderr);
    }
}

#[test]
fn the_command_that_reaches_a_host_is_killed_and_the_host_is_lost() {
    let stand_in = StandIn::new();
    let call = stand_in.start(&format!("call sleep --hosts child1,h2 --tree flat {LONG}"));
    call.until_asleep(0);
    until("the agents are nodes", || {
        [1, 2].iter().all(|id| {
            call.processes().iter().any(|process| process.thread_names().contains(&format!("gpc-{id}\n")))
        })
    });
    let shell = call
        .processes()
        .into_iter()
        .find(|process| process.arguments().get(2).is_some_and(|word| word == "child1"));
    shell.expect("the stand-in of child1 is running").kill(Signal::KILL);
    let ended = call.end_soon();
    assert_eq!(ended.json()["cause"]["id"], 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("host child1: killed by signal 9 (SIGKILL)"), "{}", ended.stderr);
}

#[test]
fn a_caller_that_is_killed_leaves_nothing() {
    let stand_in = StandIn::new();
    for signal in [Signal::KILL, Signal::INT, Signal::TERM, Signal::HUP] {
        let call = stand_in
            .start(&format!("call sleep --hosts h[1-9] --per-host 2 --fan-out 2 --forward-first {LONG}"));
        (0..19).for_each(|id| call.until_asleep(id));
        call.process().kill(signal);
        let ended = call.end_soon();
        let expected = if signal == Signal::KILL { None } else { Some(128 + signal.as_raw()) };
        assert_eq!(ended.code(), expected, "{}", ended.stderr);
    }
}

/// The command reads nothing while it connects to its host, so it sees no end of its input.
#[test]
fn a_caller_that_is_killed_while_hosts_are_being_reached_leaves_nothing() {
    let stand_in = StandIn::new();
    for signal in [Signal::KILL, Signal::INT] {
        let call = stand_in.start("call echo --hosts h1,hang[1-9] --fan-out 1 --start-limit 10m");
        until("an agent tries to reach a host", || {
            call.processes().iter().any(|process| process.arguments() == ["sleep", "1000"])
        });
        call.process().kill(signal);
        call.end_soon();
    }
}

/// The agent is alive, but does not answer: the agent above it starts its share. On a busy machine an agent took longer
/// than 3 s to speak for the first time, and was given up for that.
#[test]
fn an_agent_that_is_stopped_while_it_starts_others_is_given_up() {
    let stand_in = StandIn::new();
    let call =
        stand_in.start("call echo --hosts h1,hang1,h2 --fan-out 1 --start-limit 10s --partial --output json");
    until("an agent tries to reach a host", || {
        call.processes().iter().any(|process| process.arguments() == ["sleep", "1000"])
    });
    // Only the first host has an agent so far.
    let is_agent =
        |process: &Process| process.arguments().get(1..) == Some(&["node".into(), "--agent".into()]);
    let agents: Vec<Process> = call.processes().into_iter().filter(is_agent).collect();
    let [agent] = &agents[..] else { panic!("{} agents", agents.len()) };
    agent.kill(Signal::STOP);
    let ended = call.end();
    let value = ended.json();
    assert_eq!((ids(&value), coverage(&value)), (vec![0, 3], [2, 0, 2, 0]), "{}", ended.stderr);
    for (place, why) in [
        "host h1: it fell silent for 10 s while it was starting others",
        "host hang1: it did not answer within 10 s",
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(value["missing"][place]["cause"]["message"], why, "{}", ended.stderr);
    }
}

#[test]
fn nobody_sees_the_secret_and_nobody_inherits_an_outer_launchers_variables() {
    let stand_in = StandIn::new();
    let call = stand_in.start(&format!("call sleep --hosts copy[1-5] --fan-out 2 --forward-first {LONG}"));
    (0..6).for_each(|id| call.until_asleep(id));
    let told = fs::read_to_string(stand_in.folder.path().join("copy1")).unwrap();
    let secret =
        told.lines().find_map(|line| line.strip_prefix("secret ")).expect("it is told by standard input");
    assert_eq!(secret.len(), 64);
    // Two processes for each copy of the command, and the commands and agents themselves.
    let processes = call.processes();
    assert!(processes.len() > 10, "{}", processes.len());
    for process in &processes {
        let seen = [process.read("cmdline"), process.read("environ")].concat();
        let seen = String::from_utf8_lossy(&seen);
        assert!(!seen.contains(secret), "{seen}");
        let outer = seen.contains("PMI_RANK") || seen.contains("SLURM_PROCID");
        assert_eq!(outer, process.pid == call.process().pid, "{seen}");
    }
    call.process().kill(Signal::TERM);
    call.end_soon();
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_started() {
    for (line, what) in [
        ("call echo --hosts a,,b", "there is an empty name"),
        ("call echo --hosts b,a:0", "`a:0` has no number of slots after its colon"),
        ("call echo --hosts a --hostfile f", "cannot be used with"),
        ("call echo --hostfile f -n 2", "cannot be used with"),
        ("call echo --hosts a:9000,b:9000", "18000 processes are too many"),
        ("call echo --hosts a[1-9000] --per-host 2", "18000 processes are too many"),
        ("call echo --hosts a -n 3", "cannot be used with"),
        ("call echo -n 3 --per-host 2", "--per-host goes with --hosts"),
        ("bench -n 3 --rsh ssh", "--rsh goes with --hosts"),
        ("call echo --hosts a --start-limit 0s", "leaves no time"),
        ("call echo --hosts a --network 10.0.0.0", "is no network"),
        ("call echo --hosts a --ids 0-2", "on these hosts the ids are 1 to 1"),
        ("call echo -n 3 --tree hosts+binary", "goes with --hosts"),
        ("tree hosts+binary 8", "know the hosts"),
        ("bench --hosts a -n 3", "-n 3 is more than the 2 ids"),
    ] {
        let ended = Gpc::start(line).end();
        assert_eq!(ended.code(), Some(2), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(what), "{line}: {}", ended.stderr);
    }
}

#[test]
fn processes_of_one_machine_need_no_address_beyond_it() {
    // All of them and the root are on one machine, so they need no address of the network.
    let ended = StandIn::new().run("call echo --hosts a,b --network 203.0.113.0/24");
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
}

#[test]
fn calls_over_hosts_are_measured() {
    let ended = StandIn::new()
        .run("bench --hosts h[1-3] -n 2,4 --tree hosts+binomial,flat --rounds 3 --repeat 1 --output csv");
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert_eq!(String::from_utf8(ended.stdout).unwrap().lines().count(), 5);
}

#[test]
fn an_agent_that_nobody_started_ends_and_says_why() {
    for (input, why) in [
        (&b""[..], ""),
        (b"hello\nstart\n", "all hosts need the same version of the program"),
        (b"chained-gpc-agent 1\nstart\n", "are not a share of a tree"),
        (&[b'x'; 40_000], "a line that is too long"),
    ] {
        let ended = Gpc::start_with("node --agent", input).end();
        assert_eq!((ended.code(), ended.stdout.as_slice()), (Some(1), &b"chained-gpc-agent 1\n"[..]));
        assert!(ended.stderr.contains(why) && ended.stderr.is_empty() == why.is_empty(), "{}", ended.stderr);
    }
}
