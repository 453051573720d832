//! Begin and end of a domain, and lost nodes: the head begins the domain at all nodes and watches them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::life::Life;
use super::outgoing::{CallPurpose, Continuation};
use super::pending::PendingOrder;
use super::timers::{PAUSE, Timer};
use super::{Domain, Output, Token};
use crate::causes::reason_of;
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, is_host};
use crate::order::{Order, Report};

/// Shortest time that a node waits for the head's next standing order after one was cancelled. A living head sends it
/// at once. A stopped node on its way delays it until heartbeats give that node up, by default after 10 s. A second
/// stopped node, below the first, adds some seconds. If the head is gone, the processes must not run on for long.
const UNWATCHED: Duration = Duration::from_secs(20);

/// The same wait, in times of silence after which a node is given up.
const SILENCES: u32 = 2;

/// Consecutive unanswered probes, for any reason, after which a node is declared lost.
const PROBES: u32 = 3;

impl Domain {
    /// The head begins the domain at the other nodes; the others wait for the standing order.
    pub(super) fn begin(&mut self) {
        if self.head.is_none() {
            self.life = Life::Runs;
            // The head sends the first standing order when all nodes have begun, or after the limit `ask`.
            return self.wait_for_watch(self.settings.limits.ask.saturating_add(self.unwatched_limit()));
        }
        let others = self.others();
        if others.is_empty() {
            self.life = Life::Runs;
            return;
        }
        let order =
            Arc::new(Order::Begin { nodes: self.settings.nodes.clone(), limits: self.settings.limits });
        self.call(others, order, true, self.settings.limits.ask, CallPurpose::Begin);
    }

    /// The nodes have begun. A node that failed to begin never had a part in the domain, so it is left out and not
    /// reported as lost.
    pub(super) fn begun(&mut self, reports: &[(Id, Result<Report, Fault>)]) {
        self.life = Life::Runs;
        let mut failed = Vec::new();
        for (id, report) in reports {
            match (report, &mut self.head) {
                (Ok(Report::Host(host)), Some(head)) => {
                    let host = if is_host(host) { host.clone() } else { format!("node-{id}") };
                    head.hosts.insert(*id, host);
                }
                (Ok(_), _) => {}
                (Err(fault), _) => {
                    let message = format!("node {id} has no part in the domain: {}", reason_of(*id, fault));
                    self.outputs.push_back(Output::Warning(message));
                    failed.push(*id);
                }
            }
        }
        self.leave_out(failed);
        let hosts = self.hosts_of(self.others()).into_iter().map(|(id, host)| (id, host.to_owned()));
        let hosts = hosts.collect();
        self.outputs.push_back(Output::Begun(hosts));
        self.watch_others();
        self.start_queued();
    }

    /// Starts the head's standing call.
    pub(super) fn watch_others(&mut self) {
        let others = self.others();
        if others.is_empty() || self.life != Life::Runs {
            return;
        }
        let limit = self.settings.limits.fence;
        self.call(others, Arc::new(Order::Watch), false, limit, CallPurpose::Watch);
    }

    /// The standing call has ended: a node is lost, or its time limit has passed.
    pub(super) fn watch_ended(&mut self, reports: &[(Id, Result<Report, Fault>)]) {
        let faults = || reports.iter().filter_map(|(_, report)| report.as_ref().err());
        let others = self.others();
        // Only a lost node counts here; a node that reports another fault is checked by a probe.
        let lost: Vec<Id> = faults()
            .filter(|fault| fault.kind == FaultKind::NodeLost)
            .filter_map(|fault| fault.node)
            .filter(|node| others.contains(node))
            .collect();
        if lost.is_empty() && !faults().all(|fault| fault.kind == FaultKind::TimedOut) {
            // A node has left the call, and the call does not name it: probe all of them.
            let order = Arc::new(Order::Status(Some(GroupId(0))));
            self.call(others, order, true, self.settings.limits.ask, CallPurpose::Probe);
            return;
        }
        self.lose(lost);
        self.watch_others();
    }

    pub(super) fn probed(&mut self, reports: &[(Id, Result<Report, Fault>)]) {
        let mut lost = Vec::new();
        for (id, report) in reports {
            let Err(fault) = report else {
                self.watch.silent.remove(id);
                continue;
            };
            let times = self.watch.silent.entry(*id).or_default();
            *times += 1;
            if *times >= PROBES || fault.kind == FaultKind::NodeLost {
                self.watch.silent.remove(id);
                lost.push(*id);
            }
        }
        self.lose(lost);
        self.timers.at(self.now.saturating_add(PAUSE), Timer::Watch);
    }

    /// At the head: declares nodes lost, and their processes with them.
    fn lose(&mut self, ids: Vec<Id>) {
        let news: BTreeSet<Id> = ids.into_iter().filter(|id| !self.lost.contains(id)).collect();
        for id in &news {
            let message = format!("node {id} was lost, and its processes with it");
            self.outputs.push_back(Output::Warning(message));
        }
        self.leave_out(news.into_iter().collect());
    }

    /// At the head: goes on without these nodes, each of which is in the list once.
    fn leave_out(&mut self, news: Vec<Id>) {
        if news.is_empty() {
            return;
        }
        self.lost.extend(&news);
        self.deliver(self.others(), Order::Lost(news.clone()), Continuation::Nothing);
        let deaths = self.deaths_of_lost(&news);
        self.spread(&deaths);
        self.meetings_after_loss(&news);
    }

    /// The head has declared nodes lost.
    pub(super) fn nodes_lost(&mut self, ids: &[Id]) {
        if self.head.is_some() {
            return;
        }
        if ids.contains(&self.me()) {
            return self.end(None);
        }
        self.lost.extend(ids);
        let layouts = self.local.groups.values().map(|here| here.layout.clone());
        let deaths: Vec<Death> =
            layouts.flat_map(|layout| self.deaths_with_nodes(&layout, |id| ids.contains(&id))).collect();
        self.learn(&deaths);
        self.meetings_after_loss(ids);
    }

    /// The head's standing order has arrived.
    pub(super) fn accept_watch(&mut self, token: Token) {
        if let Some(until) = self.watch.until.take() {
            self.timers.cancel(until);
        }
        self.watch.orders.insert(token);
    }

    /// The head renews its standing order, or is lost.
    pub(super) fn watch_cancelled(&mut self, token: Token) {
        if self.watch.orders.remove(&token) && self.watch.orders.is_empty() {
            self.wait_for_watch(self.unwatched_limit());
        }
    }

    fn unwatched_limit(&self) -> Duration {
        self.settings.dead_after.map_or(UNWATCHED, |silence| UNWATCHED.max(silence.saturating_mul(SILENCES)))
    }

    fn wait_for_watch(&mut self, limit: Duration) {
        let due = self.now.saturating_add(limit);
        self.watch.until = Some(self.timers.at(due, Timer::Unwatched));
    }

    /// The head is gone: no standing order has arrived in time.
    pub(super) fn unwatched(&mut self) {
        self.watch.until = None;
        if self.watch.orders.is_empty() && self.head.is_none() {
            self.end(None);
        }
    }

    /// Ends the domain: fails pending requests and kills all processes. At the head, ends it at all nodes.
    pub(super) fn end(&mut self, token: Option<Token>) {
        if matches!(self.life, Life::Ends { .. } | Life::Ended) {
            // This order is answered together with those that already wait for the end.
            return;
        }
        let leads = self.head.is_some() && token.is_none();
        let others = self.others();
        self.life = Life::Ends { elsewhere: leads && !others.is_empty() };
        self.refuse_all();
        self.report_all(|order| matches!(order, PendingOrder::End | PendingOrder::Kill));
        self.collective.drop_all();
        self.timers.clear();
        self.deaths.subscribers.clear();
        self.outgoing.numbers().into_iter().for_each(|call| self.cancel_call(call));
        let limits = self.settings.limits;
        let limit = limits.grace.saturating_add(limits.ask);
        if self.life == (Life::Ends { elsewhere: true }) {
            self.call(others, Arc::new(Order::End), true, limit, CallPurpose::End);
        }
        let groups: Vec<GroupId> = self.local.groups.keys().copied().collect();
        groups.into_iter().for_each(|group| self.kill_here(group, None));
        self.timers.at(self.now.saturating_add(limit), Timer::GiveUp);
        self.end_if_empty();
    }

    pub(super) fn ended_elsewhere(&mut self) {
        self.life = Life::Ends { elsewhere: false };
        self.end_if_empty();
    }

    /// If nothing of the domain is left here, it has ended.
    pub(super) fn end_if_empty(&mut self) {
        if self.life == (Life::Ends { elsewhere: false }) && self.local.is_empty() {
            self.end_here();
        }
    }

    /// The time limit has passed: the domain ends here. The driver removes the remaining processes at its own end.
    pub(super) fn give_up(&mut self) {
        if matches!(self.life, Life::Ends { .. }) {
            self.end_here();
        }
    }

    /// Ends the domain at this node, whatever is left here.
    fn end_here(&mut self) {
        self.life = Life::Ended;
        self.outgoing.numbers().into_iter().for_each(|call| self.cancel_call(call));
        self.report_all(|_| false);
        // Requests that other nodes have sent in the meantime.
        self.collective.drop_all();
        self.timers.clear();
        self.outputs.push_back(Output::End);
    }
}
