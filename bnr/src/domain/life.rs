//! The processes of this node: started, ended, killed, and what the others are told of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::group::Group;
use super::node::{Domain, Flight};
use super::placement::{MAPPING, mapping};
use super::{Output, Serial, Token};
use crate::exit::{Death, Exit};
use crate::fault::Fault;
use crate::names::{GroupId, Member, Rank};
use crate::order::{Order, Report};
use crate::request::{Answer, Client, Pair};
use crate::spec::{Layout, OnDeath};

/// How soon deaths are told again.
const TELL_AGAIN: Duration = Duration::from_millis(500);

impl Domain {
    /// The processes of a group that are here are to be started.
    pub(super) fn start(&mut self, token: Token, layout: Arc<Layout>) {
        let (id, me) = (layout.group, self.settings.me);
        self.install(&layout);
        let Some(group) = self.groups.get_mut(&id) else { return };
        if group.here.is_empty() {
            group.empty = true;
            return self.report(token, Report::Started(Vec::new()));
        }
        debug_assert!(layout.ranks_on(me).next().is_some(), "they are of this node");
        group.starting = Some(token);
        self.outputs.push_back(Output::Start(layout));
    }

    /// A group is known here, and its database.
    pub(super) fn install(&mut self, layout: &Arc<Layout>) {
        let (id, me) = (layout.group, self.settings.me);
        if self.groups.contains_key(&id) {
            return;
        }
        self.groups.insert(id, Group::new(layout.clone(), me));
        self.store.create(&layout.database);
        let map = mapping(layout).map(|value| (MAPPING.to_vec(), value));
        for (key, value) in layout.preputs.iter().cloned().chain(map) {
            // What is too large was refused when it was spawned.
            let _ = self.store.put(&layout.database, Pair { key, value });
        }
    }

    /// They were started, or not.
    pub(super) fn started(&mut self, id: GroupId, ranks: &[(Rank, Result<u32, i32>)]) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        let token = group.starting.take();
        let mut never = Vec::new();
        for (rank, result) in ranks {
            match result {
                Ok(pid) => {
                    if let Some(process) = group.here.get_mut(rank) {
                        process.pid = Some(*pid);
                    }
                }
                Err(_) => never.push(*rank),
            }
        }
        let doomed = std::mem::take(&mut group.doomed);
        if let Some(token) = token {
            self.report(token, Report::Started(ranks.to_vec()));
        }
        for rank in never {
            let member = Member { group: id, rank };
            self.learn(Death { member, exit: Exit::Never, finalized: true }, true);
        }
        if doomed {
            self.kill(id, None);
        }
        self.clear(id);
    }

    /// A process of this node has ended.
    pub(super) fn ended(&mut self, member: Member, exit: Exit) {
        let group = self.groups.get(&member.group);
        let Some(process) = group.and_then(|group| group.here.get(&member.rank)) else { return };
        let finalized = process.finalized || !process.inited;
        self.learn(Death { member, exit, finalized }, true);
        self.clear(member.group);
    }

    /// When no process of a group runs here any more, what they have left behind is killed.
    fn clear(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        if group.here.is_empty() && group.starting.is_none() && !group.empty {
            group.killing = true;
            self.outputs.push_back(Output::Kill { group: id, grace: None });
        }
    }

    /// Nothing of a group is left here.
    pub(super) fn emptied(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.killing = false;
        if !group.here.is_empty() {
            return;
        }
        group.empty = true;
        for token in std::mem::take(&mut group.waits) {
            self.report(token, Report::Done);
        }
        self.retire(id);
    }

    /// Kills the processes of a group that are here; whoever waits is told when none is left.
    pub(super) fn kill(&mut self, id: GroupId, waits: Option<Token>) {
        let grace = Some(self.settings.limits.grace);
        let Some(group) = self.groups.get_mut(&id).filter(|group| !group.empty) else {
            return waits.into_iter().for_each(|token| self.report(token, Report::Done));
        };
        group.waits.extend(waits);
        if group.starting.is_some() {
            group.doomed = true;
        } else if !std::mem::replace(&mut group.killing, true) {
            self.outputs.push_back(Output::Kill { group: id, grace });
        }
    }

    /// A process has ended, here or elsewhere: this is known once.
    pub(super) fn learn(&mut self, death: Death, tell: bool) {
        let member = death.member;
        let Some(group) = self.groups.get_mut(&member.group) else {
            return self.notice(death);
        };
        if group.deaths.contains_key(&member.rank) || member.rank >= group.layout.size() {
            return;
        }
        group.deaths.insert(member.rank, death);
        let was_here = group.here.remove(&member.rank).is_some();
        let takes_along = !death.is_clean() && group.layout.on_death == OnDeath::Kill;
        let here = !group.here.is_empty() || group.starting.is_some();
        self.notice(death);
        self.fail_meetings_of(death);
        if tell || was_here {
            self.dying.push(death);
            self.tell_deaths();
        }
        if takes_along && here {
            self.kill(member.group, None);
        }
        self.at_death(death);
        self.retire(member.group);
    }

    /// Tells the other nodes of deaths: of those that come while some are on their way, together.
    pub(super) fn tell_deaths(&mut self) {
        if self.telling || self.tell_again.is_some() || self.dying.is_empty() {
            return;
        }
        let (deaths, others) = (std::mem::take(&mut self.dying), self.others());
        if !others.is_empty() {
            self.telling = true;
            self.call(others, Order::Died(deaths.clone()), true, Flight::Died(deaths));
        }
    }

    /// The other nodes know of deaths, but for those that are lost. A call that could not be made is made again.
    pub(super) fn told_deaths(&mut self, mut deaths: Vec<Death>, reports: &[(Id, Result<Report, Fault>)]) {
        self.telling = false;
        let unmade =
            |report: &Result<Report, Fault>| report.as_ref().is_err_and(|fault| fault.node.is_none());
        if reports.iter().any(|(_, report)| unmade(report)) {
            deaths.append(&mut self.dying);
            self.dying = deaths;
            self.tell_again = Some(self.now + TELL_AGAIN);
        }
        self.tell_deaths();
    }

    /// Tells those here who want to know, once each.
    fn notice(&mut self, death: Death) {
        let member = death.member;
        for ((group, client), told) in &mut self.subscribers {
            if *group == member.group && told.insert(member.rank) {
                self.outputs.push_back(Output::Notice { client: *client, death });
            }
        }
    }

    /// Somebody wants to know of the deaths of a group, of which the head has said what it knows.
    pub(super) fn subscribe(
        &mut self,
        client: Client,
        serial: Serial,
        id: GroupId,
        answer: Result<Answer, Fault>,
    ) {
        let status = match answer {
            Ok(Answer::Groups(groups)) => groups.into_iter().next(),
            Ok(_) => None,
            Err(fault) => return self.answer(client, serial, Err(fault)),
        };
        self.answer(client, serial, Ok(Answer::Done));
        self.subscribers.entry((id, client)).or_default();
        let known: Vec<Death> =
            status.into_iter().flat_map(|status| status.members).filter_map(|member| member.death).collect();
        // Of its own groups this node may know more.
        let here: Vec<Death> =
            self.groups.get(&id).into_iter().flat_map(|group| group.deaths.values().copied()).collect();
        known.into_iter().chain(here).for_each(|death| self.notice(death));
    }

    /// A group all of whose processes have ended leaves nothing at a node; the head remembers what became of them.
    fn retire(&mut self, id: GroupId) {
        let over = self.groups.get(&id).is_some_and(|group| group.is_over() && group.empty);
        if over && let Some(group) = self.groups.remove(&id) {
            self.store.destroy(&group.layout.database);
            group.waits.into_iter().for_each(|token| self.report(token, Report::Done));
            self.lines.retain(|key, _| !key.is_of(id));
        }
    }

    /// A group is gone.
    pub(super) fn forget(&mut self, id: GroupId) {
        self.merged.remove(&id);
    }

    /// A node is lost, and with it the processes there.
    pub(super) fn learn_lost(&mut self, node: Id) {
        if node == self.settings.me || !self.lost.insert(node) {
            return;
        }
        let mut fault = Fault::new(crate::FaultKind::NodeLost, format!("node {node} was lost"));
        fault.node = Some(node);
        let groups: BTreeSet<GroupId> = self.groups.keys().copied().collect();
        for id in groups {
            let layout = self.groups.get(&id).map(|group| group.layout.clone());
            let ranks: Vec<Rank> = layout.iter().flat_map(|layout| layout.ranks_on(node)).collect();
            for rank in ranks {
                let member = Member { group: id, rank };
                // Nodes without a part in the group learn it from the head.
                let tell = self.is_head();
                self.learn(Death { member, exit: Exit::Node(node), finalized: false }, tell);
            }
        }
        self.fail_meetings_at(node, &fault);
    }
}
