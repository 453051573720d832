//! Scheduled events of a world of calls.

use gpc_trees::Id;

use super::faults::Mishap;
use super::linked::Step;
use super::parcel::Parcel;
use chained_gpc::chain::{JobResult, Reply};
use chained_gpc::wire::{CallId, Reason};

/// A scheduled event. It is small because a large world has a million of them pending.
#[derive(Debug)]
pub(super) enum Event {
    /// The application starts a call.
    Start(usize),
    /// The application begins to take the replies of a call as they arrive.
    Follow(usize),
    /// All faults are over; nodes must hold nothing of them.
    Settled,
    /// The application starts a call that must reach every live id.
    Probe { partial: bool },
    /// A message leaves that the world sends in the name of a node.
    Speaks(Box<Parcel>),
    /// A message reaches its receiver.
    Arrive(Box<Parcel>),
    /// The receiver has read the message.
    Handle(Box<Parcel>),
    /// A function has ended.
    Ran { id: Id, run: u32, call: Name, result: Box<JobResult> },
    /// A function begins or ends a wait.
    Waits { id: Id, run: u32, call: CallId, begins: bool },
    /// Data of a long reply that had stopped may now be sent to the parent.
    GoesUp { id: Id, run: u32, call: CallId },
    /// A deferred reply is given.
    Answered { id: Id, run: u32, call: Name, reply: Box<Result<Reply, Box<Reason>>> },
    /// More data of a request arrive.
    Piece { id: Id, run: u32, from: Id, call: CallId },
    /// One end of a link learns that the link is lost.
    Notice { id: Id, run: u32, peer: Id, epoch: u32 },
    /// A heartbeat request has left the send queue.
    PingLeft { id: Id, run: u32, question: Question },
    /// A socket that was full accepts bytes again.
    Taken { id: Id, run: u32, peer: Id, epoch: u32 },
    /// The next bytes of a connection reach this side.
    Delivery { pipe: u32, side: u8 },
    /// An event of a connection.
    Connection(Box<Step>),
    /// The links of a process have a deadline.
    Due { id: Id, run: u32 },
    /// A process that holds a core takes its next step.
    Turn(Id),
    /// A function has used its core time.
    Worked { id: Id, then: Box<Event> },
    /// A paused process continues.
    Resumed(Id),
    /// A fault happens.
    Mishap(Box<Mishap>),
}

/// Half a cache line.
const _: () = assert!(size_of::<Event>() == 32);

impl Event {
    /// Ids that take part in an event, besides receivers of messages that it causes.
    pub(super) fn parts(&self) -> [Option<Id>; 2] {
        match self {
            Event::Speaks(parcel) | Event::Arrive(parcel) | Event::Handle(parcel) => {
                [Some(parcel.from), Some(parcel.to)]
            }
            Event::Notice { id, peer, .. } | Event::Taken { id, peer, .. } => [Some(*id), Some(*peer)],
            Event::Piece { id, from, .. } => [Some(*id), Some(*from)],
            Event::Connection(step) => [Some(step.from), Some(step.to)],
            Event::PingLeft { id, question, .. } => [Some(*id), Some(question.peer)],
            other => [other.at(), None],
        }
    }

    /// Id at which the event waits while that process is paused.
    pub(super) fn at(&self) -> Option<Id> {
        match self {
            Event::Arrive(parcel) | Event::Handle(parcel) => Some(parcel.to),
            Event::Ran { id, .. } | Event::Answered { id, .. } | Event::Notice { id, .. } => Some(*id),
            Event::Piece { id, .. }
            | Event::Waits { id, .. }
            | Event::GoesUp { id, .. }
            | Event::PingLeft { id, .. }
            | Event::Taken { id, .. }
            | Event::Due { id, .. }
            | Event::Turn(id)
            | Event::Worked { id, .. } => Some(*id),
            Event::Connection(step) => Some(step.to),
            Event::Delivery { .. }
            | Event::Speaks(_)
            | Event::Start(_)
            | Event::Follow(_)
            | Event::Settled
            | Event::Probe { .. }
            | Event::Resumed(_)
            | Event::Mishap(_) => None,
        }
    }
}

/// A [`CallId`] split into 32-bit words, which aligns to 4 bytes and so fits into an [`Event`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name {
    root: Id,
    sequence: [u32; 2],
}

impl From<CallId> for Name {
    fn from(CallId { root, sequence }: CallId) -> Name {
        Name { root, sequence: [(sequence >> 32) as u32, sequence as u32] }
    }
}

impl Name {
    pub(super) fn call(self) -> CallId {
        let [high, low] = self.sequence.map(u64::from);
        CallId { root: self.root, sequence: high << 32 | low }
    }
}

/// A heartbeat request that waits to be sent: its link, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) peer: Id,
    pub(super) epoch: u32,
    pub(super) asked: u64,
}
