//! The processes of a world, and what sending and receiving costs each.
//!
//! A process has one processor for its messages, and one way in and one way out of the network. Functions run beside them, on workers.

use gpc_trees::Id;

use super::ahead::{soon, soon_at};
use super::check::Held;
use super::cost::{LinkCost, Topology};
use super::ranked::IdSet;
use super::rooms::Room;
use super::world::{BEGIN, held};
use crate::chain::{Node, Rested};

/// By how much clocks are ahead that are: a process that begins again begins before its last run, as far as anybody can tell.
const AHEAD_NS: u64 = BEGIN;

/// One id's process, in one line of memory: of a million nobody else has it in a cache.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Host {
    /// Made at the first message: an id that has heard nothing holds nothing.
    pub(super) node: Option<Box<Node>>,
    /// What the node goes on with where it has been let go.
    pub(super) rested: Option<Room<Rested>>,
    /// Until when its processor has messages to handle.
    busy_until: u64,
    /// When the next message may leave.
    leaves_from: u64,
    /// When the next message may come in.
    comes_from: u64,
    /// When its timer is due; `u64::MAX` for none.
    pub(super) timer: u64,
    /// Which run of the id this is.
    pub(super) run: u32,
    /// Calls that it has started.
    pub(super) started: u32,
    /// When this run began; its incarnation counts from there.
    pub(super) begun: u64,
}

const _: () = assert!(size_of::<Host>() == 64);

impl Host {
    /// What its node holds, also where that has been let go.
    pub(super) fn held(&self) -> Held {
        match (&self.node, &self.rested) {
            (Some(node), _) => held(node, node.next_deadline(), false),
            (None, Some(rested)) => {
                let (calls, answers_kept) = (rested.calls(), rested.answers_kept());
                let (jobs, deadline) = (rested.jobs_running(), rested.next_deadline().is_some());
                Held { calls, answers_kept, jobs, deadline, ..Held::default() }
            }
            (None, None) => Held::default(),
        }
    }
}

/// All processes.
#[derive(Debug)]
pub(super) struct Hosts {
    hosts: Vec<Host>,
    /// Those that are up.
    up: IdSet,
    /// Those whose clock is ahead.
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

    /// An id is to have a turn soon.
    pub(super) fn expect(&self, id: Id) {
        soon(&self.hosts[id as usize]);
    }

    /// And sooner: what its node goes on with is needed, too.
    pub(super) fn expect_node(&self, id: Id) {
        if let Some(rested) = &self.hosts[id as usize].rested {
            rested.expect();
        }
    }

    /// And at last: what that names.
    pub(super) fn expect_parts(&self, id: Id) {
        if let Some(rested) = &self.hosts[id as usize].rested {
            for (at, bytes) in rested.parts().into_iter().flatten() {
                soon_at(at, bytes);
            }
        }
    }

    pub(super) fn is_up(&self, id: Id) -> bool {
        self.up.contains(id)
    }

    /// What the clock of this run of an id said when it began.
    pub(super) fn incarnation(&self, id: Id) -> u64 {
        self.hosts[id as usize].begun + if self.ahead.contains(id) { AHEAD_NS } else { 0 }
    }

    /// The clock of an id is ahead, until it begins again.
    pub(super) fn put_ahead(&mut self, id: Id) {
        self.ahead.insert(id);
    }

    /// All that are up.
    pub(super) fn up(&self) -> &IdSet {
        &self.up
    }

    pub(super) fn has_node(&self, id: Id) -> bool {
        self.hosts[id as usize].node.is_some() || self.hosts[id as usize].rested.is_some()
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

    /// The host that a process runs on, from 0.
    pub(super) fn host_of(&self, id: Id) -> u32 {
        self.topology.host_of(id)
    }

    /// Until when a process has something to do.
    pub(super) fn busy_until(&self, id: Id) -> u64 {
        self.hosts[id as usize].busy_until
    }

    /// A process takes so long for something that is no message.
    pub(super) fn occupy(&mut self, id: Id, now: u64, ns: u64) {
        let host = self.at(id);
        host.busy_until = now.max(host.busy_until).saturating_add(ns);
    }

    /// A message of so many bytes leaves: when it arrives. `slowness` is how many times longer the processor takes.
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

    /// A message has arrived: when the receiver has taken it in.
    pub(super) fn take_in(&mut self, now: u64, from: Id, to: Id, slowness: u64) -> u64 {
        let cost = self.cost(from, to);
        let host = self.at(to);
        let begins = now.max(host.busy_until).max(host.comes_from);
        host.comes_from = begins.saturating_add(cost.gap_ns);
        host.busy_until = begins.saturating_add(cost.overhead_ns.saturating_mul(slowness));
        host.busy_until
    }

    /// A process ends.
    pub(super) fn end(&mut self, id: Id) {
        self.up.remove(id);
        let host = self.at(id);
        (host.node, host.rested) = (None, None);
        host.timer = u64::MAX;
    }

    /// A new process begins under the same id, and its clock is right.
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
    use crate::sim::cost::Costs;

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
