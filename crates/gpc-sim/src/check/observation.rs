//! Observations of a world of calls: the input of the checkers.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpc_trees::{Group, Id};

use super::node_limits::Limits;
use super::plan::Plan;
use crate::faults::Fault;
use chained_gpc::chain::Job;
use chained_gpc::wire::message::SubtreeReply;
use chained_gpc::wire::{CallId, Failure, Message, Report};

/// An observation of a world.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// A call starts at its root.
    Started {
        /// Name of the call.
        call: CallId,
        /// Its plan.
        plan: Arc<Plan>,
    },
    /// func begins.
    Executed {
        /// The executing id.
        id: Id,
        /// The run of the id.
        run: u32,
        /// Name of the call.
        call: CallId,
    },
    /// A function begins, func or callback.
    Began {
        /// The executing id.
        id: Id,
        /// Name of the call.
        call: CallId,
        /// Limit of the call at this id, nanoseconds, if it is given.
        until: Option<u64>,
    },
    /// A function ends.
    Ran {
        /// The executing id.
        id: Id,
        /// Name of the call.
        call: CallId,
        /// How it ends.
        end: FunctionEnd,
    },
    /// A function that deferred its reply gives the reply or a failure, perhaps before it has ended.
    TokenUsed {
        /// The executing id.
        id: Id,
        /// Name of the call.
        call: CallId,
    },
    /// A node sends a message.
    Sent {
        /// Sender.
        from: Id,
        /// Receiver.
        to: Id,
        /// The message.
        message: &'a Message,
    },
    /// The world itself sends a copy of a request.
    Forged {
        /// Claimed sender.
        from: Id,
        /// Receiver.
        to: Id,
        /// Name of the call.
        call: CallId,
    },
    /// A job is given out.
    Job {
        /// The executing id.
        id: Id,
        /// The job.
        job: &'a Job,
    },
    /// An invalid request arrives from an id that has no part in the call.
    Misdirected {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
        /// Name of the call.
        call: CallId,
    },
    /// A malformed answer leaves in place of a node's own.
    Malformed {
        /// Sender.
        from: Id,
        /// Name of the call.
        call: CallId,
        /// Whether only the bytes of the reply are changed.
        garbled: bool,
    },
    /// A node receives a message.
    Received {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
        /// The message.
        message: &'a Message,
    },
    /// A node learns that a peer is alive: a message without effect arrived, or the socket has taken bytes.
    Heard {
        /// The node.
        at: Id,
        /// The peer.
        from: Id,
    },
    /// A node informs the running functions of a call that the call has ended.
    Stopped {
        /// The node.
        id: Id,
        /// Name of the call.
        call: CallId,
    },
    /// All data of a request that was sent in pieces have arrived.
    DataCame {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
        /// Name of the call.
        call: CallId,
    },
    /// The head of a long reply is dropped because its receiver does not await one. Or the receiver asks for the head
    /// of a partial call, whose data it needs whole.
    HeadDropped {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
        /// Name of the call.
        call: CallId,
    },
    /// A link of a node comes up.
    LinkUp {
        /// The node.
        at: Id,
        /// The peer.
        peer: Id,
    },
    /// The next data of a request were at their sender, and are dropped.
    DataGone {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
        /// Name of the call.
        call: CallId,
    },
    /// A request arrived.
    Requested {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
    },
    /// A node reports a request as consumed.
    Consumed {
        /// The node.
        at: Id,
        /// Sender of the request.
        from: Id,
    },
    /// Settings of heartbeats; without this observation they are off.
    Heartbeat {
        /// Interval, nanoseconds.
        every_ns: u64,
        /// Time of silence until death, nanoseconds.
        dead_after_ns: u64,
    },
    /// Limits of the nodes; without this observation there are none.
    Limits(Limits),
    /// Links are real: a request may wait for its link, or for credit, until its time has passed.
    RequestsWait,
    /// Largest number of ids below silent ones that a node asks at a time; without this observation the default.
    Descendants(usize),
    /// A heartbeat request has left.
    PingLeft {
        /// Sender.
        at: Id,
        /// Receiver.
        peer: Id,
        /// Time at which it was sent, nanoseconds.
        asked_ns: u64,
    },
    /// A node gives up a silent peer.
    Abandoned {
        /// The node.
        at: Id,
        /// The peer.
        peer: Id,
    },
    /// The caller gives up a call.
    GivenUp {
        /// Name of the call.
        call: CallId,
    },
    /// An end of a link learned that it is lost.
    LinkEnded {
        /// The end.
        at: Id,
        /// The other end.
        peer: Id,
        /// Whether the link never came up.
        unreached: bool,
    },
    /// A fault takes effect.
    Injected {
        /// The fault.
        fault: Fault,
        /// Ids that it touches; all ids if empty.
        ids: &'a [Id],
    },
    /// A process ends.
    Ended {
        /// Its id.
        id: Id,
    },
    /// A paused process continues.
    Resumed {
        /// Its id.
        id: Id,
    },
    /// State that a node holds after an input, and its workers.
    Held {
        /// The node.
        id: Id,
        /// Its state.
        held: Held,
        /// Number of default workers, and of workers of the named executor.
        workers: [usize; 2],
    },
    /// Ids that a node reports as involved in its calls in flight.
    Involved {
        /// The node.
        id: Id,
        /// The involved ids.
        with: &'a BTreeSet<Id>,
    },
    /// Workers that a root reports as still needed by its call in flight.
    Needs {
        /// Name of the call.
        call: CallId,
        /// A bit for each class of workers.
        classes: u64,
    },
    /// The caller of a call takes the replies of its children from now on, as they arrive.
    Followed {
        /// Name of the call.
        call: CallId,
    },
    /// The caller gets what a child has answered.
    ChildReply {
        /// Name of the call.
        call: CallId,
        /// The ids that it is about, by their places among those that execute.
        group: Group,
        /// Their reply.
        reply: &'a SubtreeReply,
        /// Status of each, in a partial call.
        report: Option<&'a Report>,
    },
    /// A call ends at its root.
    Finished {
        /// Name of the call.
        call: CallId,
        /// Its outcome.
        outcome: &'a Outcome,
    },
    /// All faults and calls are over, and no event has woken a node for long; or no event is left.
    Quiet {
        /// State that each live process holds, with its id.
        held: &'a [(Id, Held)],
    },
}

/// How a function ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionEnd {
    /// With its reply.
    Through,
    /// With a failure.
    Failed,
    /// It replies later.
    Deferred,
    /// A func that has taken the data so far, and continues when more arrive.
    Unfinished,
}

/// State that a node holds at some time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Held {
    /// Calls in flight.
    pub calls: usize,
    /// Answers retained for adopters.
    pub retained_answers: usize,
    /// Running jobs.
    pub jobs: usize,
    /// Whether a timer is set.
    pub deadline: bool,
    /// Whether the node has more to do at this time: its duties are judged after that.
    pub goes_on: bool,
    /// Bytes of memory, where they are counted.
    pub memory: u64,
    /// Bytes of these for retained answers.
    pub kept_bytes: u64,
    /// Leaked entries of its tables.
    pub strays: usize,
    /// Number of peers that it counts as linked, at most the true number.
    pub links: usize,
}

/// Outcome of a call.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The reply, or the failure.
    pub result: Result<Option<SubtreeReply>, Failure>,
    /// Status of each id, of a partial call that ended well.
    pub report: Option<Report>,
}
