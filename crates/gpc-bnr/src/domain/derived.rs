//! Groups that were made of members of others, by merge or split: at the head, and at the nodes of their members.
//!
//! Such a group is a list of processes, with a database of its own. It starts and kills no process. It exists until it
//! is freed; its database is removed before that if its last member has ended. The groups that its members were started
//! in are forgotten after it, so that the deaths of its members are known as long as it exists.
//!
//! Source: BNR, "creating groups", option 1, "Classic Groups": each group has a separate context.

use super::Domain;
use super::colors::split;
use super::faults::no_group;
use super::group::{Group, Stage};
use super::outgoing::Continuation;
use super::pending::Requester;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Set};
use crate::order::{Meeting, Order, Purpose};
use crate::request::Answer;
use crate::roster::{Roster, Span, spans_of};
use crate::spec::OnDeath;

impl Domain {
    /// At the head: all members of a merge have arrived.
    pub(super) fn merge_groups(&mut self, first: GroupId, second: GroupId) -> Result<Answer, Fault> {
        let all = self.started_spans(&Purpose::Merge(first, second), first)?;
        self.form_groups(vec![all])
    }

    /// At the head: all members of a split have arrived.
    pub(super) fn split_group(&mut self, meeting: &Meeting) -> Result<Answer, Fault> {
        let Set::Group(group) = meeting.set else { return Ok(Answer::Rosters(Vec::new())) };
        let collection = self.collective.collections.get_mut(meeting);
        let choices =
            collection.map(|collection| std::mem::take(&mut collection.choices)).unwrap_or_default();
        let spans = self.started_spans(&Purpose::Split, group)?;
        let old = Roster { group, database: String::new(), spans };
        let groups = split(old.members(), &choices)?;
        self.form_groups(groups.into_iter().map(spans_of).collect())
    }

    /// The members of a collective request, without those that a group does not have.
    fn started_spans(&self, purpose: &Purpose, group: GroupId) -> Result<Vec<Span>, Fault> {
        let set = Set::Group(group);
        let spans = self.members_of(&set, purpose);
        let mut started = Vec::new();
        for span in spans.iter() {
            let size = self.layout(span.group).ok_or_else(|| no_group(span.group))?.size();
            let count = span.count.min(size.saturating_sub(span.first));
            // A group may have no process, but no list has an empty span.
            if count > 0 {
                started.push(Span { count, ..*span });
            }
        }
        Ok(started)
    }

    /// Creates groups of these members.
    ///
    /// # Errors
    /// A group would be too large, or there are too many groups. Then none is created.
    fn form_groups(&mut self, lists: Vec<Vec<Span>>) -> Result<Answer, Fault> {
        let mut formed: Vec<Roster> = Vec::new();
        for spans in lists {
            match self.form_group(spans) {
                Ok(roster) => formed.push(roster),
                Err(fault) => {
                    for roster in formed {
                        self.remove_group(roster.group);
                        self.forget_roster(roster.group);
                    }
                    return Err(fault);
                }
            }
        }
        Ok(Answer::Rosters(formed))
    }

    fn form_group(&mut self, spans: Vec<Span>) -> Result<Roster, Fault> {
        let first = spans.first().map_or(GroupId(0), |span| span.group);
        let mut roster = Roster { group: first, database: String::new(), spans };
        let most = self.settings.limits.group;
        if roster.size() > u64::from(most) {
            let message = format!("the group would have {} processes, the most are {most}", roster.size());
            return Err(Fault::new(FaultKind::TooLarge, message));
        }
        let parent = self.group(first)?.parent;
        let stage = Stage::Derived { announced: false };
        roster.group = self.new_group(Group::new(stage, parent, OnDeath::default(), self.now))?;
        roster.database = self.database_of(roster.group);
        self.rosters.insert(roster.group, roster.clone());
        if let Some(head) = &mut self.head {
            head.list(&roster);
        }
        Ok(roster)
    }

    /// Removes the list of a derived group. At the head, so are the freed groups of its members that ended before.
    pub(super) fn forget_roster(&mut self, group: GroupId) {
        let Some(roster) = self.rosters.remove(&group) else { return };
        let Some(head) = &mut self.head else { return };
        head.unlist(&roster);
        roster.bases().into_iter().for_each(|base| self.forget_if_over(base));
    }

    /// At a node of its members: a group was created.
    pub(super) fn know_derived(&mut self, roster: &Roster) {
        // The release of a split and the removal of its group overtake each other.
        if !self.local.forgotten.contains(roster.group) && !self.is_removed(&roster.database) {
            self.databases.create(&roster.database);
            self.rosters.insert(roster.group, roster.clone());
        }
    }

    /// At the head: the nodes of the members of these groups know them.
    pub(super) fn derived_known(&mut self, groups: &[GroupId]) {
        for group in groups {
            if let Ok(Group { stage: Stage::Derived { announced }, .. }) = self.group_mut(*group) {
                *announced = true;
            }
        }
        self.retry_waiting();
    }

    /// At the head: processes of a group have ended. Removes the databases of the groups whose last members they were.
    pub(super) fn derived_died(&mut self, base: GroupId) {
        if self.head.is_none() {
            return;
        }
        let of_base =
            self.rosters.values().filter(|roster| roster.spans.iter().any(|span| span.group == base));
        let over = of_base.filter(|roster| self.group(roster.group).is_ok_and(|known| !known.over));
        let over: Vec<GroupId> =
            over.filter(|roster| self.has_ended(roster)).map(|roster| roster.group).collect();
        for group in over {
            let database = self.database_of(group);
            if let Ok(known) = self.group_mut(group) {
                known.over = true;
            }
            self.destroyed_here(&database);
            self.deliver(self.others(), Order::Destroyed(database), Continuation::Nothing);
        }
    }

    /// Whether all members have ended.
    fn has_ended(&self, roster: &Roster) -> bool {
        roster.spans.iter().all(|span| {
            let deaths = self.deaths.known.get(&span.group);
            deaths.is_some_and(|deaths| span.ranks().all(|rank| deaths.has(rank)))
        })
    }

    /// Kills the groups that the members were started in: the processes of a group die together.
    pub(super) fn kill_derived(&mut self, group: GroupId, requester: Requester) {
        let bases = self.bases(group);
        let Some(head) = self.head.as_mut() else { return };
        let number = head.next_joined;
        head.next_joined += 1;
        head.joined.insert(number, (requester, bases.len()));
        bases.into_iter().for_each(|base| self.kill_group(base, Requester::Joined(number)));
    }

    /// The processes of a group that is known here: one with processes on this node, or any one at the head. `None`
    /// while the number of its processes may change.
    pub(super) fn roster_of(&self, group: GroupId) -> Option<Roster> {
        if let Some(roster) = self.rosters.get(&group) {
            return Some(roster.clone());
        }
        let layout = self.layout(group)?;
        let all = Span { group, first: 0, count: layout.size() };
        // A group may have no process.
        let spans = Some(all).into_iter().filter(|all| all.count > 0).collect();
        Some(Roster { group, database: layout.database.clone(), spans })
    }
}
