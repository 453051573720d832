//! What the PMIx servers of the nodes need from the domain: the data of a process at another node, the layout of
//! a group elsewhere, and the names of hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::faults::{domain_ended, no_group};
use super::host_names::distinct;
use super::outgoing::CallPurpose;
use super::pending::Requester;
use super::timers::{PAUSE, Timer};
use super::{Domain, Output, Token};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member};
use crate::order::Order;
use crate::request::{Answer, Client, Request};
use crate::spec::{Layout, PmixHost, PmixNeed, PmixPlan};

/// Most questions to the server of this node that wait. A process asks for each of its peers at most once.
const FETCHES_MAX: usize = 1 << 16;

impl Domain {
    /// Asks the node of a process for the data that the process has committed.
    pub(super) fn fetch(&mut self, requester: Requester, client: Client, member: Member) {
        match self.layout(member.group).map(|layout| layout.node_of(member.rank)) {
            Some(node) => self.fetch_from(requester, member, node),
            None => self.ask_head(requester, client, Request::Fetch(member)),
        }
    }

    /// At the head: the same for a node that does not know the group.
    pub(super) fn fetch_at_head(&mut self, requester: Requester, member: Member) {
        match self.layout(member.group).map(|layout| layout.node_of(member.rank)) {
            Some(node) => self.fetch_from(requester, member, node),
            None => self.settle(requester, Err(no_group(member.group))),
        }
    }

    fn fetch_from(&mut self, requester: Requester, member: Member, node: Option<Id>) {
        let Some(node) = node else {
            let message = format!("there is no {member}");
            return self.settle(requester, Err(Fault::new(FaultKind::NoMember, message)));
        };
        if node == self.me() {
            return self.fetch_here(requester, member);
        }
        // The process may commit late: as late as its peers wait in a collective request.
        let limit = self.settings.limits.fence;
        self.call(vec![node], Arc::new(Order::Fetch(member)), false, limit, CallPurpose::Ask(requester));
    }

    /// Asks the server of this node, once the process runs here.
    pub(super) fn fetch_here(&mut self, requester: Requester, member: Member) {
        if self.pending.fetches.pending.len() >= FETCHES_MAX {
            let message =
                format!("{FETCHES_MAX} requests for the data of processes of one node wait already");
            return self.settle(requester, Err(Fault::new(FaultKind::TooLarge, message)));
        }
        let number = self.pending.fetches.next;
        self.pending.fetches.next += 1;
        self.pending.fetches.pending.insert(number, (member, requester));
        let until = self.now.saturating_add(self.settings.limits.fence);
        self.ask_server(number, until);
    }

    /// Asks the server of this node. If the group has not started here, though it may, the question waits for that up
    /// to `until`: an order to start a group and one to fetch from it overtake each other.
    pub(super) fn ask_server(&mut self, number: u64, until: Duration) {
        // The question may have been answered or cancelled meanwhile.
        let Some((member, _)) = self.pending.fetches.pending.get(&number) else { return };
        let member = *member;
        if self.is_alive_here(member) {
            self.outputs.push_back(Output::Fetch { number, member });
        } else if !self.refuses(member.group) && self.now < until {
            let due = self.now.saturating_add(PAUSE).min(until);
            self.timers.at(due, Timer::Fetch { number, until });
        } else {
            let message = format!("{member} does not run on node {}", self.me());
            self.fetched(number, Err(Fault::new(FaultKind::NoMember, message)));
        }
    }

    /// The server of this node has answered.
    pub(super) fn fetched(&mut self, number: u64, data: Result<Vec<u8>, Fault>) {
        if let Some((_, requester)) = self.pending.fetches.pending.remove(&number) {
            self.settle(requester, data.map(Answer::Value));
        }
    }

    /// Processes have ended: their data come no more.
    pub(super) fn fetches_after_deaths(&mut self, deaths: &[Death]) {
        let dead: BTreeSet<Member> = deaths.iter().map(|death| death.member).collect();
        let pending = self.pending.fetches.pending.iter();
        let lost: Vec<u64> =
            pending.filter(|(_, (member, _))| dead.contains(member)).map(|(number, _)| *number).collect();
        for number in lost {
            if let Some((member, requester)) = self.pending.fetches.pending.remove(&number) {
                let message = format!("{member} has ended");
                self.settle(requester, Err(Fault::new(FaultKind::MemberDied, message)));
            }
        }
    }

    /// Another node needs the answer no more.
    pub(super) fn fetch_cancelled(&mut self, token: Token) {
        self.pending.fetches.pending.retain(|_, (_, requester)| *requester != Requester::Order(token));
    }

    /// The domain ends: answers all questions.
    pub(super) fn refuse_fetches(&mut self) {
        for (_, requester) in std::mem::take(&mut self.pending.fetches.pending).into_values() {
            self.settle(requester, Err(domain_ended()));
        }
    }

    /// At the head: the layout of a group that was started, without what its programs keep for themselves.
    pub(super) fn layout_of(&self, group: GroupId) -> Result<Answer, Fault> {
        let mut layout = Layout::clone(self.layout(group).ok_or_else(|| no_group(group))?);
        for spec in &mut layout.specs {
            spec.args.clear();
            spec.env.clear();
            spec.info.clear();
        }
        layout.preputs.clear();
        Ok(Answer::Layout(Arc::new(layout)))
    }

    /// At the head: how the nodes serve PMIx to a group; `None` if they do not.
    pub(super) fn pmix_plan(&self, layout: &Layout, need: PmixNeed) -> Option<PmixPlan> {
        let hints = || layout.specs.iter().filter_map(|spec| spec.hint("pmix"));
        let need = match hints().any(|hint| hint == b"always") {
            true => PmixNeed::Sure,
            false => need,
        };
        if need == PmixNeed::No || hints().any(|hint| hint == b"never") {
            return None;
        }
        // A node has the same name in all groups.
        let hosts = self.hosts_of(self.settings.nodes.clone());
        let nodes: BTreeSet<Id> = layout.nodes().into_iter().collect();
        let hosts = distinct(&hosts).into_iter().filter(|(id, _)| nodes.contains(id));
        let above = self.above_node_ranks(layout.group);
        let before = |node| above.get(&node).copied().unwrap_or_default();
        let hosts = hosts.map(|(node, name)| PmixHost { node, name, before: before(node) });
        Some(PmixPlan { required: need == PmixNeed::Sure, hosts: hosts.collect() })
    }

    /// At the head, for each node: one above the largest node rank of the live groups there, without a group.
    fn above_node_ranks(&self, without: GroupId) -> BTreeMap<Id, u32> {
        let groups = self.head.iter().flat_map(|head| &head.groups);
        let groups = groups.filter(|(group, known)| **group != without && !known.over);
        let mut above: BTreeMap<Id, u32> = BTreeMap::new();
        for layout in groups.filter_map(|(_, known)| known.layout.as_ref()) {
            let Some(plan) = &layout.pmix else { continue };
            let mut ends: BTreeMap<Id, u32> =
                plan.hosts.iter().map(|host| (host.node, host.before)).collect();
            for block in &layout.blocks {
                let end = ends.entry(block.node).or_default();
                *end = end.saturating_add(block.count);
            }
            for (node, end) in ends {
                let above = above.entry(node).or_default();
                *above = end.max(*above);
            }
        }
        above
    }
}
