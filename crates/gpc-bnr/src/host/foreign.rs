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

    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.processes.len()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GroupId;

    fn member(rank: u32) -> Member {
        Member { group: GroupId(1), rank }
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Processes without a library of interest: this one.
    fn insert(silent: &mut SilentProcesses, rank: u32, now: Duration) {
        silent.insert(member(rank), std::process::id(), now);
    }

    #[test]
    fn a_silent_process_is_checked_soon_and_then_every_second() {
        let mut silent = SilentProcesses::default();
        assert_eq!(silent.due(), None);
        insert(&mut silent, 0, ms(50));
        insert(&mut silent, 1, ms(70));
        assert_eq!(silent.due(), Some(ms(150)));
        assert_eq!((silent.check(ms(149)), silent.due()), (None, Some(ms(150))));
        assert_eq!((silent.check(ms(150)), silent.due()), (None, Some(ms(170))));
        assert_eq!((silent.check(ms(170)), silent.due()), (None, Some(ms(1150))));
        assert_eq!((silent.check(ms(1150)), silent.due()), (None, Some(ms(1170))));
        // A process that is started meanwhile is checked earlier.
        insert(&mut silent, 2, ms(1000));
        assert_eq!(silent.due(), Some(ms(1100)));
        (0..3).for_each(|rank| silent.remove(member(rank)));
        assert_eq!(silent.due(), None);
    }

    #[test]
    fn one_turn_checks_so_many_processes() {
        let mut silent = SilentProcesses::default();
        (0..LOOKS_MAX as u32 + 1).for_each(|rank| insert(&mut silent, rank, ms(0)));
        assert_eq!((silent.check(ms(100)), silent.due()), (None, Some(ms(100))));
        assert_eq!((silent.check(ms(100)), silent.due()), (None, Some(ms(1100))));
    }
}
