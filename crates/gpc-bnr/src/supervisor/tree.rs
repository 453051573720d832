//! Descendants of a process, as `/proc` shows them.
//!
//! The list of the supervisor's own children is exact: a child leaves it only when the supervisor takes its exit
//! status. The list of another process may miss a child while it changes. That is harmless: once the parent has been
//! killed, the child belongs to the supervisor and is found by the next search.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::{GROUP, NODE, Tag};

/// The relation of parents and children.
pub(super) enum Tree {
    /// The system lists the children of each thread.
    Listed,
    /// The system has no such list: the map was built from the parents of all processes.
    Built(HashMap<Pid, Vec<Pid>>),
}

impl Tree {
    /// The current relation.
    pub(super) fn read() -> Tree {
        if fs::exists("/proc/thread-self/children").unwrap_or(false) { Tree::Listed } else { Tree::build() }
    }

    fn build() -> Tree {
        let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for pid in all() {
            if let Some(parent) = parent(pid) {
                children.entry(parent).or_default().push(pid);
            }
        }
        Tree::Built(children)
    }

    /// The children of a process, including zombies.
    pub(super) fn children(&self, of: Pid) -> Vec<Pid> {
        match self {
            Tree::Built(children) => children.get(&of).cloned().unwrap_or_default(),
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

    /// All descendants of a process, each with its parent; parents first.
    pub(super) fn below(&self, top: Pid) -> Vec<(Pid, Pid)> {
        let mut found: Vec<(Pid, Pid)> = self.children(top).into_iter().map(|child| (child, top)).collect();
        let mut seen: HashSet<Pid> = found.iter().map(|(child, _)| *child).collect();
        let mut next = 0;
        // Terminates: each iteration takes a process that was not seen before, and process ids are finite.
        while let Some(&(parent, _)) = found.get(next) {
            let children = self.children(parent).into_iter();
            found.extend(children.filter(|child| seen.insert(*child)).map(|child| (child, parent)));
            next += 1;
        }
        found
    }
}

/// Signals a descendant that still has the parent that it was found with, or that has become a child of this process.
/// So the signal never reaches a process that has reused the id.
pub(super) fn signal_below(found_with: Pid, pid: Pid, signal: Signal) {
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if parent(pid).is_some_and(|parent| parent == found_with || parent == getpid()) {
        // The process may have ended or belong to another user.
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}

/// The parent of a process.
pub(super) fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    number(after_name(&stat).nth(1)?)
}

/// Result of reading a variable of a process.
pub(super) enum Variable {
    /// The value of the variable; `None` if it is not set or may not be read.
    Value(Option<Vec<u8>>),
    /// The process has no environment at the moment: its program is being loaded, or it is a zombie. Ask again.
    NotNow,
}

/// The value of a variable in the initial environment of a process.
pub(super) fn variable(pid: Pid, name: &[u8]) -> Variable {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let environ = match fs::read(format!("{folder}/environ")) {
        Ok(environ) => environ,
        // For a zombie, some systems return this error, others an empty environment.
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Vec::new(),
        Err(_) => return Variable::Value(None),
    };
    let mut variables = environ.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(name)?.strip_prefix(b"="));
    if value.is_none() && fs::read(format!("{folder}/stat")).is_ok_and(|stat| !is_whole(environ.len(), &stat))
    {
        return Variable::NotNow;
    }
    Variable::Value(value.map(<[u8]>::to_vec))
}

/// Whether this is the whole size of a process's environment. While a program is being loaded, the environment is
/// empty, or ends where the process gave up its former memory.
fn is_whole(size: usize, stat: &[u8]) -> bool {
    let fields: Vec<&str> = after_name(stat).collect();
    // Numbered as in proc(5): the state is the third field.
    let field = |number: usize| fields.get(number - 3)?.parse::<usize>().ok();
    // A zombie has no environment. If only its first thread has ended, the environment stays unreadable.
    if matches!(fields.first(), Some(&"Z" | &"X")) {
        return field(20).is_some_and(|threads| threads > 1);
    }
    // `endcode` is set after the environment; then `env_start` and `env_end`. An empty environment has addresses as
    // well.
    match (field(27), field(50), field(51)) {
        (Some(code), Some(start), Some(end)) => code > 0 && end.checked_sub(start) == Some(size),
        _ => true,
    }
}

/// The fields of `/proc/PID/stat` after the name. The name is in brackets and may contain brackets and blanks.
fn after_name(stat: &[u8]) -> std::str::SplitAsciiWhitespace<'_> {
    let end = stat.iter().rposition(|byte| *byte == b')').map_or(stat.len(), |at| at + 1);
    std::str::from_utf8(&stat[end..]).unwrap_or_default().split_ascii_whitespace()
}

/// Kills all processes that were started with one of these tags, wherever they are, and returns their number. A tag
/// with an empty group matches no process. Processes whose environment is unreadable now are left to the next search.
pub(super) fn kill_tagged(tags: &BTreeSet<Tag>) -> usize {
    let is_tagged = |pid| {
        let (Variable::Value(Some(group)), Variable::Value(node)) =
            (variable(pid, GROUP), variable(pid, NODE))
        else {
            return false;
        };
        !group.is_empty() && tags.contains(&(group, node.unwrap_or_default()))
    };
    let mut killed = 0;
    for pid in all().filter(|pid| is_tagged(*pid)) {
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // The process id may have been reused before the pidfd was opened.
        if is_tagged(pid) && pidfd_send_signal(&pidfd, Signal::KILL).is_ok() {
            killed += 1;
        }
    }
    killed
}

/// All processes.
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

    /// Both methods find the same processes, whatever the programs' names.
    #[test]
    fn what_is_below_is_found_with_its_parents() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("a) R 1 (b");
        std::os::unix::fs::symlink("/bin/sh", &name).unwrap();
        let script = "sleep 600 & echo $!; (sleep 600 & echo $!; wait) & echo $!; wait";
        let mut shell = Command::new(&name).args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut started = Started(vec![Pid::from_child(&shell)]);
        let mut said = String::new();
        let mut out = shell.stdout.take().unwrap();
        // Terminates after three lines.
        while said.lines().count() < 3 || !said.ends_with('\n') {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            said.push(char::from(byte[0]));
        }
        let mut expected: Vec<Pid> = said.lines().map(|line| number(line).unwrap()).collect();
        expected.sort_by_key(|pid| pid.as_raw_nonzero());
        started.0.extend(&expected);
        let top = Pid::from_child(&shell);
        for tree in [Tree::read(), Tree::build()] {
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
        // A signal with a wrong parent has no effect; with the right parent it kills. A stopped process shows a signal
        // that was sent to it.
        let tree = Tree::read();
        for (pid, _) in tree.below(top) {
            rustix::process::kill_process(pid, Signal::STOP).unwrap();
            while !status(pid).contains("State:\tT") {
                std::thread::yield_now();
            }
            signal_below(getpid(), pid, Signal::TERM);
            assert!(status(pid).contains("ShdPnd:\t0000000000000000\n"), "{}", status(pid));
        }
        for (pid, parent_pid) in tree.below(top).into_iter().rev() {
            signal_below(parent_pid, pid, Signal::KILL);
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        // Their ids may be used again.
        started.0.clear();
        // All writers of the pipe have ended.
        assert_eq!(out.read_to_string(&mut said).unwrap(), 0);
    }

    /// Processes of a test, which may fail before it ends them.
    struct Started(Vec<Pid>);

    impl Drop for Started {
        fn drop(&mut self) {
            for pid in self.0.drain(..) {
                // A process that has ended is a zombie of this test, or of its own parent.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }

    fn status(pid: Pid) -> String {
        fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap()
    }

    #[test]
    fn who_was_started_with_a_variable_is_killed_and_nobody_else() {
        let tag = format!("one/{}", std::process::id());
        // Another node of the domain may be on this host; its processes are its own.
        let start = |group: &str, node: &str| {
            let mut command = Command::new("sleep");
            command.arg("600").env("GPC_BNR_GROUP", group).env("GPC_BNR_NODE", node).spawn().unwrap()
        };
        let (mut one, mut other, mut third) = (start(&tag, "1"), start("other", "1"), start(&tag, "2"));
        // Until the program runs, the environment is that of this process.
        for child in [&one, &other, &third] {
            while !matches!(variable(Pid::from_child(child), NODE), Variable::Value(Some(_))) {
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

    /// Lines of `/proc/PID/stat` with a given state, number of threads, end of the code, and bounds of arguments and
    /// environment.
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
        // Other systems lack these fields.
        assert!(is_whole(0, b"") && is_whole(0, b"7 (a") && is_whole(0, b"7 (a) S 1"));
        // A line of this system.
        let own = fs::read("/proc/self/stat").unwrap();
        assert!(is_whole(fs::read("/proc/self/environ").unwrap().len(), &own));
    }
}
