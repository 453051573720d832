//! `gpc copy` to hosts that a stand-in for ssh runs on this machine, each in a folder of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::processes::support::{Ended, Gpc, until};

/// A host's processes start in its folder; a host whose name begins with `down` cannot be reached.
const STAND_IN: &str = r#"#!/bin/sh
host=$1
shift
case $host in
    down*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255;;
esac
mkdir -p "$HOSTS/$host/in" && cd "$HOSTS/$host" || exit 1
exec "$@"
"#;

/// Not a multiple of a piece, nor of a segment.
const LONG: usize = (40 << 20) + 12_345;

struct Hosts {
    folder: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Hosts {
        let hosts = Hosts { folder: tempfile::tempdir().unwrap() };
        hosts.write("rsh", STAND_IN.as_bytes(), 0o700);
        hosts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8], mode: u32) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn start(&self, line: &str) -> Gpc {
        let (rsh, folder) = (self.path("rsh"), self.folder.path().to_str().unwrap());
        Gpc::start_in(&format!("copy {line} --rsh {}", rsh.display()), b"", &[("HOSTS", folder)])
    }

    fn run(&self, line: &str) -> Ended {
        self.start(line).end()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Bytes that differ wherever a piece could be misplaced.
fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|place| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

#[test]
fn files_reach_every_host_and_replace_old_ones() {
    let hosts = Hosts::new();
    let (long, empty) = (bytes(LONG), hosts.write("empty", b"", 0o600));
    let path = hosts.write("long", &long, 0o750);
    for (list, options) in [("a[1-5]", "--fan-out 2"), ("b", ""), ("c[1-3]", "--tree binomial")] {
        let ended = hosts.run(&format!("{path} {empty} --hosts {list} --to in {options}"));
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{list}");
    }
    for host in ["a1", "a2", "a3", "a4", "a5", "b", "c1", "c2", "c3"] {
        let folder = hosts.path(&format!("{host}/in"));
        assert_eq!(names(&folder), ["empty", "long"], "{host}");
        assert!(fs::read(folder.join("long")).unwrap() == long, "{host}");
        let mode = fs::metadata(folder.join("long")).unwrap().permissions().mode();
        assert_eq!(mode & 0o700, 0o700, "{host}");
    }
    // To a name, over what is there.
    let other = hosts.write("other", b"other", 0o600);
    let ended = hosts.run(&format!("{other} --hosts a[1-5]:in/long"));
    let shown = String::from_utf8(ended.stdout).unwrap();
    assert!(
        ended.status.success() && shown.starts_with("1 file (5 B) to 5 hosts in "),
        "{shown}{}",
        ended.stderr
    );
    assert_eq!(fs::read(hosts.path("a5/in/long")).unwrap(), b"other");
    assert_eq!(names(&hosts.path("a5/in")), ["empty", "long"]);
}

#[test]
fn hosts_that_fail_are_named_and_the_others_get_the_files() {
    let hosts = Hosts::new();
    let path = hosts.write("file", &bytes(LONG), 0o600);
    // In its place is a folder that is not empty.
    hosts.write("a3/in/file/x", b"", 0o600);
    hosts.write("a5/in/file/x", b"", 0o600);
    fs::write(hosts.path("old"), "old").unwrap();
    let ended = hosts.run(&format!("{path} --hosts a[1-5],down1 --to in/"));
    assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let [refused, down] = lines[..] else { panic!("{}", ended.stderr) };
    assert!(
        refused.starts_with("gpc: hosts a[3,5]: ") && refused.contains("cannot replace in/file"),
        "{refused}"
    );
    assert!(down.starts_with("gpc: host down1: exit status 255: ssh: connect"), "{down}");
    assert!(String::from_utf8(ended.stdout).unwrap().contains(" to 3 hosts in "));
    for host in ["a1", "a2", "a4"] {
        assert_eq!(fs::metadata(hosts.path(&format!("{host}/in/file"))).unwrap().len(), LONG as u64);
    }
    assert_eq!(names(&hosts.path("a3/in")), ["file"]);
    let ended = hosts.run(&format!("{path} --hosts a[1-2] --to none/"));
    assert!(
        ended.stderr.contains("gpc: hosts a[1-2]: none/ is not a folder: create it first"),
        "{}",
        ended.stderr
    );
}

/// A host that is stopped holds up the chain. Whoever is killed then, the old files are as they were, and nothing of
/// the new ones is left.
#[test]
fn nothing_is_left_of_a_copy_that_is_killed() {
    let hosts = Hosts::new();
    let path = hosts.write("file", &bytes(LONG), 0o600);
    for host in ["h1", "h2", "h3"] {
        hosts.write(&format!("{host}/in/file"), b"old", 0o600);
    }
    let copy = hosts.start(&format!("{path} --hosts h[1-3] --to in/ --tree chain"));
    let agent = || {
        let has = |name: &str| name == "gpc-2\n";
        copy.processes().into_iter().find(|process| process.thread_names().iter().any(|name| has(name)))
    };
    until("the second host is a node", || agent().is_some());
    agent().unwrap().kill(Signal::STOP);
    copy.process().kill(Signal::KILL);
    let _ = agent().map(|agent| agent.kill(Signal::CONT));
    copy.end_soon();
    for host in ["h1", "h2", "h3"] {
        let folder = hosts.path(&format!("{host}/in"));
        assert_eq!(names(&folder), ["file"], "{host}");
        let length = fs::metadata(folder.join("file")).unwrap().len();
        assert!(length == 3 || length == LONG as u64, "{host}: a part of the file, {length} bytes");
    }
}

#[test]
fn files_of_hosts_are_collected_into_a_folder_for_each() {
    let hosts = Hosts::new();
    let long = bytes(LONG);
    hosts.write("a1/log", &long, 0o640);
    hosts.write("a2/log", b"", 0o400);
    hosts.write("a3/log", b"short", 0o600);
    hosts.write("a4/log/x", b"", 0o600);
    let out = hosts.path("out");
    for _ in 0..2 {
        let ended = hosts.run(&format!("--from log --hosts a[1-5] --to {}", out.display()));
        assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let [folder, absent] = lines[..] else { panic!("{}", ended.stderr) };
        assert!(absent.starts_with("gpc: host a5: cannot read log: No such file"), "{absent}");
        assert_eq!(folder, "gpc: host a4: cannot read log: it is a folder");
        assert_eq!(names(&out), ["a1", "a2", "a3"]);
        assert!(fs::read(out.join("a1/log")).unwrap() == long);
        assert_eq!(fs::read(out.join("a2/log")).unwrap(), b"");
        assert_eq!(fs::read(out.join("a3/log")).unwrap(), b"short");
        assert_eq!(names(&out.join("a1")), ["log"]);
    }
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_started() {
    for (line, code, what) in [
        ("/dev/null --hosts a --to x", 1, "it is not a regular file"),
        ("/nowhere --hosts a --to x", 1, "cannot read /nowhere: No such file"),
        ("/tmp --hosts a --to x", 1, "it is a folder: pack it with tar first"),
        ("/etc/passwd --to x", 2, "say where to copy with --hosts LIST"),
        ("/etc/passwd --hosts a", 2, "--to"),
        ("/etc/passwd --hosts a:x,b:x", 2, "--hosts"),
        ("/etc/passwd /usr/../etc/passwd --hosts a --to x", 2, "two files are named passwd"),
        ("--from / --hosts a --to x", 2, "names no file"),
        ("/etc/passwd --hosts a --per-host 2 --to x", 2, "one process on each host"),
        ("/proc/self/stat --hosts a --to x", 1, "does not say how long it is"),
        ("/etc/passwd --hosts a --to x --time-limit 0s", 2, "leaves no time"),
        ("/etc/passwd --hosts a --to x --tree hosts+chain", 2, "takes a built-in tree"),
    ] {
        let ended = Gpc::start(&format!("copy {line}")).end();
        assert_eq!(ended.code(), Some(code), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(what), "{line}: {}", ended.stderr);
    }
}
