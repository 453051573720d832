//! Processes that share the cores of their host.
//!
//! Plain LogGP gives each process a processor of its own. If a host has fewer cores than active processes, they queue:
//! a process with an event becomes ready, first come, first served. When a core is free, the process *wakes up* on it,
//! which costs time, and keeps the core until it has nothing left to do. So an event that arrives while it runs costs
//! no second wake-up. There is no preemption: an operating system rarely preempts within the microseconds of a message.
//! A process that wakes up after others have used the cores finds cold caches, which costs more, up to a bound.
//!
//! A function with a run time uses a worker, which queues for a core like a process. Timers take no time. Worlds with
//! faults have no shared cores: their rules do not depend on queueing.

use std::collections::VecDeque;

use gpc_trees::Id;

use super::cost::{Sharing, Topology};
use super::event::Event;

/// The cores of all hosts, and the tasks that wait for them.
#[derive(Debug)]
pub(super) struct Cores {
    pub(super) sharing: Sharing,
    pub(super) hosts: Vec<HostCores>,
    /// Indexed by id.
    pub(super) processes: Vec<Process>,
}

#[derive(Debug)]
pub(super) struct HostCores {
    pub(super) free: u32,
    /// In the order in which they became ready: each process at most once, and the jobs of its workers.
    pub(super) ready: VecDeque<Task>,
    /// Number of wake-ups so far.
    pub(super) wakes: u64,
}

/// A task that needs a core.
#[derive(Debug)]
pub(super) enum Task {
    /// A process that has an event.
    Process(Id),
    /// A function with its run time, and the event at its end.
    Job { ns: u64, then: Event },
}

#[derive(Debug, Default)]
pub(super) struct Process {
    /// Events that it has not handled; bounded by what the world has in flight.
    pub(super) given: VecDeque<Event>,
    /// Whether it has a core or waits for one.
    pub(super) awake: bool,
    /// Wake-ups of its host when it last slept.
    pub(super) slept_at: u64,
}

impl Cores {
    pub(super) fn new(sharing: Sharing, topology: &Topology) -> Cores {
        let hosts = topology.hosts.unwrap_or(1);
        // As if every process had run before: the first call finds the caches as a later call does.
        let wakes = u64::from(topology.n.div_ceil(hosts.max(1)));
        let host = || HostCores { free: sharing.cores.get(), ready: VecDeque::new(), wakes };
        Cores {
            sharing,
            hosts: std::iter::repeat_with(host).take(hosts as usize).collect(),
            processes: std::iter::repeat_with(Process::default).take(topology.n as usize).collect(),
        }
    }
}
