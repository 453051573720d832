//! Detects processes that do not speak PMI because they have loaded an MPI library that is not supported. Each process
//! is checked after [`FIRST`], then every [`AGAIN`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

use crate::names::Member;
use crate::open_mpi::library_in_maps;

/// Time until the first check: most processes have loaded their libraries by then.
const FIRST: Duration = Duration::from_millis(100);

/// Time between two checks.
const AGAIN: Duration = Duration::from_secs(1);

/// Most processes checked in one iteration of the loop. A check takes some tens of microseconds.
const LOOKS_MAX: usize = 64;

/// Most bytes read from one list of mappings: about 100,000 entries.
const MAPS_MAX: u64 = 16 << 20;

/// Processes of this node that have sent nothing yet.
#[derive(Default)]
pub(super) struct SilentProcesses {
    /// The process id, and the time of the next check.
    processes: BTreeMap<Member, (u32, Duration)>,
    /// No check is due before this time.
    due: Option<Duration>,
}

impl SilentProcesses {
    /// Adds a process that was started.
    pub(super) fn insert(&mut self, member: Member, pid: u32, now: Duration) {
        let due = now.saturating_add(FIRST);
        self.processes.insert(member, (pid, due));
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// Removes a process that has sent something or has ended.
    pub(super) fn remove(&mut self, member: Member) {
        self.processes.remove(&member);
    }

    /// Time of the next check.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due.filter(|_| !self.processes.is_empty())
    }

    /// Checks the processes that are due. Returns one that has loaded Open MPI, with the name of the library.
    pub(super) fn check(&mut self, now: Duration) -> Option<(Member, String)> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        let ripe = self.processes.iter().filter(|(_, (_, due))| *due <= now).take(LOOKS_MAX);
        for (member, pid) in ripe.map(|(member, (pid, _))| (*member, *pid)).collect::<Vec<_>>() {
            if let Some(library) = loaded(pid) {
                self.processes.remove(&member);
                return Some((member, library));
            }
            self.processes.insert(member, (pid, now.saturating_add(AGAIN)));
        }
        self.due = self.processes.values().map(|(_, due)| *due).min();
        None
    }
}

fn loaded(pid: u32) -> Option<String> {
    let mut maps = Vec::new();
    // The process may have ended or belong to another user.
    File::open(format!("/proc/{pid}/maps")).ok()?.take(MAPS_MAX).read_to_end(&mut maps).ok()?;
    library_in_maps(&maps)
}
