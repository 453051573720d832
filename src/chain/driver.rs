//! What a driver brings to a node, and what the node asks of it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList, Limits, Tree};

use super::{Heartbeat, Sizes, Time};
use crate::wire::message::{Classes, Merging, SubtreeReply};
use crate::wire::short::SHORT_MAX;
use crate::wire::{Body, Budget, CallId, CauseKind, Failure, Message, Reason, Report, Request};

/// How a node is built.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's id.
    pub me: Id,
    /// This run of the id, and the sequence of its first call: nanoseconds since 1970 at its start.
    pub incarnation: u64,
    /// Jobs that may run at once; still never two of one call.
    pub workers: usize,
    /// The same of each class of workers that has a name: of the functions whose [class](crate::wire::message::Classes) is 1, 2 and on.
    pub executors: Vec<usize>,
    /// Calls in flight here; a request above it is answered with a failure.
    pub calls_max: usize,
    /// Longest data of a request, bytes.
    pub data_max: u64,
    /// Longest reply header and data of a subtree together, bytes.
    pub reply_max: u64,
    /// What calls of peers, and the replies to all, may hold in memory; without a bound unless its driver has one.
    pub memory: Budget,
    /// Limits of the trees that requests bring.
    pub trees: Limits,
    /// Children of lost ids that one partial call adopts here, all in all; those above it are left out with what is known of them.
    pub adopted_max: u32,
    /// When this run of the id began, on the clock of its inputs.
    pub started: Time,
    /// Whether there was no run of this id before: then nobody else can have executed a call for it, and an adopter may ask it however young it is.
    pub first_run: bool,
    /// How much older than a call a later run of an id must be to be asked by an adopter: longer than a request may be under way.
    pub restart_margin: Duration,
    /// Heartbeats of the children whose answers are awaited; none are asked for if there is none.
    pub heartbeat: Option<Heartbeat>,
    /// Whether calls run on the fast path from the first one of their kind on. Else the first takes the general path: what it would cost to prepare for others like it is lost if there are none.
    pub plan_at_once: bool,
    /// How much is remembered of what may come again.
    pub sizes: Sizes,
    /// Where calls are put in the node's tables depends on it, and nothing else. A node that strangers send calls to keeps a random one to itself, lest they choose names that slow it down.
    pub seed: u64,
}

impl Config {
    /// The usual bounds: 65,536 calls (about 30 MiB of their states), data and replies up to 8 GiB (what fits a node's memory is
    /// its user's to say; a length costs nothing until the bytes arrive), 65,536 children adopted (no process has links for more), one worker.
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
            seed: incarnation,
        }
    }
}

/// A call that starts at this node.
#[derive(Clone, Debug)]
pub struct Start {
    /// Name of the function that every id executes.
    pub func: u64,
    /// Name of the function that merges replies; `None` for the default aggregation.
    pub callback: Option<u64>,
    /// In which order callback merges the replies here.
    pub merging: Merging,
    /// Which workers run func and callback here.
    pub classes: Classes,
    /// Whether replies are collected.
    pub reply_wanted: bool,
    /// Forward before executing.
    pub forward_first: bool,
    /// The call goes on without those that are lost.
    pub partial: bool,
    /// The root only watches: it neither executes nor contributes.
    pub watch: bool,
    /// When the call must have ended, from now.
    pub limit: Duration,
    /// How the list is split.
    pub tree: Tree,
    /// All ids in tree order, this node first.
    pub ids: IdList,
    /// Request header.
    pub header: Bytes,
    /// Request data.
    pub data: Body,
}

impl Start {
    /// A call of `func` on nobody yet, with replies, the default tree, the default aggregation and a limit of a minute.
    pub fn new(func: u64) -> Start {
        Start {
            func,
            callback: None,
            merging: Merging::default(),
            classes: Classes::default(),
            reply_wanted: true,
            forward_first: false,
            partial: false,
            watch: false,
            limit: Duration::from_secs(60),
            tree: Tree::default(),
            ids: IdList::range(0..0),
            header: Bytes::new(),
            data: Body::default(),
        }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The application starts a call. Its end is reported under `ticket`.
    Start {
        /// The driver's name for it, used for no other call in flight.
        ticket: u64,
        /// The call.
        start: Box<Start>,
    },
    /// The application gives up a call that it started.
    GiveUp {
        /// The driver's name for it.
        ticket: u64,
    },
    /// A message from a peer.
    Message {
        /// Who sent it.
        from: Id,
        /// What.
        message: Message,
    },
    /// Something came from a peer that is no message yet, such as a part of a long reply: a heartbeat.
    Heard(Id),
    /// A [`Ping`](Message::Ping) that was sent to this peer has left, and does not wait behind other bytes here any more: its silence counts from now. A driver that never says so has it count from the output.
    PingLeft(Id),
    /// The data of a request have arrived whole, or more of those that func takes as they come.
    DataArrived(CallId),
    /// There was no memory for the data of a request, and there will be none.
    DataRefused {
        /// Its call.
        call: CallId,
        /// Which limit they are over.
        why: String,
    },
    /// All data of a reply have come that came as [`Answer::Arriving`](crate::wire::message::Answer::Arriving).
    ReplyArrived {
        /// The child whose reply it is.
        from: Id,
        /// Its call.
        call: CallId,
    },
    /// There is no memory here for the reply of a child.
    ReplyRefused {
        /// The child whose reply it is.
        from: Id,
        /// Its call.
        call: CallId,
        /// Which limit it is over.
        why: String,
    },
    /// A job has ended.
    Ran {
        /// The job's call.
        call: CallId,
        /// What came of it.
        result: JobResult,
    },
    /// The function of a call that runs here waits for something that may wait for this node in turn, or does not any more: told so that a time limit that passes meanwhile can say it.
    Waits {
        /// The function's call.
        call: CallId,
        /// Who waits for what, in words; none at the end.
        what: Option<Box<str>>,
    },
    /// A deferred reply is given, or its token was dropped; perhaps before func or callback has ended. Once for each job that [deferred](JobResult::Deferred): a second answer is ignored, but for one that comes when a later callback of the call runs or has deferred, whose answer it would be.
    Answered {
        /// The call whose func or callback deferred.
        call: CallId,
        /// The reply, or why there is none.
        result: Result<Reply, Box<Reason>>,
    },
    /// A link to a peer is up.
    LinkUp {
        /// The peer.
        peer: Id,
        /// Which run of it: any number that another run does not have.
        incarnation: u64,
    },
    /// The link to a peer is lost, or none can be made.
    LinkLost {
        /// The peer.
        peer: Id,
        /// What kind of loss it is.
        kind: CauseKind,
        /// In words.
        why: String,
        /// Whether none ever came up, so that nothing that was sent can have arrived.
        unreached: bool,
    },
    /// A request of this call could not be sent to this peer, whose address the driver does not know: surely it got nothing.
    Unreachable {
        /// The peer.
        peer: Id,
        /// The call.
        call: CallId,
        /// In words.
        why: String,
    },
    /// Time has passed, or work waits that [`next_deadline`](super::Node::next_deadline) says is due at once.
    Tick,
}

/// What the node asks of its driver.
#[derive(Debug)]
pub enum Output {
    /// Send this.
    Send {
        /// To whom.
        to: Id,
        /// What.
        message: Message,
    },
    /// Run this function, and bring its result as [`Input::Ran`].
    Run(Job),
    /// A request from this peer has been consumed: it may send another.
    Consumed {
        /// The parent that sent it.
        from: Id,
    },
    /// A call that was started here has ended.
    Finished {
        /// As given at its start.
        ticket: u64,
        /// Its name on the wire.
        call: CallId,
        /// The whole tree's reply (none if none was asked for), or the failure.
        result: Result<Option<SubtreeReply>, Box<Failure>>,
        /// Of a partial call that ended well: what became of each id.
        report: Option<Box<Report>>,
    },
    /// A call is over here whose function still runs, or has kept a token to answer with: what it gives will be ignored.
    Stopped(CallId),
    /// Close the link to this peer, which sends no heartbeat.
    Abandon {
        /// The peer.
        peer: Id,
    },
}

/// A function to run.
#[derive(Debug)]
pub struct Job {
    /// Its call.
    pub call: CallId,
    /// The id that executes.
    pub me: Id,
    /// The parent; `None` at the root.
    pub parent: Option<Id>,
    /// The request, with the data whole, or some of those that func takes as they come.
    pub request: Arc<Request>,
    /// When the call's time limit passes here.
    pub until: Time,
    /// Which function.
    pub work: Work,
}

/// What a func that takes its data as they come has made of them so far. The chain keeps it between two jobs, and does not look into it.
pub struct Taken(pub Box<dyn Any + Send>);

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taken")
    }
}

/// Which function of a call is to run.
#[derive(Debug)]
pub enum Work {
    /// func, with an empty reply.
    Func,
    /// func goes on: more of the data that it takes as they come is there, or all.
    More(Taken),
    /// callback, to merge a child's reply into the node's own.
    Callback {
        /// The child.
        from: Id,
        /// The child's reply.
        child: Box<SubtreeReply>,
        /// The node's own reply so far.
        own: Reply,
    },
}

/// What came of a job.
#[derive(Debug)]
pub enum JobResult {
    /// It ended well; the node's own reply is now this.
    Replied(Reply),
    /// func or callback keeps a token, and it answers later, once, with [`Input::Answered`].
    Deferred,
    /// func has taken what there was of its data, and goes on when more has come.
    Taken(Taken),
    /// It failed, and says why.
    Failed(Box<Reason>),
    /// It was not run, as when there is no such function here.
    Refused(Box<Reason>),
}

/// A node's own reply: header and data, as its functions make them.
///
/// ```
/// use bytes::Bytes;
/// use chained_gpc::Reply;
///
/// let reply = Reply { data: b"few bytes".to_vec(), ..Reply::default() };
/// // Many bytes that are there already go up without being copied.
/// let page = Bytes::from(vec![7; 1 << 20]);
/// let shared = Reply { shared: page.clone(), ..Reply::default() };
/// assert_eq!((reply.len(), shared.len()), (9, 1 << 20));
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reply {
    /// Reply header.
    pub header: Vec<u8>,
    /// Reply data.
    pub data: Vec<u8>,
    /// More reply data, which follow those of `data`. Where `data` are empty and these are more than 16 KiB, they are not copied.
    pub shared: Bytes,
}

impl Reply {
    /// A reply without a header, whose data are shared and not copied.
    pub fn shared(data: impl Into<Bytes>) -> Reply {
        Reply { shared: data.into(), ..Reply::default() }
    }

    /// Bytes of header and data together.
    pub fn len(&self) -> usize {
        self.header.len() + self.data_len()
    }

    /// Whether both are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the data.
    pub(super) fn data_len(&self) -> usize {
        self.data.len() + self.shared.len()
    }

    /// Brings the data into one place: few, and those that have others before them, by a copy.
    pub fn settle(&mut self) {
        if !self.shared.is_empty() && (!self.data.is_empty() || self.shared.len() <= SHORT_MAX) {
            self.own_data();
        }
    }

    /// All of the data, to be changed.
    pub fn own_data(&mut self) -> &mut Vec<u8> {
        let shared = std::mem::take(&mut self.shared);
        match self.data.is_empty() {
            // Without a copy where nobody else shares them.
            true if !shared.is_empty() => self.data = shared.into(),
            _ => self.data.extend_from_slice(&shared),
        }
        &mut self.data
    }

    /// Header and data.
    pub(super) fn into_parts(mut self) -> (Bytes, Bytes) {
        if self.shared.is_empty() || !self.data.is_empty() {
            self.own_data();
            return (self.header.into(), self.data.into());
        }
        (self.header.into(), self.shared)
    }
}
