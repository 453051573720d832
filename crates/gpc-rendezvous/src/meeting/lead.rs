//! The part of the controlling task in a meeting: gathers, registers with the parent, and announces.

use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{Call, CallError, CauseKind, Clock, IdList, Node, Shown, TimeLimit};

use super::message::{announcement, question};
use super::resource::RENEW;
use super::shared::Shared;
use super::{Gathering, MeetError, MeetingOutcome, ParentResource, Plan, Resource, wait_within};
use crate::machine::{Completion, Fault, FaultKind, RankChoice, Scope, Token, Unit, below, join_data};
use crate::native::LIMIT_MAX;
use crate::service_thread::draw_token;

/// Least time for an announcement, so that a meeting that has reached its time limit can still announce this.
const ANNOUNCE_MIN: Duration = Duration::from_secs(10);

/// Pause before the gather is retried, if a task was not reached.
const AGAIN: Duration = Duration::from_millis(100);

/// From this length on, data are forwarded through the tree while they arrive, bytes.
const FLOW_MIN: usize = 64 << 10;

/// Conducts the meeting, and announces the outcome to all tasks.
pub(super) fn lead(
    shared: &Shared,
    node: &Node,
    clock: &Clock,
    meeting: u64,
    plan: &Plan,
) -> Result<Completion, MeetError> {
    let token = draw_token()?;
    let until = clock.limit(plan.limit.min(LIMIT_MAX));
    let lead = Leader { shared, node, clock, meeting, plan, token, until };
    let ended = lead.conduct();
    announce(shared, node, meeting, &plan.ids, &ended, lead.left())?;
    Ok(ended?)
}

struct Leader<'a> {
    shared: &'a Shared,
    node: &'a Node,
    clock: &'a Clock,
    meeting: u64,
    plan: &'a Plan,
    /// Token of this task at both resources.
    token: Token,
    until: TimeLimit,
}

impl Leader<'_> {
    fn left(&self) -> Duration {
        self.until.left().unwrap_or_default()
    }

    fn conduct(&self) -> MeetingOutcome {
        let Some(above) = &self.plan.above else { return self.gather_completion() };
        self.control()?;
        // The data of this job's tasks are of level 1.
        let fits = above.resource.properties().and_then(|found| below(found.level, Some(1)));
        let ended = fits
            .and_then(|()| self.gather_completion())
            .and_then(|gathered| self.above(above, gathered.data));
        if let (Some((resource, unit)), Err(fault)) = (self.unit(), &ended) {
            // Tell the tasks that wait at the parent why this unit will not register. If the parent has failed by
            // itself, this has no effect.
            let _ = resource.release(unit, &self.token, Some(fault.message.clone()));
        }
        ended
    }

    /// The unit that this task controls at the parent; `None` if its rank is assigned at registration.
    fn unit(&self) -> Option<(&dyn Resource, Unit)> {
        let ParentResource { resource, rank } = self.plan.above.as_ref()?;
        match rank {
            RankChoice::Rank(rank) => Some((&**resource, Unit::Rank(u32::try_from(*rank).ok()?))),
            RankChoice::Assign => None,
        }
    }

    /// Registers as controlling task at the parent, or renews the lease.
    fn control(&self) -> Result<(), Fault> {
        self.unit().map_or(Ok(()), |(resource, unit)| resource.control(unit, &self.name(), &self.token))
    }

    /// The data of this job's tasks, level 1.
    fn gather_completion(&self) -> MeetingOutcome {
        let resource = match &self.plan.gathering {
            Gathering::Call => {
                let data = self.gather()?;
                return Ok(Completion { level: 1, data, joint: None });
            }
            Gathering::Resource(resource) => resource,
        };
        resource.control(Unit::Own, &self.name(), &self.token)?;
        let rank = rank(&self.plan.ids, self.node.id());
        resource.register(RankChoice::Rank(rank), &self.token, self.plan.data.clone())?;
        if self.plan.ids.len() == 1 && self.plan.above.is_some() {
            // A single task need not wait for the completion.
            let (data, _) = join_data(1, [&self.plan.data].into_iter());
            return Ok(Completion { level: 1, data, joint: None });
        }
        let completion =
            wait_within(&self.until, &**resource, Scope::Own, &self.token, || drop(self.control()))?;
        completion.ok_or_else(|| {
            let missing = missing(&**resource);
            let message = format!(
                "the tasks of this job have not all registered within {:?}; missing are the ranks {}",
                self.plan.limit,
                listed(&missing)
            );
            first_rank(Fault::new(FaultKind::NotRegistered, message), &missing)
        })
    }

    /// Collects the data of each task by calls, and joins them by rank.
    fn gather(&self) -> Result<Bytes, Fault> {
        let ids = &self.plan.ids;
        let start = self.clock.limit(self.plan.start);
        // Ends: when all have answered, one is lost, or the time to start is over.
        let outcome = loop {
            match self.ask_all() {
                Ok(outcome) => break outcome,
                Err(error) if error.kind() == Some(CauseKind::Unreachable) && !start.is_over() => {
                    // No announcement arrives here: the wait is a pause.
                    self.shared.wait(self.meeting, AGAIN.min(self.left()));
                }
                Err(error) => return Err(self.absent(&error)),
            }
        };
        let nonsense = |error: &dyn std::fmt::Display| {
            Fault::new(FaultKind::Malformed, format!("the tasks' data are not as they should be: {error}"))
        };
        let mut replies = outcome.replies().map_err(|error| nonsense(&error))?;
        // The call's own order has its root first.
        replies.sort_by_key(|reply| rank(ids, reply.id));
        if replies.len() as u64 != u64::from(ids.len()) {
            return Err(nonsense(&"some are missing"));
        }
        Ok(join_data(1, replies.iter().map(|reply| &reply.data)).0)
    }

    /// One call to all tasks, which completes when all have joined the meeting.
    fn ask_all(&self) -> Result<chained_gpc::Outcome, CallError> {
        let call = Call::new(self.shared.functions.gather).ids(self.plan.ids.clone());
        let mut handle = self.node.call(call.header(question(self.meeting)).limit(self.left()))?;
        renewing(|limit| handle.wait_for(limit), || drop(self.control()))
    }

    /// The fault for a task that has not provided its data.
    fn absent(&self, error: &CallError) -> Fault {
        let Some(cause) = error.cause() else {
            return Fault::new(
                FaultKind::Unavailable,
                format!("the tasks' data cannot be gathered: {error}"),
            );
        };
        let rank = rank(&self.plan.ids, cause.id);
        let why = Shown(&error.to_string()).to_string();
        let message = format!("the task with rank {rank}, id {}, has not come: {why}", cause.id);
        Fault::new(FaultKind::NotRegistered, message).of_rank(rank)
    }

    /// Registers the job's data with the parent, and waits for the top.
    fn above(&self, above: &ParentResource, data: Bytes) -> MeetingOutcome {
        let ParentResource { resource, rank } = above;
        let registered = resource.register(*rank, &self.token, data)?;
        wait_within(&self.until, &**resource, Scope::Top, &self.token, || ())?.ok_or_else(|| {
            let missing = missing(&**resource);
            let message = format!(
                "the rendezvous above, where this job has rank {}, is not complete within {:?}; missing are the ranks {}",
                registered.rank,
                self.plan.limit,
                listed(&missing)
            );
            first_rank(Fault::new(FaultKind::AboveFailed, message), &missing)
        })
    }

    fn name(&self) -> String {
        format!("id {}", self.node.id())
    }
}

/// Waits for a result, and renews leases meanwhile. `wait` waits up to a limit, and returns the result in the end.
fn renewing<T>(mut wait: impl FnMut(Duration) -> Option<T>, renew: impl Fn()) -> T {
    // Ends: the operation behind `wait` has a time limit.
    loop {
        if let Some(ended) = wait(RENEW) {
            return ended;
        }
        renew();
    }
}

/// Announces the outcome to all tasks of the job. If tasks are lost, the announcement is repeated without them.
pub(super) fn announce(
    shared: &Shared,
    node: &Node,
    meeting: u64,
    ids: &IdList,
    ended: &MeetingOutcome,
    limit: Duration,
) -> Result<(), MeetError> {
    let (header, data) = announcement(meeting, ended);
    let flows = data.len() >= FLOW_MIN;
    let call = Call::new(shared.functions.announce).ids(ids.clone());
    let call = call.header(header).data(data).limit(limit.max(ANNOUNCE_MIN));
    let whole = if flows { call.clone().forward_first() } else { call.clone() };
    let error = match node.call(whole)?.wait() {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    tracing::debug!(%error, "an announcement has not reached all tasks; it goes on without those that are lost");
    match node.call(call.partial())?.wait() {
        Ok(outcome) => {
            let (done, of) = (outcome.done().len(), ids.len());
            if done < of {
                tracing::warn!(done, of, %error, "an announcement has not reached all tasks");
            }
        }
        Err(error) => tracing::warn!(%error, "an announcement has not reached the tasks"),
    }
    Ok(())
}

/// Rank of a task in its job. For an id outside the list it is the number of tasks.
pub(super) fn rank(ids: &IdList, id: chained_gpc::Id) -> u64 {
    ids.iter().position(|task| task == id).unwrap_or(ids.len() as usize) as u64
}

/// Ranks that have not registered, if the service reports them.
fn missing(resource: &dyn Resource) -> Vec<u32> {
    resource.properties().map(|properties| properties.missing).unwrap_or_default()
}

fn first_rank(fault: Fault, missing: &[u32]) -> Fault {
    match missing.first() {
        Some(rank) => fault.of_rank((*rank).into()),
        None => fault,
    }
}

fn listed(missing: &[u32]) -> String {
    match missing {
        [] => "that the service does not tell".into(),
        missing => missing.iter().map(u32::to_string).collect::<Vec<String>>().join(", "),
    }
}

#[cfg(test)]
mod tests;
