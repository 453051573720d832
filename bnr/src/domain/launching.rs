//! A group that is closed is started: all its processes together, or none.

use std::sync::Arc;

use chained_gpc::Id;

use super::group::database_of;
use super::head::no_group;
use super::node::{Domain, Flight, ReplyTo};
use super::placement::place;
use crate::exit::{Death, Exit};
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member};
use crate::order::{Order, Report};
use crate::request::{Answer, GroupState};
use crate::spec::Layout;

/// What a process is said to be that could not be started since its node is gone: no route to the host, as the system has it.
const UNREACHABLE: i32 = 113;

impl Domain {
    /// Closes a group, and starts it.
    pub(super) fn launch(&mut self, group: GroupId, to: ReplyTo) {
        match self.lay_out(group) {
            Ok(layout) => {
                let nodes = layout.nodes();
                self.install(&layout);
                if let Some(known) = self.groups.get_mut(&group).filter(|known| known.here.is_empty()) {
                    known.empty = true;
                }
                let limit = self.settings.limits.fence;
                self.call_within(nodes, Order::Start(layout), true, limit, Flight::Start(group, to));
            }
            Err(fault) => {
                if let Some(head) = &mut self.head
                    && let Some(known) =
                        head.groups.get_mut(&group).filter(|known| known.state == GroupState::Open)
                {
                    known.state = GroupState::Ended;
                }
                self.settle(to, Err(fault));
            }
        }
    }

    fn lay_out(&mut self, group: GroupId) -> Result<Arc<Layout>, Fault> {
        let (me, name, runs) = (self.settings.me, self.settings.name.clone(), self.settings.runs);
        let lost = self.lost.clone();
        let mut nodes: Vec<Id> = self.settings.nodes.clone();
        nodes.retain(|node| !lost.contains(node) && (runs || *node != me));
        let Some(head) = &mut self.head else { return Err(no_group(group)) };
        nodes.sort_by_key(|node| head.load(*node));
        let known = head.groups.get_mut(&group).ok_or_else(|| no_group(group))?;
        if known.state != GroupState::Open {
            return Err(Fault::new(FaultKind::GroupClosed, format!("the group {group} is closed already")));
        }
        if nodes.is_empty() {
            return Err(Fault::new(
                FaultKind::NotStarted,
                "no node of the domain is left that runs processes",
            ));
        }
        if known.specs.iter().all(|spec| spec.count == 0) {
            return Err(Fault::new(FaultKind::BadRequest, "a group has one process at least"));
        }
        let preputs = std::mem::take(&mut known.preputs);
        let layout = Arc::new(Layout {
            group,
            parent: known.parent,
            database: database_of(&name, group),
            blocks: place(&known.specs, &nodes)?,
            specs: known.specs.clone(),
            on_death: known.on_death,
            preputs: preputs.into_iter().map(|pair| (pair.key, pair.value)).collect(),
            input: known.input,
        });
        known.state = GroupState::Starting;
        known.layout = Some(layout.clone());
        Ok(layout)
    }

    /// All nodes have started their part, or not.
    pub(super) fn all_started(
        &mut self,
        group: GroupId,
        to: ReplyTo,
        reports: &[(Id, Result<Report, Fault>)],
    ) {
        let Some(known) = self.head.as_mut().and_then(|head| head.groups.get_mut(&group)) else { return };
        let Some(layout) = known.layout.clone() else { return };
        let mut errors = vec![UNREACHABLE; layout.size() as usize];
        let mut gone = Vec::new();
        for (node, report) in reports {
            match report {
                Ok(Report::Started(ranks)) => {
                    for (rank, result) in ranks {
                        let Some(error) = errors.get_mut(*rank as usize) else { continue };
                        *error = result.err().unwrap_or_default();
                        if let Ok(pid) = result {
                            known.pids.insert(*rank, *pid);
                        }
                    }
                }
                _ => gone.extend(layout.ranks_on(*node)),
            }
        }
        if known.state == GroupState::Starting {
            known.state = GroupState::Running;
        }
        let waits = std::mem::take(&mut known.waits);
        for rank in gone {
            let member = Member { group, rank };
            self.learn(Death { member, exit: Exit::Never, finalized: true }, true);
        }
        if errors.iter().any(|error| *error != 0) {
            self.kill_group(group, ReplyTo::Nobody);
        }
        let size = layout.size().into();
        waits.into_iter().for_each(|wait| self.settle(wait, Ok(Answer::Number(size))));
        self.settle(to, Ok(Answer::Spawned { group, errors, same_domain: true }));
    }
}
