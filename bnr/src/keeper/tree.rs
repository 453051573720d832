//! Descendants of a process, as `/proc` shows them.
//!
//! The list of the keeper's own children is exact: a process leaves it only when the keeper itself takes its exit status. Lists of others may miss one while they change. That does no harm: when its parent has been killed, it is a child of the keeper, and is found the next time.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

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
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| number(entry.file_name().to_str()?)) {
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

/// Signals a process that is no child of this one, if it is still a child of that parent. So it never meets another that has got its number meanwhile.
pub(super) fn signal_child_of(parent_pid: Pid, pid: Pid, signal: Signal) {
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if parent(pid) == Some(parent_pid) {
        // It may have ended, or be another user's.
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}

/// The parent of a process.
pub(super) fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // Its name is in brackets and may have anything in it, brackets and blanks too.
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    number(rest.split_ascii_whitespace().nth(1)?)
}

/// The value of a variable in the environment that a process was started with, if one may look at it.
pub(super) fn variable(pid: Pid, name: &[u8]) -> Option<Vec<u8>> {
    let environ = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
    let mut variables = environ.split(|byte| *byte == 0);
    variables.find_map(|variable| variable.strip_prefix(name)?.strip_prefix(b"=")).map(<[u8]>::to_vec)
}

fn number(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}
