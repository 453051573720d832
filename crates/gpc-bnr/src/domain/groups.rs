//! Groups at the head: open, spawn, close, start, kill, free.
//!
//! Source: BNR, "creating groups", "Process groups".

use std::collections::BTreeMap;
use std::sync::Arc;

use chained_gpc::trees::Id;

use super::errno::{CANCELLED, IO, TIMED_OUT, UNREACHABLE};
use super::faults::{group_open, no_group};
use super::group::{Group, Plan, SHOWN_MAX, Stage};
use super::head::Head;
use super::known_deaths::GroupDeaths;
use super::life::Life;
use super::local::OrderOrigin;
use super::outgoing::{CallPurpose, Continuation};
use super::pending::Requester;
use super::placement::place;
use super::spawned::{check_preputs, check_spawn};
use super::{Domain, Output};
use crate::exit::{Death, Exit};
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Rank, Set};
use crate::open_mpi::{MIXED, mixture};
use crate::order::{Order, Report};
use crate::request::{Answer, Client, GroupStatus, MemberStatus, Pair};
use crate::spec::{Layout, Mpi, OnDeath, Readers, Spec};
use crate::start_error::{StartError, StartFailure};

/// Most causes that are reported when a group is not started.
const CAUSES_MAX: usize = 8;

/// The address of a node for itself.
const LOOPBACK: &str = "127.0.0.1";

impl Domain {
    pub(super) fn group(&self, group: GroupId) -> Result<&Group, Fault> {
        let head = self.head.as_ref();
        head.and_then(|head| head.groups.get(&group)).ok_or_else(|| no_group(group))
    }

    pub(super) fn group_mut(&mut self, group: GroupId) -> Result<&mut Group, Fault> {
        let head = self.head.as_mut();
        head.and_then(|head| head.groups.get_mut(&group)).ok_or_else(|| no_group(group))
    }

    /// Assigns a number to a group. At the bound, the first ended group that no derived group needs is forgotten.
    pub(super) fn new_group(&mut self, group: Group) -> Result<GroupId, Fault> {
        let most = self.settings.limits.groups;
        let head = self.head.as_ref();
        if head.is_some_and(|head| head.groups.len() >= most) {
            match head.and_then(Head::first_ended) {
                Some(over) => self.forget_everywhere(over),
                None => {
                    let message =
                        format!("there are {most} groups already; free those that are needed no longer");
                    return Err(Fault::new(FaultKind::TooLarge, message));
                }
            }
        }
        let no_number = || Fault::new(FaultKind::TooLarge, "all numbers of groups are used up");
        let head = self.head.as_mut().ok_or_else(no_number)?;
        head.last_group = head.last_group.checked_add(1).ok_or_else(no_number)?;
        let number = GroupId(head.last_group);
        head.groups.insert(number, group);
        Ok(number)
    }

    /// Adds processes to an open group.
    pub(super) fn spawn(
        &mut self,
        group: GroupId,
        mut specs: Vec<Spec>,
        preputs: Vec<Pair>,
        on_death: Option<OnDeath>,
    ) -> Result<(), Fault> {
        let limits = self.settings.limits;
        let open = self.group_mut(group)?;
        if !matches!(open.stage, Stage::Open(_)) {
            let message = format!("group {group} is closed: nothing can be spawned into it any more");
            return Err(Fault::new(FaultKind::GroupClosed, message));
        }
        let requested: Vec<u32> = specs.iter().map(|spec| spec.count).collect();
        check_spawn(&open.plan.specs, &mut specs, &limits)?;
        check_preputs(&open.plan.preputs, &preputs, &limits)?;
        open.plan.specs.extend(specs);
        open.plan.requested.extend(requested);
        open.plan.preputs.extend(preputs);
        open.plan.on_death = on_death.unwrap_or(open.plan.on_death);
        Ok(())
    }

    /// The members that opened a group close it, which starts it.
    pub(super) fn close(&mut self, requester: Requester, over: &Set, group: GroupId) {
        let checked = self.group(group).and_then(|open| match &open.stage {
            Stage::Open(Some(openers)) if openers == over => Ok(()),
            Stage::Open(_) => {
                let message = format!("group {group} is closed by the set that has opened it");
                Err(Fault::new(FaultKind::NotMember, message))
            }
            _ => Err(Fault::new(FaultKind::GroupClosed, format!("group {group} is closed already"))),
        });
        match checked {
            Ok(()) => self.start(requester, group),
            Err(fault) => self.settle(requester, Err(fault)),
        }
    }

    /// Opens a group, spawns into it and closes it.
    pub(super) fn spawn_multiple(
        &mut self,
        requester: Requester,
        client: Client,
        (mut specs, preputs): (Vec<Spec>, Vec<Pair>),
        on_death: OnDeath,
        input: Readers,
    ) {
        let parent = match client {
            Client::Process(member) => Some(member.group),
            Client::Tool(_) => None,
        };
        let limits = self.settings.limits;
        let requested = specs.iter().map(|spec| spec.count).collect();
        let checked =
            check_spawn(&[], &mut specs, &limits).and_then(|()| check_preputs(&[], &preputs, &limits));
        let mut group = Group::new(Stage::Open(None), parent, on_death, self.now);
        group.plan = Plan { specs, requested, preputs, on_death, input };
        group.start.is_private = true;
        let number = match checked.and_then(|()| self.new_group(group)) {
            Ok(number) => number,
            Err(fault) => return self.settle(requester, Err(fault)),
        };
        self.start(requester, number);
    }

    pub(super) fn remove_group(&mut self, group: GroupId) -> Option<Group> {
        self.head.as_mut()?.groups.remove(&group)
    }

    /// Starts a group, once the nodes have begun.
    fn start(&mut self, requester: Requester, group: GroupId) {
        let begins = matches!(self.life, Life::Begins);
        let Some(head) = self.head.as_mut() else { return };
        let Some(known) = head.groups.get_mut(&group) else { return };
        if known.start.starter.is_some() {
            let fault = Fault::new(FaultKind::GroupClosed, format!("group {group} is being closed already"));
            return self.settle(requester, Err(fault));
        }
        known.start.starter = Some(requester);
        if begins {
            return head.queued.push(group);
        }
        self.start_now(group);
    }

    /// Starts the groups that waited for the nodes to begin.
    pub(super) fn start_queued(&mut self) {
        let queued = self.head.as_mut().map(|head| std::mem::take(&mut head.queued)).unwrap_or_default();
        queued.into_iter().for_each(|group| self.start_now(group));
    }

    fn start_now(&mut self, group: GroupId) {
        let layout = match self.lay_out(group) {
            Ok(layout) => layout,
            Err(fault) => return self.not_placed(group, fault),
        };
        self.start_placed(group, layout);
    }

    /// Starts a group whose processes have their nodes.
    pub(super) fn start_placed(&mut self, group: GroupId, layout: Layout) {
        let layout = Arc::new(layout);
        let Ok(known) = self.group_mut(group) else { return };
        known.stage = Stage::Starting;
        known.layout = Some(layout.clone());
        // The layout has them.
        known.plan.preputs = Vec::new();
        known.plan.specs = Vec::new();
        if layout.size() == 0 {
            return self.started_empty(group);
        }
        if layout.starts_partly() {
            return self.start_checked(group);
        }
        // Every node checks its processes before any is started.
        if self.each_part(&layout, Order::Check(layout.clone())) {
            self.check_here(layout, OrderOrigin::Head);
        }
    }

    /// Starts a group that all nodes have checked.
    fn start_checked(&mut self, group: GroupId) {
        let Ok(known) = self.group(group) else { return };
        let Some(mut layout) = known.layout.clone() else { return };
        if layout.pmix.is_none()
            && let Some(plan) = self.pmix_plan(&layout, known.start.pmix)
        {
            Arc::make_mut(&mut layout).pmix = Some(plan);
            return self.prepare(group, layout);
        }
        if let (Some(port), Some(node)) = (known.start.port, layout.node_of(0)) {
            let address = self.settings.addresses.get(&node).map_or(LOOPBACK, String::as_str);
            Arc::make_mut(&mut layout).add_master(address, port);
        }
        let Ok(known) = self.group_mut(group) else { return };
        known.start.checked = true;
        known.layout = Some(layout.clone());
        self.size_known(group);
        // Nodes that were lost while the ranks were not final.
        let lost = self.deaths_with_nodes(&layout, |id| self.lost.contains(&id));
        self.spread(&lost);
        if self.each_part(&layout, Order::Start(layout.clone())) {
            self.start_here(layout, OrderOrigin::Head);
        }
    }

    /// The number of processes of a group is final: serves the requests that wait for it.
    pub(super) fn size_known(&mut self, group: GroupId) {
        let Ok(known) = self.group_mut(group) else { return };
        let waiting = std::mem::take(&mut known.waiting);
        for (requester, client, request) in waiting {
            self.serve_at_head(requester, client, request);
        }
    }

    /// A second check, in which the PMIx servers of all nodes learn of the group before any of its processes runs.
    fn prepare(&mut self, group: GroupId, layout: Arc<Layout>) {
        if let Ok(known) = self.group_mut(group) {
            known.layout = Some(layout.clone());
        }
        if self.each_part(&layout, Order::Check(layout.clone())) {
            self.check_here(layout, OrderOrigin::Head);
        }
    }

    /// Sends an order to all other nodes of a group. Returns whether this node is one of its nodes.
    fn each_part(&mut self, layout: &Layout, order: Order) -> bool {
        let (group, nodes) = (layout.group, layout.nodes());
        let others: Vec<Id> = nodes.iter().copied().filter(|id| *id != self.me()).collect();
        let here = others.len() < nodes.len();
        if let Ok(known) = self.group_mut(group) {
            known.start.parts = usize::from(here) + usize::from(!others.is_empty());
        }
        if !others.is_empty() {
            let limit = self.settings.limits.fence;
            self.call(others, Arc::new(order), true, limit, CallPurpose::Start(group));
        }
        here
    }

    /// # Errors
    /// The group has no process, or there is no node to run it.
    fn lay_out(&self, group: GroupId) -> Result<Layout, Fault> {
        let known = self.group(group)?;
        if known.plan.specs.is_empty() {
            let message = format!("nothing was spawned into group {group}");
            return Err(Fault::new(FaultKind::BadRequest, message));
        }
        let (me, settings) = (self.me(), &self.settings);
        let hosts = self.hosts_of(settings.nodes.clone());
        let runs = |id| !self.lost.contains(&id) && (settings.runs || id != me);
        Ok(Layout {
            group,
            parent: known.parent,
            database: self.database_of(group),
            blocks: place(&known.plan.specs, &hosts, runs, &settings.slots, &self.loads())?,
            specs: known.plan.specs.clone(),
            on_death: known.plan.on_death,
            preputs: known.plan.preputs.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect(),
            input: known.plan.input,
            pmix: None,
        })
    }

    /// Placement has failed. A group that members opened stays open.
    fn not_placed(&mut self, group: GroupId, fault: Fault) {
        let Ok(known) = self.group_mut(group) else { return };
        let starter = known.start.starter.take().unwrap_or(Requester::Nobody);
        if known.stage == Stage::Open(None) {
            self.remove_group(group);
        }
        self.settle(starter, Err(fault));
    }

    /// This node has checked or started its part of a group.
    pub(super) fn part_here(&mut self, group: GroupId, report: Report) {
        self.part_of(group, self.me(), Ok(report));
        self.part_known(group);
    }

    /// The other nodes have checked or started their parts of a group.
    pub(super) fn parts_elsewhere(&mut self, group: GroupId, reports: Vec<(Id, Result<Report, Fault>)>) {
        reports.into_iter().for_each(|(id, report)| self.part_of(group, id, report));
        self.part_known(group);
    }

    fn part_of(&mut self, group: GroupId, id: Id, report: Result<Report, Fault>) {
        let Ok(known) = self.group(group) else { return };
        let checked = known.start.checked;
        let Some(layout) = known.layout.clone() else { return };
        let mut started = BTreeMap::new();
        // A node that is lost or late is no reason to end the others, if each runs for itself.
        let fails = !(layout.starts_partly() && report.is_err());
        let unsaid = match report {
            Ok(Report::Done) if !checked => return,
            Ok(Report::Checked { port, pmix, mpi }) if !checked => {
                let Ok(known) = self.group_mut(group) else { return };
                known.start.pmix = known.start.pmix.max(pmix);
                // Only the node of rank 0 knows its ports.
                if layout.needs_port_at(id) {
                    known.start.port = port.or(known.start.port);
                }
                return self.one_mpi(&layout, id, mpi);
            }
            Ok(Report::NotStarted(failed)) if failed.iter().any(|(ranks, _)| !ranks.is_empty()) => {
                return self.not_started(&layout, id, failed);
            }
            Ok(Report::Started(theirs)) if checked => {
                started.extend(theirs);
                IO
            }
            Ok(_) => IO,
            Err(fault) => {
                let errno = match fault.kind {
                    FaultKind::NodeLost => UNREACHABLE,
                    FaultKind::TimedOut => TIMED_OUT,
                    _ => IO,
                };
                let message = format!("{group} was not started on node {id}: {fault}");
                self.report_cause(group, Output::Warning(message));
                errno
            }
        };
        let Ok(known) = self.group_mut(group) else { return };
        for rank in layout.ranks_on(id) {
            match started.remove(&rank).unwrap_or(Err(unsaid)) {
                Ok(pid) => drop(known.start.pids.insert(rank, pid)),
                Err(errno) => {
                    known.start.failed |= fails;
                    known.start.fails(rank, errno);
                }
            }
        }
    }

    /// The programs of a node have this MPI: those of another node must not have the other one.
    fn one_mpi(&mut self, layout: &Layout, node: Id, mpi: Option<Mpi>) {
        let Ok(known) = self.group_mut(layout.group) else { return };
        match (&known.start.mpi, mpi) {
            (None, mpi) => known.start.mpi = mpi,
            (Some(first), Some(mpi)) if first.open != mpi.open && !layout.starts_partly() => {
                let (open, other) = if mpi.open { (&mpi, first) } else { (first, &mpi) };
                let error = mixture(&open.library, &other.library);
                self.not_started(layout, node, vec![(layout.ranks_on(node).collect(), error)]);
            }
            _ => {}
        }
    }

    /// A node cannot start some of its ranks.
    fn not_started(&mut self, layout: &Layout, node: Id, failed: Vec<(Vec<Rank>, StartError)>) {
        let group = layout.group;
        for (mut ranks, error) in failed {
            // A node reports only on its own ranks.
            ranks.retain(|rank| layout.node_of(*rank) == Some(node));
            let Ok(known) = self.group_mut(group) else { return };
            // A group that is killed has no process at a node that refuses it.
            let fails = !layout.starts_partly() || error.errno == CANCELLED;
            known.start.failed |= fails && !ranks.is_empty();
            known.start.is_mixed |= error.errno == MIXED;
            ranks.iter().for_each(|rank| known.start.fails(*rank, error.errno));
            if let Some(spec) = ranks.first().and_then(|rank| layout.spec_of(*rank)) {
                let program = spec.program.clone();
                let failure = StartFailure { group, node, ranks, program, error };
                self.report_cause(group, Output::NotStarted(failure));
            }
        }
    }

    /// Records why a group is not started: the first few causes. Of a group that starts without some processes, each
    /// has its cause, which is reported at once.
    fn report_cause(&mut self, group: GroupId, cause: Output) {
        let Ok(known) = self.group_mut(group) else { return };
        if known.layout.as_ref().is_some_and(|layout| layout.starts_partly()) {
            self.outputs.push_back(cause);
        } else if known.start.causes.len() < CAUSES_MAX {
            known.start.causes.push(cause);
        }
    }

    /// Reports why a group is not started.
    pub(super) fn report_causes(&mut self, group: GroupId) {
        let Ok(known) = self.group_mut(group) else { return };
        let causes = std::mem::take(&mut known.start.causes);
        self.outputs.extend(causes);
    }

    /// The result of this node, or of the others, is complete.
    fn part_known(&mut self, group: GroupId) {
        let Ok(known) = self.group_mut(group) else { return };
        known.start.parts = known.start.parts.saturating_sub(1);
        match (known.start.parts, known.start.checked) {
            (0, true) => self.started_everywhere(group),
            (0, false) if !known.start.failed => self.start_checked(group),
            (0, false) => match self.without_failed(group) {
                Some(layout) => self.check_again(group, layout),
                None => self.not_checked(group),
            },
            _ => {}
        }
    }

    /// Some processes of a group cannot be started, so no node has started any.
    fn not_checked(&mut self, group: GroupId) {
        let Ok(known) = self.group_mut(group) else { return };
        let size = known.layout.as_ref().map_or(0, |layout| layout.size());
        for rank in 0..size {
            known.start.errors.entry(rank).or_insert(CANCELLED);
        }
        known.stage = Stage::Killed;
        known.kill.parts = 1;
        self.size_known(group);
        self.part_killed(group);
        self.retry_waiting();
    }

    fn started_everywhere(&mut self, group: GroupId) {
        let Ok(known) = self.group_mut(group) else { return };
        if known.stage == Stage::Starting {
            known.stage = Stage::Running;
        }
        if !known.start.failed {
            let starter = known.start.starter.take().unwrap_or(Requester::Nobody);
            let doomed = std::mem::take(&mut known.kill.doomed);
            let errors = known.errors_of_all();
            let count = known.layout.as_ref().map_or(0, |layout| layout.size());
            if let Some(parent) = known.parent {
                self.outputs.push_back(Output::Spawned { group, count });
                self.watch_spawned(parent, group);
            }
            self.settle(starter, Ok(Answer::Spawned { group, errors, same_domain: true }));
            if doomed {
                self.begin_to_kill(group);
            }
        } else {
            // The starter is answered when all processes have been killed, or fewer are started then.
            if self.without_failed(group).is_none() {
                self.report_causes(group);
            }
            self.begin_to_kill(group);
        }
        self.group_died(group);
        self.retry_waiting();
    }

    /// Kills a group; the receiver is answered when nothing of it is left.
    pub(super) fn kill_group(&mut self, group: GroupId, requester: Requester) {
        let Ok(known) = self.group_mut(group) else {
            return self.settle(requester, Err(no_group(group)));
        };
        match known.stage {
            Stage::Open(_) => self.settle(requester, Err(group_open(group))),
            Stage::Derived { .. } => self.kill_derived(group, requester),
            Stage::Starting => {
                known.kill.doomed = true;
                known.kill.killers.push(requester);
            }
            Stage::Running | Stage::Killed => {
                known.kill.killers.push(requester);
                if known.kill.parts == 0 {
                    self.begin_to_kill(group);
                }
            }
        }
    }

    /// One of several awaited groups is done. A group that no longer exists counts as killed.
    pub(super) fn joined(&mut self, number: u64) {
        let Some(head) = self.head.as_mut() else { return };
        let Some((_, left)) = head.joined.get_mut(&number) else { return };
        *left -= 1;
        if *left == 0
            && let Some((requester, _)) = head.joined.remove(&number)
        {
            self.settle(requester, Ok(Answer::Done));
        }
    }

    fn begin_to_kill(&mut self, group: GroupId) {
        let me = self.me();
        let Ok(known) = self.group_mut(group) else { return };
        let Some(layout) = &known.layout else { return };
        let nodes = layout.nodes();
        known.stage = Stage::Killed;
        // One for this node, which may have no process of the group, and one for the others.
        known.kill.parts = 2;
        let others = nodes.into_iter().filter(|id| *id != me).collect();
        self.deliver(others, Order::Kill(group), Continuation::Killed(group));
        self.kill_here(group, Some(OrderOrigin::Head));
    }

    /// Nothing of a group is left at this node, or at the others.
    pub(super) fn part_killed(&mut self, group: GroupId) {
        let Ok(known) = self.group_mut(group) else { return };
        known.kill.parts = known.kill.parts.saturating_sub(1);
        if known.kill.parts > 0 {
            return;
        }
        let fewer = if known.start.checked { self.without_failed(group) } else { None };
        let Ok(known) = self.group_mut(group) else { return };
        let killers = std::mem::take(&mut known.kill.killers);
        if let Some(starter) = known.start.starter.take() {
            let errors = known.errors_of_all();
            let never = self.never_started(group);
            self.spread(&never);
            if let Some(layout) = fewer {
                self.start_as_another(group, layout, starter);
            } else {
                self.report_causes(group);
                self.settle(starter, Ok(Answer::Spawned { group, errors, same_domain: true }));
            }
        }
        killers.into_iter().for_each(|requester| self.settle(requester, Ok(Answer::Done)));
        self.group_died(group);
    }

    /// The deaths of processes that no node has started, so no node reports them.
    fn never_started(&self, group: GroupId) -> Vec<Death> {
        let Ok(known) = self.group(group) else { return Vec::new() };
        let deaths = self.deaths.known.get(&group);
        let unknown =
            known.start.errors.keys().filter(|rank| deaths.is_none_or(|deaths| !deaths.has(**rank)));
        let death =
            |rank: &Rank| Death { member: Member { group, rank: *rank }, exit: Exit::Never, finalized: true };
        unknown.map(death).collect()
    }

    /// Processes of a group have ended, perhaps the last ones. Does nothing at nodes other than the head.
    pub(super) fn group_died(&mut self, group: GroupId) {
        let deaths = self.deaths.known.get(&group);
        let abnormal = deaths.is_some_and(|deaths| deaths.iter().any(|death| !death.is_clean()));
        let dead = deaths.map_or(0, GroupDeaths::len);
        let me = self.settings.me;
        let Ok(known) = self.group_mut(group) else { return };
        let Some(layout) = known.layout.clone() else { return };
        if known.stage == Stage::Running && known.plan.on_death == OnDeath::Kill && abnormal {
            known.stage = Stage::Killed;
        }
        if !known.over && dead as u64 >= u64::from(layout.size()) {
            known.over = true;
            let database = layout.database.clone();
            self.destroyed_here(&database);
            // At the group's own nodes, the last death removes it.
            let nodes = layout.nodes();
            let others = self.others().into_iter().filter(|id| *id != me && !nodes.contains(id)).collect();
            self.deliver(others, Order::Destroyed(database), Continuation::Nothing);
        }
        self.forget_if_over(group);
    }

    /// Forgets a group that has ended and was freed, and that no derived group needs.
    pub(super) fn forget_if_over(&mut self, group: GroupId) {
        let is_listed = self.head.as_ref().is_some_and(|head| head.listed.contains_key(&group));
        let over = |known: &Group| known.freed && known.over && known.is_at_rest();
        if !is_listed && self.group(group).is_ok_and(over) {
            self.forget_everywhere(group);
        }
    }

    /// All nodes learn the deaths before they forget the group, since clients there may have subscribed.
    fn forget_everywhere(&mut self, group: GroupId) {
        if self.remove_group(group).is_none() {
            return;
        }
        self.fail_meetings_of(group);
        let deaths: Vec<Death> =
            self.deaths.known.get(&group).into_iter().flat_map(|deaths| deaths.iter().copied()).collect();
        if deaths.is_empty() {
            return self.forget_now(group);
        }
        self.deliver(self.others(), Order::Died(deaths), Continuation::Forget(group));
    }

    pub(super) fn forget_now(&mut self, group: GroupId) {
        self.deliver(self.others(), Order::Forget(group), Continuation::Nothing);
        self.forget(group);
    }

    /// Frees the number of a group.
    pub(super) fn free(&mut self, group: GroupId) -> Result<Answer, Fault> {
        let known = self.group_mut(group)?;
        known.freed = true;
        match known.stage.clone() {
            Stage::Open(_) if known.start.starter.is_none() => {
                let waiting = std::mem::take(&mut known.waiting);
                self.forget_everywhere(group);
                waiting.into_iter().for_each(|(requester, ..)| self.settle(requester, Err(no_group(group))));
            }
            Stage::Derived { .. } => self.forget_everywhere(group),
            _ => self.forget_if_over(group),
        }
        Ok(Answer::Done)
    }

    pub(super) fn all_status(&self) -> Vec<GroupStatus> {
        let groups = self.head.iter().flat_map(|head| head.groups.keys());
        groups.take(SHOWN_MAX).filter_map(|group| self.status(*group).ok()).collect()
    }

    /// The status of a group and of its processes.
    pub(super) fn status(&self, group: GroupId) -> Result<GroupStatus, Fault> {
        let known = self.group(group)?;
        let members = self.member_status(group);
        let specs = known.layout.as_ref().map_or(&known.plan.specs, |layout| &layout.specs);
        Ok(GroupStatus {
            group,
            parent: known.parent,
            state: known.state(),
            database: self.roster_of(group).map(|roster| roster.database).unwrap_or_default(),
            program: specs.first().map(|spec| spec.program.clone()).unwrap_or_default(),
            age: self.now.saturating_sub(known.began),
            members,
        })
    }

    /// The status of the processes of a group that was started, or made of members of others.
    fn member_status(&self, group: GroupId) -> Vec<MemberStatus> {
        let Some(roster) = self.roster_of(group) else { return Vec::new() };
        let status = |(rank, member): (Rank, Member)| {
            let (known, deaths) = (self.group(member.group).ok(), self.deaths.known.get(&member.group));
            Some(MemberStatus {
                rank,
                node: self.layout(member.group)?.node_of(member.rank)?,
                pid: known.and_then(|known| known.start.pids.get(&member.rank).copied()),
                death: deaths.and_then(|deaths| deaths.get(member.rank)).copied(),
            })
        };
        (0..).zip(roster.members()).filter_map(status).collect()
    }
}
