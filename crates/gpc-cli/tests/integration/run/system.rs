//! Effects of the system on a run: limits of control groups, the first process of a container, a terminal, a replaced
//! file.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;

use super::support::*;

/// A control group below that of this process, with a limit; it is removed at the end.
struct Group(PathBuf);

impl Group {
    /// Returns `None` if this process may not create one. `limits`: the file of version 2, and of version 1.
    fn new(controller: &str, limits: [&str; 2], value: &str) -> Option<Group> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let (root, limit) = match controllers {
                "" => (PathBuf::from("/sys/fs/cgroup"), limits[0]),
                _ if controllers.split(',').any(|one| one == controller) => {
                    (Path::new("/sys/fs/cgroup").join(controller), limits[1])
                }
                _ => return None,
            };
            let folder = root.join(path.trim_start_matches('/'));
            // Each test has a group of its own.
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let folder = folder.join(format!("gpc-test-{controller}-{}-{number}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Group(folder);
            // Where no hierarchy is mounted, the folder is a plain one and has no such file.
            let mut file = fs::OpenOptions::new().write(true).open(group.0.join(limit)).ok()?;
            file.write_all(value.as_bytes()).ok().map(|()| group)
        })
    }

    /// Returns a command of this place that runs in the group.
    fn gpc(&self, place: &Place, words: &[&str]) -> Command {
        let gpc = place.gpc([""; 0]);
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
        command.arg(EXE).args(words).stdin(Stdio::null());
        command.envs(gpc.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended leaves the group in a moment.
        until("the group is empty", || fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

/// A rank that the kernel killed for lack of memory was reported as "killed by signal 9", without the cause.
#[test]
fn a_rank_that_is_killed_for_memory_is_told_so() {
    let Some(group) = Group::new("memory", ["memory.max", "memory.limit_in_bytes"], "100000000") else {
        return skipped("a control group for memory that it may make");
    };
    let place = Place::new();
    let script = "[ $PMI_RANK = 1 ] || exec sleep 1000; x=$(head -c 400000000 /dev/zero | tr '\\0' x)";
    let ended = ended(group.gpc(&place, &["run", "-n", "2", "bash", "-c", script]));
    ended.failed(137, "gpc: g1.1: killed by signal 9 (SIGKILL), by the kernel: ");
    assert!(ended.err.contains("out of memory"), "{}", ended.err);
    place.empty();
}

/// The error blamed `ulimit -u` for the limit of a control group.
#[test]
fn a_control_group_that_is_full_of_processes_is_named() {
    let Some(group) = Group::new("pids", ["pids.max", "pids.max"], "40") else {
        return skipped("a control group for processes that it may make");
    };
    let place = Place::new();
    let ended = ended(group.gpc(&place, &["run", "-n", "80", "sleep", "1000"]));
    assert_ne!(ended.status, 0, "{}", ended.err);
    assert!(ended.err.contains("this control group has at most 40 processes and threads"), "{}", ended.err);
    assert!(ended.err.contains("pids.max") && !ended.err.contains("ulimit"), "{}", ended.err);
    place.empty();
}

/// `gpc call` found the full group only after the processes that it had started had ended, and blamed `ulimit -u`.
#[test]
fn a_control_group_that_is_full_of_processes_is_named_by_a_call() {
    let Some(group) = Group::new("pids", ["pids.max", "pids.max"], "40") else {
        return skipped("a control group for processes that it may make");
    };
    let place = Place::new();
    let ended = ended(group.gpc(&place, &["call", "echo", "-n", "80"]));
    assert_ne!(ended.status, 0, "{}", ended.err);
    assert!(ended.err.contains("this control group has at most 40 processes and threads"), "{}", ended.err);
    assert!(ended.err.contains("pids.max") && !ended.err.contains("ulimit"), "{}", ended.err);
    place.empty();
}

/// If a seccomp filter denied `prctl`, the error was "`gpc keep` is started by nodes". Then both the supervisor and its
/// node reported the reason.
#[test]
fn the_error_names_why_a_supervisor_cannot_work() {
    let place = Place::new();
    let by_hand = ended(place.gpc(["keep"]));
    by_hand.failed(1, "gpc: `gpc keep` is started by nodes");
    // A filter that denies only PR_SET_CHILD_SUBREAPER.
    let filter = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def op(code, jt, jf, k): return struct.pack('HBBI', code, jt, jf, k)
number = {'x86_64': 157, 'aarch64': 167}[os.uname().machine]
code = (op(0x20, 0, 0, 0) + op(0x15, 0, 3, number) + op(0x20, 0, 0, 16)
        + op(0x15, 0, 1, 36) + op(0x06, 0, 0, 0x00050001) + op(0x06, 0, 0, 0x7fff0000))
rules = ctypes.create_string_buffer(code)
class Program(ctypes.Structure): _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_void_p)]
program = Program(len(code) // 8, ctypes.addressof(rules))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0): sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
"#;
    let gpc = place.gpc([""; 0]);
    let mut command = Command::new("python3");
    command.args(["-c", filter, EXE, "run", "true"]).stdin(Stdio::null());
    command.envs(gpc.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skipped("python3");
    }
    let ended = ended(command);
    if ended.status == 77 {
        return skipped("seccomp filters");
    }
    assert_ne!(ended.status, 0, "{}", ended.err);
    assert_eq!(ended.err.matches("PR_SET_CHILD_SUBREAPER").count(), 1, "{}", ended.err);
    assert!(!ended.err.contains("is started by nodes"), "{}", ended.err);
}

/// An upgrade replaced the file of a running node. The error was "cannot start echo: there is no such program", or a
/// supervisor of another version was started.
#[test]
fn a_node_whose_file_was_replaced_goes_on() {
    let place = Place::new();
    let addresses = super::nodes::unix("replaced");
    let lines: String = [0, 1].map(|id| format!("{id} {}\n", addresses[id])).concat();
    let peers = place.path("peers");
    fs::write(&peers, lines).unwrap();
    let program = place.path("gpc");
    fs::copy(EXE, &program).unwrap();
    let gpc = place.gpc([""; 0]);
    let mut command = Command::new(&program);
    command.args(["node", "--exec-allowed", "--id", "1", "--peers", &peers]).stdin(Stdio::null());
    command.envs(gpc.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let node = Run::start(command);
    node.complains("listens at");
    fs::remove_file(&program).unwrap();
    fs::write(&program, "#!/bin/sh\nexit 3\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let ended = ended(place.gpc(["run", "--peers", &peers, "--id", "0", "-n", "2", "echo", "there"]));
    ended.well(["there", "there"]);
    node.signal(Signal::TERM);
    node.ended();
    place.empty();
}

/// `gpc run` read the terminal itself: after Ctrl-Z and `bg` it was "Stopped (tty input)", although its program read
/// nothing.
#[test]
fn a_job_goes_on_in_the_background() {
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skipped("script of util-linux");
    }
    let place = Place::new();
    let go = place.path("go");
    let program = place.path("program");
    fs::write(&program, format!("#!/bin/sh\necho up\nuntil [ -e {go} ]; do sleep 0.05; done\necho over\n"))
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let shell = place.path("shell");
    fs::write(&shell, format!("set -m\n{EXE} run {program}\necho stopped\nbg\nwait %1\necho ended $?\n"))
        .unwrap();
    let gpc = place.gpc([""; 0]);
    let mut command = Command::new("script");
    command.args(["-qec", &format!("bash {shell}"), "/dev/null"]).stdin(Stdio::piped());
    command.envs(gpc.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let run = Run::start(command);
    run.says("up", 1);
    let is_run = |process: &Process| process.line.starts_with(EXE) && process.line.contains(" run ");
    let command = place.processes().into_iter().find(is_run).unwrap();
    command.signal(Signal::TSTP);
    run.says("stopped", 1);
    // The command would stop again as soon as it reads.
    until("it goes on", || !command.is_stopped());
    fs::write(&go, "").unwrap();
    run.says("over", 1);
    run.says("ended 0", 1);
    run.ended();
    place.empty();
}

/// As the first process of a container, a node became the parent of orphans, and never took their exit statuses.
#[test]
fn the_first_process_of_a_container_takes_the_statuses_of_orphans() {
    let unshare = ["--pid", "--fork", "--mount-proc"];
    if !Command::new("unshare").args(unshare).arg("true").output().is_ok_and(|output| output.status.success())
    {
        return skipped("namespaces of processes that it may make");
    }
    let place = Place::new();
    let address = format!("unix:@gpc-first-{}", std::process::id());
    let peers = place.path("peers");
    fs::write(&peers, format!("1 {address}\n")).unwrap();
    let gpc = place.gpc([""; 0]);
    let mut command = Command::new("unshare");
    command.args(unshare).args([EXE, "node", "--id", "1", "--peers", &peers]).stdin(Stdio::null());
    command.envs(gpc.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let run = Run::start(command);
    run.complains("listens at");
    let first = place.processes().into_iter().find(|process| {
        process.line.starts_with(EXE)
            && fs::read_to_string(format!("/proc/{}/status", process.pid.as_raw_nonzero())).is_ok_and(
                |status| status.lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1")),
            )
    });
    let first = first.expect("there is a first process");
    // A process in the namespace whose parent ends at once.
    let pid = first.pid.as_raw_nonzero().to_string();
    let words = ["-t", &pid, "-p", "-m", "sh", "-c", "(sleep 0.2; exit 3) & exit 0"];
    let entered = Command::new("nsenter").args(words).output();
    if !entered.is_ok_and(|output| output.status.success()) {
        run.signal(Signal::KILL);
        return skipped("nsenter");
    }
    let children = || fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    // Only the node itself remains.
    until("no orphan is left", || children().split_whitespace().count() == 1);
    first.signal(Signal::TERM);
    let ended = run.ended();
    assert_eq!(ended.status, 0, "{}", ended.err);
    place.empty();
}
