//! Calls to other nodes, the purpose of each call, and timers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::asking::Asker;
use super::watch::Life;
use super::{CallNumber, Domain, Output};
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member};
use crate::order::{Meeting, Order, Report};

/// Delay before an order is sent again to a node that was not reached. Repeats until the head declares the node lost.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// Most orders that wait for a retry, and reports that wait for the start of a group. An unreachable node is declared
/// lost, and a report is used, within seconds; beyond this bound the oldest are dropped.
const RETRIES_MAX: usize = 1 << 14;

/// The purpose of a call.
#[derive(Debug)]
pub(super) enum Errand {
    /// Begin the domain.
    Begin,
    /// The head's standing call, which detects lost nodes.
    Watch,
    /// The head checks which nodes answer.
    Probe,
    /// Deliver an order until each node has taken it or is lost.
    Tell(Telling),
    /// Send a request to the head.
    Ask(Asker),
    /// Request a value from the other nodes.
    Find(Asker, Vec<u8>),
    /// Request the other nodes' pairs of a database; the map has the local ones.
    List(Asker, BTreeMap<Vec<u8>, Vec<u8>>),
    /// A coordinator waits for the members of a collective request.
    Collect(Meeting),
    /// A coordinator asks for the members that are missing after the time limit.
    Missing(Meeting),
    /// The head has a group checked or started.
    Start(GroupId),
    /// The head ends the domain.
    End,
}

/// An order to deliver.
#[derive(Clone, Debug)]
pub(super) struct Telling {
    order: Arc<Order>,
    limit: Duration,
    then: Then,
}

/// What follows when all living nodes have taken the order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Then {
    Nothing,
    /// Record that the group's processes at other nodes have been killed.
    Killed(GroupId),
    /// Answer the removal of the database.
    Destroyed(String),
    /// Record that the nodes of a merged group know it.
    Merged(GroupId),
    /// Remove the group: all nodes know its deaths.
    Forget(GroupId),
}

/// The action of a timer.
#[derive(Debug)]
pub(super) enum Timer {
    /// The time limit of a member in a collective request.
    Limit(Meeting, Member),
    /// Collect again.
    Collect(Meeting),
    /// Send an order again to nodes that were not reached.
    Retry(Vec<Id>, Telling),
    /// Look again at the report of a failed request whose group had not started here.
    Failed { root: Id, meeting: Meeting, fault: Fault, until: Duration },
    /// Repeat the head's standing call.
    Watch,
    /// End the domain here: the head has not watched this node for too long.
    Unwatched,
    /// Check a process whose link has closed, after the time it had to end.
    Unlinked(Member),
    /// Give up the remaining work after the end of the domain.
    GiveUp,
}

/// Key of a timer: due time, then sequence number.
pub(super) type TimerKey = (Duration, u64);

/// All timers, by due time.
#[derive(Default, Debug)]
pub(super) struct Timers {
    next: u64,
    due: BTreeMap<TimerKey, Timer>,
    /// How many of them are bounded together.
    bounded: usize,
}

impl Timer {
    fn is_bounded(&self) -> bool {
        matches!(self, Timer::Retry(..) | Timer::Failed { .. })
    }
}

impl Timers {
    pub(super) fn at(&mut self, due: Duration, timer: Timer) -> TimerKey {
        if timer.is_bounded() {
            self.bounded += 1;
            if self.bounded > RETRIES_MAX {
                self.give_up_oldest();
            }
        }
        let key = (due, self.next);
        self.next += 1;
        self.due.insert(key, timer);
        key
    }

    fn give_up_oldest(&mut self) {
        let oldest = self.due.iter().find(|(_, timer)| timer.is_bounded()).map(|(key, _)| *key);
        if let Some(oldest) = oldest {
            self.cancel(oldest);
        }
    }

    pub(super) fn cancel(&mut self, key: TimerKey) {
        if self.due.remove(&key).is_some_and(|timer| timer.is_bounded()) {
            self.bounded -= 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.due.clear();
        self.bounded = 0;
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due.first_key_value().map(|((due, _), _)| *due)
    }

    fn pop(&mut self, now: Duration) -> Option<Timer> {
        let (due, _) = *self.due.first_key_value()?.0;
        let timer = (due <= now).then(|| self.due.pop_first())??.1;
        if timer.is_bounded() {
            self.bounded -= 1;
        }
        Some(timer)
    }
}

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
        let call = self.next_call;
        self.next_call += 1;
        self.calls.insert(call, errand);
        self.outputs.push_back(Output::Call { call, ids, order, partial, limit });
        call
    }

    pub(super) fn cancel_call(&mut self, call: CallNumber) {
        if self.calls.remove(&call).is_some() {
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
        let Some(errand) = self.calls.remove(&call) else { return };
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
