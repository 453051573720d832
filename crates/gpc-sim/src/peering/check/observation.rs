//! Observations of a world of peers: the input of the checkers.

use gpc_trees::Id;

use chained_gpc::link::peering::{LinkKey, LinkStatus, Proof, PublicKey, Source};
use chained_gpc::wire::{CauseKind, Job};

/// A process, numbered in the order of their starts.
pub type Process = usize;

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct End {
    /// Its process.
    pub process: Process,
    /// Its key there.
    pub key: LinkKey,
}

/// Identity of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// Its id.
    pub id: Id,
    /// Its incarnation.
    pub incarnation: u64,
    /// Number for its secret and job, if it has a secret.
    pub psk: Option<u64>,
    /// Its public key.
    pub key: PublicKey,
    /// Its job.
    pub job: Job,
    /// Requests that it accepts without acknowledgement.
    pub hiwater: u32,
}

/// A member that is simulated without a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Number for its secret and job, if it has a secret.
    pub psk: Option<u64>,
    /// The id that it proves.
    pub proves: Id,
    /// The id and run that its hello claims.
    pub says: (Id, u64),
    /// Its public key.
    pub key: PublicKey,
}

/// An observation of a world.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Observation {
    /// A process begins.
    Began(Who),
    /// A process ends.
    Died(Process),
    /// A connection is established.
    Opened {
        /// This end of it.
        end: End,
        /// The end of the process at the other side, if it is known already.
        mate: Option<End>,
        /// Whether this side has connected.
        ours: bool,
        /// Whether this side requires a proof.
        proves: bool,
        /// Whether this side requires encryption.
        encrypts: bool,
        /// The id that this side connects to, if it has connected.
        to: Option<Id>,
        /// Source address of the other side, if it has connected.
        source: Option<Source>,
        /// The member at the other side, if it is not a process.
        member: Option<Member>,
        /// Whether memory for rings is offered.
        rings: bool,
        /// Whether connections of this way must be refused at once.
        unpermitted: bool,
    },
    /// A member without a process, which lies about its id, has sent this.
    MemberWrote(Vec<u8>),
    /// The machine has read bytes.
    Took(End, Vec<u8>),
    /// The machine writes bytes.
    Wrote(End, Vec<u8>),
    /// A connection is closed, or has ended.
    Closed(End),
    /// A connection is finished: it is closed once all written bytes have left.
    Finished(End),
    /// A connection becomes a link.
    Up {
        /// This end of it.
        end: End,
        /// Id of the peer.
        peer: Id,
        /// Incarnation of the peer.
        incarnation: u64,
        /// How the peer was proved.
        proof: Proof,
        /// Whether the link is encrypted.
        sealed: bool,
        /// The key that is listed for the peer.
        listed: Option<PublicKey>,
    },
    /// A link is closed for another one.
    Replaced {
        /// This end of the link.
        end: End,
        /// Id of the peer.
        peer: Id,
        /// Whether the peer has been up, not paused and reachable for longer than an answer may take.
        answers: bool,
    },
    /// Properties of a link.
    Standing {
        /// This end of it.
        end: End,
        /// Whether this side has accepted the connection.
        accepted: bool,
        /// Whether rings are used.
        rings: bool,
        /// Whether data are passed by descriptor.
        extents: bool,
        /// Requests that the peer accepts without acknowledgement.
        hiwater: u32,
    },
    /// The linked peer is asked for a heartbeat, because another run of its id waits.
    Asked(End, Id),
    /// The machine reports that a connection was refused.
    Refused(End),
    /// A process learns of a peer, and perhaps of its key.
    Lists {
        /// The process.
        process: Process,
        /// The peer.
        peer: Id,
        /// The link that, as the machine reports, has already proved this key.
        confirms: Option<LinkKey>,
        /// The link that, as the machine reports, has proved another key.
        contradicts: Option<LinkKey>,
    },
    /// Half-open connections as the machine reports them, each with the time since when it waits.
    Waiting(Process, Vec<(LinkKey, Option<u64>)>),
    /// An input of the machine.
    Input(Process, Input),
    /// All outputs of an input are carried out; the number of proofs that the machine has answered.
    Settled(Process, u64),
    /// The machine still holds state of an id that is not a peer and has no link.
    Remembers(Process, Id),
    /// Pending messages for a peer are lost; whether there was a link.
    Lost(Process, Id, bool),
    /// The reported kind of a loss, just before the loss.
    LostBy(Process, Id, CauseKind),
    /// The driver has closed a link, or an attempt, by itself.
    Dropped(Process, Id),
    /// A message is to be sent to a peer; the machine's answer about its link.
    Wants(Process, Id, LinkStatus),
    /// A process waits in vain for a connection from a peer: the peer keeps a link that this process has closed, or
    /// waits as well.
    InVain(Process, Id),
    /// By how many a flood from one address has raised the number of connections that are not links yet.
    HalfOpen(Process, usize),
    /// State of a process at rest, besides its links.
    Rest {
        /// The process.
        process: Process,
        /// Number of connections in its tables that are not links.
        unfinished: usize,
        /// Whether a connection waits for a link to close.
        holds: bool,
        /// Whether a deadline or an expected connection is left.
        due: bool,
    },
    /// At rest: this peer was wanted, and has no link.
    Missing(Process, Id),
}

/// An input of a machine that has no other observation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A connection to a peer could not be opened.
    NotOpened(Id),
    /// An outgoing connection is established.
    Stands(LinkKey),
    /// The other side has ended a connection.
    Ended(LinkKey),
    /// A deadline has passed.
    Tick,
    /// The link of a peer has answered.
    Answers(Id),
    /// Time until which a peer may answer, nanoseconds.
    AnswersUntil(Id, u64),
    /// A peer is added, perhaps with its key.
    Knows(Id, Option<PublicKey>),
    /// An attempt to connect is given up for another one.
    GivesUp(Id),
    /// A peer is removed; the book has been updated.
    Forgets(Id),
    /// Whether there is no room for ids that are not peers.
    Full(bool),
    /// The connection that has waited longest for a hello makes room.
    MakesRoom(Option<LinkKey>),
    /// The link to a silent peer, or the attempt, was closed.
    Abandons(Id),
    /// A link is closed because another key is now listed for its peer.
    Contradicts(Id),
}
