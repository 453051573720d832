//! Binding to processors. A process inherits the affinity of the thread that starts it, so the thread binds itself
//! during the start.

use std::fs;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::orders::Binding;
use super::topology::{BoundCpus, Topology};

/// The processors that this process may use.
pub(super) struct Cores {
    all: CpuSet,
    topology: Topology,
}

impl Cores {
    /// Reads the processors from the system.
    pub(super) fn read() -> Result<Cores, Errno> {
        let all = sched_getaffinity(None)?;
        let read = |path: &str| fs::read_to_string(format!("/sys/devices/system/{path}")).ok();
        Ok(Cores { topology: Topology::parse(all, read), all })
    }

    /// The processors of a binding.
    ///
    /// # Errors
    /// They are not among those that this process may use.
    pub(super) fn of(&self, binding: &Binding) -> Result<BoundCpus, String> {
        self.topology.bound(binding)
    }

    /// Runs `start` while this thread is bound. Processes started meanwhile stay bound.
    pub(super) fn bound<T>(&self, cpus: &CpuSet, start: impl FnOnce() -> T) -> Result<T, Errno> {
        sched_setaffinity(None, cpus)?;
        let started = start();
        sched_setaffinity(None, &self.all)?;
        Ok(started)
    }
}

#[cfg(test)]
mod tests {
    use super::super::orders::{BindOrder, BindTo};
    use super::*;

    #[test]
    fn the_thread_is_where_it_was_afterwards() {
        let before = sched_getaffinity(None).unwrap();
        let cores = Cores::read().unwrap();
        for index in [0, 1, usize::MAX] {
            let binding = Binding { to: BindTo::Core, order: BindOrder::Object, index, report: false };
            let bound = cores.of(&binding).unwrap();
            let during = cores.bound(&bound.cpus, || sched_getaffinity(None).unwrap()).unwrap();
            assert_eq!(during, bound.cpus);
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
