//! Binding to cores. A process inherits the affinity of the thread that starts it, so the thread binds itself during
//! the start.

use std::fs;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this process may use.
pub(super) struct Cores {
    all: CpuSet,
    each: Vec<CpuSet>,
}

impl Cores {
    /// Reads the cores from the system.
    pub(super) fn read() -> Result<Cores, Errno> {
        let all = sched_getaffinity(None)?;
        let siblings = |cpu: usize| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            fs::read_to_string(path).ok()
        };
        Ok(Cores { each: group(&all, siblings), all })
    }

    /// Runs `start` while this thread is bound to one core, with all of its hardware threads. Processes started
    /// meanwhile stay bound.
    pub(super) fn bound<T>(&self, index: usize, start: impl FnOnce() -> T) -> Result<T, Errno> {
        let Some(core) = self.each.get(index % self.each.len().max(1)) else { return Ok(start()) };
        sched_setaffinity(None, core)?;
        let started = start();
        sched_setaffinity(None, &self.all)?;
        Ok(started)
    }
}

/// The processors of each core, ordered by the first one. A processor without information about siblings is a core of
/// its own.
fn group(all: &CpuSet, siblings: impl Fn(usize) -> Option<String>) -> Vec<CpuSet> {
    let mut left = *all;
    let mut each = Vec::new();
    for cpu in 0..CpuSet::MAX_CPU {
        if !left.is_set(cpu) {
            continue;
        }
        let mut core = CpuSet::new();
        core.set(cpu);
        for other in siblings(cpu).as_deref().map(list).unwrap_or_default() {
            if left.is_set(other) {
                core.set(other);
            }
        }
        (0..CpuSet::MAX_CPU).filter(|other| core.is_set(*other)).for_each(|other| left.unset(other));
        each.push(core);
    }
    each
}

/// Parses a list of processors as the system writes it, such as `0-1,8`.
fn list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        Some(first..last.saturating_add(1).min(CpuSet::MAX_CPU))
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        set
    }

    #[test]
    fn threads_of_a_core_are_together_and_only_those_that_may_be_used() {
        let text = |cpu: usize| Some(format!("{},{}\n", cpu % 4, cpu % 4 + 4));
        assert_eq!(group(&set(&[0, 1, 4, 6]), text), [set(&[0, 4]), set(&[1]), set(&[6])]);
        assert_eq!(group(&set(&[2, 3]), |_| None), [set(&[2]), set(&[3])]);
        assert_eq!(group(&set(&[2, 3]), |_| Some("nonsense, 7-".into())), [set(&[2]), set(&[3])]);
        assert_eq!(group(&set(&[0, 1, 2, 3]), |_| Some("0-3".into())), [set(&[0, 1, 2, 3])]);
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(list(""), Vec::<usize>::new());
        assert_eq!(list("0-18446744073709551615").len(), CpuSet::MAX_CPU);
    }

    #[test]
    fn the_thread_is_where_it_was_afterwards() {
        let before = sched_getaffinity(None).unwrap();
        let cores = Cores::read().unwrap();
        for index in [0, 1, usize::MAX] {
            let during = cores.bound(index, || sched_getaffinity(None).unwrap()).unwrap();
            assert!(cores.each.contains(&during));
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
