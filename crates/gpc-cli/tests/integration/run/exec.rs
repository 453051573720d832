//! `gpc exec` on hosts that a stand-in for ssh runs on this machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpc_test_support::waiting::find_within;
use rustix::process::{Pid, Signal, kill_process};

use crate::processes::support::{Ended, Gpc, until};

/// A host's commands have its name in `HOST`; a host whose name begins with `down` cannot be reached, one
/// that begins with `small` takes few arguments.
const STAND_IN: &str = r#"#!/bin/sh
host=$1
shift
case $host in
    down*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255;;
    small*) ulimit -s 2048;;
esac
HOST=$host
export HOST
exec "$@"
"#;

struct Hosts {
    folder: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Hosts {
        let hosts = Hosts { folder: tempfile::tempdir().unwrap() };
        let rsh = hosts.folder.path().join("rsh");
        fs::write(&rsh, STAND_IN).unwrap();
        fs::set_permissions(&rsh, fs::Permissions::from_mode(0o700)).unwrap();
        hosts
    }

    /// Starts `gpc exec` on hosts, with a script of their shell: a file, so that the line needs no quotes.
    fn start(&self, hosts: &str, script: &str) -> Gpc {
        self.start_with(hosts, script, b"")
    }

    fn start_with(&self, hosts: &str, script: &str, input: &[u8]) -> Gpc {
        let path = self.folder.path().join("script");
        fs::write(&path, script).unwrap();
        let rsh = self.folder.path().join("rsh");
        let line = format!("exec --hosts {hosts} --rsh {} -- sh {}", rsh.display(), path.display());
        Gpc::start_with(&line, input)
    }

    fn run(&self, hosts: &str, script: &str) -> Ended {
        self.start(hosts, script).end()
    }
}

fn stdout(ended: &Ended) -> String {
    String::from_utf8(ended.stdout.clone()).unwrap()
}

/// Lines of an output in any order.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn each_line_has_the_name_of_its_host() {
    let hosts = Hosts::new();
    let ended = hosts.run("a,b[1-2]:3 --fan-out 1", "echo one; echo two $HOST; echo no >&2");
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    // One command on each host, however many slots it has.
    let expected = ["a: one", "a: two a", "b1: one", "b1: two b1", "b2: one", "b2: two b2"];
    assert_eq!(lines(&stdout(&ended)), expected);
    assert_eq!(lines(&ended.stderr), ["a: no", "b1: no", "b2: no"]);
}

#[test]
fn equal_outputs_are_folded_and_the_greatest_status_counts() {
    let hosts = Hosts::new();
    let script = "echo 6.1.0; case $HOST in b3) exit 3;; b5) kill -9 $$;; esac";
    let ended = hosts.run("b[1-8],down[1-2] --fold", script);
    assert_eq!(stdout(&ended), "b[1-2,4,6-8]: 6.1.0\nb3: 6.1.0\nb5: 6.1.0\n");
    let expected = [
        "gpc: host b3: ended with status 3",
        "gpc: host b5: killed by signal 9 (SIGKILL)",
        "gpc: hosts down[1-2]: exit status 255: ssh: connect to host HOST port 22: No route to host",
    ];
    assert_eq!((lines(&ended.stderr), ended.code()), (expected.to_vec(), Some(255)));
    assert_eq!(hosts.run("b[1-8]", script).code(), Some(137));
    assert_eq!(hosts.run("b[1-4]", script).code(), Some(3));
    assert_eq!(hosts.run("down[1-4]", script).code(), Some(255));
}

#[test]
fn json_has_every_host() {
    let hosts = Hosts::new();
    let none: serde_json::Value = serde_json::from_slice(&hosts.run("down1 --json", "true").stdout).unwrap();
    assert_eq!((&none["hosts"][0]["host"], &none["hosts"][0]["status"]), (&"down1".into(), &255.into()));
    let ended = hosts.run("b[1-2],down1 --json", "echo $HOST; printf '\\377' >&2; [ $HOST = b1 ]");
    let value: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let all: Vec<(&str, u64)> = value["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| (host["host"].as_str().unwrap(), host["status"].as_u64().unwrap()))
        .collect();
    assert_eq!(all, [("b1", 0), ("b2", 1), ("down1", 255)], "{}", ended.stderr);
    assert_eq!(value["hosts"][1]["stdout"], "b2\n");
    assert_eq!(value["hosts"][1]["stderr"]["base64"], "/w==");
}

#[test]
fn words_are_passed_as_they_are_and_a_command_may_be_missing() {
    let hosts = Hosts::new();
    let rsh = hosts.folder.path().join("rsh");
    let exec = |words: &str| Gpc::start(&format!("exec --hosts a --rsh {} -- {words}", rsh.display())).end();
    let ended = exec("echo $HOME ; * : -n --fold |");
    assert_eq!(stdout(&ended), "a: $HOME ; * : -n --fold |\n", "{}", ended.stderr);
    let ended = exec("nowhere-1");
    assert_eq!(ended.code(), Some(127));
    assert!(
        ended.stderr.contains("host a: cannot start nowhere-1: there is no such program in PATH"),
        "{}",
        ended.stderr
    );
}

/// Where one host could not start the command, it ran nowhere.
#[test]
fn a_host_that_cannot_start_the_command_is_named_and_the_others_run_it() {
    let hosts = Hosts::new();
    let rsh = hosts.folder.path().join("rsh");
    // The arguments are too long for the limit of two hosts: a quarter of their stack.
    let words = vec!["x".repeat(100_000); 6].join(" ");
    let exec = |list: &str, more: &str| {
        Gpc::start(&format!("exec --hosts {list} --rsh {} {more} -- echo {words}", rsh.display())).end()
    };
    let ended = exec("a,small[1-2],b", "--fold");
    assert_eq!(ended.code(), Some(126), "{}", ended.stderr);
    assert_eq!(stdout(&ended), format!("a,b:\n{words}\n"));
    let expected = "gpc: hosts small[1-2]: cannot start echo: the system refuses the process: Argument list";
    assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let ended = exec("a,small1", "--json");
    let value: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let status = |host: usize| value["hosts"][host]["status"].as_u64();
    assert_eq!((status(0), status(1), ended.code()), (Some(0), Some(126), Some(126)));
    let reason = value["hosts"][1]["ended"].as_str().unwrap();
    assert!(reason.starts_with("cannot start echo"), "{reason}");
    let ended = exec("small1", "");
    assert_eq!((ended.code(), stdout(&ended).as_str()), (Some(126), ""), "{}", ended.stderr);
}

/// After the commands had ended, Ctrl-C was ignored while their output was printed: with a reader that never reads,
/// only SIGKILL ended the command.
#[test]
fn a_signal_ends_the_printing_of_folded_output() {
    let hosts = Hosts::new();
    let script = "[ $HOST = b3 ] && exec head -c 1000000 /dev/zero; echo printing >&2; echo one";
    let path = hosts.folder.path().join("script");
    fs::write(&path, script).unwrap();
    let mut exec = Command::new(env!("CARGO_BIN_EXE_gpc"));
    exec.args(["exec", "--hosts", "b[1-3]", "--fold", "--rsh"]).arg(hosts.folder.path().join("rsh"));
    exec.args(["sh".as_ref(), path.as_os_str()]).env("XDG_RUNTIME_DIR", hosts.folder.path());
    exec.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = exec.spawn().unwrap();
    // The output of two hosts is printed first, and then the pipe is full.
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "b[1-2]: printing\n");
    // A shell without job control ignores SIGINT for what it runs in the background, such as tests.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = find_within(Duration::from_secs(10), || child.try_wait().unwrap());
    // Otherwise it would wait for its reader.
    let _ = child.kill();
    assert_eq!(ended.expect("the signal ends it").code(), Some(143));
}

/// A command was executed twice on one node, under the name of the next one, if a node of the file was absent.
#[test]
fn running_nodes_execute_once_each_and_those_that_are_absent_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = |id| format!("unix:{}/{id}.sock", folder.path().display());
    // The command listens nowhere: it opens its links itself.
    let lines: String = (1..4).map(|id| format!("{id} {}\n", socket(id))).collect();
    let peers = folder.path().join("peers");
    fs::write(&peers, lines).unwrap();
    let node = |id: u32, runs: &str| {
        let node = Gpc::start(&format!("node {runs} --id {id} --peers {}", peers.display()));
        node.until_said(&format!("gpc: id {id} listens at {}", socket(id)));
        node
    };
    // Node 1 runs no programs, and node 2 is absent.
    let nodes = [node(1, ""), node(3, "--runs")];
    let ended = Gpc::start(&format!("exec --peers {} --id 0 echo here", peers.display())).end();
    assert_eq!((stdout(&ended).as_str(), ended.code()), ("node-3: here\n", Some(255)), "{}", ended.stderr);
    let named = |id: u32| ended.stderr.lines().any(|line| line.contains(&format!("node-{id}")));
    assert!(named(1) && named(2), "{}", ended.stderr);
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    let to = folder.path().join("copied");
    let line = format!("copy {} --peers {} --id 0 --to {}", file.display(), peers.display(), to.display());
    let ended = Gpc::start(&line).end();
    assert_eq!((ended.code(), fs::read(to).unwrap()), (Some(1), b"text".to_vec()), "{}", ended.stderr);
    nodes.into_iter().for_each(|node| {
        node.process().kill(Signal::TERM);
        node.end();
    });
}

#[test]
fn all_commands_may_have_a_copy_of_standard_input() {
    let hosts = Hosts::new();
    let rsh = hosts.folder.path().join("rsh");
    let exec = |more: &str| {
        let line = format!("exec --hosts b[1-3] --rsh {} {more} --fold cat", rsh.display());
        stdout(&Gpc::start_with(&line, b"one\ntwo\n").end())
    };
    assert_eq!(exec("--stdin all"), "b[1-3]:\none\ntwo\n");
    // It is not read: what stands behind the command in a loop may be.
    assert_eq!(exec(""), "");
}

/// Standard input goes down a tree of nodes. The hosts below a lost one have all of it: another host takes them over.
#[test]
fn hosts_below_a_lost_one_have_all_of_the_input() {
    let hosts = Hosts::new();
    let path = hosts.folder.path().join("script");
    // The parent of a command is the keeper of its node, whose parent is the node.
    let script = "read -r go; read -r pid name state node rest </proc/$PPID/stat; echo $node >&2; wc -c";
    fs::write(&path, script).unwrap();
    let mut exec = Command::new(env!("CARGO_BIN_EXE_gpc"));
    exec.args(["exec", "--hosts", "b[1-7]", "--stdin", "all", "--rsh"]).arg(hosts.folder.path().join("rsh"));
    exec.args(["sh".as_ref(), path.as_os_str()]).env("TMPDIR", hosts.folder.path());
    exec.env("XDG_RUNTIME_DIR", hosts.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = exec.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"go\n").unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut nodes = BTreeMap::new();
    for _ in 1..=7 {
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let (host, node) = line.trim_end().split_once(": ").unwrap();
        nodes.insert(host.to_owned(), Pid::from_raw(node.parse().unwrap()).unwrap());
    }
    let half = vec![b'x'; 1_000_000];
    input.write_all(&half).unwrap();
    // In any binomial tree over them, one of these has others below it.
    for host in ["b2", "b4"] {
        kill_process(nodes[host], Signal::KILL).unwrap();
    }
    input.write_all(&half).unwrap();
    drop(input);
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(lines(&out), ["b1", "b3", "b5", "b6", "b7"].map(|host| format!("{host}: 2000000")));
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(255), "{rest}");
    assert!(rest.contains("gpc: hosts b[2,4]: killed by signal 9 (SIGKILL)\n"), "{rest}");
    assert!(!rest.contains("was cut"), "{rest}");
}

/// Ten megabytes of each host pass, and a slow reader holds them up.
#[test]
fn long_output_passes() {
    let hosts = Hosts::new();
    let ended =
        hosts.run("b[1-4] --fold", "head -c 10000000 /dev/zero | tr '\\0' x; [ $HOST != b2 ] || echo y");
    let text = stdout(&ended);
    let x = "x".repeat(10_000_000);
    assert!(text == format!("b[1,3-4]:\n{x}\nb2:\n{x}y\n"), "{} bytes, {}", text.len(), ended.stderr);
}

#[test]
fn nothing_is_left_when_the_command_or_a_host_is_killed() {
    let hosts = Hosts::new();
    for signal in [Signal::KILL, Signal::TERM] {
        let exec = hosts.start("b[1-3] --fan-out 1", "echo up; exec sleep 1000");
        let sleeps = |exec: &Gpc| {
            exec.processes().iter().filter(|process| process.arguments() == ["sleep", "1000"]).count()
        };
        until("all hosts sleep", || sleeps(&exec) == 3);
        exec.process().kill(signal);
        exec.end_soon();
    }
    // Input comes when all commands are known to run: a start that breaks off ends all.
    let script = "read -r go; echo up >&2; [ $HOST != b1 ] || exec sleep 1000; echo done";
    let exec = hosts.start_with("b[1-2] --fan-out 2 --stdin all", script, b"go\n");
    let agent = |exec: &Gpc| {
        let has = |name: &String| name == "gpc-1\n";
        exec.processes().into_iter().find(|process| process.thread_names().iter().any(has))
    };
    ["b1: up", "b2: up"].iter().for_each(|line| exec.until_said(line));
    agent(&exec).expect("it is there").kill(Signal::KILL);
    let ended = exec.end_soon();
    assert_eq!((ended.code(), stdout(&ended).as_str()), (Some(255), "b2: done\n"), "{}", ended.stderr);
    let expected = [
        "b1: up",
        "b2: up",
        "gpc: host b1: killed by signal 9 (SIGKILL)",
        "gpc: node 1 was lost, and its processes with it",
    ];
    assert_eq!(lines(&ended.stderr), expected);
}

#[test]
fn a_host_that_hangs_is_named_at_the_time_limit() {
    let hosts = Hosts::new();
    let ended =
        hosts.run("b[1-3] --time-limit 2s --fold", "echo $HOST up; [ $HOST != b2 ] || exec sleep 1000");
    assert_eq!(ended.code(), Some(124), "{}", ended.stderr);
    assert_eq!(stdout(&ended), "b1: b1 up\nb2: b2 up\nb3: b3 up\n");
    assert!(ended.stderr.starts_with("gpc: host b2: killed by signal 15 (SIGTERM)\n"), "{}", ended.stderr);
}

/// The help had `--per-host`, which is refused: these commands have one process on each host.
#[test]
fn the_help_has_no_number_of_processes() {
    for command in ["exec", "copy"] {
        let help = stdout(&Gpc::start(&format!("{command} --help")).end());
        assert!(help.contains("--hosts <LIST>") && !help.contains("--per-host"), "{help}");
    }
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_started() {
    for (line, what) in [
        ("true", "say where to execute with --hosts LIST"),
        ("--hosts a", "<COMMAND>"),
        ("--hosts a --ppn 2 true", "one process on each host"),
        ("--hosts a --fold --diff true", "cannot be used with"),
        ("--hosts a --shell x true", "cannot be used with"),
        ("--hosts a --time-limit 0s true", "leaves no time"),
        ("--fan-out 3 true", "--fan-out goes with --hosts"),
    ] {
        let ended = Gpc::start(&format!("exec {line}")).end();
        assert_eq!(ended.code(), Some(2), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(what), "{line}: {}", ended.stderr);
    }
}
