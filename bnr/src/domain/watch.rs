//! The life of a domain: its head begins it at all nodes and watches them, nodes are lost, and it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::asking::Held;
use super::telling::{Errand, PAUSE, Then, Timer, TimerKey};
use super::{Domain, Output, Token};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::GroupId;
use crate::order::{Order, Report};

/// How long a node waits for its head's next standing order when one was cancelled. A head that lives gives it at once; nothing of a domain whose head is gone is to run on for long.
const UNWATCHED: Duration = Duration::from_secs(10);

/// In which part of its life a domain is at a node.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Life {
    /// The head waits until the others have begun.
    #[default]
    Begins,
    Runs,
    /// What is here goes. `elsewhere`: the head waits for the others, too.
    Ends {
        elsewhere: bool,
    },
    Ended,
}

/// How often in a row a node does not answer, for whatever reason, until it is taken for lost.
const PROBES: u32 = 3;

/// How a node knows that its head is there, and what the head knows of the others.
#[derive(Default, Debug)]
pub(super) struct Watched {
    /// At the head: who has not answered lately, and how often.
    silent: BTreeMap<Id, u32>,
    /// The head's standing orders: one, or two while it begins to watch anew. The older may come after the newer.
    by: BTreeSet<Token>,
    /// When the domain is taken for ended without one.
    until: Option<TimerKey>,
}

impl Domain {
    /// The head begins the domain at the other nodes; those wait to be watched.
    pub(super) fn begin(&mut self) {
        if self.head.is_none() {
            self.life = Life::Runs;
            return self.wait_for_watch(self.settings.limits.ask);
        }
        let others = self.others();
        if others.is_empty() {
            self.life = Life::Runs;
            return;
        }
        let order =
            Arc::new(Order::Begin { nodes: self.settings.nodes.clone(), limits: self.settings.limits });
        self.call(others, order, true, self.settings.limits.ask, Errand::Begin);
    }

    /// Who has not begun has no part in the domain.
    pub(super) fn begun(&mut self, reports: &[(Id, Result<Report, Fault>)]) {
        self.life = Life::Runs;
        let mut failed = Vec::new();
        for (id, report) in reports {
            match (report, &mut self.head) {
                (Ok(Report::Host(host)), Some(head)) => drop(head.hosts.insert(*id, host.clone())),
                (Ok(_), _) => {}
                (Err(fault), _) => {
                    let message = format!("node {id} has no part in the domain: {fault}");
                    self.outputs.push_back(Output::Warning(message));
                    failed.push(*id);
                }
            }
        }
        self.lose(failed);
        self.watch_others();
        self.start_queued();
    }

    /// The head's standing call.
    pub(super) fn watch_others(&mut self) {
        let others = self.others();
        if others.is_empty() || self.life != Life::Runs {
            return;
        }
        let limit = self.settings.limits.fence;
        self.call(others, Arc::new(Order::Watch), false, limit, Errand::Watch);
    }

    /// A node is lost, or the call's time has passed.
    pub(super) fn watch_ended(&mut self, reports: &[(Id, Result<Report, Fault>)]) {
        let faults = || reports.iter().filter_map(|(_, report)| report.as_ref().err());
        let others = self.others();
        // Of one that says why it does not go on, another call says whether it is there.
        let lost: Vec<Id> = faults()
            .filter(|fault| fault.kind == FaultKind::NodeLost)
            .filter_map(|fault| fault.node)
            .filter(|node| others.contains(node))
            .collect();
        if lost.is_empty() && !faults().all(|fault| fault.kind == FaultKind::TimedOut) {
            // Somebody does not take part any more, and the call does not say who: whoever answers does.
            let order = Arc::new(Order::Status(Some(GroupId(0))));
            self.call(others, order, true, self.settings.limits.ask, Errand::Probe);
            return;
        }
        self.lose(lost);
        self.watch_others();
    }

    pub(super) fn probed(&mut self, reports: &[(Id, Result<Report, Fault>)]) {
        let mut lost = Vec::new();
        for (id, report) in reports {
            let Err(fault) = report else {
                self.watched.silent.remove(id);
                continue;
            };
            let times = self.watched.silent.entry(*id).or_default();
            *times += 1;
            if *times >= PROBES || fault.kind == FaultKind::NodeLost {
                self.watched.silent.remove(id);
                lost.push(*id);
            }
        }
        self.lose(lost);
        self.timers.at(self.now.saturating_add(PAUSE), Timer::Watch);
    }

    /// At the head: nodes are lost, and their processes with them.
    fn lose(&mut self, ids: Vec<Id>) {
        let mut news: Vec<Id> = ids.into_iter().filter(|id| !self.lost.contains(id)).collect();
        news.sort_unstable();
        news.dedup();
        if news.is_empty() {
            return;
        }
        self.lost.extend(&news);
        for id in &news {
            let message = format!("node {id} was lost, and its processes with it");
            self.outputs.push_back(Output::Warning(message));
        }
        self.tell(self.others(), Order::Lost(news.clone()), Then::Nothing);
        let deaths = self.deaths_of_lost(&news);
        self.spread(deaths);
        self.meetings_after_loss(&news);
    }

    /// The head says that nodes are lost.
    pub(super) fn nodes_lost(&mut self, ids: &[Id]) {
        if self.head.is_some() {
            return;
        }
        if ids.contains(&self.me()) {
            return self.end(None);
        }
        self.lost.extend(ids);
        let layouts = self.here.values().map(|here| here.layout.clone());
        let deaths: Vec<Death> =
            layouts.flat_map(|layout| self.deaths_with_nodes(&layout, |id| ids.contains(&id))).collect();
        self.learn(&deaths);
        self.meetings_after_loss(ids);
    }

    /// The head watches this node.
    pub(super) fn watched(&mut self, token: Token) {
        if let Some(until) = self.watched.until.take() {
            self.timers.cancel(until);
        }
        self.watched.by.insert(token);
    }

    /// The head watches anew, or is lost.
    pub(super) fn watch_cancelled(&mut self, token: Token) {
        if self.watched.by.remove(&token) && self.watched.by.is_empty() {
            self.wait_for_watch(UNWATCHED);
        }
    }

    fn wait_for_watch(&mut self, limit: Duration) {
        let due = self.now.saturating_add(limit.min(self.settings.limits.ask));
        self.watched.until = Some(self.timers.at(due, Timer::Unwatched));
    }

    /// The head is gone.
    pub(super) fn unwatched(&mut self) {
        self.watched.until = None;
        if self.watched.by.is_empty() && self.head.is_none() {
            self.end(None);
        }
    }

    /// The domain ends: nobody waits any more, and all processes are killed. At its head it ends at all nodes.
    pub(super) fn end(&mut self, token: Option<Token>) {
        if matches!(self.life, Life::Ends { .. } | Life::Ended) {
            // It is answered with the others that wait for the end.
            return;
        }
        let leads = self.head.is_some() && token.is_none();
        let others = self.others();
        self.life = Life::Ends { elsewhere: leads && !others.is_empty() };
        self.refuse_all();
        self.report_all(|held| matches!(held, Held::End | Held::Kill));
        self.drop_meetings();
        self.timers.clear();
        self.subscribers.clear();
        let calls: Vec<_> = self.calls.keys().copied().collect();
        calls.into_iter().for_each(|call| self.cancel_call(call));
        let limits = self.settings.limits;
        let limit = limits.grace.saturating_add(limits.ask);
        if self.life == (Life::Ends { elsewhere: true }) {
            self.call(others, Arc::new(Order::End), true, limit, Errand::End);
        }
        let groups: Vec<GroupId> = self.here.keys().copied().collect();
        groups.into_iter().for_each(|group| self.kill_here(group, None));
        self.timers.at(self.now.saturating_add(limit), Timer::GiveUp);
        self.end_if_empty();
    }

    pub(super) fn ended_elsewhere(&mut self) {
        self.life = Life::Ends { elsewhere: false };
        self.end_if_empty();
    }

    /// Whether nothing of the domain is left here; then it has ended.
    pub(super) fn end_if_empty(&mut self) {
        if self.life == (Life::Ends { elsewhere: false }) && self.here.values().all(|here| here.emptied) {
            self.has_ended();
        }
    }

    /// What is left goes when the driver ends.
    pub(super) fn give_up(&mut self) {
        if matches!(self.life, Life::Ends { .. }) {
            self.has_ended();
        }
    }

    fn has_ended(&mut self) {
        self.life = Life::Ended;
        let calls: Vec<_> = self.calls.keys().copied().collect();
        calls.into_iter().for_each(|call| self.cancel_call(call));
        self.report_all(|_| false);
        // What others have asked for meanwhile.
        self.drop_meetings();
        self.timers.clear();
        self.outputs.push_back(Output::End);
    }
}
