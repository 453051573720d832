//! Processes of a world, and the time that sending and receiving takes.
//!
//! A process has one processor for its messages, and one path into and one out of the network. Functions run on workers
//! beside them.

use gpc_trees::Id;

use super::check::Held;
use super::cost::{LinkCost, Topology};
use super::ranked::IdSet;
use super::time::BEGIN;
use chained_gpc::chain::{Node, Time};

/// Offset of clocks that are ahead. A process that restarts with a correct clock seems older than its last run.
const AHEAD_NS: u64 = BEGIN;

/// Process of an id, in one cache line: with a million ids each access misses the cache.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Host {
    /// Made at the first message: an id that has received nothing holds nothing.
    pub(super) node: Option<Box<Node>>,
    /// Time until which its processor has messages to handle.
    busy_until: u64,
    /// Earliest time at which the next message may leave.
    leaves_from: u64,
    /// Earliest time at which the next message may arrive.
    comes_from: u64,
    /// Time of its timer; `u64::MAX` for none.
    pub(super) timer: u64,
    /// Number of this run of the id.
    pub(super) run: u32,
    /// Calls that it has started.
    pub(super) started: u32,
    /// Start time of this run, from which its incarnation is counted.
    pub(super) begun: u64,
}

const _: () = assert!(size_of::<Host>() == 64);

impl Host {
    /// State that its node holds.
    pub(super) fn held(&self) -> Held {
        self.node.as_ref().map_or(Held::default(), |node| held(node, node.next_deadline(), false))
    }
}

/// State that a node holds, given its next deadline. In a large world leaks are not counted.
pub(super) fn held(node: &Node, next: Option<Time>, counts_leaks: bool) -> Held {
    Held {
        calls: node.calls(),
        retained_answers: node.retained_answers(),
        jobs: node.jobs_running(),
        deadline: next.is_some(),
        goes_on: false,
        memory: node.config().memory.used(),
        kept_bytes: node.retained_bytes(),
        strays: if counts_leaks { node.leaks() } else { 0 },
        links: if counts_leaks { node.links() } else { 0 },
    }
}

/// All processes.
#[derive(Debug)]
pub(super) struct Hosts {
    hosts: Vec<Host>,
    /// Ids that are up.
    up: IdSet,
    /// Ids whose clock is ahead.
    ahead: IdSet,
    topology: Topology,
}

impl Hosts {
    pub(super) fn new(topology: Topology) -> Hosts {
        let host = || Host { timer: u64::MAX, ..Host::default() };
        let hosts = std::iter::repeat_with(host).take(topology.n as usize).collect();
        Hosts { hosts, up: IdSet::below(topology.n), ahead: IdSet::default(), topology }
    }

    pub(super) fn at(&mut self, id: Id) -> &mut Host {
        &mut self.hosts[id as usize]
    }

    pub(super) fn is_up(&self, id: Id) -> bool {
        self.up.contains(id)
    }

    /// Incarnation: the clock of this run of an id at its start.
    pub(super) fn incarnation(&self, id: Id) -> u64 {
        self.hosts[id as usize].begun + if self.ahead.contains(id) { AHEAD_NS } else { 0 }
    }

    /// Sets the clock of an id ahead, until the id restarts.
    pub(super) fn put_ahead(&mut self, id: Id) {
        self.ahead.insert(id);
    }

    /// All ids that are up.
    pub(super) fn up(&self) -> &IdSet {
        &self.up
    }

    pub(super) fn has_node(&self, id: Id) -> bool {
        self.hosts[id as usize].node.is_some()
    }

    pub(super) fn run(&self, id: Id) -> u32 {
        self.hosts[id as usize].run
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Id, &Host)> {
        (0..).zip(&self.hosts)
    }

    pub(super) fn cost(&self, from: Id, to: Id) -> LinkCost {
        *self.topology.cost(from, to)
    }

    /// Host that a process runs on, from 0.
    pub(super) fn host_of(&self, id: Id) -> u32 {
        self.topology.host_of(id)
    }

    /// Time until which a process is busy.
    pub(super) fn busy_until(&self, id: Id) -> u64 {
        self.hosts[id as usize].busy_until
    }

    /// Occupies the processor for other work than messages.
    pub(super) fn occupy(&mut self, id: Id, now: u64, ns: u64) {
        let host = self.at(id);
        host.busy_until = now.max(host.busy_until).saturating_add(ns);
    }

    /// Sends a message of `bytes` bytes; returns its arrival time. `slowness` multiplies the processor time.
    pub(super) fn leave(&mut self, now: u64, from: Id, to: Id, bytes: u64, slowness: u64) -> u64 {
        let cost = self.cost(from, to);
        let host = self.at(from);
        let begins = now.max(host.busy_until);
        host.busy_until = begins.saturating_add(cost.overhead_ns.saturating_mul(slowness));
        let enters = host.busy_until.max(host.leaves_from);
        let last_byte = enters.saturating_add(cost.bytes_ns(bytes));
        host.leaves_from = last_byte.saturating_add(cost.gap_ns);
        last_byte.saturating_add(cost.latency_ns)
    }

    /// Receives a message; returns the time at which the receiver has read it.
    pub(super) fn take_in(&mut self, now: u64, from: Id, to: Id, slowness: u64) -> u64 {
        let cost = self.cost(from, to);
        let host = self.at(to);
        let begins = now.max(host.busy_until).max(host.comes_from);
        host.comes_from = begins.saturating_add(cost.gap_ns);
        host.busy_until = begins.saturating_add(cost.overhead_ns.saturating_mul(slowness));
        host.busy_until
    }

    /// Ends a process.
    pub(super) fn end(&mut self, id: Id) {
        self.up.remove(id);
        let host = self.at(id);
        host.node = None;
        host.timer = u64::MAX;
    }

    /// Starts a new process with the same id and a correct clock.
    pub(super) fn begin_again(&mut self, id: Id, now: u64) {
        self.up.insert(id);
        self.ahead.remove(id);
        let host = self.at(id);
        let run = host.run + 1;
        *host = Host { run, begun: now, busy_until: now, timer: u64::MAX, ..Host::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;

    #[test]
    fn messages_of_one_host_wait_for_each_other() {
        let one = LinkCost { latency_ns: 100, overhead_ns: 10, gap_ns: 30, byte_ps: 1000 };
        let costs = Costs { host: one, rack: one, elsewhere: one };
        let mut hosts = Hosts::new(Topology { n: 3, hosts: None, costs });
        assert_eq!(hosts.leave(0, 0, 1, 1, 1), 110, "o + L");
        assert_eq!(
            hosts.leave(0, 0, 2, 6, 1),
            145,
            "the gap after the first, o hidden in it, and five more bytes"
        );
        assert_eq!(hosts.leave(0, 0, 1, 1, 1), 175, "the gap after the last byte of the second");
        assert_eq!(hosts.take_in(110, 0, 1, 1), 120);
        assert_eq!(hosts.take_in(110, 2, 1, 1), 150, "the gap after the first came");
        assert_eq!(hosts.take_in(300, 2, 1, 5), 350, "five times as slow");
    }

    #[test]
    fn a_new_run_has_nothing_of_the_old_one() {
        let mut hosts = Hosts::new(Topology { n: 1, hosts: None, costs: Costs::default() });
        hosts.at(0).started = 5;
        hosts.end(0);
        assert!(!hosts.is_up(0) && !hosts.is_up(1));
        hosts.begin_again(0, 70);
        assert!(hosts.is_up(0));
        assert_eq!((hosts.run(0), hosts.at(0).started, hosts.at(0).begun), (1, 0, 70));
    }
}
