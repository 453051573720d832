//! A run of `gpc` that is observed from outside, and must leave nothing behind.
#![allow(
    clippy::disallowed_methods,
    reason = "every wait has a limit; a process of another program tells of itself in /proc alone"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

pub(crate) use gpc_test_support::waiting::until;

use gpc_test_support::process::{Capture, spawn_piped, status_number};
use gpc_test_support::waiting::{PATIENCE, find_within};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::Value;

/// A running `gpc`. It has its own temporary folder in the environment. The processes that it starts inherit that, and
/// are identified by it.
pub(crate) struct Gpc {
    child: Child,
    stdout: Capture,
    stderr: Capture,
    folder: tempfile::TempDir,
    /// Hides its domain from the tools that other tests run.
    _domains: tempfile::TempDir,
}

/// Result of a run.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// A process of a run.
pub(crate) struct Process {
    pub(crate) pid: Pid,
    proc: PathBuf,
}

/// Variable with the path of another `gpc` than the one built with the tests. So a property of release builds is tested
/// without a second set of tests.
const TESTED: &str = "GPC_TESTED";

/// Returns the `gpc` under test.
fn tested() -> PathBuf {
    std::env::var_os(TESTED).map_or_else(|| env!("CARGO_BIN_EXE_gpc").into(), PathBuf::from)
}

/// Whether it is built without optimizations.
pub(crate) fn is_debug_build() -> bool {
    cfg!(debug_assertions) && std::env::var_os(TESTED).is_none()
}

impl Gpc {
    /// Starts `gpc` with arguments separated by spaces.
    pub(crate) fn start(line: &str) -> Gpc {
        Gpc::start_with(line, b"")
    }

    /// Starts it with this standard input.
    pub(crate) fn start_with(line: &str, input: &[u8]) -> Gpc {
        Gpc::start_in(line, input, &[])
    }

    /// Starts it under a limit in the form of the shell's `ulimit`.
    pub(crate) fn start_under(limit: &str, line: &str) -> Gpc {
        let mut shell = Command::new("bash");
        let limited = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        shell.args(["-c", &limited]).arg(tested());
        Gpc::spawn(shell, line, b"", &[])
    }

    /// Starts it with these environment variables.
    pub(crate) fn start_in(line: &str, input: &[u8], environment: &[(&str, &str)]) -> Gpc {
        Gpc::spawn(Command::new(tested()), line, input, environment)
    }

    fn spawn(mut command: Command, line: &str, input: &[u8], environment: &[(&str, &str)]) -> Gpc {
        let (folder, domains) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let command = command
            .args(line.split_whitespace())
            .env_remove("GPC_LOG")
            .envs(environment.iter().copied())
            .env("TMPDIR", folder.path())
            .env("XDG_RUNTIME_DIR", domains.path())
            .stdin(Stdio::piped());
        let mut child = spawn_piped(command);
        // The input fits the buffer of a pipe.
        child.stdin.take().unwrap().write_all(input).unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Gpc { child, stdout: Capture::read(stdout), stderr: Capture::read(stderr), folder, _domains: domains }
    }

    /// Returns the process of the command itself.
    pub(crate) fn process(&self) -> Process {
        Process::new(self.child.id())
    }

    /// Returns all living processes of the run: the command, and those that it started.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let folder = self.folder.path().as_os_str().as_encoded_bytes();
        let mark = [b"TMPDIR=", folder].concat();
        let pids =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        // A process that has ended, reaped or not, has no environment.
        let is_marked = |process: &Process| {
            let environment = fs::read(process.proc.join("environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == mark)
        };
        pids.map(Process::new).filter(is_marked).collect()
    }

    /// Returns the node process of an id, which must be running.
    pub(crate) fn node(&self, id: u32) -> Process {
        self.find_node(id).unwrap_or_else(|| panic!("id {id} is not running"))
    }

    /// Returns the node process of an id, if it is running.
    pub(crate) fn find_node(&self, id: u32) -> Option<Process> {
        let is_it = |process: &Process| process.arguments().ends_with(&["--id".into(), id.to_string()]);
        self.processes().into_iter().find(is_it)
    }

    /// Waits until the function `sleep` is running at an id.
    pub(crate) fn until_asleep(&self, id: u32) {
        let worker = format!("gpc-{id}-worker\n");
        let sleeps = |process: &Process| {
            let tasks = fs::read_dir(process.proc.join("task")).into_iter().flatten().filter_map(Result::ok);
            let read =
                |task: &fs::DirEntry, file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            // Thread names are cut at 15 bytes, names of system calls are complete.
            tasks.into_iter().any(|task| {
                worker.starts_with(read(&task, "comm").trim_end())
                    && read(&task, "wchan").contains("nanosleep")
            })
        };
        until(&format!("id {id} sleeps"), || self.processes().iter().any(sleeps));
    }

    /// Waits until standard error has this text.
    pub(crate) fn until_said(&self, text: &str) {
        until(&format!("standard error says {text:?}"), || self.stderr.so_far().contains(text));
    }

    /// Waits until the command has ended, and checks that nothing is left: no process, no file, no socket.
    pub(crate) fn end(self) -> Ended {
        self.end_leaving(Duration::ZERO)
    }

    /// Does the same for a command that could not end its processes: they end soon.
    pub(crate) fn end_soon(self) -> Ended {
        self.end_leaving(PATIENCE)
    }

    #[track_caller]
    fn end_leaving(mut self, patience: Duration) -> Ended {
        let mut status = None;
        until("the command ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let left = || self.processes().iter().map(Process::arguments).collect::<Vec<_>>();
        let own = format!("@gpc-{}-", self.child.id());
        let sockets = || fs::read_to_string("/proc/net/unix").unwrap();
        // A process that was being started when the command was killed has no arguments yet, but has its socket.
        find_within(patience, || (left().is_empty() && !sockets().contains(&own)).then_some(()));
        assert_eq!(left(), Vec::<Vec<String>>::new(), "processes are left");
        let files = fs::read_dir(self.folder.path()).unwrap().map(|file| file.unwrap().path());
        assert_eq!(files.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "files are left");
        assert!(!sockets().contains(&own), "sockets are left: {}", sockets());
        let (stdout, stderr) = (self.stdout.whole(), self.stderr.whole());
        Ended { status: status.unwrap(), stdout, stderr: String::from_utf8(stderr).unwrap() }
    }
}

impl Drop for Gpc {
    /// If a test fails, it leaves no process either.
    fn drop(&mut self) {
        for process in self.processes() {
            // Fails for a process that has just ended.
            let _ = kill_process(process.pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Process {
    fn new(pid: u32) -> Process {
        let proc = Path::new("/proc").join(pid.to_string());
        Process { pid: Pid::from_raw(pid.cast_signed()).unwrap(), proc }
    }

    pub(crate) fn kill(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// The same; false if the process is gone.
    pub(crate) fn kill_if_alive(&self, signal: Signal) -> bool {
        kill_process(self.pid, signal).is_ok()
    }

    /// Returns a file of the system about the process; empty if it has ended.
    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.proc.join(file)).unwrap_or_default()
    }

    /// Returns the names of its threads, each with a line feed.
    pub(crate) fn thread_names(&self) -> Vec<String> {
        let tasks = fs::read_dir(self.proc.join("task")).into_iter().flatten().filter_map(Result::ok);
        tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).collect()
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let line = fs::read_to_string(self.proc.join("cmdline")).unwrap_or_default();
        line.split_terminator('\0').map(str::to_owned).collect()
    }

    /// Returns its peak private memory, in KiB.
    pub(crate) fn own_kib_max(&self) -> u64 {
        self.own_kib_max_if_alive().unwrap()
    }

    /// Returns the same; `None` if the process has ended.
    pub(crate) fn own_kib_max_if_alive(&self) -> Option<u64> {
        // File pages mapped after the peak are subtracted as if they had been there, so the result may be too low by
        // some code.
        self.memory().map(|(most, of_files)| most.saturating_sub(of_files))
    }

    /// Returns its peak resident memory, with its code, in KiB. How much code the system maps around used pages differs
    /// between processes.
    pub(crate) fn resident_kib_max(&self) -> u64 {
        self.memory().unwrap().0
    }

    /// Returns the peak of resident memory, and the part that is file pages shared with others, in KiB.
    fn memory(&self) -> Option<(u64, u64)> {
        let status = fs::read_to_string(self.proc.join("status")).ok()?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse().ok()
        };
        Some((kib("VmHWM:")?, kib("RssFile:")?))
    }
}

impl Process {
    /// Returns its current private memory, in KiB.
    pub(crate) fn own_kib(&self) -> u64 {
        status_number(&self.pid.as_raw_nonzero().to_string(), "RssAnon")
    }
}

impl Process {
    /// Returns the ticks of CPU time that it has spent in its own code; `None` if it has ended.
    pub(crate) fn ticks(&self) -> Option<u64> {
        let stat = fs::read_to_string(self.proc.join("stat")).ok()?;
        // After its name, which may contain any character.
        stat.rsplit_once(") ")?.1.split(' ').nth(11)?.parse().ok()
    }
}

impl Process {
    /// Leaves the process two descriptors in addition to its permanent ones, without those of data: one for memory that
    /// it creates, and one for memory that comes meanwhile. It can keep neither.
    ///
    /// The number of its spare descriptor stays below the limit: a node closes it before it receives one, and a number
    /// above the limit is of no use then. The process is stopped meanwhile, since its descriptors change.
    pub(crate) fn take_descriptors_away(&self) {
        self.kill(Signal::STOP);
        let state = || fs::read_to_string(self.proc.join("status")).unwrap_or_default();
        until("the process is stopped", || state().contains("\nState:\tT"));
        let (mut kept, mut spare) = (BTreeSet::new(), 0);
        for entry in fs::read_dir(self.proc.join("fd")).unwrap().filter_map(Result::ok) {
            let number: u64 = entry.file_name().to_str().unwrap().parse().unwrap();
            if !fs::read_link(entry.path()).unwrap().to_string_lossy().contains("gpc-data") {
                kept.insert(number);
            } else if fs::metadata(entry.path()).unwrap().len() == 0 {
                spare = number;
            }
        }
        let free = (0..).filter(|number| !kept.contains(number)).nth(1).unwrap();
        let limit = Rlimit { current: Some(spare.max(free) + 1), ..getrlimit(Resource::Nofile) };
        prlimit(Some(self.pid), Resource::Nofile, limit).unwrap();
        self.kill(Signal::CONT);
    }
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns standard output as the JSON object that it must be, with the type of every field checked.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let text = str::from_utf8(&self.stdout).unwrap();
        assert_eq!(text.matches('\n').count(), 1, "one object in one line: {text}");
        let value: Value = serde_json::from_str(text).unwrap();
        check_object(&value);
        value
    }

    /// Checks that the call failed because the process of this id died.
    pub(crate) fn blames_the_link_of(&self, id: u32, what: &str) {
        let value = self.json();
        let blamed = (self.code(), value["cause"]["id"].as_u64(), &value["cause"]["stage"]);
        assert_eq!(blamed, (Some(1), Some(id.into()), &"link".into()), "{what}: {}", self.stderr);
    }

    /// Returns the last line of standard error.
    pub(crate) fn said(&self) -> &str {
        self.stderr.lines().last().unwrap_or_default()
    }
}

/// Runs a command to its end.
pub(crate) fn run(line: &str) -> Ended {
    Gpc::start(line).end()
}

/// Returns the JSON of a call that succeeds.
#[track_caller]
pub(crate) fn json_of(line: &str) -> Value {
    let ended = run(&format!("{line} --output json"));
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{line}");
    ended.json()
}

/// Returns the numbers of done, failed, unreached and unknown ids.
pub(crate) fn coverage(value: &Value) -> [u64; 4] {
    ["done", "failed", "unreached", "unknown"].map(|name| value["coverage"][name].as_u64().unwrap())
}

/// Returns the ids of the replies, in their order.
pub(crate) fn ids(value: &Value) -> Vec<u64> {
    value["replies"].as_array().unwrap().iter().map(|reply| reply["id"].as_u64().unwrap()).collect()
}

#[track_caller]
fn check_object(value: &Value) {
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let sorted = |names: &[&str]| {
        let mut names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        names.sort();
        names
    };
    let fields = [
        "func",
        "tree",
        "nodes",
        "root",
        "root_part",
        "partial",
        "callback",
        "no_reply",
        "level",
        "wall_us",
        "coverage",
        "cause",
        "missing",
        "replies",
        "reduced",
        "repeat",
    ];
    assert_eq!(names(value), sorted(&fields));
    assert!(value["func"].is_string() && value["tree"].is_string(), "{value}");
    assert!(["nodes", "level", "wall_us"].iter().all(|name| value[name].is_u64()), "{value}");
    assert_eq!(names(&value["coverage"]), sorted(&["done", "failed", "unreached", "unknown"]));
    assert_eq!(coverage(value).iter().sum::<u64>(), value["nodes"].as_u64().unwrap(), "{value}");
    if !value["cause"].is_null() {
        let cause = &value["cause"];
        assert_eq!(names(cause), sorted(&["id", "stage", "kind", "code", "message"]));
        assert!(
            cause["id"].is_u64()
                && cause["stage"].is_string()
                && cause["kind"].is_string()
                && cause["code"].is_i64()
                && cause["message"].is_string(),
            "{value}"
        );
    }
    if !value["repeat"].is_null() {
        assert_eq!(names(&value["repeat"]), sorted(&["calls", "median_us", "p90_us", "p99_us"]));
        assert!(value["repeat"].as_object().unwrap().values().all(Value::is_u64), "{value}");
    }
    for reply in value["replies"].as_array().unwrap() {
        assert_eq!(names(reply), sorted(&["id", "header", "data"]));
        let is_content = |value: &Value| value.is_string() || value["base64"].is_string();
        assert!(
            reply["id"].is_u64() && is_content(&reply["header"]) && is_content(&reply["data"]),
            "{reply}"
        );
    }
}
