//! Runs that are observed from outside, and must leave nothing behind.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use gpc_test_support::waiting::{PATIENCE, until, until_some};

use gpc_test_support::process::{Capture, spawn_piped, status_number, text};
use gpc_test_support::waiting::find_within;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_gpc");

/// Number of consecutive checks without processes that count as empty: a process whose program is being loaded has no
/// environment for a moment.
const EMPTY_LOOKS: u32 = 4;

/// Environment variable that identifies the processes of a test.
const MARK: &str = "GPC_TEST_MARK";

/// Functions of bash to speak PMI-1: `ask LINE` puts the answer into `$line`, and so do all others
/// (`spawn COUNT PROGRAM WORD...`).
pub(crate) const PMI: &str = r#"
say() { printf '%s\n' "$1" >&"$PMI_FD"; }
hear() { IFS= read -r line <&"$PMI_FD"; }
ask() { say "$1"; hear; }
ask 'cmd=init pmi_version=1 pmi_subversion=1'
ask 'cmd=get_my_kvsname'
kvs=${line#*kvsname=}
kvs=${kvs%% *}
put() { ask "cmd=put kvsname=$kvs key=$1 value=$2"; }
get() { ask "cmd=get kvsname=$kvs key=$1"; }
fence() { ask 'cmd=barrier_in'; }
spawn() {
    say "mcmd=spawn
nprocs=$1
execname=$2
totspawns=1
spawnssofar=1
argcnt=$(($# - 2))"
    local arg
    for ((arg = 1; arg < $# - 1; arg++)); do say "arg$arg=${@:arg + 2:1}"; done
    ask 'preput_num=0
info_num=0
endcmd'
}
finalize() { ask 'cmd=finalize'; }
"#;

#[allow(clippy::print_stderr, reason = "where a test has not run, whoever looks sees it")]
pub(crate) fn skipped(needs: &str) {
    eprintln!("skipped: needs {needs}");
}

/// A folder that hides runs from those of other tests, and a mark that identifies their processes.
pub(crate) struct Place {
    folder: TempDir,
    mark: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Place { folder: tempfile::tempdir().unwrap(), mark }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns the command with these arguments.
    pub(crate) fn gpc<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(EXE);
        command.args(args).stdin(Stdio::null());
        command.env("XDG_RUNTIME_DIR", self.folder.path()).env(MARK, &self.mark).env_remove("GPC_LOG");
        let temporary = self.folder.path().join("tmp");
        fs::create_dir_all(&temporary).unwrap();
        command.env("TMPDIR", temporary);
        command
    }

    /// Returns `gpc run` with these words, followed by a script of bash as the program of every process.
    pub(crate) fn script(&self, words: &str, script: &str) -> Command {
        let words = ["run"].into_iter().chain(words.split_whitespace());
        self.gpc(words.chain(["bash", "-c", script]))
    }

    /// Returns the running processes of this place.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let wanted = format!("{MARK}={}", self.mark);
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process that has ended, reaped or not, has no environment.
            let Ok(environ) = fs::read(entry.path().join("environ")) else { continue };
            if environ.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes()) {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                found.push(Process { pid: Pid::from_raw(pid).unwrap(), line });
            }
        }
        found
    }

    /// Returns the processes whose command line contains a text.
    pub(crate) fn with(&self, text: &str) -> Vec<Process> {
        let mut found = self.processes();
        found.retain(|process| process.line.contains(text));
        found
    }

    /// Returns the processes that run `yes`.
    pub(crate) fn writers(&self) -> Vec<Process> {
        let mut found = self.with("yes ");
        found.retain(|process| process.line.starts_with("yes "));
        found
    }

    /// Waits until all processes that were started here are gone.
    #[track_caller]
    pub(crate) fn empty(&self) {
        let mut left = Vec::new();
        let mut empty = 0;
        let emptied = find_within(PATIENCE, || {
            left = self.processes();
            empty = if left.is_empty() { empty + 1 } else { 0 };
            (empty == EMPTY_LOOKS).then_some(())
        });
        assert!(emptied.is_some(), "after {PATIENCE:?} this is left: {left:?}");
    }
}

/// Checks after a crash.
impl Place {
    /// Waits until nothing is left: no process, no supervisor, no socket that a tool does not remove, no temporary
    /// file.
    #[track_caller]
    pub(crate) fn nothing_left(&self) {
        self.empty();
        // The output is not checked: the tool also reads a folder that all runs of a user share.
        assert_eq!(ended(self.gpc(["ps"])).status, 0);
        for folder in ["gpc-bnr", "tmp"] {
            let left: Vec<_> = fs::read_dir(self.path(folder)).into_iter().flatten().flatten().collect();
            assert!(left.is_empty(), "{folder}: {left:?}");
        }
    }

    /// Runs a tool that prints JSON.
    #[track_caller]
    pub(crate) fn json(&self, words: &str) -> Value {
        let ended = ended(self.gpc(words.split_whitespace()));
        assert_eq!((ended.status, ended.err.as_str()), (0, ""), "{words}");
        serde_json::from_str(&ended.out).unwrap()
    }

    /// Returns what `gpc ps` shows of a run's domain once its first group runs on all nodes: the output of a process
    /// may come before the report that the process is started. Other runs of this user may stand beside it.
    #[track_caller]
    pub(crate) fn domain_of(&self, run: Pid) -> Value {
        let head = i64::from(run.as_raw_nonzero().get());
        until_some("the first group runs", || {
            let mut found = self.json("ps --output json");
            let domains = found["domains"].as_array_mut().unwrap();
            domains.retain(|domain| domain["head"] == head && domain["groups"][0]["state"] == "running");
            domains.pop()
        })
    }

    /// Returns the supervisors of the nodes.
    pub(crate) fn supervisors(&self) -> Vec<Process> {
        self.with(" keep ")
    }

    /// Returns the supervisor of a node: its child.
    #[track_caller]
    pub(crate) fn supervisor_of(&self, node: Pid) -> Process {
        let of_node = |supervisor: &Process| supervisor.parent() == Some(node);
        self.supervisors().into_iter().find(of_node).expect("the node has a supervisor")
    }

    /// Returns a node that a run started.
    #[track_caller]
    pub(crate) fn node(&self, id: u32) -> Process {
        let node = self.with(&format!("node --launched --exec-allowed --id {id} ")).into_iter().next();
        node.expect("the node runs")
    }

    /// Returns a process of a group, such as `g1.2`: the first that was started with this name.
    #[track_caller]
    pub(crate) fn member(&self, name: &str) -> Process {
        let (group, rank) = name.split_once('.').unwrap();
        let (group, rank) = (format!("/{group}"), format!("PMI_RANK={rank}"));
        let mut found = self.processes();
        found.retain(|process| {
            let environ = fs::read(format!("/proc/{}/environ", process.pid.as_raw_nonzero()));
            let environ = environ.unwrap_or_default();
            let variables: Vec<&[u8]> = environ.split(|&byte| byte == 0).collect();
            let of_group = |variable: &&[u8]| {
                variable.starts_with(b"GPC_BNR_GROUP=") && variable.ends_with(group.as_bytes())
            };
            variables.contains(&rank.as_bytes()) && variables.iter().any(of_group)
        });
        found.into_iter().min_by_key(|process| process.pid.as_raw_nonzero()).expect(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Ends the processes that a failed test left.
        self.processes().iter().for_each(|process| process.signal(Signal::KILL));
    }
}

/// A process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) line: String,
}

impl Process {
    /// Returns its parent, while the process exists.
    pub(crate) fn parent(&self) -> Option<Pid> {
        self.stat().and_then(|stat| Pid::from_raw(stat[1].parse().unwrap()))
    }

    /// Whether the process is stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stat().is_some_and(|stat| stat[0] == "T")
    }

    /// Returns the fields of its /proc/PID/stat, from the state on.
    fn stat(&self) -> Option<Vec<String>> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero())).ok()?;
        Some(stat.rsplit_once(") ").unwrap().1.split(' ').map(str::to_owned).collect())
    }

    /// Sends a signal, if the process still exists.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }
}

/// Result of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    /// The status in the form of [`shown`].
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Returns the lines of standard output, sorted, since processes write in any order.
    pub(crate) fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }

    /// Checks that the run succeeded, and that its processes wrote these lines, in any order.
    #[track_caller]
    pub(crate) fn well<S: Into<String>>(&self, lines: impl IntoIterator<Item = S>) {
        let mut expected: Vec<String> = lines.into_iter().map(Into::into).collect();
        expected.sort_unstable();
        let expected = expected.iter().map(String::as_str).collect();
        assert_eq!((self.status, self.lines()), (0, expected), "{}", self.err);
    }

    /// Checks that the run ended with this status, and that its error output begins like this.
    #[track_caller]
    pub(crate) fn failed(&self, status: i32, first: &str) {
        assert_eq!(self.status, status, "{}", self.err);
        assert!(self.err.starts_with(first), "{}", self.err);
    }
}

/// A run.
pub(crate) struct Run {
    child: Child,
    stdin: Option<ChildStdin>,
    out: Capture,
    err: Capture,
}

impl Run {
    pub(crate) fn start(mut command: Command) -> Run {
        let mut child = spawn_piped(&mut command);
        let out = Capture::read(child.stdout.take().unwrap());
        let err = Capture::read(child.stderr.take().unwrap());
        Run { stdin: child.stdin.take(), child, out, err }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits until standard output has a text this number of times.
    #[track_caller]
    pub(crate) fn says(&self, text: &str, times: usize) {
        let said = || (self.out.so_far().matches(text).count() >= times).then_some(());
        if find_within(PATIENCE, said).is_none() {
            let (out, err) = (self.out.so_far(), self.err.so_far());
            panic!("`{text}` is not said {times} times:\n{out}\n{err}");
        }
    }

    /// Waits until standard error has a text.
    #[track_caller]
    pub(crate) fn complains(&self, text: &str) {
        until(text, || self.err.so_far().contains(text));
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Kills the command while a supervisor is stopped, then continues the supervisor.
    #[track_caller]
    pub(crate) fn killed(self, supervisor: &Process) {
        self.signal(Signal::KILL);
        supervisor.signal(Signal::CONT);
        assert_eq!(self.ended().status, 137);
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Ended {
        drop(self.stdin.take());
        let Some(status) = find_within(PATIENCE, || self.child.try_wait().unwrap()) else {
            let (out, err) = (self.out.so_far(), self.err.so_far());
            self.child.kill().unwrap();
            panic!("it has not ended after {PATIENCE:?}:\n{out}\n{err}");
        };
        Ended { status: shown(status), out: text(&self.out.whole()), err: text(&self.err.whole()) }
    }
}

/// Returns a status as a shell shows it.
pub(crate) fn shown(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn ended(command: Command) -> Ended {
    Run::start(command).ended()
}

/// Returns a number from `/proc/PID/status` of a process, in KiB.
pub(crate) fn kib(pid: Pid, name: &str) -> u64 {
    status_number(&pid.as_raw_nonzero().to_string(), name)
}
