//! Collective requests at their coordinator: it collects the members, carries out the purpose, and releases them all.
//!
//! The coordinator tracks nodes by identity. Each node reports that all its members have arrived; the request is
//! complete when every node of the set has reported. The coordinator alone decides on success or failure, so all living
//! members get the same outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::Domain;
use super::collective::{Collection, mismatch};
use super::faults::no_group;
use super::outgoing::{CallPurpose, Continuation};
use super::pending::Requester;
use super::sets::purpose_in;
use super::timers::{PAUSE, Timer};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::names::{GroupId, Member, Set};
use crate::order::{Brought, Meeting, Order, Purpose, Report};
use crate::request::{Answer, Client, Request};

/// Time limit of the collecting call: as long as any job. Each member's own limit ends it earlier.
const COLLECT_LIMIT: Duration = Duration::from_secs(366 * 24 * 3600);

impl Domain {
    /// Takes the next possible step of a request that this node may coordinate. `purpose` is that of the members
    /// elsewhere.
    pub(super) fn coordinate(&mut self, meeting: &Meeting, purpose: Option<&Purpose>) {
        match self.collective.epochs.get(meeting).and_then(|epochs| epochs.finished(meeting.epoch)) {
            None => {}
            // A member arrives late at a failed request.
            Some(Err(fault)) => return self.release(meeting, &[], Err(fault)),
            Some(Ok(())) => return,
        }
        let here = self.collective.meetings.get(meeting).filter(|gathering| !gathering.entered.is_empty());
        let here = here.map(|gathering| gathering.purpose.clone());
        let begun = self.collective.collections.get(meeting).map(|collection| collection.purpose.clone());
        let Some(wanted) = begun.or_else(|| here.clone()).or_else(|| purpose.cloned()) else { return };
        if self.coordinator(&meeting.set, &wanted) != Some(self.me()) {
            return;
        }
        for other in [here.as_ref(), purpose].into_iter().flatten() {
            if *other != wanted {
                let member = self.a_member(meeting);
                return self.fail_meeting(meeting, mismatch(member, other, &wanted));
            }
        }
        if let Err(fault) = self.begin_to_collect(meeting, &wanted) {
            return self.fail_meeting(meeting, fault);
        }
        self.complete(meeting);
    }

    fn a_member(&self, meeting: &Meeting) -> Member {
        let entered =
            self.collective.meetings.get(meeting).and_then(|gathering| gathering.entered.keys().next());
        entered.copied().unwrap_or_else(|| first_of(&meeting.set))
    }

    /// # Errors
    /// The request cannot succeed.
    fn begin_to_collect(&mut self, meeting: &Meeting, purpose: &Purpose) -> Result<(), Fault> {
        if self.collective.collections.get(meeting).is_some_and(Collection::is_decided) {
            return Ok(());
        }
        let begun = self.collective.collections.get(meeting);
        if begun.is_some_and(|begun| begun.call.is_some() || begun.replies.is_some()) {
            return Ok(());
        }
        let nodes = self.nodes_of(&meeting.set, purpose)?;
        if let Some((_, fault)) = self.broken(&meeting.set, purpose) {
            return Err(fault);
        }
        let known = self.is_known_there(&meeting.set, purpose);
        let me = self.me();
        let Some(collection) = self.collection_for(meeting, purpose) else { return Ok(()) };
        // A group may have fewer nodes than when the first member arrived.
        collection.replies = nodes.iter().all(|id| *id == me).then(BTreeMap::new);
        collection.nodes = nodes;
        let others: Vec<Id> = collection.nodes.iter().copied().filter(|id| *id != me).collect();
        if collection.call.is_some() || collection.replies.is_some() || !known {
            return Ok(());
        }
        let order = Arc::new(Order::Collect { meeting: meeting.clone(), purpose: purpose.clone() });
        let call = self.call(others, order, false, COLLECT_LIMIT, CallPurpose::Collect(meeting.clone()));
        if let Some(collection) = self.collective.collections.get_mut(meeting) {
            collection.call = Some(call);
        }
        Ok(())
    }

    /// The state of a request, created if needed. `None` if its groups do not exist.
    pub(super) fn collection_for(&mut self, meeting: &Meeting, purpose: &Purpose) -> Option<&mut Collection> {
        let nodes = self.nodes_of(&meeting.set, purpose).ok()?;
        let alone = nodes.iter().all(|id| *id == self.settings.me);
        Some(self.collective.collections.entry(meeting.clone()).or_insert_with(|| Collection {
            purpose: purpose.clone(),
            nodes,
            call: None,
            replies: alone.then(BTreeMap::new),
            acting: None,
            choices: Vec::new(),
            late: None,
        }))
    }

    /// The collecting call has ended: all nodes have reported, or it has failed.
    pub(super) fn collected(&mut self, meeting: &Meeting, reports: Vec<(Id, Result<Report, Fault>)>) {
        let Some(collection) = self.collective.collections.get_mut(meeting) else { return };
        collection.call = None;
        let mut replies = BTreeMap::new();
        for (id, report) in reports {
            if let Ok(Report::Entries(brought, choices)) = report {
                replies.insert(id, (brought, choices));
            }
        }
        let me = self.settings.me;
        if collection.nodes.iter().all(|id| *id == me || replies.contains_key(id)) {
            collection.replies = Some(replies);
            return self.complete(meeting);
        }
        // A time limit has passed, or a node was not reached. If the node is lost, the head reports it, and the deaths
        // of its members end the request.
        self.timers.at(self.now.saturating_add(PAUSE), Timer::Collect(meeting.clone()));
    }

    /// If all members have arrived, carries out the purpose.
    fn complete(&mut self, meeting: &Meeting) {
        let Some(collection) = self.collective.collections.get(meeting) else { return };
        if collection.is_decided() {
            return;
        }
        let Some(replies) = &collection.replies else { return };
        if collection.nodes.contains(&self.settings.me) && !self.is_complete_here(meeting)
            || !self.is_known_there(&meeting.set, &collection.purpose)
        {
            return;
        }
        let (mut all, mut all_choices) = (Brought::default(), Vec::new());
        for id in &collection.nodes {
            let (Brought { entries, after, data }, choices) = match replies.get(id) {
                Some(theirs) => theirs.clone(),
                None => self.brought_here(meeting),
            };
            all.entries.extend(entries);
            all.after.extend(after);
            all.data.extend(data);
            all_choices.extend(choices);
        }
        let limits = &self.settings.limits;
        let room = self.databases.has_room(&all.entries, limits).and_then(|()| check_data(&all.data, limits));
        if let Err(fault) = room {
            return self.fail_meeting(meeting, fault);
        }
        let purpose = collection.purpose.clone();
        if let Some(collection) = self.collective.collections.get_mut(meeting) {
            collection.acting = Some(all);
            collection.choices = all_choices;
        }
        self.act(meeting, purpose);
    }

    fn act(&mut self, meeting: &Meeting, purpose: Purpose) {
        let client = Client::Process(first_of(&meeting.set));
        let over = meeting.set.clone();
        let request = match purpose {
            Purpose::Fence => return self.acted(meeting, Ok(Answer::Done)),
            Purpose::Open => Request::Open { over, limit: None },
            Purpose::Close(group) => Request::Close { over, group, limit: None },
            // The head coordinates these.
            Purpose::Merge(first, second) => {
                let formed = self.merge_groups(first, second);
                return self.acted(meeting, formed);
            }
            Purpose::Split => {
                let formed = self.split_group(meeting);
                return self.acted(meeting, formed);
            }
        };
        self.ask_head(Requester::Meeting(meeting.clone()), client, request);
    }

    /// The purpose has been carried out or refused.
    pub(super) fn acted(&mut self, meeting: &Meeting, result: Result<Answer, Fault>) {
        let Some(collection) = self.collective.collections.get_mut(meeting) else { return };
        let brought = collection.acting.take().unwrap_or_default();
        self.finish(meeting, Vec::new(), result.map(|answer| (brought, answer)));
    }

    /// Fails a request at all its members.
    pub(super) fn fail_meeting(&mut self, meeting: &Meeting, fault: Fault) {
        if self.collective.collections.get(meeting).is_some_and(Collection::is_decided) {
            return;
        }
        if fault.kind == FaultKind::TimedOut && self.query_missing(meeting, &fault) {
            return;
        }
        self.finish_meeting(meeting, fault);
    }

    /// Fails a request now: all members get the same fault, including those that arrive later.
    pub(super) fn finish_meeting(&mut self, meeting: &Meeting, fault: Fault) {
        let purpose = self.purpose_of(meeting);
        let (deaths, fault) = match self.broken(&meeting.set, &purpose) {
            // This node's list of deaths is used, in its order: a member elsewhere may have learned of a consequence
            // first.
            Some((deaths, own)) if !fault.deaths.is_empty() => (deaths, own),
            Some((deaths, _)) => (deaths, fault),
            None => (Vec::new(), fault),
        };
        self.finish(meeting, deaths, Err(fault));
    }

    pub(super) fn purpose_of(&self, meeting: &Meeting) -> Purpose {
        let begun = self.collective.collections.get(meeting).map(|collection| &collection.purpose);
        let here = || self.collective.meetings.get(meeting).map(|gathering| &gathering.purpose);
        begun.or_else(here).cloned().or_else(|| purpose_in(&meeting.tag)).unwrap_or(Purpose::Fence)
    }

    fn finish(&mut self, meeting: &Meeting, deaths: Vec<Death>, outcome: Result<(Brought, Answer), Fault>) {
        let purpose = self.purpose_of(meeting);
        let nodes = match self.collective.collections.remove(meeting) {
            Some(collection) => {
                if let Some(call) = collection.call {
                    self.cancel_call(call);
                }
                collection.nodes
            }
            None => self.nodes_of(&meeting.set, &purpose).unwrap_or_default(),
        };
        if let Some(epochs) = self.collective.epochs.of_meeting(meeting) {
            epochs.finish(meeting.epoch, outcome.as_ref().err());
        }
        let announced = match &outcome {
            Ok((_, Answer::Rosters(groups))) => {
                Continuation::Announced(groups.iter().map(|roster| roster.group).collect())
            }
            _ => Continuation::Nothing,
        };
        let order = Order::Release { meeting: meeting.clone(), deaths, outcome: outcome.clone() };
        self.deliver(nodes, order, announced);
        self.release(meeting, &[], outcome);
    }

    /// A member has arrived at another node.
    pub(super) fn entered_elsewhere(&mut self, root: Id, meeting: &Meeting, purpose: Purpose) {
        if self.repeat_outcome(root, meeting) {
            return;
        }
        if self.nodes_of(&meeting.set, &purpose).is_err()
            && !self.collective.collections.contains_key(meeting)
        {
            // The set does not exist, so no other member can have arrived.
            let fault = self.nodes_of(&meeting.set, &purpose).err();
            return self.refuse_elsewhere(root, meeting, Vec::new(), fault);
        }
        self.coordinate(meeting, Some(&purpose));
    }

    fn refuse_elsewhere(&mut self, root: Id, meeting: &Meeting, deaths: Vec<Death>, fault: Option<Fault>) {
        let Some(fault) = fault else { return };
        let order = Order::Release { meeting: meeting.clone(), deaths, outcome: Err(fault) };
        self.deliver(vec![root], order, Continuation::Nothing);
    }

    /// A node reports that a request fails at one of its members. If its group has not started here, the report of
    /// a passed time limit waits for that start up to `until`.
    pub(super) fn failed_elsewhere(&mut self, root: Id, meeting: &Meeting, fault: Fault, until: Duration) {
        if self.repeat_outcome(root, meeting) {
            return;
        }
        // The node may know deaths that are new here.
        let deaths = fault.deaths.clone();
        self.learn(&deaths);
        if self.repeat_outcome(root, meeting) {
            return;
        }
        if self.collective.collections.contains_key(meeting)
            || self.nodes_of(&meeting.set, &self.purpose_of(meeting)).is_ok()
        {
            return self.fail_meeting(meeting, fault);
        }
        // A group that has been freed has no members, so no failure is retained for it.
        let forgotten = self.local.forgotten.contains(first_of(&meeting.set).group);
        if !forgotten && fault.kind == FaultKind::TimedOut && self.now < until {
            // The time limit was shorter than the start of the group here. The missing members are known after the
            // start.
            let due = self.now.saturating_add(PAUSE).min(until);
            self.timers.at(due, Timer::Failed { root, meeting: meeting.clone(), fault, until });
            return;
        }
        // The group is still unknown here: retains the fault for its members here, and for nodes that report later.
        if !forgotten {
            self.finish(meeting, Vec::new(), Err(fault.clone()));
        }
        self.refuse_elsewhere(root, meeting, Vec::new(), Some(fault));
    }

    /// A group has started here: sends the failures that were reported before the start to all nodes of their sets.
    pub(super) fn repeat_failures(&mut self, group: GroupId) {
        for (meeting, fault) in self.collective.epochs.failures_of(group) {
            let Ok(nodes) = self.nodes_of(&meeting.set, &self.purpose_of(&meeting)) else { continue };
            let order = Order::Release { meeting, deaths: fault.deaths.clone(), outcome: Err(fault) };
            self.deliver(nodes, order, Continuation::Nothing);
        }
    }

    /// If a request has failed, sends the failure again to the node that missed it. Returns whether the request is
    /// finished.
    fn repeat_outcome(&mut self, root: Id, meeting: &Meeting) -> bool {
        match self.collective.epochs.get(meeting).and_then(|epochs| epochs.finished(meeting.epoch)) {
            None => false,
            Some(Ok(())) => true,
            Some(Err(fault)) => {
                self.refuse_elsewhere(root, meeting, fault.deaths.clone(), Some(fault));
                true
            }
        }
    }

    /// A group is removed: fails the requests of its members.
    pub(super) fn fail_meetings_of(&mut self, group: GroupId) {
        let of_group = |meeting: &Meeting, purpose: &Purpose| match purpose {
            Purpose::Merge(first, second) => *first == group || *second == group,
            _ => meeting.set == Set::Group(group),
        };
        let waiting =
            self.collective.collections.iter().filter(|(meeting, of)| of_group(meeting, &of.purpose));
        let waiting: Vec<Meeting> = waiting.map(|(meeting, _)| meeting.clone()).collect();
        waiting.iter().for_each(|meeting| self.fail_meeting(meeting, no_group(group)));
    }

    /// New deaths are known: fails the requests that wait for the dead.
    pub(super) fn collections_after_deaths(&mut self) {
        let meetings: BTreeSet<Meeting> = self.collective.collections.keys().cloned().collect();
        for meeting in meetings {
            let Some(collection) = self.collective.collections.get(&meeting) else { continue };
            if let Some((_, fault)) = self.broken(&meeting.set, &collection.purpose) {
                self.fail_meeting(&meeting, fault);
            }
        }
    }
}

/// # Errors
/// The members of a fence bring more data than a database may have.
fn check_data(data: &[u8], limits: &Limits) -> Result<(), Fault> {
    if data.len() <= limits.database {
        return Ok(());
    }
    let message =
        format!("{} bytes of data in a fence of all members; at most {}", data.len(), limits.database);
    Err(Fault::new(FaultKind::TooLarge, message))
}

fn first_of(set: &Set) -> Member {
    match set {
        Set::Group(group) => Member { group: *group, rank: 0 },
        Set::Members(members) => members.first().copied().unwrap_or(Member { group: GroupId(0), rank: 0 }),
    }
}
