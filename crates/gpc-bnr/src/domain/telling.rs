//! Calls to other nodes, orders that are repeated until they have arrived, and due timers.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::life::Life;
use super::outgoing::{Errand, Telling, Then};
use super::timers::{PAUSE, Timer};
use super::{CallNumber, Domain, Output};
use crate::fault::{Fault, FaultKind};
use crate::order::{Order, Report};

impl Domain {
    /// Starts a call to nodes other than this one.
    pub(super) fn call(
        &mut self,
        ids: Vec<Id>,
        order: Arc<Order>,
        partial: bool,
        limit: Duration,
        errand: Errand,
    ) -> CallNumber {
        let call = self.outgoing.add(errand);
        self.outputs.push_back(Output::Call { call, ids, order, partial, limit });
        call
    }

    pub(super) fn cancel_call(&mut self, call: CallNumber) {
        if self.outgoing.remove(call).is_some() {
            self.outputs.push_back(Output::Cancel(call));
        }
    }

    /// Delivers an order to nodes; repeats it for each node until the node has taken it or is lost.
    pub(super) fn tell(&mut self, ids: Vec<Id>, order: Order, then: Then) -> Option<CallNumber> {
        let limit = match order {
            Order::Kill(_) => self.settings.limits.ask.saturating_add(self.settings.limits.grace),
            _ => self.settings.limits.ask,
        };
        self.tell_again(ids, Telling { order: Arc::new(order), limit, then })
    }

    fn tell_again(&mut self, mut ids: Vec<Id>, telling: Telling) -> Option<CallNumber> {
        if !matches!(self.life, Life::Begins | Life::Runs) {
            // The domain ends, so the order is no longer needed.
            return None;
        }
        ids.retain(|id| *id != self.me() && !self.lost.contains(id));
        if ids.is_empty() {
            self.told(telling.then);
            return None;
        }
        let (order, limit) = (telling.order.clone(), telling.limit);
        Some(self.call(ids, order, true, limit, Errand::Tell(telling)))
    }

    fn told(&mut self, then: Then) {
        match then {
            Then::Nothing => {}
            Then::Killed(group) => self.part_killed(group),
            Then::Destroyed(name) => self.database_destroyed(&name),
            Then::Forget(group) => self.forget_now(group),
            Then::Merged(group) => self.merged_known(group),
        }
    }

    /// A call of this node has ended.
    pub(super) fn called(&mut self, call: CallNumber, reports: Vec<(Id, Result<Report, Fault>)>) {
        // A cancelled call has no entry.
        let Some(errand) = self.outgoing.remove(call) else { return };
        match errand {
            Errand::Begin => self.begun(&reports),
            Errand::Watch => self.watch_ended(&reports),
            Errand::Probe => self.probed(&reports),
            Errand::Tell(telling) => {
                self.learn_of_killed(&reports);
                let failed: Vec<Id> =
                    reports.iter().filter(|(_, report)| report.is_err()).map(|(id, _)| *id).collect();
                let waiting: Vec<Id> = failed.into_iter().filter(|id| !self.lost.contains(id)).collect();
                self.died_told(call);
                if waiting.is_empty() {
                    return self.told(telling.then);
                }
                self.timers.at(self.now.saturating_add(PAUSE), Timer::Retry(waiting, telling));
            }
            Errand::Ask(asker) => {
                let result = asked(reports);
                self.settle(asker, result);
            }
            Errand::Find(asker, key) => self.found(asker, &key, reports),
            Errand::List(asker, here) => self.listed(asker, here, reports),
            Errand::Collect(meeting) => self.collected(&meeting, reports),
            Errand::Missing(meeting) => self.missing_known(&meeting, reports),
            Errand::Start(group) => self.parts_elsewhere(group, reports),
            Errand::End => self.ended_elsewhere(),
        }
    }

    /// Learns deaths from the reports of a kill, so that the next status request includes them.
    fn learn_of_killed(&mut self, reports: &[(Id, Result<Report, Fault>)]) {
        let mut deaths = Vec::new();
        for (_, report) in reports {
            if let Ok(Report::Groups(groups)) = report {
                let members = groups.iter().flat_map(|group| &group.members);
                deaths.extend(members.filter_map(|member| member.death));
            }
        }
        self.learn(&deaths);
    }

    /// Runs the due timers. Terminates: each fires once, and a timer set meanwhile is due later.
    pub(super) fn fire_timers(&mut self) {
        while let Some(timer) = self.timers.pop(self.now) {
            match timer {
                Timer::Limit(meeting, member) => self.limit_passed(&meeting, member),
                Timer::Collect(meeting) => self.coordinate(&meeting, None),
                Timer::Retry(ids, telling) => drop(self.tell_again(ids, telling)),
                Timer::Failed { root, meeting, fault, until } => {
                    self.failed_elsewhere(root, &meeting, fault, until);
                }
                Timer::Watch => self.watch_others(),
                Timer::Unwatched => self.unwatched(),
                Timer::Unlinked(member) => self.unlinked(member),
                Timer::GiveUp => self.give_up(),
            }
        }
    }
}

/// The head's answer.
fn asked(reports: Vec<(Id, Result<Report, Fault>)>) -> Result<crate::request::Answer, Fault> {
    match reports.into_iter().next() {
        Some((_, Ok(Report::Answer(answer)))) => answer,
        Some((_, Err(fault))) => Err(fault),
        _ => Err(Fault::new(
            FaultKind::System,
            "the head of the domain answers something else than it was asked",
        )),
    }
}
