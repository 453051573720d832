//! The processes of a measurement, and the calls of a turn.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpc_trees::IdList;

use super::machine::cpu_ns;
use super::plan::{Bound, Nodes, Row, SetPlan};
use crate::Failure;
use crate::args::{ROUNDS_MAX, RootKind};
use crate::cause::{Names, died, explain};
use crate::interrupt::Interrupt;
use crate::joining::{refuse_taken, until_up};
use crate::launching;
use crate::limits::cannot_start;
use crate::trust::Trust;
use chained_gpc::bootstrap::Member;
use chained_gpc::runtime::{
    AbsentPeers, Call, CallError, CallHandle, Functions, LinkKind, Node, Outcome, Peers, PolledNode, ReplyRef,
};
use gpc_launch::Launch;
use gpc_launch::NodeSettings;
use gpc_launch::remote::RemoteLaunch;

/// Time that the processes have to end by themselves.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Interval at which a waiting command checks for a signal or for the end of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Minimum number of calls of a turn with a time limit: one call would be no median.
const ROUNDS_MIN: u32 = 3;

/// Running processes, and this one as their root.
#[derive(Debug)]
pub(super) struct Set<'a> {
    root: Root<'a>,
    launch: Option<Launch>,
    /// Processes that were started on other hosts.
    remote: Option<RemoteLaunch>,
    /// Addresses of the nodes that were joined.
    joined: Option<Peers>,
}

/// The root's node, by the thread that drives it: the measuring thread, or a thread of the node.
#[derive(Debug)]
enum Root<'a> {
    Polled(Box<PolledNode>),
    Threaded(Node),
    /// One of the processes that a launcher started; it leaves when all is measured.
    Member(&'a Member),
}

impl Root<'_> {
    fn call(&self, call: Call) -> Result<CallHandle, CallError> {
        match self {
            Root::Polled(node) => node.call(call),
            Root::Threaded(node) => node.call(call),
            Root::Member(member) => member.call(call),
        }
    }

    fn wait_for_peers(&mut self, ids: &IdList, limit: Duration) -> Result<(), AbsentPeers> {
        match self {
            Root::Polled(node) => node.wait_for_peers(ids.clone(), limit),
            Root::Threaded(node) => node.wait_for_peers(ids.clone(), limit),
            Root::Member(member) => member.wait_for_peers(ids.clone(), limit),
        }
    }

    /// Returns the end of a call, if it comes within [`POLL_INTERVAL`].
    fn wait_for(&mut self, handle: &mut CallHandle) -> Option<Result<Outcome, CallError>> {
        match self {
            Root::Polled(node) => node.wait_for(handle, POLL_INTERVAL),
            Root::Threaded(_) | Root::Member(_) => handle.wait_for(POLL_INTERVAL),
        }
    }

    fn shutdown(self) {
        match self {
            // The only possible error is a failed poll, which does not matter at the end.
            Root::Polled(node) => drop(node.shutdown(Duration::ZERO)),
            Root::Threaded(node) => node.shutdown(Duration::ZERO),
            Root::Member(_) => {}
        }
    }
}

impl<'a> Set<'a> {
    /// Starts the processes if there are any to start, and the root's node in this process.
    ///
    /// # Errors
    /// If a process or node cannot be started, the root's id is taken, or the start is interrupted. Nothing is left
    /// running then.
    pub(super) fn open(
        plan: &SetPlan,
        functions: &Functions,
        member: Option<&'a Member>,
        interrupt: &Interrupt,
    ) -> Result<Set<'a>, Failure> {
        if let (Nodes::Started, Some(member)) = (&plan.nodes, member) {
            return Ok(Set { root: Root::Member(member), launch: None, remote: None, joined: None });
        }
        let link = match plan.nodes {
            Nodes::Start { link, .. } | Nodes::Hosts { link, .. } => link,
            Nodes::Join { .. } | Nodes::Started => LinkKind::DEFAULT,
        };
        let watching = NodeSettings::new(None, plan.wait.0, link);
        let (mut launch, mut remote, mut joined) = (None, None, None);
        let builder = match &plan.nodes {
            // A process with such nodes is a member, and returned above.
            Nodes::Started => Node::builder(0),
            Nodes::Join { peers, root, trust, .. } => {
                refuse_taken(*root, peers)?;
                joined = Some(peers.clone());
                trust.clone().apply(Node::builder(*root).peers(peers.clone()))
            }
            Nodes::Start { n, link } => {
                let started = launching::start(1..*n, *link, watching, &[], interrupt)?;
                let builder = Node::builder(0).peers(started.peers().clone());
                let builder = Trust::of_launch(&started).apply(builder);
                launch = Some(started);
                builder
            }
            Nodes::Hosts { plan, .. } => {
                let started = launching::start_remote(plan, watching, || interrupt.signal().is_some())?;
                let builder = started.root(Node::builder(0));
                remote = Some(started);
                builder
            }
        };
        let builder = watching.apply(builder.functions(functions));
        let mut root = match plan.root {
            RootKind::Polled => Root::Polled(Box::new(builder.polled().map_err(cannot_start("this node"))?)),
            RootKind::Thread => Root::Threaded(builder.start().map_err(cannot_start("this node"))?),
        };
        if let Nodes::Join { peers, patience: Some(patience), .. } = &plan.nodes {
            let ids = IdList::from_ids(peers.ids()).expect("a peers file has each id once");
            until_up(
                *patience,
                &chained_gpc::Clock::system(),
                || interrupt.signal().is_some(),
                |limit| root.wait_for_peers(&ids, limit),
            )?;
        }
        Ok(Set { root, launch, remote, joined })
    }

    /// Ends the processes and the root's node.
    pub(super) fn close(self) {
        if let Some(launch) = self.launch {
            launch.end(END_LIMIT);
        }
        if let Some(remote) = self.remote {
            remote.end(END_LIMIT);
        }
        self.root.shutdown();
    }

    /// Returns the CPU time of all its processes since they started, in nanoseconds, without this one; `None` if they
    /// were not started here.
    pub(super) fn all_cpu_ns(&self) -> Option<u64> {
        let launch = self.launch.as_ref()?;
        launch.processes().map(cpu_ns).sum()
    }

    /// Returns the CPU time of the processes of some ids since they started, in nanoseconds, without this one; `None`
    /// if they were not started here.
    pub(super) fn cpu_ns(&self, ids: &IdList) -> Option<u64> {
        let launch = self.launch.as_ref()?;
        ids.iter().filter_map(|id| launch.process_of(id)).map(cpu_ns).sum()
    }

    /// Makes calls of a row up to a bound, with the number in flight that the row has, and adds the time of each in
    /// nanoseconds. Returns the time of all calls; `None` if it was interrupted.
    ///
    /// # Errors
    /// The first cause, if a call fails or the replies are not the expected ones.
    pub(super) fn turn(
        &mut self,
        row: &Row,
        bound: Bound,
        interrupt: &Interrupt,
        times_ns: &mut Vec<u64>,
    ) -> Result<Option<Duration>, Failure> {
        let mut flying: VecDeque<(Instant, CallHandle)> = VecDeque::new();
        let begun = Instant::now();
        let mut made = 0;
        loop {
            while flying.len() < row.in_flight as usize && bound.wants(made, begun) {
                let sent = Instant::now();
                flying.push_back((sent, self.root.call(row.call.clone())?));
                made += 1;
            }
            let Some((sent, handle)) = flying.pop_front() else { return Ok(Some(begun.elapsed())) };
            let Some(outcome) = self.wait(handle, sent, row, interrupt)? else {
                flying.iter().for_each(|(_, handle)| handle.cancel());
                return Ok(None);
            };
            let replies = outcome.replies_ref()?;
            times_ns.push(u64::try_from(sent.elapsed().as_nanos())?);
            check(row, &replies)?;
        }
    }

    /// Waits for the end of a call, sent at `sent`; `None` if it was interrupted. If a process dies, the call ends.
    fn wait(
        &mut self,
        mut handle: CallHandle,
        sent: Instant,
        row: &Row,
        interrupt: &Interrupt,
    ) -> Result<Option<Outcome>, Failure> {
        let (ids, func) = (&row.ids, row.func.as_str());
        let (mut looked, mut dead) = (sent, None);
        // Ends: the call has a time limit.
        let ended = loop {
            if let Some(ended) = self.root.wait_for(&mut handle) {
                break ended;
            }
            if interrupt.signal().is_some() {
                handle.cancel();
                return Ok(None);
            }
            if dead.is_none() && looked.elapsed() >= POLL_INTERVAL {
                let far = self.remote.as_ref().and_then(|remote| remote.first_lost(ids));
                dead = far.or_else(|| self.launch.as_mut()?.first_ended(ids));
                dead.iter().for_each(|_| handle.cancel());
                looked = Instant::now();
            }
        };
        match ended.map_err(|error| died(error, dead)) {
            Ok(outcome) if interrupt.signal().is_none() => Ok(Some(outcome)),
            Ok(_) => Ok(None),
            Err(CallError::Failed(failed)) => {
                let (launch, remote) = (self.launch.as_mut(), self.remote.as_ref());
                let joined = self.joined.as_ref();
                Err(explain(failed.cause(), &Names { func, ..Names::default() }, launch, remote, joined)
                    .to_string()
                    .into())
            }
            Err(refused) => Err(refused.into()),
        }
    }
}

impl Bound {
    /// Whether a turn that has made this many calls makes another one.
    fn wants(self, made: u32, begun: Instant) -> bool {
        let in_time = || self.time.is_none_or(|time| made < ROUNDS_MIN || begun.elapsed() < time);
        made < self.rounds.unwrap_or(ROUNDS_MAX) && in_time()
    }
}

/// Checks that every id has sent the expected reply.
fn check(row: &Row, replies: &[ReplyRef<'_>]) -> Result<(), String> {
    let Some(expected) = &row.reply else { return Ok(()) };
    match replies.iter().find(|reply| reply.data != *expected) {
        Some(ReplyRef { id, data, .. }) => {
            let (got, wanted) = (data.len(), expected.len());
            Err(format!("id {id} replied with {got} bytes that are not the {wanted} it was asked for"))
        }
        None if replies.len() != row.ids.len() as usize => {
            Err(format!("{} of {} ids replied", replies.len(), row.ids.len()))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_by_number_or_by_time_but_makes_a_few_calls() {
        let now = Instant::now();
        let wants = |rounds, time: Option<u64>, made| {
            Bound { rounds, time: time.map(Duration::from_secs) }.wants(made, now)
        };
        assert!(wants(Some(5), None, 4) && !wants(Some(5), None, 5));
        assert!(wants(None, Some(0), 2) && !wants(None, Some(0), 3), "its time is over at once");
        assert!(!wants(Some(1), Some(3600), 1) && wants(Some(9), Some(3600), 8));
        assert!(wants(None, Some(3600), ROUNDS_MAX - 1) && !wants(None, Some(3600), ROUNDS_MAX));
    }
}
