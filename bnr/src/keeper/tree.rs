//! Descendants of a process, as `/proc` shows them.
//!
//! The list of the keeper's own children is exact: a process leaves it only when the keeper itself takes its exit status. Lists of others may miss one while they change. That does no harm: when its parent has been killed, it is a child of the keeper, and is found the next time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::{GROUP, NODE, Tag};

/// Who is whose child.
pub(super) enum Tree {
    /// The system lists the children of each thread.
    Listed,
    /// It does not: all processes have been asked for their parents.
    Asked(HashMap<Pid, Vec<Pid>>),
}

impl Tree {
    /// As it is now.
    pub(super) fn look() -> Tree {
        if fs::exists("/proc/thread-self/children").unwrap_or(false) { Tree::Listed } else { Tree::ask() }
    }

    fn ask() -> Tree {
        let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for pid in all() {
            if let Some(parent) = parent(pid) {
                children.entry(parent).or_default().push(pid);
            }
        }
        Tree::Asked(children)
    }

    /// The children of a process, those that have ended and were not waited for among them.
    pub(super) fn children(&self, of: Pid) -> Vec<Pid> {
        match self {
            Tree::Asked(children) => children.get(&of).cloned().unwrap_or_default(),
            Tree::Listed => {
                let tasks = format!("/proc/{}/task", of.as_raw_nonzero());
                let tasks = fs::read_dir(tasks).into_iter().flatten().flatten();
                let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
                let mut children = Vec::new();
                for list in lists {
                    children.extend(list.split_ascii_whitespace().filter_map(number));
                }
                children
            }
        }
    }

    /// All below a process, each with its parent, parents first.
    pub(super) fn below(&self, top: Pid) -> Vec<(Pid, Pid)> {
        let mut found: Vec<(Pid, Pid)> = self.children(top).into_iter().map(|child| (child, top)).collect();
        let mut seen: HashSet<Pid> = found.iter().map(|(child, _)| *child).collect();
        let mut next = 0;
        // Ends: each turn takes one that was not seen before, and there are finitely many process numbers.
        while let Some(&(parent, _)) = found.get(next) {
            let children = self.children(parent).into_iter();
            found.extend(children.filter(|child| seen.insert(*child)).map(|child| (child, parent)));
            next += 1;
        }
        found
    }
}

/// Signals a process that was found below this one, if it still has the parent that it was found with, or is a child of this one by now. So it never meets another that has got its number meanwhile.
pub(super) fn signal_below(found_with: Pid, pid: Pid, signal: Signal) {
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if parent(pid).is_some_and(|parent| parent == found_with || parent == getpid()) {
        // It may have ended, or be another user's.
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}

/// The parent of a process.
pub(super) fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    number(after_name(&stat).nth(1)?)
}

/// What a process was told when it was started.
pub(super) enum Told {
    /// The value of a variable; or none, or one may not look at it.
    Value(Option<Vec<u8>>),
    /// It has no environment at this moment, since its program is being loaded, or since it has ended and nobody has taken its exit status: it is to be asked again.
    NotNow,
}

/// The value of a variable in the environment that a process was started with.
pub(super) fn variable(pid: Pid, name: &[u8]) -> Told {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let environ = match fs::read(format!("{folder}/environ")) {
        Ok(environ) => environ,
        // Some systems say so of one that has ended, others that it is empty.
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Vec::new(),
        Err(_) => return Told::Value(None),
    };
    let mut variables = environ.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(name)?.strip_prefix(b"="));
    if value.is_none() && fs::read(format!("{folder}/stat")).is_ok_and(|stat| !is_whole(environ.len(), &stat))
    {
        return Told::NotNow;
    }
    Told::Value(value.map(<[u8]>::to_vec))
}

/// Whether this is the whole size of a process's environment. What is read while a program is begun is empty, or ends where the process gave up the memory that it had before.
fn is_whole(size: usize, stat: &[u8]) -> bool {
    let fields: Vec<&str> = after_name(stat).collect();
    // As proc(5) counts them: the state is the third.
    let field = |number: usize| fields.get(number - 3)?.parse::<usize>().ok();
    // Who has ended has none; but if only its first thread has, nothing more is ever said.
    if matches!(fields.first(), Some(&"Z" | &"X")) {
        return field(20).is_some_and(|threads| threads > 1);
    }
    // `endcode` is set after the environment; then `env_start` and `env_end`. An empty one has a place, too.
    match (field(27), field(50), field(51)) {
        (Some(code), Some(start), Some(end)) => code > 0 && end.checked_sub(start) == Some(size),
        _ => true,
    }
}

/// The fields of `/proc/PID/stat` behind the name, which is in brackets and may have anything in it, brackets and blanks too.
fn after_name(stat: &[u8]) -> std::str::SplitAsciiWhitespace<'_> {
    let end = stat.iter().rposition(|byte| *byte == b')').map_or(stat.len(), |at| at + 1);
    std::str::from_utf8(&stat[end..]).unwrap_or_default().split_ascii_whitespace()
}

/// Kills all processes that were started with one of these tags, wherever they are; how many. A group that was told to nobody has none. Those of which nothing can be said yet are for the next look.
pub(super) fn kill_tagged(tags: &BTreeSet<Tag>) -> usize {
    let is_tagged = |pid| {
        let (Told::Value(Some(group)), Told::Value(node)) = (variable(pid, GROUP), variable(pid, NODE))
        else {
            return false;
        };
        !group.is_empty() && tags.contains(&(group, node.unwrap_or_default()))
    };
    let mut killed = 0;
    for pid in all().filter(|pid| is_tagged(*pid)) {
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // Its number may have become another's before that.
        if is_tagged(pid) && pidfd_send_signal(&pidfd, Signal::KILL).is_ok() {
            killed += 1;
        }
    }
    killed
}

/// All processes that are there.
fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| number(entry.file_name().to_str()?))
}

fn number(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// Both ways to look see the same, however programs are called.
    #[test]
    fn what_is_below_is_found_with_its_parents() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("a) R 1 (b");
        std::os::unix::fs::symlink("/bin/sh", &name).unwrap();
        let script = "sleep 600 & echo $!; (sleep 600 & echo $!; wait) & echo $!; wait";
        let mut shell = Command::new(&name).args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut out = shell.stdout.take().unwrap();
        // Ends: with three lines.
        while said.lines().count() < 3 || !said.ends_with('\n') {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            said.push(char::from(byte[0]));
        }
        let mut expected: Vec<Pid> = said.lines().map(|line| number(line).unwrap()).collect();
        expected.sort_by_key(|pid| pid.as_raw_nonzero());
        let top = Pid::from_child(&shell);
        for tree in [Tree::look(), Tree::ask()] {
            let mut below = tree.below(top);
            let position = |pid: Pid| below.iter().position(|(child, _)| *child == pid);
            for (child, parent_pid) in &below {
                assert_eq!(parent(*child), Some(*parent_pid));
                assert!(*parent_pid == top || position(*parent_pid) < position(*child));
            }
            below.sort_by_key(|(child, _)| child.as_raw_nonzero());
            assert_eq!(below.iter().map(|(child, _)| *child).collect::<Vec<_>>(), expected);
            assert!(tree.children(getpid()).contains(&top));
        }
        // Not under this parent; then under its own.
        let tree = Tree::look();
        for (pid, _) in tree.below(top) {
            signal_below(getpid(), pid, Signal::KILL);
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
            assert!(!stat.rsplit_once(") ").unwrap().1.starts_with('Z'), "it runs: {stat}");
        }
        for (pid, parent_pid) in tree.below(top).into_iter().rev() {
            signal_below(parent_pid, pid, Signal::KILL);
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        // Nobody has it any more.
        assert_eq!(out.read_to_string(&mut said).unwrap(), 0);
    }

    #[test]
    fn who_was_started_with_a_variable_is_killed_and_nobody_else() {
        let tag = format!("one/{}", std::process::id());
        // Another node of the domain may be on this host: its processes are its own.
        let start = |group: &str, node: &str| {
            let mut command = Command::new("sleep");
            command.arg("600").env("GPC_BNR_GROUP", group).env("GPC_BNR_NODE", node).spawn().unwrap()
        };
        let (mut one, mut other, mut third) = (start(&tag, "1"), start("other", "1"), start(&tag, "2"));
        // The environment is the program's when it runs; until then it is this process's.
        for child in [&one, &other, &third] {
            while !matches!(variable(Pid::from_child(child), NODE), Told::Value(Some(_))) {
                std::thread::yield_now();
            }
        }
        let tags = [(tag.into_bytes(), b"1".to_vec()), (Vec::new(), Vec::new())];
        assert_eq!(kill_tagged(&tags.into()), 1);
        assert!(!one.wait().unwrap().success());
        for other in [&mut other, &mut third] {
            assert_eq!(other.try_wait().unwrap(), None);
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }

    /// Lines of `/proc/PID/stat` by their state, their threads, where the code ends, and where arguments and environment begin and end.
    #[test]
    fn who_has_no_environment_now_is_told_from_who_has_none() {
        let stat = |state: &str, threads: u32, code: u32, strings: &str| {
            let (before, behind, between) = ("1 ".repeat(16), "1 ".repeat(6), "1 ".repeat(20));
            format!("7 (a) Z b) {state} {before}{threads} {behind}{code} {between}{strings} 0").into_bytes()
        };
        let running = stat("S", 1, 5, "10 20 20 30");
        assert!(is_whole(10, &running) && !is_whole(9, &running) && !is_whole(0, &running));
        assert!(is_whole(0, &stat("S", 1, 5, "10 20 20 20")), "env -i");
        assert!(!is_whole(0, &stat("Z", 1, 0, "0 0 0 0")), "it has ended");
        assert!(is_whole(0, &stat("Z", 2, 0, "0 0 0 0")), "its first thread has ended");
        for strings in ["0 0 0 0", "10 20 20 20", "10 20 20 30"] {
            assert!(!is_whole(0, &stat("R", 1, 0, strings)), "its program is being loaded: {strings}");
        }
        // Another system has no such fields.
        assert!(is_whole(0, b"") && is_whole(0, b"7 (a") && is_whole(0, b"7 (a) S 1"));
        // As this system writes it.
        let own = fs::read("/proc/self/stat").unwrap();
        assert!(is_whole(fs::read("/proc/self/environ").unwrap().len(), &own));
    }
}
