//! Groups as jobs of PMIx: what the server is told about each, and their preparation before processes start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chained_gpc::trees::Id;
use gpc_pmix::server::{Job, NodeRanks, Order, Process};

use super::known::{Known, Variables};
use super::pending::{Next, Part, Pending};
use super::{Action, SERVER, Translation, status};
use crate::fault::Fault;
use crate::names::{GroupId, Rank};
use crate::request::{Answer, Request};
use crate::spec::{Layout, OnDeath};

/// Most processes of a group that libpmix numbers.
const APPLICATIONS_MAX: usize = 1 << 16;

impl Translation {
    /// Registers a group that is to be started here. [`Action::Prepared`] follows.
    pub(crate) fn serve(&mut self, layout: Arc<Layout>, user: (u32, u32)) {
        let (group, parent) = (layout.group, layout.parent);
        let alive: BTreeSet<Rank> = layout.ranks_on(self.me).collect();
        self.register(&layout);
        for rank in &alive {
            let process = Process { namespace: layout.database.clone(), rank: *rank };
            self.actions.push_back(Action::Order(Order::Prepare { process, user }));
        }
        if layout.on_death == OnDeath::Notify {
            self.ask(SERVER, 0, Part::Ignored, Request::Subscribe(group));
        }
        let known = Known {
            layout,
            alive,
            connected: BTreeSet::new(),
            absent: None,
            local: true,
            prepared: Some(BTreeMap::new()),
            registered: false,
        };
        self.groups.insert(group, known);
        // Its processes connect with those of the group that has spawned them.
        if let Some(parent) = parent.filter(|parent| !self.groups.contains_key(parent)) {
            self.ask(SERVER, 0, Part::Layout(parent), Request::Layout(parent));
        }
    }

    fn register(&mut self, layout: &Layout) {
        let job = job(layout, self.me, |group| self.names.namespace(group));
        self.actions.push_back(Action::Order(Order::Register(job)));
    }

    /// The server has registered a job, or not.
    pub(super) fn registered(&mut self, namespace: &str, failed: Option<String>) {
        let Some(group) = self.names.group(namespace) else { return };
        let Some(known) = self.groups.get_mut(&group) else { return };
        match failed {
            Some(why) if known.is_being_prepared() => {
                return self.not_prepared(group, format!("its job cannot be registered: {why}"));
            }
            Some(_) => {
                self.groups.remove(&group);
                return self.group_registered(group, Err(status::ERROR));
            }
            None => known.registered = true,
        }
        self.group_registered(group, Ok(()));
        self.prepared_if_complete(group);
    }

    /// The variables of a process.
    pub(super) fn environment(&mut self, process: &Process, variables: Result<Variables, String>) {
        let Some(member) = self.names.member(process) else { return };
        let Some(known) = self.groups.get_mut(&member.group) else { return };
        let Some(prepared) = &mut known.prepared else { return };
        match variables {
            Ok(variables) => drop(prepared.insert(member.rank, variables)),
            Err(why) => {
                return self.not_prepared(member.group, format!("{member} cannot be prepared: {why}"));
            }
        }
        self.prepared_if_complete(member.group);
    }

    fn prepared_if_complete(&mut self, group: GroupId) {
        let Some(known) = self.groups.get_mut(&group) else { return };
        let complete = known.registered
            && known
                .prepared
                .as_ref()
                .is_some_and(|prepared| known.alive.iter().all(|rank| prepared.contains_key(rank)));
        if complete && let Some(prepared) = known.prepared.take() {
            self.actions.push_back(Action::Prepared(group, Ok(prepared)));
        }
    }

    /// A group is not started: the reason.
    pub(crate) fn not_prepared(&mut self, group: GroupId, why: String) {
        if self.groups.get(&group).is_some_and(Known::is_being_prepared) {
            self.drop_group(group);
            self.actions.push_back(Action::Prepared(group, Err(why)));
        }
    }

    /// The server forgets a group.
    pub(super) fn drop_group(&mut self, group: GroupId) {
        if let Some(known) = self.groups.remove(&group) {
            self.actions.push_back(Action::Order(Order::Forget(known.layout.database.clone())));
            self.group_registered(group, Err(status::NOT_FOUND));
        }
    }

    /// Continues an upcall once these groups are registered here.
    pub(super) fn with_groups(&mut self, upcall: u64, groups: BTreeSet<GroupId>, next: Next) {
        let is_registered = |group: &GroupId| self.groups.get(group).is_some_and(|known| known.registered);
        let missing: BTreeSet<GroupId> = groups.into_iter().filter(|group| !is_registered(group)).collect();
        let unknown: Vec<GroupId> =
            missing.iter().copied().filter(|group| !self.groups.contains_key(group)).collect();
        if missing.is_empty() {
            return self.go_on(upcall, next);
        }
        self.upcalls.insert(upcall, Pending::Groups(missing, next));
        for group in unknown {
            self.ask(SERVER, upcall, Part::Layout(group), Request::Layout(group));
        }
    }

    /// The layout of a group elsewhere is known, or is not.
    pub(super) fn layout_known(&mut self, group: GroupId, answer: Result<Answer, Fault>) {
        match answer {
            // Another question for it was faster.
            Ok(_) if self.groups.contains_key(&group) => {}
            Ok(Answer::Layout(layout))
                if layout.group == group && self.groups.values().any(Known::is_local) =>
            {
                self.register(&layout);
                let (alive, connected) = (BTreeSet::new(), BTreeSet::new());
                let known = Known {
                    layout,
                    alive,
                    connected,
                    absent: None,
                    local: false,
                    prepared: None,
                    registered: false,
                };
                self.groups.insert(group, known);
            }
            // No process here needs it any more.
            Ok(_) => self.group_registered(group, Err(status::NOT_FOUND)),
            Err(fault) => self.group_registered(group, Err(status::status_of(&fault))),
        }
    }

    /// A group is registered, or will not be: continues the upcalls that wait for it.
    fn group_registered(&mut self, group: GroupId, result: Result<(), i32>) {
        let mut done = Vec::new();
        for (upcall, pending) in &mut self.upcalls {
            if let Pending::Groups(missing, next) = pending
                && missing.remove(&group)
            {
                match result {
                    Err(status) => done.push((*upcall, Err(status))),
                    Ok(()) if missing.is_empty() => done.push((*upcall, Ok(next.clone()))),
                    Ok(()) => {}
                }
            }
        }
        for (upcall, next) in done {
            match next {
                Ok(next) => self.go_on(upcall, next),
                Err(status) => self.finish(upcall, Err(status)),
            }
        }
    }

    fn go_on(&mut self, upcall: u64, next: Next) {
        match next {
            Next::Answer(answer) => self.finish(upcall, Ok(answer)),
            Next::Enter(entry) => {
                if let Err(status) = self.meet(upcall, entry) {
                    self.finish(upcall, Err(status));
                }
            }
        }
    }
}

/// What the server tells about a group.
fn job(layout: &Layout, me: Id, namespace: impl Fn(GroupId) -> String) -> Job {
    let plan = layout.pmix.as_ref();
    let host = |node: Id| {
        let known = plan.and_then(|plan| plan.hosts.iter().find(|host| host.node == node));
        known.map_or_else(|| (format!("node{node}"), 0), |host| (host.name.clone(), host.before))
    };
    // Nodes in the order of their first ranks, as in the map of PMI.
    let mut order: Vec<Id> = Vec::new();
    let mut ranks: BTreeMap<Id, Vec<Rank>> = BTreeMap::new();
    for block in &layout.blocks {
        if !ranks.contains_key(&block.node) {
            order.push(block.node);
        }
        ranks.entry(block.node).or_default().extend(block.first..block.first + block.count);
    }
    let here = order.iter().position(|id| *id == me).and_then(|at| u32::try_from(at).ok());
    let nodes = order.into_iter().map(|id| {
        let (host, before) = host(id);
        NodeRanks { host, ranks: ranks.remove(&id).unwrap_or_default(), before }
    });
    let parent = layout.parent.map(|parent| {
        let rank =
            layout.specs.iter().find_map(|spec| str::from_utf8(spec.hint("pmix-parent")?).ok()?.parse().ok());
        Process { namespace: namespace(parent), rank: rank.unwrap_or(0) }
    });
    Job {
        namespace: layout.database.clone(),
        parent,
        slots: layout.size(),
        nodes: nodes.collect(),
        here,
        applications: applications(layout),
    }
}

/// The number of processes of each program, in rank order.
fn applications(layout: &Layout) -> Vec<u32> {
    let mut applications = vec![0_u32; layout.specs.len().min(APPLICATIONS_MAX)];
    for block in &layout.blocks {
        if let Some(count) = applications.get_mut(block.spec as usize) {
            *count = count.saturating_add(block.count);
        }
    }
    applications.retain(|count| *count > 0);
    applications
}
