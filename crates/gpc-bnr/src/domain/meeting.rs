//! Collective requests (fence, open, close, merge, split) at the nodes of their members.
//!
//! The k-th requests of all members over a set and tag form one collective request, a [`Meeting`]. A node replies to
//! the coordinator's call when all its members have arrived. It answers its members when the coordinator releases them.
//!
//! Source: BNR, "Database synchronization", `BNR_Barrier`, `BNR_Open_group`, "creating groups".

use std::collections::BTreeSet;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::collective::{Gathering, Waiter, mismatch};
use super::database::check_length;
use super::outgoing::Continuation;
use super::sets::{SPLIT, is_within, merge_tag, purpose_in};
use super::timers::Timer;
use super::{Domain, Serial, Token};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::order::{Brought, Choice, Entry, Meeting, Order, Purpose, Report};
use crate::request::{Answer, Client};
use crate::roster::Roster;

/// Most bytes of data that one member brings to a fence. Open MPI's ranks commit some hundred bytes each, and a node
/// brings those of all its members at once.
const DATA_MAX: usize = 16 << 20;

impl Domain {
    /// Merges two groups; the caller is in the first. All members of both groups use the same set and tag, whichever
    /// group they belong to.
    pub(super) fn merge(
        &mut self,
        client: Client,
        serial: Serial,
        first: GroupId,
        second: GroupId,
        limit: Option<Duration>,
    ) {
        let member = match client {
            Client::Process(member) => member,
            Client::Tool(_) => return self.answer(client, serial, Err(no_member_asks())),
        };
        if !self.is_member(member, first) || self.is_member(member, second) {
            let message = format!(
                "{member} cannot merge {first} and {second}: the caller must be a member of {first}, and not of {second}"
            );
            return self.answer(client, serial, Err(Fault::new(FaultKind::NotMember, message)));
        }
        let (low, high) = (first.min(second), first.max(second));
        self.enter(client, serial, Set::Group(low), &merge_tag(low, high), Purpose::Merge(low, high), limit);
    }

    /// Splits a group that the caller belongs to.
    pub(super) fn split(
        &mut self,
        client: Client,
        serial: Serial,
        group: GroupId,
        (color, key): (Option<u32>, i32),
        limit: Option<Duration>,
    ) {
        match self.try_enter(client, serial, Set::Group(group), SPLIT, Purpose::Split, limit) {
            Ok(meeting) => {
                if let (Client::Process(member), Some(waiter)) = (client, self.waiter_mut(&meeting, client)) {
                    waiter.choice = Some(Choice { member, color, key });
                }
                self.advance(&meeting);
            }
            Err(fault) => self.answer(client, serial, Err(fault)),
        }
    }

    /// The state of a member that has entered.
    fn waiter_mut(&mut self, meeting: &Meeting, client: Client) -> Option<&mut Waiter> {
        let Client::Process(member) = client else { return None };
        self.collective.meetings.get_mut(meeting)?.entered.get_mut(&member)
    }

    /// A member enters its next collective request of a set and tag.
    pub(super) fn enter(
        &mut self,
        client: Client,
        serial: Serial,
        set: Set,
        tag: &[u8],
        purpose: Purpose,
        limit: Option<Duration>,
    ) {
        match self.try_enter(client, serial, set, tag, purpose, limit) {
            Ok(meeting) => self.advance(&meeting),
            Err(fault) => self.answer(client, serial, Err(fault)),
        }
    }

    /// As [`enter`](Self::enter), for a fence to which the member brings data.
    pub(super) fn exchange(
        &mut self,
        client: Client,
        serial: Serial,
        (set, tag): (Set, &[u8]),
        data: Vec<u8>,
        limit: Option<Duration>,
    ) {
        let length = data.len();
        let is_too_long = length > DATA_MAX;
        match self.try_enter(client, serial, set, tag, Purpose::Fence, limit) {
            Ok(meeting) => {
                if let Some(waiter) = self.waiter_mut(&meeting, client) {
                    waiter.data = Some(if is_too_long { Vec::new() } else { data });
                }
                if let Some(gathering) = self.collective.meetings.get_mut(&meeting) {
                    // Without time it fails, also if all others have arrived.
                    gathering.wrong |= is_too_long || limit == Some(Duration::ZERO);
                }
                if is_too_long {
                    // All members learn of it, or the others wait for this one.
                    let message =
                        format!("{length} bytes of data in a fence; a member brings at most {DATA_MAX}");
                    self.fail_from_here(&meeting, Fault::new(FaultKind::TooLarge, message));
                }
                self.advance(&meeting);
            }
            Err(fault) => self.answer(client, serial, Err(fault)),
        }
    }

    fn try_enter(
        &mut self,
        client: Client,
        serial: Serial,
        set: Set,
        tag: &[u8],
        purpose: Purpose,
        limit: Option<Duration>,
    ) -> Result<Meeting, Fault> {
        let Client::Process(member) = client else { return Err(no_member_asks()) };
        check_length("the tag", tag, self.settings.limits.key)?;
        let set = self.canonical(member, set);
        self.check_set(member, &set, &purpose)?;
        let Some(epochs) = self.collective.epochs.of(&set, tag) else {
            let message =
                "too many sets and tags have been used on this node; free groups that are needed no longer";
            return Err(Fault::new(FaultKind::TooLarge, message));
        };
        let epoch = epochs.count(member);
        let failed = epochs.failed.get(&epoch).cloned();
        let meeting = Meeting { set, tag: tag.to_vec(), epoch };
        if let Some(fault) = failed {
            self.drop_failure(&meeting, &purpose);
            return Err(fault);
        }
        let due = self.now.saturating_add(limit.unwrap_or(self.settings.limits.fence));
        let limit = self.timers.at(due, Timer::Limit(meeting.clone(), member));
        let waiter = Waiter { serial, mark: self.log_mark(member), limit, data: None, choice: None };
        let expected = self.members_here(&meeting.set, &purpose);
        let gathering = self
            .collective
            .meetings
            .entry(meeting.clone())
            .or_insert_with(|| Gathering::new(purpose.clone()));
        gathering.expected = expected;
        gathering.entered.insert(member, waiter);
        if gathering.purpose != purpose {
            let fault = mismatch(member, &purpose, &gathering.purpose);
            gathering.wrong = true;
            self.fail_from_here(&meeting, fault);
        } else if let Some((_, fault)) = self.broken(&meeting.set, &purpose) {
            // The coordinator chooses the fault, so that it is the same at all members.
            self.fail_from_here(&meeting, fault);
        }
        Ok(meeting)
    }

    fn log_mark(&self, member: Member) -> u64 {
        self.local.process(member).map_or(0, |process| process.log.mark())
    }

    /// The coordinator collects. The reply follows when all members here have arrived.
    pub(super) fn collect(&mut self, token: Token, meeting: Meeting, purpose: Purpose) {
        let gathering = self
            .collective
            .meetings
            .entry(meeting.clone())
            .or_insert_with(|| Gathering::new(purpose.clone()));
        let before = gathering.collect.replace(token);
        if gathering.entered.is_empty() {
            gathering.purpose = purpose.clone();
        }
        let different = gathering.purpose != purpose;
        if let Some(before) = before {
            // The coordinator repeats its call and ignores the reply to the earlier one.
            self.report(before, Report::Done);
        }
        if different {
            self.differs(&meeting, &purpose);
        }
        self.advance(&meeting);
    }

    /// The members here have another purpose than those elsewhere.
    pub(super) fn differs(&mut self, meeting: &Meeting, theirs: &Purpose) {
        let Some(gathering) = self.collective.meetings.get_mut(meeting) else { return };
        gathering.wrong = true;
        let Some(member) = gathering.entered.keys().next() else { return };
        let fault = mismatch(*member, &gathering.purpose, theirs);
        self.fail_from_here(meeting, fault);
    }

    pub(super) fn collect_cancelled(&mut self, meeting: &Meeting, token: Token) {
        let Some(gathering) = self.collective.meetings.get_mut(meeting) else { return };
        if gathering.collect == Some(token) {
            gathering.collect = None;
        }
        if gathering.collect.is_none() && gathering.entered.is_empty() {
            self.collective.meetings.remove(meeting);
        }
    }

    /// Takes the next possible step of a collective request.
    pub(super) fn advance(&mut self, meeting: &Meeting) {
        let Some(gathering) = self.collective.meetings.get(meeting) else { return };
        let purpose = gathering.purpose.clone();
        let expected = self.members_here(&meeting.set, &purpose);
        let broken = self.broken(&meeting.set, &purpose).is_some();
        let coordinator = self.coordinator(&meeting.set, &purpose);
        if coordinator == Some(self.me()) {
            if let Some(gathering) = self.collective.meetings.get_mut(meeting) {
                gathering.expected = expected;
            }
            return self.coordinate(meeting, None);
        }
        let Some(gathering) = self.collective.meetings.get_mut(meeting) else { return };
        gathering.expected = expected;
        // A member that arrived and died counts as absent; the coordinator learns of the death.
        if gathering.is_complete()
            && !broken
            && let Some(token) = gathering.collect.take()
        {
            let (brought, choices) = self.brought_here(meeting);
            return self.report(token, Report::Entries(brought, choices));
        }
        let Some(coordinator) = coordinator else { return };
        // The first member of a group is at the coordinator, which therefore knows of the request. The head may have no
        // member.
        let unknown = self.leader(&meeting.set, &purpose).is_none();
        let Some(gathering) = self.collective.meetings.get_mut(meeting) else { return };
        if unknown && !gathering.announced && !gathering.entered.is_empty() {
            gathering.announced = true;
            let order = Order::Enter { meeting: meeting.clone(), purpose };
            self.deliver(vec![coordinator], order, Continuation::Nothing);
        }
    }

    /// Puts of the members here that the set has not received, ordered by rank, then by put, and the choices of the
    /// members in a split.
    pub(super) fn brought_here(&self, meeting: &Meeting) -> (Brought, Vec<Choice>) {
        let (mut brought, mut choices) = (Brought::default(), Vec::new());
        let Some(gathering) = self.collective.meetings.get(meeting) else { return (brought, choices) };
        for (member, waiter) in &gathering.entered {
            if let Some(process) = self.local.process(*member) {
                brought.entries.extend(process.log.since(&meeting.set, waiter.mark).cloned());
                brought.after.extend(process.log.after(meeting).cloned());
            }
            brought.data.extend(waiter.data.iter().flatten());
            choices.extend(waiter.choice);
        }
        (brought, choices)
    }

    /// Whether all members here have arrived with the same purpose.
    pub(super) fn is_complete_here(&self, meeting: &Meeting) -> bool {
        self.collective.meetings.get(meeting).is_some_and(Gathering::is_complete)
    }

    /// A member here has found that the request fails: informs the coordinator, which releases all members.
    fn fail_from_here(&mut self, meeting: &Meeting, fault: Fault) {
        let Some(gathering) = self.collective.meetings.get_mut(meeting) else { return };
        if std::mem::replace(&mut gathering.failed, true) {
            return;
        }
        let purpose = gathering.purpose.clone();
        match self.coordinator(&meeting.set, &purpose) {
            Some(coordinator) if self.lost.contains(&coordinator) => self.fail_here(meeting, fault),
            Some(coordinator) if coordinator != self.me() => {
                self.deliver(
                    vec![coordinator],
                    Order::Fail { meeting: meeting.clone(), fault },
                    Continuation::Nothing,
                );
            }
            _ => self.fail_meeting(meeting, fault),
        }
    }

    /// The time limit of a member has passed.
    pub(super) fn limit_passed(&mut self, meeting: &Meeting, member: Member) {
        let Some(gathering) = self.collective.meetings.get(meeting) else { return };
        let what = match &gathering.purpose {
            Purpose::Fence => "the fence".into(),
            Purpose::Open => "opening a group".into(),
            Purpose::Close(group) => format!("closing {group}"),
            Purpose::Merge(first, second) => format!("merging {first} and {second}"),
            Purpose::Split => "splitting the group".into(),
        };
        let message = format!("{what} has not completed within the time limit of {member}");
        self.fail_from_here(meeting, Fault::new(FaultKind::TimedOut, message));
    }

    /// New deaths are known: fails the requests that they break.
    pub(super) fn meetings_after_deaths(&mut self) {
        self.collections_after_deaths();
        let broken: Vec<(Meeting, Fault)> = self
            .collective
            .meetings
            .iter()
            .filter(|(_, gathering)| !gathering.failed && !gathering.entered.is_empty())
            .filter_map(|(meeting, gathering)| {
                let (_, fault) = self.broken(&meeting.set, &gathering.purpose)?;
                Some((meeting.clone(), fault))
            })
            .collect();
        for (meeting, fault) in broken {
            // If all members here have arrived, the request may be complete as a whole; the coordinator decides.
            let Some(gathering) = self.collective.meetings.get(&meeting) else { continue };
            if self.coordinator(&meeting.set, &gathering.purpose) != Some(self.me()) {
                self.fail_from_here(&meeting, fault);
            }
        }
    }

    /// Fails a request here: its coordinator is lost, so the outcome is unknown.
    fn fail_here(&mut self, meeting: &Meeting, fault: Fault) {
        self.release(meeting, &[], Err(fault));
    }

    /// The coordinator has finished a request.
    pub(super) fn release(
        &mut self,
        meeting: &Meeting,
        deaths: &[Death],
        outcome: Result<(Brought, Answer), Fault>,
    ) {
        match outcome {
            // The request has already succeeded; its members are answered once the earlier requests are released.
            Err(_) if self.collective.early.contains_key(meeting) => drop(self.learn(deaths)),
            Ok((brought, answer)) if self.is_early(meeting, &brought.after) => {
                self.collective.early.insert(meeting.clone(), (brought, answer));
                self.learn(deaths);
            }
            Err(fault) => {
                self.release_now(meeting, deaths, Err(fault.clone()));
                self.fail_after(meeting, &fault);
            }
            outcome => self.release_now(meeting, deaths, outcome),
        }
        // Terminates: each iteration releases one.
        while let Some((meeting, outcome)) = self.next_in_turn() {
            self.release_now(&meeting, &[], Ok(outcome));
        }
    }

    /// Whether a member here still waits in an earlier request. That is one of the same set and tag, or one that
    /// distributes puts omitted by this one. An earlier one is finished elsewhere, or finishes with this one, so its
    /// release arrives.
    fn is_early(&self, meeting: &Meeting, after: &BTreeSet<Meeting>) -> bool {
        let waits = |gathering: &Gathering| !gathering.entered.is_empty();
        let first = Meeting { epoch: 0, ..meeting.clone() };
        self.collective.meetings.range(&first..meeting).any(|(_, gathering)| waits(gathering))
            || after.iter().any(|before| self.collective.meetings.get(before).is_some_and(waits))
    }

    /// A request has failed here, though it may have succeeded elsewhere. Requests that omit its puts would lack them,
    /// so they fail here as well.
    fn fail_after(&mut self, failed: &Meeting, fault: &Fault) {
        let mut failed = vec![failed.clone()];
        // Terminates: each added request is removed from `early`.
        while let Some(before) = failed.pop() {
            let counts_on_it = |(brought, _): &(Brought, Answer)| brought.after.contains(&before);
            let early = self.collective.early.iter().filter(|(_, outcome)| counts_on_it(outcome));
            let after: Vec<Meeting> = early.map(|(meeting, _)| meeting.clone()).collect();
            for meeting in after {
                self.collective.early.remove(&meeting);
                let message = format!("what it counts on failed here before: {}", fault.message);
                let fault = Fault { message, ..fault.clone() };
                self.release_now(&meeting, &[], Err(fault));
                failed.push(meeting);
            }
        }
    }

    fn next_in_turn(&mut self) -> Option<(Meeting, (Brought, Answer))> {
        let next = self
            .collective
            .early
            .iter()
            .find(|(meeting, (brought, _))| !self.is_early(meeting, &brought.after));
        let next = next.map(|(meeting, _)| meeting.clone())?;
        self.collective.early.remove_entry(&next)
    }

    fn release_now(
        &mut self,
        meeting: &Meeting,
        deaths: &[Death],
        outcome: Result<(Brought, Answer), Fault>,
    ) {
        let gathering = self.collective.meetings.remove(meeting);
        // Subscribers are notified before the request fails.
        self.learn(deaths);
        let mut purpose = purpose_in(&meeting.tag);
        if let Some(gathering) = gathering {
            if let Some(token) = gathering.collect {
                self.report(token, Report::Done);
            }
            purpose = Some(gathering.purpose.clone());
            let answer = match &outcome {
                Ok((_, answer)) => Ok(answer.clone()),
                Err(fault) => Err(fault.clone()),
            };
            let failed = answer.is_err();
            let mut data = Vec::new();
            if let Ok((brought, answer)) = outcome.clone() {
                data = brought.data;
                self.bring(meeting, &gathering, brought.entries, &answer);
            }
            for (member, waiter) in gathering.entered {
                self.timers.cancel(waiter.limit);
                let answer = match (&answer, waiter.data) {
                    (Ok(Answer::Done), Some(_)) => Ok(Answer::Value(data.clone())),
                    (Ok(Answer::Rosters(groups)), _) => Ok(own_group(groups, member)),
                    (answer, _) => answer.clone(),
                };
                self.answer(Client::Process(member), waiter.serial, answer);
            }
            if !failed {
                // New groups may be known here: retries what waits for them.
                return if matches!(answer, Ok(Answer::Rosters(_))) {
                    self.retry_waiting()
                };
            }
        }
        if let Err(fault) = outcome {
            self.keep_failure(meeting, purpose, fault);
        }
    }

    /// Stores the result of a request: its puts, and new groups.
    fn bring(&mut self, meeting: &Meeting, gathering: &Gathering, mut entries: Vec<Entry>, answer: &Answer) {
        for (member, waiter) in &gathering.entered {
            let rosters = &self.rosters;
            let Some(process) = self.local.process_mut(*member).filter(|process| !process.ended) else {
                continue;
            };
            let within = |set: &Set| is_within(rosters, set, member.group);
            process.log.brought(meeting, waiter.mark, member.group, within);
        }
        // A group may have been removed before the result came.
        entries.retain(|entry| !self.is_removed(&entry.database));
        self.databases.bring(entries);
        // The last process of a group may have ended before the result came.
        let groups: BTreeSet<GroupId> = gathering.entered.keys().map(|member| member.group).collect();
        groups.into_iter().for_each(|group| self.drop_database_if_over(group));
        if let Answer::Rosters(groups) = answer {
            let own = groups
                .iter()
                .filter(|roster| gathering.entered.keys().any(|member| roster.contains(*member)));
            own.for_each(|roster| self.know_derived(roster));
        }
    }

    /// Retains a failure for members here that have not arrived yet.
    fn keep_failure(&mut self, meeting: &Meeting, purpose: Option<Purpose>, fault: Fault) {
        let purpose = purpose.unwrap_or(Purpose::Fence);
        let living = self.living_here(&meeting.set, &purpose);
        let unknown = self.members_here(&meeting.set, &purpose).is_none();
        let Some(epochs) = self.collective.epochs.of_meeting(meeting) else { return };
        if unknown || living.iter().any(|member| !epochs.has_entered(*member, meeting.epoch)) {
            epochs.keep_failure(meeting.epoch, fault);
        }
    }

    /// Drops a failure that all members here know.
    fn drop_failure(&mut self, meeting: &Meeting, purpose: &Purpose) {
        let living = self.living_here(&meeting.set, purpose);
        let Some(epochs) = self.collective.epochs.of_meeting(meeting) else { return };
        if living.iter().all(|member| epochs.has_entered(*member, meeting.epoch)) {
            epochs.failed.remove(&meeting.epoch);
        }
    }

    /// New groups are known: retries the requests that wait for them.
    pub(super) fn retry_waiting(&mut self) {
        let waiting: Vec<Meeting> =
            self.collective.meetings.keys().chain(self.collective.collections.keys()).cloned().collect();
        for meeting in waiting {
            self.advance(&meeting);
            self.coordinate(&meeting, None);
        }
    }

    /// Fails the requests whose coordinators are lost.
    pub(super) fn meetings_after_loss(&mut self, lost: &[Id]) {
        let mut orphaned = Vec::new();
        for (meeting, gathering) in &self.collective.meetings {
            let coordinator = self.coordinator(&meeting.set, &gathering.purpose);
            if coordinator.is_some_and(|coordinator| lost.contains(&coordinator)) {
                orphaned.push((meeting.clone(), coordinator));
            }
        }
        for (meeting, coordinator) in orphaned {
            let message = "the node that coordinates the meeting was lost";
            let mut fault = Fault::new(FaultKind::NodeLost, message);
            fault.node = coordinator;
            self.fail_here(&meeting, fault);
        }
    }
}

/// The answer to a member of a split or merge: the new group that it belongs to.
fn own_group(groups: &[Roster], member: Member) -> Answer {
    let own = groups.iter().find(|roster| roster.contains(member));
    own.map_or(Answer::Done, |roster| Answer::Group(roster.group))
}

fn no_member_asks() -> Fault {
    Fault::new(FaultKind::NotMember, "that is for the members of a group, and a tool is none")
}
