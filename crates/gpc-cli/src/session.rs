//! The nodes of a running `gpc call`: this process is the root, the others are started or joined.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use bytes::Bytes;

use super::builtin::set_secret_mark;
use super::cause::{Names, died, explain, waiting};
use super::interrupt::Interrupt;
use super::joining::{refuse_taken, until_up};
use super::launching;
use super::limits::cannot_start;
use super::output::{Content, Counts, FirstCause, Missing, Outcome, Reduced, Repeat, Reply};
use super::plan::{CallPlan, Nodes};
use super::progress::Progress;
use super::trust::Trust;
use super::{Failure, say};
use chained_gpc::bootstrap::Member;
use chained_gpc::runtime::{self, CallError, Functions, Node, Trace};
use chained_gpc::wire::{Cause, CauseKind, Coverage, Stage, Status};
use chained_gpc::{Clock, Id};
use gpc_launch::Launch;
use gpc_launch::remote::RemoteLaunch;

/// Interval at which a waiting command checks for a signal: too short for a person to notice.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The nodes to call.
#[derive(Debug)]
pub struct Session {
    node: Own,
    /// The processes started for the session; `None` if running nodes were joined.
    launch: Option<Launch>,
    /// The processes started on other hosts.
    remote: Option<RemoteLaunch>,
}

/// The node of this process.
#[derive(Debug)]
enum Own {
    /// Started by this command.
    Node(Node),
    /// One of the processes that a launcher started.
    Member(Box<Member>),
}

impl Own {
    fn node(&self) -> &Node {
        match self {
            Own::Node(node) => node,
            Own::Member(member) => member.node(),
        }
    }
}

/// Result of the calls of a session.
#[derive(Clone, PartialEq, Debug)]
pub struct CallReply {
    /// The last call, with the times of all calls.
    pub outcome: Outcome,
    /// Reply data of the last call, unchanged.
    pub data: Bytes,
    /// The times of the ids, if the call was traced.
    pub trace: Option<Trace>,
}

impl Session {
    /// Returns the session of id 0 of the processes that a launcher started.
    pub fn of_member(member: Member) -> Session {
        Session { node: Own::Member(Box::new(member)), launch: None, remote: None }
    }

    /// Starts the other processes if there are any to start, and the root's node in this process.
    ///
    /// # Errors
    /// If a process or the root's node cannot be started, the root's id is taken, or the start is interrupted. Nothing
    /// is left running then.
    pub fn open(plan: &CallPlan, functions: &Functions, interrupt: &Interrupt) -> Result<Session, Failure> {
        let root = plan.root;
        let builder = Node::builder(root).functions(functions);
        let (mut launch, mut remote) = (None, None);
        let builder = match &plan.nodes {
            Nodes::Join { peers, trust, .. } => {
                refuse_taken(root, peers)?;
                set_secret_mark(trust.secret());
                trust.clone().apply(builder.peers(peers.clone()))
            }
            // A process with such peers is a member, and uses `of_member`.
            Nodes::Started { peers } => builder.peers(peers.clone()),
            Nodes::Start { n, link } => {
                let started = launching::start(1..*n, *link, plan.watching, &plan.loads, interrupt)?;
                let builder = builder.peers(started.peers().clone());
                let builder = Trust::of_launch(&started).apply(builder);
                launch = Some(started);
                builder
            }
            Nodes::Hosts(hosts) => {
                let started = launching::start_remote(hosts, plan.watching, || interrupt.signal().is_some())?;
                let builder = started.root(builder);
                remote = Some(started);
                builder
            }
        };
        let node = plan.watching.apply(builder).start().map_err(cannot_start("this node"))?;
        if let Nodes::Join { patience: Some(patience), .. } = &plan.nodes {
            until_up(
                *patience,
                &Clock::system(),
                || interrupt.signal().is_some(),
                |limit| node.wait_for_peers(plan.ids.clone(), limit),
            )?;
        }
        Ok(Session { node: Own::Node(node), launch, remote })
    }

    /// Makes the calls of a plan one after the other. Stops at the first that fails, and if interrupted.
    ///
    /// # Errors
    /// If a call is refused before it is sent, or the replies are malformed. A call that fails is an outcome.
    pub fn make_calls(&mut self, plan: &CallPlan, interrupt: &Interrupt) -> Result<CallReply, Failure> {
        let count = plan.repeat.unwrap_or(1);
        let mut times_us = Vec::new();
        let clock = Clock::system();
        let progress = Progress::new(plan, count, &clock);
        loop {
            let begun = clock.now();
            let ended = self.make_call(plan, interrupt, &progress);
            let wall_us = u64::try_from((clock.now() - begun).as_micros())?;
            times_us.push(wall_us);
            progress.made();
            let failed = !ended.as_ref().is_ok_and(runtime::Outcome::is_complete)
                || late(plan.root, plan.time_limit, wall_us).is_some();
            let is_last = times_us.len() >= count as usize || interrupt.signal().is_some() || failed;
            if !is_last {
                continue;
            }
            let repeat = plan.repeat.and_then(|_| Repeat::of_times_us(&mut times_us));
            return self.made(plan, ended, wall_us, repeat);
        }
    }

    /// Ends the root's node, and all processes that were started.
    pub fn close(self, limit: Duration) {
        // The processes end at once on this, so the root need not send a goodbye to each.
        if let Some(launch) = self.launch {
            let ended = launch.end(limit);
            for (id, how) in &ended.failed {
                tracing::debug!(id, how, "a process did not end in order");
            }
        }
        if let Some(remote) = self.remote {
            remote.end(limit);
        }
        match self.node {
            Own::Node(node) => node.shutdown(Duration::ZERO),
            Own::Member(member) => {
                if let Err(error) = member.finish(Duration::ZERO) {
                    say(&error.to_string());
                }
            }
        }
    }

    /// Makes one call. If a process dies, the call ends at once, even if its parent in the tree has not reached it yet;
    /// a partial call continues.
    fn make_call(
        &mut self,
        plan: &CallPlan,
        interrupt: &Interrupt,
        progress: &Progress,
    ) -> Result<runtime::Outcome, CallError> {
        let mut handle = self.node.node().call(plan.call())?;
        progress.begin();
        let mut dead = None;
        // Ends: the call has a time limit.
        let ended = loop {
            if let Some(ended) = handle.wait_for(POLL_INTERVAL) {
                break ended;
            }
            progress.waiting(plan, &handle);
            if interrupt.signal().is_some() {
                handle.cancel();
            } else if dead.is_none() && !plan.partial {
                let far = self.remote.as_ref().and_then(|remote| remote.first_lost(&plan.ids));
                dead = far.or_else(|| self.launch.as_mut()?.first_ended(&plan.ids));
                dead.iter().for_each(|_| handle.cancel());
            }
        };
        ended.map_err(|error| died(error, dead))
    }

    fn made(
        &mut self,
        plan: &CallPlan,
        ended: Result<runtime::Outcome, CallError>,
        wall_us: u64,
        repeat: Option<Repeat>,
    ) -> Result<CallReply, Failure> {
        let nodes = plan.ids.len();
        let mut outcome = Outcome {
            func: plan.called.func_name.clone(),
            tree: plan.tree_name.to_string(),
            nodes,
            root: plan.root,
            root_part: plan.part,
            partial: plan.partial,
            callback: plan.called.callback_name.clone(),
            no_reply: plan.no_reply,
            level: plan.levels,
            wall_us,
            coverage: Counts::default(),
            cause: None,
            missing: Vec::new(),
            replies: Vec::new(),
            reduced: None,
            repeat,
        };
        // The call is over when the command has its outcome.
        let late = late(plan.root, plan.time_limit, wall_us);
        let failure = match ended {
            Ok(reply) => {
                outcome.coverage = reply.coverage().counts().into();
                outcome.replies = replies(&reply)?;
                if let Some(reduction) = plan.called.reduction.filter(|_| reply.level() == 0) {
                    outcome.reduced = Reduced::of(reduction, reply.data())?;
                }
                outcome.cause = reply.causes().first().map(|cause| self.explain(plan, cause)).or(late);
                outcome.missing = self.missing(plan, reply.coverage(), reply.causes());
                let trace = reply.trace().cloned();
                return Ok(CallReply { outcome, data: reply.data().clone(), trace });
            }
            Err(CallError::Failed(failed)) => failed.failure().clone(),
            Err(refused) => return Err(refused.into()),
        };
        outcome.coverage = failure.coverage.counts().into();
        outcome.cause = Some(self.explain(plan, &failure.cause));
        outcome.missing = self.missing(plan, &failure.coverage, std::slice::from_ref(&failure.cause));
        Ok(CallReply { outcome, data: Bytes::new(), trace: None })
    }

    /// Returns the ids that are not done, each with its cause if known.
    fn missing(&mut self, plan: &CallPlan, coverage: &Coverage, causes: &[Cause]) -> Vec<Missing> {
        if coverage.counts().done == plan.ids.len() {
            return Vec::new();
        }
        let mut by_id = BTreeMap::new();
        for cause in causes {
            by_id.entry(cause.id).or_insert(cause);
        }
        let left_out = plan.ids.iter().zip(coverage.statuses());
        left_out
            .filter(|(_, status)| *status != Status::Done)
            .map(|(id, status)| {
                let cause = by_id.get(&id).map(|cause| self.explain(plan, cause));
                Missing { id, status: name_of(status), cause }
            })
            .collect()
    }

    fn explain(&mut self, plan: &CallPlan, first: &Cause) -> FirstCause {
        let joined = match &plan.nodes {
            Nodes::Start { .. } | Nodes::Hosts(_) | Nodes::Started { .. } => None,
            Nodes::Join { peers, .. } => Some(peers),
        };
        let names = Names {
            func: &plan.called.func_name,
            callback: plan.called.callback_name.as_deref(),
            tree: Some(&plan.tree_name.to_string()),
            waiting: waiting(plan, first.straggler.as_ref().map_or(first.id, |straggler| straggler.id)),
        };
        explain(first, &names, self.launch.as_mut(), self.remote.as_ref(), joined)
    }
}

/// Returns a cause for a call that is done at every id, but took longer than its time limit.
fn late(root: Id, time_limit: Option<Duration>, wall_us: u64) -> Option<FirstCause> {
    let took = Duration::from_micros(wall_us);
    let limit = time_limit.filter(|limit| took > *limit)?;
    let message = format!("the call took {took:?}, which is longer than its time limit of {limit:?}");
    Some(FirstCause::from(&Cause::new(root, Stage::Reply, CauseKind::TimeLimit, message)))
}

/// Returns the printed name of a status.
fn name_of(status: Status) -> &'static str {
    match status {
        Status::Done => "done",
        Status::Failed => "failed",
        Status::Unreached => "unreached",
        Status::Unknown => "unknown",
    }
}

fn replies(outcome: &runtime::Outcome) -> io::Result<Vec<Reply>> {
    let replies = outcome.replies().map_err(|error| io::Error::other(format!("the replies: {error}")))?;
    let content = |bytes: &Bytes| Content(bytes.to_vec());
    Ok(replies
        .iter()
        .map(|reply| Reply { id: reply.id, header: content(&reply.header), data: content(&reply.data) })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `gpc call sum --time-limit 1ms` reported that all were done in 5.5 ms, and ended with status 0.
    #[test]
    fn a_call_that_took_longer_than_its_limit_has_a_cause() {
        let ms = Some(Duration::from_millis(1));
        assert_eq!(late(0, ms, 1_000), None);
        assert_eq!(late(0, None, 5_500), None);
        let cause = late(0, ms, 5_500).expect("it took longer");
        assert_eq!(
            cause.to_string(),
            "id 0 failed at stage reply (time-limit): the call took 5.5ms, which is longer than its time limit of 1ms"
        );
    }
}
