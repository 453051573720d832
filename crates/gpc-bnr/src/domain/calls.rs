//! Calls to other nodes, orders that are repeated until they have arrived, and due timers.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::life::Life;
use super::outgoing::{CallPurpose, Continuation, Delivery};
use super::timers::{PAUSE, Timer};
use super::{CallNumber, Domain, Output};
use crate::fault::{Fault, FaultKind};
use crate::order::{Order, Report};

/// Time limit of a call that passes on deaths: much longer than a node that runs takes.
const DEATHS_LIMIT: Duration = Duration::from_secs(2);

impl Domain {
    /// Starts a call to nodes other than this one.
    pub(super) fn call(
        &mut self,
        ids: Vec<Id>,
        order: Arc<Order>,
        partial: bool,
        limit: Duration,
        purpose: CallPurpose,
    ) -> CallNumber {
        let call = self.outgoing.add(purpose);
        self.outputs.push_back(Output::Call { call, ids, order, partial, limit });
        call
    }

    pub(super) fn cancel_call(&mut self, call: CallNumber) {
        if self.outgoing.remove(call).is_some() {
            self.outputs.push_back(Output::Cancel(call));
        }
    }

    /// Delivers an order to nodes; repeats it for each node until the node has taken it or is lost.
    pub(super) fn deliver(
        &mut self,
        ids: Vec<Id>,
        order: Order,
        continuation: Continuation,
    ) -> Option<CallNumber> {
        let limit = match order {
            Order::Kill(_) => self.settings.limits.ask.saturating_add(self.settings.limits.grace),
            // A node that is slow to answer delays the next deaths for all, and gets these again.
            Order::Died(_) => self.settings.limits.ask.min(DEATHS_LIMIT),
            _ => self.settings.limits.ask,
        };
        self.deliver_again(ids, Delivery { order: Arc::new(order), limit, continuation })
    }

    fn deliver_again(&mut self, mut ids: Vec<Id>, delivery: Delivery) -> Option<CallNumber> {
        if !matches!(self.life, Life::Begins | Life::Runs) {
            // The domain ends, so the order is no longer needed.
            return None;
        }
        ids.retain(|id| *id != self.me() && !self.lost.contains(id));
        if ids.is_empty() {
            self.continue_with(delivery.continuation);
            return None;
        }
        let (order, limit) = (delivery.order.clone(), delivery.limit);
        Some(self.call(ids, order, true, limit, CallPurpose::Deliver(delivery)))
    }

    fn continue_with(&mut self, continuation: Continuation) {
        match continuation {
            Continuation::Nothing => {}
            Continuation::Killed(group) => self.part_killed(group),
            Continuation::Destroyed(name) => self.database_destroyed(&name),
            Continuation::Forget(group) => self.forget_now(group),
            Continuation::Announced(groups) => self.derived_known(&groups),
        }
    }

    /// A call of this node has ended.
    pub(super) fn called(&mut self, call: CallNumber, reports: Vec<(Id, Result<Report, Fault>)>) {
        // A cancelled call has no entry.
        let Some(purpose) = self.outgoing.remove(call) else { return };
        match purpose {
            CallPurpose::Begin => self.begun(&reports),
            CallPurpose::Watch => self.watch_ended(&reports),
            CallPurpose::Probe => self.probed(&reports),
            CallPurpose::Deliver(delivery) => {
                self.learn_of_killed(&reports);
                let failed: Vec<Id> =
                    reports.iter().filter(|(_, report)| report.is_err()).map(|(id, _)| *id).collect();
                let waiting: Vec<Id> = failed.into_iter().filter(|id| !self.lost.contains(id)).collect();
                self.deaths_delivered(call);
                if waiting.is_empty() {
                    return self.continue_with(delivery.continuation);
                }
                self.timers.at(self.now.saturating_add(PAUSE), Timer::Retry(waiting, delivery));
            }
            CallPurpose::Ask(requester) => {
                let result = answer_of_head(reports);
                self.settle(requester, result);
            }
            CallPurpose::Find(requester, key) => self.found(requester, &key, reports),
            CallPurpose::List(requester, pairs) => self.listed(requester, pairs, reports),
            CallPurpose::Collect(meeting) => self.collected(&meeting, reports),
            CallPurpose::Missing(meeting) => self.missing_known(&meeting, reports),
            CallPurpose::Start(group) => self.parts_elsewhere(group, reports),
            CallPurpose::End => self.ended_elsewhere(),
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
                Timer::Retry(ids, delivery) => drop(self.deliver_again(ids, delivery)),
                Timer::Failed { root, meeting, fault, until } => {
                    self.failed_elsewhere(root, &meeting, fault, until);
                }
                Timer::Fetch { number, until } => self.ask_server(number, until),
                Timer::Name(name, number) => self.not_deposited_in_time(name, number),
                Timer::Watch => self.watch_others(),
                Timer::Unwatched => self.unwatched(),
                Timer::Unlinked(member) => self.unlinked(member),
                Timer::GiveUp => self.give_up(),
            }
        }
    }
}

/// The head's answer.
fn answer_of_head(reports: Vec<(Id, Result<Report, Fault>)>) -> Result<crate::request::Answer, Fault> {
    match reports.into_iter().next() {
        Some((_, Ok(Report::Answer(answer)))) => answer,
        Some((_, Err(fault))) => Err(fault),
        _ => Err(Fault::new(
            FaultKind::System,
            "the head of the domain answers something else than it was asked",
        )),
    }
}
