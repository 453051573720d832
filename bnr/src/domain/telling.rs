//! Calls to other nodes, what each is for, and what waits for the time.

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

/// How long after a node was not reached it is tried again, until the head takes it for lost.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// Most orders that wait to be tried again. A node that is not reached is lost within seconds; if not, the oldest are given up.
const RETRIES_MAX: usize = 1 << 14;

/// What a call is for.
#[derive(Debug)]
pub(super) enum Errand {
    /// The domain begins.
    Begin,
    /// The head watches the others.
    Watch,
    /// The head looks who answers.
    Probe,
    /// Others are told something, until each has taken it or is lost.
    Tell(Telling),
    /// The head is asked.
    Ask(Asker),
    /// Others are asked for a value.
    Find(Asker, Vec<u8>),
    /// Others are asked for all that they have of a database; this is what is here.
    List(Asker, BTreeMap<Vec<u8>, Vec<u8>>),
    /// A coordinator waits for the members of a meeting.
    Collect(Meeting),
    /// A coordinator asks who has not come to a meeting whose time limit has passed.
    Missing(Meeting),
    /// The head has a group checked, or started.
    Start(GroupId),
    /// The head ends the domain.
    End,
}

/// What others are told.
#[derive(Clone, Debug)]
pub(super) struct Telling {
    order: Arc<Order>,
    limit: Duration,
    then: Then,
}

/// What follows when all who are there have taken it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Then {
    Nothing,
    /// All processes of the group at other nodes are killed.
    Killed(GroupId),
    /// The database is gone.
    Destroyed(String),
    /// The nodes of a merged group know it.
    Merged(GroupId),
    /// All know the deaths of a group that is gone.
    Forget(GroupId),
}

/// What is done when its time has come.
#[derive(Debug)]
pub(super) enum Timer {
    /// A member has waited for a meeting as long as it wanted to.
    Limit(Meeting, Member),
    /// A coordinator collects again.
    Collect(Meeting),
    /// Nodes that were not reached are tried again.
    Retry(Vec<Id>, Telling),
    /// The head watches again.
    Watch,
    /// The head has not watched this node for too long.
    Unwatched,
    /// A process has had time to end since its link has.
    Unlinked(Member),
    /// What is left after the domain's end has not gone.
    GiveUp,
}

/// When a timer is due, and which of those it is.
pub(super) type TimerKey = (Duration, u64);

/// All timers, in the order of their times.
#[derive(Default, Debug)]
pub(super) struct Timers {
    next: u64,
    due: BTreeMap<TimerKey, Timer>,
    retries: usize,
}

impl Timers {
    pub(super) fn at(&mut self, due: Duration, timer: Timer) -> TimerKey {
        if matches!(timer, Timer::Retry(..)) {
            self.retries += 1;
            if self.retries > RETRIES_MAX {
                self.give_up_oldest();
            }
        }
        let key = (due, self.next);
        self.next += 1;
        self.due.insert(key, timer);
        key
    }

    fn give_up_oldest(&mut self) {
        let oldest =
            self.due.iter().find(|(_, timer)| matches!(timer, Timer::Retry(..))).map(|(key, _)| *key);
        if let Some(oldest) = oldest {
            self.cancel(oldest);
        }
    }

    pub(super) fn cancel(&mut self, key: TimerKey) {
        if let Some(Timer::Retry(..)) = self.due.remove(&key) {
            self.retries -= 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.due.clear();
        self.retries = 0;
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due.first_key_value().map(|((due, _), _)| *due)
    }

    fn pop(&mut self, now: Duration) -> Option<Timer> {
        let (due, _) = *self.due.first_key_value()?.0;
        let timer = (due <= now).then(|| self.due.pop_first())??.1;
        if let Timer::Retry(..) = timer {
            self.retries -= 1;
        }
        Some(timer)
    }
}

impl Domain {
    /// Makes a call to nodes, this one not among them.
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

    /// Tells nodes something that each must know, as long as it is not lost.
    pub(super) fn tell(&mut self, ids: Vec<Id>, order: Order, then: Then) -> Option<CallNumber> {
        let limit = match order {
            Order::Kill(_) => self.settings.limits.ask.saturating_add(self.settings.limits.grace),
            _ => self.settings.limits.ask,
        };
        self.tell_again(ids, Telling { order: Arc::new(order), limit, then })
    }

    fn tell_again(&mut self, mut ids: Vec<Id>, telling: Telling) -> Option<CallNumber> {
        if !matches!(self.life, Life::Begins | Life::Runs) {
            // Nobody needs to know any more.
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

    /// A call has ended.
    pub(super) fn called(&mut self, call: CallNumber, reports: Vec<(Id, Result<Report, Fault>)>) {
        // One that was cancelled is not there any more.
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

    /// Whoever has killed processes says how they have ended: whoever asks for their status next is told.
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

    /// Does what is due. Each timer fires once, and what it starts is due later.
    pub(super) fn fire_timers(&mut self) {
        while let Some(timer) = self.timers.pop(self.now) {
            match timer {
                Timer::Limit(meeting, member) => self.limit_passed(&meeting, member),
                Timer::Collect(meeting) => self.coordinate(&meeting, None),
                Timer::Retry(ids, telling) => drop(self.tell_again(ids, telling)),
                Timer::Watch => self.watch_others(),
                Timer::Unwatched => self.unwatched(),
                Timer::Unlinked(member) => self.unlinked(member),
                Timer::GiveUp => self.give_up(),
            }
        }
    }
}

/// What the head has answered.
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
