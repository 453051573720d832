//! The interface between a node and its driver: configuration, inputs and outputs.

use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Group, Id, IdList, Limits, Tree};

use super::{Heartbeat, Job, JobResult, Reply, Sizes, Time};
use crate::wire::call_metrics::CallMetrics;
use crate::wire::message::{Classes, Merging, SubtreeReply};
use crate::wire::{Body, Budget, CallId, CauseKind, Failure, Message, Parts, Reason, ReplyLimits, Report};

/// Configuration of a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's id.
    pub me: Id,
    /// Incarnation of the id, and the sequence of its first call: nanoseconds since 1970 at its start.
    pub incarnation: u64,
    /// Maximum number of jobs that run at once; never two of one call.
    pub workers: usize,
    /// The same for each named class of workers: those of functions whose [class](crate::wire::message::Classes) is 1,
    /// 2 and up.
    pub executors: Vec<usize>,
    /// Maximum number of calls in flight; further requests are answered with a failure.
    pub calls_max: usize,
    /// Maximum length of a request's data, in bytes.
    pub data_max: u64,
    /// Maximum length of a subtree's reply header and data together, in bytes.
    pub reply_max: u64,
    /// Memory for calls of peers, and for the replies to all calls; unbounded unless the driver sets a bound.
    pub memory: Budget,
    /// Limits for the trees of requests.
    pub trees: Limits,
    /// Maximum number of children of lost ids that one partial call adopts at this node, in total. Further ones are
    /// left out, with the state that is known of them.
    pub adopted_max: u32,
    /// Start of this run of the id, on the clock of its inputs.
    pub started: Time,
    /// Whether this is the first run of the id. Then no earlier run can have executed a call, and an adopter may send
    /// it any call.
    pub first_run: bool,
    /// Margin by which a later run of an id must be older than a call to accept it from an adopter: longer than a
    /// request can be in transit.
    pub restart_margin: Duration,
    /// Heartbeats of the children whose answers are awaited; `None` disables them.
    pub heartbeat: Option<Heartbeat>,
    /// Whether the first call of a kind already takes the fast path. If not, the first call takes the general path,
    /// because preparing a plan is wasted if no similar call follows.
    pub plan_at_once: bool,
    /// Limits of what is remembered about past calls.
    pub sizes: Sizes,
    /// Metrics of the calls, which another thread may read; counted while the flight recorder is on.
    pub metrics: CallMetrics,
    /// Number of ended calls that the flight recorder keeps; 0 switches it off.
    pub recorded: usize,
    /// Seed for the positions of calls in the node's tables; it affects nothing else. A node that strangers can call
    /// keeps a random seed secret, so that no one can choose names that slow it down.
    pub seed: u64,
}

impl Config {
    /// Returns the usual limits: 65,536 calls (about 30 MiB of state), data and replies up to 8 GiB, 65,536 adopted
    /// children, one worker. The user bounds the node's memory; a length costs nothing until the bytes arrive. No
    /// process has links for more children.
    pub fn new(me: Id, incarnation: u64) -> Config {
        let trees = Limits::default();
        Config {
            me,
            incarnation,
            workers: 1,
            executors: Vec::new(),
            calls_max: 65_536,
            data_max: 8 << 30,
            reply_max: 8 << 30,
            memory: Budget::unbounded(),
            trees,
            adopted_max: 65_536,
            started: Time::default(),
            first_run: false,
            restart_margin: Duration::from_secs(1),
            heartbeat: None,
            plan_at_once: false,
            sizes: Sizes::default(),
            metrics: CallMetrics::default(),
            recorded: 0,
            seed: incarnation,
        }
    }
}

/// A call that this node starts.
#[derive(Clone, Debug)]
pub struct Start {
    /// Hash of the name of the function that every id executes.
    pub func: u64,
    /// Hash of the name of the function that merges replies; `None` for the default aggregation.
    pub callback: Option<u64>,
    /// Order in which callback merges the replies at this node.
    pub merging: Merging,
    /// Workers that run func and callback at this node.
    pub classes: Classes,
    /// Whether replies are collected.
    pub reply_wanted: bool,
    /// Limits for what one id writes.
    pub reply_limits: ReplyLimits,
    /// Forward the request before executing func.
    pub forward_first: bool,
    /// Partial call: it goes on without lost ids.
    pub partial: bool,
    /// The reply brings the times of all ids.
    pub trace: bool,
    /// The root only watches: it neither executes nor contributes.
    pub watch: bool,
    /// Time limit of the call, from now.
    pub limit: Duration,
    /// How the list is split.
    pub tree: Tree,
    /// All ids in tree order, this node first.
    pub ids: IdList,
    /// Request header.
    pub header: Bytes,
    /// Request data; in a scatter call those of all ids, in list order.
    pub data: Body,
    /// Scatter call: the length of each id's part of the data, in list order. The bytes are set at the start.
    pub parts: Option<Box<Parts>>,
    /// Whether the replies of the children are reported as they arrive: see [`Input::Follow`].
    pub follow: bool,
}

impl Start {
    /// Returns a call of `func` on no ids, with replies, the default tree, the default aggregation and a limit of a
    /// minute.
    pub fn new(func: u64) -> Start {
        Start {
            func,
            callback: None,
            merging: Merging::default(),
            classes: Classes::default(),
            reply_wanted: true,
            reply_limits: ReplyLimits::UNLIMITED,
            forward_first: false,
            partial: false,
            trace: false,
            watch: false,
            limit: Duration::from_secs(60),
            tree: Tree::default(),
            ids: IdList::range(0..0),
            header: Bytes::new(),
            data: Body::default(),
            parts: None,
            follow: false,
        }
    }
}

/// An event for the node.
#[derive(Debug)]
pub enum Input {
    /// The application starts a call. Its end is reported under `ticket`.
    Start {
        /// The driver's name for the call, unique among the calls in flight.
        ticket: u64,
        /// The call.
        start: Box<Start>,
    },
    /// The application cancels a call that it started.
    GiveUp {
        /// The driver's name for the call.
        ticket: u64,
    },
    /// The application takes the replies of a call that it started as they arrive: [`Output::ChildReply`] for each
    /// child that has answered, and for each that answers from now on.
    Follow {
        /// The driver's name for the call.
        ticket: u64,
    },
    /// A message from a peer.
    Message {
        /// The sender.
        from: Id,
        /// The message.
        message: Message,
    },
    /// Bytes arrived from a peer that are not a complete message, such as a part of a long reply: a heartbeat.
    Heartbeat(Id),
    /// A [`Ping`](Message::Ping) to this peer has left and no longer waits behind other bytes here: the peer's silence
    /// counts from now. Without this input it counts from the output.
    PingLeft(Id),
    /// All data of a request have arrived, or more of the data that func takes as they arrive.
    DataArrived(CallId),
    /// There is no memory for the data of a request, for good.
    DataRefused {
        /// The call.
        call: CallId,
        /// The limit that they exceed.
        why: String,
    },
    /// All data have arrived of a reply that was supplied as
    /// [`Answer::Arriving`](crate::wire::message::Answer::Arriving).
    ReplyArrived {
        /// The child that sent the reply.
        from: Id,
        /// The call.
        call: CallId,
    },
    /// There is no memory here for the reply of a child.
    ReplyRefused {
        /// The child that sent the reply.
        from: Id,
        /// The call.
        call: CallId,
        /// The limit that it exceeds.
        why: String,
    },
    /// A job has ended.
    Ran {
        /// The job's call.
        call: CallId,
        /// The result.
        result: JobResult,
    },
    /// The function of a running call starts or stops waiting for something that may in turn wait for this node. If a
    /// time limit passes meanwhile, its message reports it.
    Waits {
        /// The call of the function.
        call: CallId,
        /// What waits for what, as text; `None` at the end.
        what: Option<Box<str>>,
    },
    /// A deferred reply is given, or its token was dropped; possibly before func or callback has ended. There is one
    /// for each job that [deferred](JobResult::Deferred). A second answer is ignored, unless a later callback of the
    /// call runs or has deferred: then it counts as the answer of that callback.
    Answered {
        /// The call whose func or callback deferred.
        call: CallId,
        /// The reply, or the reason why there is none.
        result: Result<Reply, Box<Reason>>,
    },
    /// A link to a peer is up.
    LinkUp {
        /// The peer.
        peer: Id,
        /// Incarnation of the peer: a number that no other run of it has.
        incarnation: u64,
    },
    /// The link to a peer is lost, or cannot be opened.
    LinkLost {
        /// The peer.
        peer: Id,
        /// Kind of failure.
        kind: CauseKind,
        /// Reason, for people.
        why: String,
        /// Whether no link was ever up, so that nothing that was sent can have arrived.
        unreached: bool,
    },
    /// A request of this call could not be sent to this peer, because the driver has no address for it: the peer surely
    /// received nothing.
    Unreachable {
        /// The peer.
        peer: Id,
        /// The call.
        call: CallId,
        /// Reason, for people.
        why: String,
    },
    /// Time has passed, or work is waiting that [`next_deadline`](super::Node::next_deadline) reported as due at once.
    Tick,
}

/// An action for the driver.
#[derive(Debug)]
pub enum Output {
    /// Send a message.
    Send {
        /// The receiver.
        to: Id,
        /// The message.
        message: Message,
    },
    /// Run this function, and supply its result as [`Input::Ran`].
    Run(Job),
    /// A request from this peer has been consumed: the peer may send another.
    Consumed {
        /// The parent that sent it.
        from: Id,
    },
    /// A call that was started here has ended.
    Finished {
        /// The ticket of its start.
        ticket: u64,
        /// Identifier of the call.
        call: CallId,
        /// The whole tree's reply (`None` if no reply was requested), or the failure.
        result: Result<Option<SubtreeReply>, Box<Failure>>,
        /// For a partial call that succeeded: the status of each id.
        report: Option<Box<Report>>,
    },
    /// A child of a [followed](Input::Follow) call that was started here has answered, or is lost.
    ChildReply {
        /// The ticket of the call's start.
        ticket: u64,
        /// The child's place among the ids that execute, in tree order, and the number of ids that this is about: those
        /// of its subtree, or of a lost child whose children are adopted, the child alone.
        group: Group,
        /// The reply of those that are done.
        reply: SubtreeReply,
        /// Of a partial call: the status of each.
        report: Option<Box<Report>>,
    },
    /// A call has ended here while its function is still running or has kept a token to answer later: the result will
    /// be ignored.
    Stopped(CallId),
    /// Close the link to this peer, which sends no heartbeat.
    Abandon {
        /// The peer.
        peer: Id,
    },
}
