//! The processes of a node: started together, killed together, and cleared away together.
//!
//! Source: BNR, "Process groups": processes of a group are started together and die together.

use std::sync::Arc;
use std::time::Duration;

use super::database::Log;
use super::errno::CANCELLED;
use super::group::SHOWN_MAX;
use super::life::Life;
use super::local::{LocalGroup, OrderOrigin, Process};
use super::mapping::{KEY, process_mapping};
use super::{Domain, Output};
use crate::exit::{Death, Exit};
use crate::names::{GroupId, Member, Rank};
use crate::order::Report;
use crate::request::{GroupState, GroupStatus, MemberStatus, Pair};
use crate::spec::Layout;
use crate::start_error::{StartError, by_reason};

impl Domain {
    /// Checks whether the processes of a group on this node can be started.
    pub(super) fn check_here(&mut self, layout: Arc<Layout>, origin: OrderOrigin) {
        let group = layout.group;
        // Where the group may not start, the start order is refused later.
        let refused = self.refuses(group) || self.local.checks.contains_key(&group);
        if refused || layout.ranks_on(self.me()).next().is_none() {
            return self.send_report(origin, group, Report::Done);
        }
        self.local.checks.insert(group, origin);
        self.outputs.push_back(Output::Check(layout));
    }

    /// The driver has checked whether the processes can be started.
    pub(super) fn checked(&mut self, group: GroupId, failed: Vec<(Vec<Rank>, StartError)>, checked: Report) {
        let Some(origin) = self.local.checks.remove(&group) else { return };
        let report = match failed.is_empty() {
            false => Report::NotStarted(failed),
            true => checked,
        };
        self.send_report(origin, group, report);
    }

    /// Whether a group must not start here.
    pub(super) fn refuses(&self, group: GroupId) -> bool {
        !matches!(self.life, Life::Begins | Life::Runs)
            || self.local.doomed.contains(group)
            || self.local.forgotten.contains(group)
            || self.local.groups.contains_key(&group)
    }

    /// Starts the processes of a group on this node.
    pub(super) fn start_here(&mut self, layout: Arc<Layout>, origin: OrderOrigin) {
        let group = layout.group;
        let ranks: Vec<Rank> = layout.ranks_on(self.me()).collect();
        if self.refuses(group) || ranks.is_empty() {
            let refused = StartError::new(CANCELLED, StartError::REFUSED, "the group is killed already");
            let failed = if ranks.is_empty() { Vec::new() } else { vec![(ranks, refused)] };
            return self.send_report(origin, group, Report::NotStarted(failed));
        }
        let preputs =
            layout.preputs.iter().map(|(key, value)| Pair { key: key.clone(), value: value.clone() });
        let mapping = process_mapping(&layout).map(|value| Pair { key: KEY.to_vec(), value });
        self.databases.create(&layout.database);
        for pair in preputs.chain(mapping) {
            // The head has checked the limits.
            let _ = self.databases.put(&layout.database, pair, None, &self.settings.limits);
        }
        let local_group = LocalGroup {
            processes: ranks.into_iter().map(|rank| (rank, Process::default())).collect(),
            layout: layout.clone(),
            starting: Some(origin),
            killing: false,
            emptied: false,
            waiting: Vec::new(),
        };
        self.local.groups.insert(group, local_group);
        self.outputs.push_back(Output::Start(layout.clone()));
        self.repeat_failures(group);
        let lost: Vec<Death> = self.deaths_with_nodes(&layout, |id| self.lost.contains(&id));
        self.learn(&lost);
        // Deaths at other nodes may be known already.
        let deaths = self.deaths.known.get(&group).cloned().unwrap_or_default();
        if deaths.iter().any(|death| self.takes_group_along(death)) {
            self.kill_here(group, None);
        }
        self.retry_waiting();
    }

    /// Reports the result of a check or a start.
    fn send_report(&mut self, origin: OrderOrigin, group: GroupId, report: Report) {
        match origin {
            OrderOrigin::Head => self.part_here(group, report),
            OrderOrigin::Order(token) => self.report(token, report),
        }
    }

    /// The driver has started the processes, or failed to.
    pub(super) fn started(&mut self, group: GroupId, ranks: &[(Rank, Result<u32, StartError>)]) {
        let Some(local_group) = self.local.groups.get_mut(&group) else { return };
        let Some(origin) = local_group.starting.take() else { return };
        let mut never = Vec::new();
        for (rank, result) in ranks {
            let Some(process) = local_group.processes.get_mut(rank) else { continue };
            process.pid = result.as_ref().ok().copied();
            if result.is_err() && !process.ended {
                process.ended = true;
                let member = Member { group, rank: *rank };
                never.push(Death { member, exit: Exit::Never, finalized: true });
            }
        }
        let failed = by_reason(ranks);
        let report = if failed.is_empty() {
            let pids = ranks.iter().filter_map(|(rank, result)| Some((*rank, Ok(*result.as_ref().ok()?))));
            Report::Started(pids.collect())
        } else {
            Report::NotStarted(failed)
        };
        self.send_report(origin, group, report);
        self.spread(&never);
        self.end_unseen(group);
        self.clear_if_ended(group);
    }

    /// A process has ended.
    pub(super) fn ended(&mut self, member: Member, exit: Exit) {
        let Some(local_group) = self.local.groups.get_mut(&member.group) else { return };
        let Some(process) = local_group.processes.get_mut(&member.rank) else { return };
        if process.ended {
            return;
        }
        process.ended = true;
        process.log = Log::default();
        let finalized = process.finalized || !process.takes_part;
        self.spread(&[Death { member, exit, finalized }]);
        self.clear_if_ended(member.group);
    }

    /// When all processes have ended, their descendants are killed.
    fn clear_if_ended(&mut self, group: GroupId) {
        let Some(local_group) = self.local.groups.get_mut(&group) else { return };
        let ended =
            local_group.starting.is_none() && local_group.processes.values().all(|process| process.ended);
        if ended && !local_group.killing && !local_group.emptied {
            local_group.killing = true;
            self.outputs.push_back(Output::Kill { group, grace: None });
        }
    }

    /// Kills the processes of a group here. The receiver is answered when none is left.
    pub(super) fn kill_here(&mut self, group: GroupId, origin: Option<OrderOrigin>) {
        let Some(local_group) = self.local.groups.get_mut(&group) else {
            // The start order may be in transit.
            if origin.is_some() {
                self.local.doomed.insert(group);
            }
            return self.send_killed_report(group, origin);
        };
        if local_group.emptied {
            return self.send_killed_report(group, origin);
        }
        local_group.waiting.extend(origin);
        if !local_group.killing {
            local_group.killing = true;
            let grace = Some(self.settings.limits.grace);
            self.outputs.push_back(Output::Kill { group, grace });
        }
    }

    fn send_killed_report(&mut self, group: GroupId, origin: Option<OrderOrigin>) {
        match origin {
            Some(OrderOrigin::Head) => self.part_killed(group),
            Some(OrderOrigin::Order(token)) => {
                let ended = self.status_here(Some(group));
                self.report(token, Report::Groups(ended));
            }
            None => {}
        }
    }

    /// Nothing of a killed group is left here.
    pub(super) fn emptied(&mut self, group: GroupId) {
        let Some(local_group) = self.local.groups.get_mut(&group) else { return };
        local_group.emptied = true;
        local_group.killing = true;
        let waiting = std::mem::take(&mut local_group.waiting);
        self.end_unseen(group);
        waiting.into_iter().for_each(|origin| self.send_killed_report(group, Some(origin)));
        if self.local.forgotten.contains(group) {
            self.local.groups.remove(&group);
        }
        self.end_if_empty();
    }

    /// Ends processes that no longer exist, although their exits were not seen.
    fn end_unseen(&mut self, group: GroupId) {
        let Some(local_group) = self.local.groups.get(&group) else { return };
        if !local_group.emptied || local_group.starting.is_some() {
            return;
        }
        let unseen = local_group.processes.iter().filter(|(_, process)| !process.ended);
        let unseen: Vec<Member> = unseen.map(|(rank, _)| Member { group, rank: *rank }).collect();
        unseen.into_iter().for_each(|member| self.ended(member, Exit::Signal(9)));
    }

    pub(super) fn signal_here(&mut self, group: GroupId, signal: u8) {
        if self.local.groups.get(&group).is_some_and(|local_group| !local_group.emptied) {
            self.outputs.push_back(Output::Signal(group, signal));
        }
    }

    /// Whether a process runs on this node.
    pub(super) fn is_alive_here(&self, member: Member) -> bool {
        self.local.process(member).is_some_and(|process| !process.ended)
    }

    /// The status of the processes here, as known here.
    pub(super) fn status_here(&self, group: Option<GroupId>) -> Vec<GroupStatus> {
        let wanted = self
            .local
            .groups
            .values()
            .filter(|local_group| group.is_none_or(|group| local_group.layout.group == group));
        wanted.take(SHOWN_MAX).map(|local_group| self.status_of(local_group)).collect()
    }

    fn status_of(&self, local_group: &LocalGroup) -> GroupStatus {
        let layout = &local_group.layout;
        let deaths = self.deaths.known.get(&layout.group);
        let member = |(rank, process): (&Rank, &Process)| MemberStatus {
            rank: *rank,
            node: self.me(),
            pid: process.pid,
            death: deaths.and_then(|deaths| deaths.get(*rank)).copied(),
        };
        GroupStatus {
            group: layout.group,
            parent: layout.parent,
            state: match local_group {
                LocalGroup { emptied: true, .. } => GroupState::Ended,
                LocalGroup { killing: true, .. } => GroupState::Killed,
                LocalGroup { starting: Some(_), .. } => GroupState::Starting,
                _ => GroupState::Running,
            },
            database: layout.database.clone(),
            program: layout.specs.first().map(|spec| spec.program.clone()).unwrap_or_default(),
            age: Duration::ZERO,
            members: local_group.processes.iter().map(member).collect(),
        }
    }
}
