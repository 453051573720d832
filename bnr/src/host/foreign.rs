//! Looks whether processes that have not spoken PMI have loaded an MPI library that is not served here: after [`FIRST`], then every [`AGAIN`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

use crate::names::Member;
use crate::open_mpi::library_in_maps;

/// When a process is looked at first: most have loaded their libraries by then.
const FIRST: Duration = Duration::from_millis(100);

/// The time between two looks.
const AGAIN: Duration = Duration::from_secs(1);

/// Processes that are looked at in one turn of the loop: each look takes some tens of microseconds.
const LOOKS_MAX: usize = 64;

/// Bytes that are read of one list of mappings: about 100,000 of them.
const MAPS_MAX: u64 = 16 << 20;

/// Processes of this node that have said nothing yet.
#[derive(Default)]
pub(super) struct Silent {
    /// The number of each, and when it is looked at next.
    processes: BTreeMap<Member, (u32, Duration)>,
    /// No look is due before.
    due: Option<Duration>,
}

impl Silent {
    /// A process was started.
    pub(super) fn insert(&mut self, member: Member, pid: u32, now: Duration) {
        let due = now.saturating_add(FIRST);
        self.processes.insert(member, (pid, due));
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// A process has spoken, or has ended.
    pub(super) fn remove(&mut self, member: Member) {
        self.processes.remove(&member);
    }

    /// When the next look is due.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due.filter(|_| !self.processes.is_empty())
    }

    /// Looks at those whose time has come; one that has loaded Open MPI, with the name of the library.
    pub(super) fn look(&mut self, now: Duration) -> Option<(Member, String)> {
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
    // It may have ended, or be another user's.
    File::open(format!("/proc/{pid}/maps")).ok()?.take(MAPS_MAX).read_to_end(&mut maps).ok()?;
    library_in_maps(&maps)
}
