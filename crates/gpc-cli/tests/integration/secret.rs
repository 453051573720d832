//! Who can see the secret of a job: the real command under `strace`, its arguments and environment in /proc, and files
//! with wrong modes.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use chained_gpc::Secret;
use chained_gpc::bootstrap::{read_secret, write_secret};
use gpc_test_support::ports;
use gpc_test_support::process::finished;
use gpc_test_support::waiting::until;
use rustix::process::{Pid, Signal, kill_process};

const EXE: &str = env!("CARGO_BIN_EXE_gpc");

/// System calls that receive or send bytes, start a program or open a file.
const TRACED: &str = "trace=execve,execveat,open,openat,creat,read,readv,pread64,recvfrom,recvmsg,recvmmsg,write,writev,pwrite64,pwritev,sendto,sendmsg,sendmmsg";

/// Returns the command, without variables that name files.
fn gpc(line: &str) -> Command {
    clean(Command::new(EXE), line)
}

fn clean(mut command: Command, line: &str) -> Command {
    command.args(line.split_whitespace());
    for variable in ["GPC_LOG", "GPC_SECRET_FILE", "GPC_KEY_FILE"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the command under `strace`. Each thread's calls are in their own file `PREFIX.TID`, with strings in
/// hexadecimal and descriptors explained.
fn traced(line: &str, prefix: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-ff", "-v", "-xx", "-yy", "-s", "100000", "-e", "signal=none", "-e", TRACED, "-o"]);
    strace.arg(prefix).arg(EXE);
    clean(strace, line)
}

#[allow(clippy::print_stderr, reason = "whoever runs the tests is to know")]
fn skips() -> bool {
    let traces = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    let skips = !traces.is_ok_and(|output| output.status.success());
    if skips {
        eprintln!("skipped: needs strace");
    }
    skips
}

/// A command under `strace`, and all processes that inherit its mark. All of them end with the test, however it ends.
struct Running {
    strace: Child,
    mark: String,
}

impl Running {
    fn start(mut strace: Command, folder: &Path) -> Running {
        let mark = format!("GPC_TEST_MARK={}", folder.display());
        Running { strace: strace.env("GPC_TEST_MARK", folder).spawn().unwrap(), mark }
    }

    /// Returns arguments and environments of its processes, which other processes on the machine can read.
    fn told(&self) -> Vec<(u32, Vec<u8>)> {
        told_in_proc(&self.mark)
    }

    /// Sends a signal to the processes of the command, but not to strace: to all of them, or to those with this
    /// argument.
    fn signal(&self, argument: Option<&str>, signal: Signal) {
        for (pid, told) in self.told() {
            let mut words = told.split(|&byte| byte == 0);
            let is_command = words.next() == Some(EXE.as_bytes());
            if is_command && argument.is_none_or(|argument| words.any(|word| word == argument.as_bytes())) {
                let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal);
            }
        }
    }

    /// Interrupts the command with this argument, and waits until all processes are gone, so that the trace is
    /// complete.
    fn end(self, argument: &str) {
        self.signal(Some(argument), Signal::INT);
        until("the command ends", || self.told().is_empty());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(None, Signal::KILL);
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// One system call.
#[derive(Debug)]
struct Called {
    thread: String,
    name: String,
    /// Text before its first string: the descriptor and its explanation.
    on: String,
    /// All its strings, concatenated.
    bytes: Vec<u8>,
}

impl Called {
    fn is_unix(&self) -> bool {
        self.on.contains("<UNIX")
    }

    fn is_tcp(&self) -> bool {
        self.on.contains("<TCP")
    }

    fn sends(&self) -> bool {
        ["write", "writev", "pwrite64", "pwritev", "sendto", "sendmsg", "sendmmsg"].contains(&&*self.name)
    }

    fn receives(&self) -> bool {
        ["read", "readv", "pread64", "recvfrom", "recvmsg", "recvmmsg"].contains(&&*self.name)
    }

    fn has(&self, part: &[u8]) -> bool {
        self.bytes.windows(part.len()).any(|window| window == part)
    }

    /// Whether it contains the secret, as text or in binary.
    fn shows(&self, secret: &Secret) -> bool {
        self.has(secret.to_text().as_bytes()) || self.has(secret.as_bytes())
    }
}

/// Returns all calls that were traced so far.
fn calls(prefix: &Path) -> Vec<Called> {
    let name = format!("{}.", prefix.file_name().unwrap().to_str().unwrap());
    let entries = fs::read_dir(prefix.parent().unwrap()).unwrap().flatten();
    let mut calls = Vec::new();
    for entry in entries {
        let file = entry.file_name().into_string().unwrap();
        let Some(thread) = file.strip_prefix(&name) else { continue };
        let text = String::from_utf8(fs::read(entry.path()).unwrap()).unwrap();
        calls.extend(text.lines().filter_map(|line| parse(thread, line)));
    }
    calls
}

fn parse(thread: &str, line: &str) -> Option<Called> {
    let (name, rest) = line.split_once('(')?;
    let mut parts = rest.split('"');
    let on = parts.next()?.to_owned();
    // Every other part is in quotation marks; hexadecimal strings contain none.
    let strings: String = parts.step_by(2).collect();
    let digits: Vec<&str> = strings.split("\\x").skip(1).collect();
    let bytes = digits.iter().map(|digits| u8::from_str_radix(&digits[..2], 16).unwrap()).collect();
    Some(Called { thread: thread.into(), name: name.into(), on, bytes })
}

/// Returns the secret of a launch, from its orders.
fn of_orders(calls: &[Called]) -> Option<Secret> {
    let orders = calls.iter().find(|call| call.has(b"\nsecret "))?;
    let text = String::from_utf8_lossy(&orders.bytes).into_owned();
    let digits = text.split("\nsecret ").nth(1)?.lines().next()?;
    digits.parse().ok()
}

/// Returns what other users of a machine, or processes of the same user, can read of processes: their arguments and
/// environments.
fn told_in_proc(mark: &str) -> Vec<(u32, Vec<u8>)> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let told = pids.filter_map(|pid| {
        let read = |what| fs::read(format!("/proc/{pid}/{what}"));
        Some((pid, [read("cmdline").ok()?, read("environ").ok()?].concat()))
    });
    told.filter(|(_, told)| told.windows(mark.len()).any(|window| window == mark.as_bytes())).collect()
}

/// Whether a node has run a function: then its process has a guard.
fn has_run_a_function(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.any(|name| name == "gpc-guard\n")
}

fn assert_not_told(told: &[(u32, Vec<u8>)], secret: &Secret) {
    let text = secret.to_text();
    for (pid, told) in told {
        let shows = |part: &[u8]| told.windows(part.len()).any(|window| window == part);
        assert!(!shows(text.as_bytes()) && !shows(secret.as_bytes()), "process {pid} tells the secret");
    }
}

#[test]
fn the_secret_of_a_launch_is_on_control_links_alone() {
    if skips() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("trace");
    let command =
        traced("call sleep -n 4 --link tcp --forward-first --header 100s --time-limit 110s", &prefix);
    let running = Running::start(command, folder.path());
    until("all three were told over TCP to sleep, and do", || {
        let asleep = running.told().iter().filter(|(pid, _)| has_run_a_function(*pid)).count();
        asleep == 4
    });
    let (told, mark) = (running.told(), running.mark.clone());
    assert!(told.len() >= 5, "strace, the command and its three processes: {}", told.len());
    running.end("call");
    let calls = calls(&prefix);
    let secret = of_orders(&calls).expect("orders are given");
    assert_not_told(&told, &secret);
    assert!(calls.iter().filter(|call| call.name == "execve").count() >= 4, "every start was seen");
    assert!(
        calls.iter().any(|call| call.name == "execve" && call.has(mark.as_bytes())),
        "with its environment"
    );
    assert!(calls.iter().any(|call| call.is_tcp() && call.sends()), "what went over TCP was seen");
    let shown: Vec<&Called> = calls.iter().filter(|call| call.shows(&secret)).collect();
    for call in &shown {
        assert!(
            call.is_unix() && (call.sends() || call.receives()),
            "it is shown: {} {}",
            call.name,
            call.on
        );
    }
    assert_eq!(shown.iter().filter(|call| call.sends()).count(), 3, "once for each process");
    let readers = shown.iter().filter(|call| call.receives()).map(|call| &call.thread);
    assert_eq!(readers.collect::<BTreeSet<_>>().len(), 3, "each reads its own");
}

/// Creates a secret, and a peers file with an id at a free port of loopback.
fn standing() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (secret, peers) = (folder.path().join("job.secret"), folder.path().join("peers"));
    write_secret(&secret, &Secret::random().unwrap()).unwrap();
    let [address] = ports::free();
    fs::write(&peers, format!("1 {address}\n")).unwrap();
    (folder, secret, peers)
}

#[test]
fn the_secret_of_a_file_is_read_there_and_told_to_nobody() {
    if skips() {
        return;
    }
    let (folder, file, peers) = standing();
    let secret = read_secret(&file).unwrap();
    let (node_trace, call_trace) = (folder.path().join("node"), folder.path().join("call"));
    let line = format!("node --id 1 --peers {} --secret-file {} --link tcp", peers.display(), file.display());
    let node = Running::start(traced(&line, &node_trace), folder.path());
    let line = format!(
        "call facts --peers {} --id 0 --secret-file {} --link tcp --wait-for-peers 60s",
        peers.display(),
        file.display()
    );
    let (status, said, error) = finished(traced(&line, &call_trace));
    assert!(status == Some(0) && said.contains("done 2 of 2"), "{status:?} {said} {error}");
    let told = node.told();
    assert!(told.len() >= 2, "strace and the node");
    assert_not_told(&told, &secret);
    node.end("node");
    for prefix in [node_trace, call_trace] {
        let calls = calls(&prefix);
        assert!(calls.iter().any(|call| call.is_tcp() && call.sends()), "what went over TCP was seen");
        let shown: Vec<&Called> = calls.iter().filter(|call| call.shows(&secret)).collect();
        assert!(!shown.is_empty(), "it was read");
        for call in shown {
            let from_file = call.on.contains("job.secret") || call.on.contains(&hex_of("job.secret"));
            assert!(call.receives() && from_file, "it is shown: {} {}", call.name, call.on);
        }
    }
}

/// Formats names as some versions of strace do with `-xx`.
fn hex_of(text: &str) -> String {
    text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// A node without a tracer that listens at its address.
struct Serving(Child);

impl Serving {
    fn start(line: &str) -> Serving {
        let mut node = gpc(line).spawn().unwrap();
        let mut said = String::new();
        let read = BufReader::new(node.stderr.take().unwrap()).read_line(&mut said);
        let serving = Serving(node);
        assert!(read.is_ok() && said.contains("listens at"), "{said}");
        serving
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_secret_and_none_are_refused_over_tcp() {
    let (folder, secret, peers) = standing();
    let other = folder.path().join("other.secret");
    write_secret(&other, &Secret::random().unwrap()).unwrap();
    let _node = Serving::start(&format!(
        "node --id 1 --peers {} --secret-file {} --link tcp",
        peers.display(),
        secret.display()
    ));
    let call = |with: String| {
        let line = format!("call echo --peers {} --id 0 --link tcp --time-limit 30s {with}", peers.display());
        finished(gpc(&line))
    };
    for with in [format!("--secret-file {}", other.display()), String::new()] {
        let (status, said, error) = call(with.clone());
        assert!(status == Some(1) && error.contains("id 1 failed at stage link"), "{with}: {said} {error}");
    }
    let (status, _, error) = call(format!("--secret-file {}", secret.display()));
    assert_eq!(status, Some(0), "{error}");
}

/// A known id is one that has the private half of its listed key: the secret alone is not enough.
#[test]
fn a_listed_id_needs_its_key() {
    let (folder, secret, peers) = standing();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let drawn = |name: &str| finished(gpc(&format!("secret --key {}", path(name)))).1.trim().to_owned();
    let (key, node_key) = (drawn("0.key"), drawn("1.key"));
    let line = fs::read_to_string(&peers).unwrap();
    let [node_address, root_address] = [line.trim().split_once(' ').unwrap().1, "127.0.0.1:9"];
    let listed = format!("0 {root_address} {key}\n1 {node_address} {node_key}\n");
    fs::write(&peers, listed).unwrap();
    // A process with a peers file without the keys can still claim the id.
    fs::write(path("without"), format!("1 {node_address}\n")).unwrap();
    let secret = format!("--secret-file {} --link tcp", secret.display());
    let keyed = format!("--peers {} {secret}", peers.display());
    let _node = Serving::start(&format!("node --id 1 {keyed} --key-file {}", path("1.key")));
    let call = |id: u32, with: &str| finished(gpc(&format!("call facts --id {id} --time-limit 30s {with}")));
    let (status, _, error) = call(0, &format!("{keyed} --key-file {}", path("0.key")));
    assert_eq!(status, Some(0), "{error}");
    let (status, _, error) = call(0, &format!("--peers {} {secret}", path("without")));
    assert!(status == Some(1) && error.contains("id 1 failed at stage link"), "{error}");
    // An id that is not listed is accepted as a member.
    assert_eq!(call(7, &format!("--peers {} {secret}", path("without"))).0, Some(0));
    let (status, _, error) = call(0, &keyed);
    assert!(status == Some(2) && error.contains("--key-file FILE"), "{error}");
}

/// The facts of a node about its machine are for members.
#[test]
fn facts_are_for_links_that_are_proved() {
    let (_folder, _, peers) = standing();
    let _node = Serving::start(&format!("node --id 1 --peers {} --link tcp", peers.display()));
    let call = |func: &str, link: &str| {
        finished(gpc(&format!(
            "call {func} --peers {} --id 0 --link {link} --time-limit 30s",
            peers.display()
        )))
    };
    assert_eq!(call("echo", "tcp").0, Some(0));
    let (status, _, error) = call("facts", "tcp");
    assert!(status == Some(1) && error.contains("not-authorised"), "{error}");
    assert!(error.contains("`facts` is restricted") && error.contains("--secret-file"), "{error}");
}

/// Nodes of one host with different secrets linked, and neither side reported that: a Unix socket proves a user, not a
/// secret.
#[test]
fn facts_tell_secrets_apart_that_one_host_does_not_compare() {
    let (folder, secret, peers) = standing();
    let other = folder.path().join("other.secret");
    write_secret(&other, &Secret::random().unwrap()).unwrap();
    let (secret, other) = (secret.display(), other.display());
    let _node = Serving::start(&format!("node --id 1 --peers {} --secret-file {secret}", peers.display()));
    let marks = |with: &str| {
        let mut call = gpc(&format!("call facts --peers {} --id 0 --time-limit 30s {with}", peers.display()));
        call.env("GPC_LOG", "info");
        let (status, said, log) = finished(call);
        assert_eq!(status, Some(0), "{log}");
        let marks: Vec<String> =
            said.split("secret=").skip(1).map(|rest| rest[..8].trim_end().into()).collect();
        (marks, log.contains("secrets are not compared on one host"))
    };
    let (same, is_logged) = marks(&format!("--secret-file {secret}"));
    assert!(same.len() == 2 && same[0] == same[1] && is_logged, "{same:?}");
    let (different, _) = marks(&format!("--secret-file {other}"));
    assert!(different[0] != different[1] && different[1] == same[1], "{different:?}");
    let (without, is_logged) = marks("");
    assert!(without[0].starts_with("none") && without[1] == same[1] && !is_logged, "{without:?}");
}

#[test]
fn a_file_that_others_may_read_is_refused_and_named() {
    let (_folder, secret, peers) = standing();
    let (secret, peers) = (secret.display(), peers.display());
    for line in [
        format!("node --id 1 --peers {peers}"),
        format!("call echo --peers {peers} --id 0"),
        format!("bench --peers {peers} --id 0"),
    ] {
        fs::set_permissions(secret.to_string(), Permissions::from_mode(0o644)).unwrap();
        let (status, said, error) = finished(gpc(&format!("{line} --secret-file {secret}")));
        assert_eq!((status, said.as_str()), (Some(1), ""), "{line}");
        assert!(error.contains(&format!("`chmod 600 {secret}`")), "{line}: {error}");
        // The variable names a file as well.
        let mut by_variable = gpc(&line);
        by_variable.env("GPC_SECRET_FILE", secret.to_string());
        assert!(finished(by_variable).2.contains(&format!("`chmod 600 {secret}`")), "{line}");
    }
}

#[test]
fn the_option_wins_over_the_environment() {
    let (folder, secret, peers) = standing();
    let root_alone = |line: &str, variable: &Path| {
        let mut command = gpc(&format!("call echo --peers {} --id 0 --ids 0 {line}", peers.display()));
        command.env("GPC_SECRET_FILE", variable);
        finished(command)
    };
    let nowhere = folder.path().join("nowhere");
    let (status, _, error) = root_alone("", &nowhere);
    assert!(status == Some(1) && error.contains("nowhere: No such file"), "{error}");
    assert_eq!(root_alone(&format!("--secret-file {}", secret.display()), &nowhere).0, Some(0));
    assert_eq!(root_alone("", &secret).0, Some(0));
    assert_eq!(root_alone("", Path::new("")).0, Some(0), "an empty variable names nothing");
}

#[test]
fn beyond_this_machine_nothing_is_done_without_a_secret() {
    let (folder, secret, _) = standing();
    let peers = folder.path().join("beyond");
    // An address for documentation, which no host has.
    fs::write(&peers, "0 127.0.0.1:9\n1 192.0.2.1:9\n").unwrap();
    let (secret, peers) = (secret.display(), peers.display());
    for line in [
        format!("call echo --peers {peers} --id 0 --ids 0"),
        format!("bench --peers {peers} --id 0 -n 1 --rounds 1"),
        format!("node --id 0 --peers {peers}"),
        format!("node --id 1 --peers {peers} --listen 0.0.0.0:0"),
    ] {
        let (status, said, error) = finished(gpc(&line));
        assert_eq!((status, said.as_str()), (Some(2), ""), "{line}: {error}");
        assert!(error.contains("--secret-file FILE") && error.contains("--insecure"), "{line}: {error}");
    }
    for accepted in [format!("--secret-file {secret}"), "--insecure".into()] {
        let line = format!("call echo --peers {peers} --id 0 --ids 0 {accepted}");
        let (status, _, error) = finished(gpc(&line));
        assert_eq!(status, Some(0), "{line}: {error}");
    }
}

#[test]
fn secrets_and_keys_are_drawn_into_new_files() {
    let folder = tempfile::tempdir().unwrap();
    let draw = |line: &str| finished(gpc(&format!("secret {line}")));
    let (file, key) = (folder.path().join("secret"), folder.path().join("key"));
    let (status, said, error) = draw(&file.display().to_string());
    assert!(status == Some(0) && said.is_empty() && error.contains("has a new secret"), "{error}");
    let secret = read_secret(&file).unwrap();
    assert!(secret.as_bytes().len() == 32 && !error.contains(&**secret.to_text()));
    let (status, _, error) = draw(&file.display().to_string());
    assert!(status == Some(1) && error.contains("which is not replaced"), "{error}");
    assert_eq!(read_secret(&file).unwrap(), secret);
    let (status, public, _) = draw(&format!("--key {}", key.display()));
    assert!(
        status == Some(0) && public.len() == 65 && public.trim().parse::<chained_gpc::PublicKey>().is_ok()
    );
    assert!(!fs::read_to_string(&key).unwrap().contains(public.trim()));
    assert_eq!(draw(&format!("--key {} --show", key.display())), (Some(0), public, String::new()));
    for path in [file, key] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o600);
    }
}
