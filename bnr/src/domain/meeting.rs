//! Meetings at one node: who of the processes here has come, and what they are told.
//!
//! A meeting is known by its set, its tag, and which one it is of these: each process counts its own. It is never known by a count of those who have come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::group::Group;
use super::node::{Domain, Flight};
use super::{Serial, Token};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::order::{Entry, Epoch, Meeting, Order, Purpose, Report};
use crate::request::{Answer, Client};

/// A set and a tag.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) set: Set,
    pub(super) tag: Vec<u8>,
}

impl Key {
    pub(super) fn of(meeting: &Meeting) -> Key {
        Key { set: meeting.set.clone(), tag: meeting.tag.clone() }
    }

    /// Whether all of its processes are of this group.
    pub(super) fn is_of(&self, group: GroupId) -> bool {
        match &self.set {
            Set::Group(of) => *of == group,
            Set::Groups(_) => false,
            Set::Members(members) => members.iter().all(|member| member.group == group),
        }
    }

    pub(super) fn meeting(&self, epoch: Epoch) -> Meeting {
        Meeting { set: self.set.clone(), tag: self.tag.clone(), epoch }
    }
}

/// All meetings of a set and a tag that are not over here.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) meetings: BTreeMap<Epoch, Here>,
}

/// A meeting at this node.
#[derive(Debug, Default)]
pub(super) struct Here {
    pub(super) purpose: Option<Purpose>,
    /// Who has come and waits, and until when.
    waiting: BTreeMap<Member, (Serial, Duration)>,
    /// What those who have come have put, from when this was said to the coordinator.
    carried: Vec<(Member, Vec<Entry>)>,
    /// The coordinator's order to collect.
    token: Option<Token>,
    /// Why it has failed, for those who come later.
    failed: Option<Fault>,
    /// Whether its coordinator was told that it fails.
    told: bool,
    /// Where this node coordinates it, what has come of that.
    pub(super) leading: Leading,
}

/// What the coordinator of a meeting has done.
#[derive(Debug, Default)]
pub(super) enum Leading {
    /// This node does not coordinate, or has not begun.
    #[default]
    No,
    /// It collects by this call.
    Collecting(super::CallNumber),
    /// All are there: the head is asked for what the meeting is for.
    Asking(Vec<Entry>),
    /// All were released.
    Released,
}

impl Line {
    pub(super) fn deadline(&self) -> Option<Duration> {
        let open = self.meetings.values().filter(|here| !here.told && here.failed.is_none());
        open.flat_map(|here| here.waiting.values()).map(|(_, until)| *until).min()
    }

    /// A coordinator's call has ended without this node's answer.
    pub(super) fn cancelled(&mut self, token: Token) {
        for here in self.meetings.values_mut().filter(|here| here.token == Some(token)) {
            here.token = None;
        }
    }
}

impl Domain {
    /// The groups all of whose processes are in a set, and the processes of other groups in it.
    fn of_set<'a>(&self, set: &'a Set) -> (Vec<GroupId>, &'a BTreeSet<Member>) {
        static NONE: BTreeSet<Member> = BTreeSet::new();
        match set {
            Set::Group(group) => (self.parts(*group), &NONE),
            Set::Groups(groups) => (groups.iter().copied().collect(), &NONE),
            Set::Members(members) => (Vec::new(), members),
        }
    }

    /// Whether a process is in a set.
    pub(super) fn is_in(&self, member: Member, set: &Set) -> bool {
        let (groups, members) = self.of_set(set);
        groups.contains(&member.group) || members.contains(&member)
    }

    /// The processes of a set that this node knows, with their groups: all of those that are here, and where this node coordinates, all.
    fn members<'a>(&'a self, set: &'a Set) -> impl Iterator<Item = (Member, &'a Group)> + 'a {
        let (groups, members) = self.of_set(set);
        let whole = groups.into_iter().filter_map(|group| self.groups.get(&group)).flat_map(|group| {
            let of = group.layout.group;
            (0..group.layout.size()).map(move |rank| (Member { group: of, rank }, group))
        });
        let single = members.iter().filter_map(|member| Some((*member, self.groups.get(&member.group)?)));
        whole.chain(single)
    }

    /// The processes of a set that run here.
    fn local(&self, set: &Set) -> Vec<Member> {
        let here = self.members(set).filter(|(member, group)| group.here.contains_key(&member.rank));
        here.map(|(member, _)| member).collect()
    }

    /// A process of a set that is known to have ended.
    pub(super) fn dead_of(&self, set: &Set) -> Option<Death> {
        let (groups, members) = self.of_set(set);
        let whole = groups.iter().filter_map(|group| self.groups.get(group)?.deaths.values().next());
        let mut single =
            members.iter().filter_map(|member| self.groups.get(&member.group)?.deaths.get(&member.rank));
        whole.copied().next().or_else(|| single.next().copied())
    }

    /// The nodes of a set's processes, each once.
    pub(super) fn nodes_of(&self, set: &Set) -> Vec<chained_gpc::Id> {
        let nodes: BTreeSet<_> =
            self.members(set).filter_map(|(member, group)| group.layout.node_of(member.rank)).collect();
        nodes.into_iter().collect()
    }

    /// The coordinator: the node of the first process where they are of one group, which all their nodes know; otherwise the head, which knows all groups.
    pub(super) fn coordinator(&self, set: &Set) -> chained_gpc::Id {
        let (groups, members) = self.of_set(set);
        let first = match (groups.as_slice(), members.first(), members.last()) {
            ([group], _, _) => Some(Member { group: *group, rank: 0 }),
            ([], Some(first), Some(last)) if first.group == last.group => Some(*first),
            _ => None,
        };
        let node = first.and_then(|member| self.groups.get(&member.group)?.layout.node_of(member.rank));
        node.unwrap_or(self.head_id())
    }

    /// A process comes to a meeting.
    pub(super) fn enter(
        &mut self,
        client: Client,
        serial: Serial,
        over: Set,
        tag: Vec<u8>,
        purpose: Purpose,
        limit: Option<Duration>,
    ) {
        let (member, key, epoch) = match self.admit(client, over, tag) {
            Ok(admitted) => admitted,
            Err(fault) => return self.answer(client, serial, Err(fault)),
        };
        let until = self.now.saturating_add(limit.unwrap_or(self.settings.limits.fence));
        let here = self.lines.entry(key.clone()).or_default().meetings.entry(epoch).or_default();
        if let Some(fault) = here.failed.clone() {
            self.answer(client, serial, Err(fault));
            return self.tidy(&key);
        }
        let is_first = here.waiting.is_empty();
        let other = here.purpose.get_or_insert_with(|| purpose.clone()) != &purpose;
        here.waiting.insert(member, (serial, until));
        if other {
            let message =
                format!("{member} asks for something else than other members of the set do at this point");
            return self.refuse(&key, epoch, Fault::new(FaultKind::Mismatch, message));
        }
        if let Some(death) = self.dead_of(&key.set) {
            return self.refuse(&key, epoch, Fault::died(vec![death]));
        }
        if self.coordinator(&key.set) == self.settings.me {
            self.coordinate(&(key.clone(), epoch), purpose);
        } else if is_first && self.is_elsewhere(&key.set) {
            let order = Order::Enter { meeting: key.meeting(epoch), purpose };
            let ids = vec![self.coordinator(&key.set)];
            self.call(ids, order, false, Flight::Coordinator(key.clone(), epoch));
        }
        self.tell_if_all(&key, epoch);
    }

    /// Whether a set's coordinator may have none of its processes, and so does not hear of a meeting by itself.
    fn is_elsewhere(&self, set: &Set) -> bool {
        let (groups, members) = self.of_set(set);
        let of: BTreeSet<GroupId> =
            groups.into_iter().chain(members.iter().map(|member| member.group)).collect();
        of.len() > 1
    }

    /// Whether a client may come, and to which meeting.
    fn admit(&mut self, client: Client, over: Set, tag: Vec<u8>) -> Result<(Member, Key, Epoch), Fault> {
        let fault = |kind, message: &str| Err(Fault::new(kind, message));
        let Client::Process(member) = client else {
            return fault(FaultKind::NotMember, "who asks is no process of a group: it is in no set");
        };
        if tag.len() > self.settings.limits.key {
            return fault(FaultKind::TooLarge, "the tag is longer than a key may be");
        }
        // A merged group is the groups that it was made of, so that all nodes name the set alike.
        let set = match over {
            Set::Group(group) if self.merged.contains_key(&group) => {
                Set::Groups(self.parts(group).into_iter().collect())
            }
            set => set,
        };
        if !self.is_in(member, &set) {
            return fault(FaultKind::NotMember, "who asks is not in the set that it names");
        }
        if let Set::Members(members) = &set {
            let outside = |member: &&Member| {
                self.groups.get(&member.group).is_some_and(|group| member.rank >= group.layout.size())
            };
            if let Some(outside) = members.iter().find(outside) {
                let message = format!("there is no {outside}: its group is smaller");
                return Err(Fault::new(FaultKind::NoMember, message));
            }
        }
        let key = Key { set, tag };
        let group = self.groups.get_mut(&member.group);
        let process = group.and_then(|group| group.here.get_mut(&member.rank));
        let Some(process) = process else {
            return fault(FaultKind::NoMember, "who asks does not run on this node");
        };
        let next = process.epochs.entry(key.clone()).or_default();
        let epoch = *next;
        *next += 1;
        Ok((member, key, epoch))
    }

    /// Answers the coordinator's order when all who are here have come.
    fn tell_if_all(&mut self, key: &Key, epoch: Epoch) {
        let local = self.local(&key.set);
        let Some(here) = self.lines.get_mut(key).and_then(|line| line.meetings.get_mut(&epoch)) else {
            return;
        };
        if here.token.is_none() || !local.iter().all(|member| here.waiting.contains_key(member)) {
            return;
        }
        let Some(token) = here.token.take() else { return };
        let mut carried = Vec::new();
        for member in here.waiting.keys() {
            let group = self.groups.get_mut(&member.group);
            if let Some(process) = group.and_then(|group| group.here.get_mut(&member.rank)) {
                carried.push((*member, Vec::from(std::mem::take(&mut process.fresh))));
            }
        }
        let entries = carried.iter().flat_map(|(_, entries)| entries.clone()).collect();
        here.carried = carried;
        self.report(token, Report::Entries(entries));
    }

    /// The coordinator collects.
    pub(super) fn collect(&mut self, token: Token, meeting: Meeting, purpose: Purpose) {
        let (key, epoch) = (Key::of(&meeting), meeting.epoch);
        let here = self.lines.entry(key.clone()).or_default().meetings.entry(epoch).or_default();
        if let Some(fault) = here.failed.clone() {
            // Its coordinator could not be told. The order is not answered, so that nobody takes it for a meeting of all.
            return self.refuse(&key, epoch, fault);
        }
        here.token = Some(token);
        if here.purpose.get_or_insert_with(|| purpose.clone()) != &purpose {
            let message = "members of the set ask for different things at this point";
            return self.refuse(&key, epoch, Fault::new(FaultKind::Mismatch, message));
        }
        self.tell_if_all(&key, epoch);
    }

    /// The meeting cannot be, as this node sees it: its coordinator is told.
    fn refuse(&mut self, key: &Key, epoch: Epoch, fault: Fault) {
        let coordinator = self.coordinator(&key.set);
        if coordinator == self.settings.me {
            return self.fail(key, epoch, fault);
        }
        let here = self.lines.entry(key.clone()).or_default().meetings.entry(epoch).or_default();
        if !std::mem::replace(&mut here.told, true) {
            let order = Order::Fail { meeting: key.meeting(epoch), fault };
            self.call(vec![coordinator], order, false, Flight::Coordinator(key.clone(), epoch));
        }
    }

    /// Those who have come are told what has become of the meeting.
    pub(super) fn released(&mut self, meeting: Meeting, outcome: Result<(Vec<Entry>, Answer), Fault>) {
        let (key, epoch) = (Key::of(&meeting), meeting.epoch);
        let (entries, answer) = match outcome {
            Ok(released) => released,
            Err(fault) => return self.fail_here(&key, epoch, &fault),
        };
        self.store.take(&entries);
        let here = self.lines.get_mut(&key).and_then(|line| line.meetings.remove(&epoch));
        let Some(here) = here else { return };
        if let (Some(Purpose::Merge(first, second)), Answer::Group(group)) = (&here.purpose, &answer) {
            self.merged.insert(*group, (*first, *second));
        }
        for (member, (serial, _)) in here.waiting {
            self.answer(Client::Process(member), serial, Ok(answer.clone()));
        }
        self.tidy(&key);
    }

    /// The meeting has failed: those who have come are told, and those who come later.
    pub(super) fn fail_here(&mut self, key: &Key, epoch: Epoch, fault: &Fault) {
        let here = self.lines.entry(key.clone()).or_default().meetings.entry(epoch).or_default();
        if here.failed.is_some() {
            return;
        }
        here.failed = Some(fault.clone());
        // An order to collect is not answered: its call is cancelled, or its coordinator is gone.
        here.token = None;
        let (waiting, carried) = (std::mem::take(&mut here.waiting), std::mem::take(&mut here.carried));
        // What was not brought anywhere goes with the next fence.
        for (member, entries) in carried {
            let group = self.groups.get_mut(&member.group);
            if let Some(process) = group.and_then(|group| group.here.get_mut(&member.rank)) {
                entries.into_iter().rev().for_each(|entry| process.fresh.push_front(entry));
            }
        }
        for (member, (serial, _)) in waiting {
            self.answer(Client::Process(member), serial, Err(fault.clone()));
        }
        self.tidy(key);
    }

    /// Forgets meetings that nobody here comes to any more.
    fn tidy(&mut self, key: &Key) {
        let local = self.local(&key.set);
        let next = local.iter().filter_map(|member| {
            let process = self.groups.get(&member.group)?.here.get(&member.rank)?;
            Some(process.epochs.get(key).copied().unwrap_or_default())
        });
        let first = next.min().unwrap_or(Epoch::MAX);
        let Some(line) = self.lines.get_mut(key) else { return };
        line.meetings.retain(|epoch, here| {
            let awaited = *epoch >= first && here.failed.is_some();
            awaited || here.is_open()
        });
        if line.meetings.is_empty() {
            self.lines.remove(key);
        }
    }

    /// A process has ended: meetings that wait for it cannot be.
    pub(super) fn fail_meetings_of(&mut self, death: Death) {
        let concerned = |domain: &Domain, key: &Key| domain.is_in(death.member, &key.set);
        let keys: Vec<Key> = self.lines.keys().filter(|key| concerned(self, key)).cloned().collect();
        for key in keys {
            let line = self.lines.get(&key);
            let epochs: Vec<Epoch> =
                line.into_iter().flat_map(|line| line.meetings.keys().copied()).collect();
            for epoch in epochs {
                let line = self.lines.get(&key);
                let open = line.and_then(|line| line.meetings.get(&epoch)).is_some_and(Here::is_open);
                if open {
                    self.refuse(&key, epoch, Fault::died(vec![death]));
                }
            }
            self.tidy(&key);
        }
    }

    /// The node of coordinators is lost: their meetings fail at each node by itself.
    pub(super) fn fail_meetings_at(&mut self, node: chained_gpc::Id, fault: &Fault) {
        let led = |domain: &Domain, key: &Key| domain.coordinator(&key.set) == node;
        let keys: Vec<Key> = self.lines.keys().filter(|key| led(self, key)).cloned().collect();
        for key in keys {
            let line = self.lines.get(&key);
            let epochs: Vec<Epoch> =
                line.into_iter().flat_map(|line| line.meetings.keys().copied()).collect();
            epochs.into_iter().for_each(|epoch| self.fail_here(&key, epoch, fault));
        }
    }

    /// Time limits that have passed.
    pub(super) fn expire_meetings(&mut self) {
        let now = self.now;
        let over = |line: &Line| line.deadline().is_some_and(|deadline| deadline <= now);
        let keys: Vec<Key> =
            self.lines.iter().filter(|(_, line)| over(line)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let Some(line) = self.lines.get(&key) else { continue };
            let late = |here: &Here| !here.told && here.waiting.values().any(|(_, until)| *until <= now);
            let epochs: Vec<Epoch> =
                line.meetings.iter().filter(|(_, here)| late(here)).map(|(epoch, _)| *epoch).collect();
            for epoch in epochs {
                let fault = self.late(&key, epoch);
                self.refuse(&key, epoch, fault);
            }
        }
    }

    /// Who has not come in time, as far as this node knows.
    fn late(&self, key: &Key, epoch: Epoch) -> Fault {
        let here = self.lines.get(key).and_then(|line| line.meetings.get(&epoch));
        let waiting = here.map_or(0, |here| here.waiting.len());
        let missing: Vec<Member> = self.local(&key.set);
        let missing: Vec<String> = missing
            .into_iter()
            .filter(|member| here.is_none_or(|here| !here.waiting.contains_key(member)))
            .take(3)
            .map(|member| member.to_string())
            .collect();
        let who = match missing.is_empty() {
            true => "others on other nodes had not".to_owned(),
            false => format!("{} had not", missing.join(", ")),
        };
        let message = format!(
            "the time limit of a fence has passed: {waiting} of the processes on node {} had come, {who}",
            self.settings.me
        );
        Fault::new(FaultKind::TimedOut, message)
    }
}

impl Here {
    /// Whether somebody waits, or it is led from here.
    fn is_open(&self) -> bool {
        let led = matches!(self.leading, Leading::Collecting(_) | Leading::Asking(_));
        self.token.is_some() || !self.waiting.is_empty() || led
    }
}
