//! Events of a session, for observers.

use std::fmt;

use super::{ConnId, Rank};
use crate::wire::{Label, Method};

/// Stage of a client, or of the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Not all clients have joined.
    Joining,
    /// All have joined, and no label was sent.
    Joined,
    /// At this label: the last one that the client sent, or the one that the session waits for.
    At(Label),
    /// The session has broadcast all that was sent, this label last.
    After(Label),
    /// The client is done.
    Done,
    /// All clients are done.
    Over,
}

/// An event of a session. Texts from peers are bounded and escaped.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Connections cannot be accepted, for this reason: the system is short of descriptors or memory. The driver emits
    /// this event.
    Unaccepted(String),
    /// A connection was accepted, from this address.
    Connected(ConnId, String),
    /// A connection that is not a client's was closed.
    Refused(ConnId, String),
    /// A connection was authenticated.
    Proved(ConnId, Method),
    /// A client has joined.
    Joined(ConnId, Rank),
    /// A client was lost before all had joined; another one may take its place.
    Freed(Rank, String),
    /// All clients have joined.
    Complete,
    /// A client has sent values, of this many bytes.
    Sent(Rank, Label, usize),
    /// A client has sent an unknown command, with this number and length, which was ignored.
    Ignored(Rank, u32, usize),
    /// Implausible values.
    Doubted(Rank, Label, String),
    /// A label has values of this many processes, too many to compare with each other.
    Unchecked(Rank, Label, usize),
    /// A label was broadcast, with this mask of clients and this many bytes of values.
    Answered(Label, u32, usize),
    /// The first known label that was broadcast with the values of some clients only. Clients of LAM/MPI read as many
    /// values as there are clients, whatever the mask says. Emitted once.
    Partial {
        /// The label.
        label: Label,
        /// The clients that have left it out: they are done.
        left_out: Vec<Rank>,
        /// The clients that are not done, and have not sent it: they may still send it.
        unsent: Vec<Rank>,
    },
    /// A client has sent all its labels.
    Done(Rank),
    /// All clients have.
    AllDone,
    /// The processes of a client have ended.
    Ended(Rank),
    /// After all clients were done, a client was lost or violated the protocol before its FINI.
    Lost(Rank, String),
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::Joining => f.write_str("before all had joined"),
            Stage::Joined => f.write_str("before its first label"),
            Stage::At(label) => write!(f, "at label {label}"),
            Stage::After(label) => write!(f, "after label {label}"),
            Stage::Done => f.write_str("after its DONE"),
            Stage::Over => f.write_str("after all were done, before its FINI"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Unaccepted(why) => write!(f, "no connection can be accepted until some end: {why}"),
            Event::Connected(conn, from) => write!(f, "connection {} from {from}", conn.0),
            Event::Refused(conn, why) => write!(f, "connection {} is closed: {why}", conn.0),
            Event::Proved(conn, Method::None) => write!(f, "connection {}: AUTH without a proof", conn.0),
            Event::Proved(conn, Method::Key) => write!(f, "connection {}: AUTH by the key", conn.0),
            Event::Joined(conn, rank) => write!(f, "client {rank}: IMPI, connection {}", conn.0),
            Event::Freed(rank, why) => {
                write!(
                    f,
                    "client {rank} is lost before all have joined, another may come in its place: {why}"
                )
            }
            Event::Complete => f.write_str("all clients have joined"),
            Event::Sent(rank, label, len) => write!(f, "client {rank}: COLL {label}, {len} bytes"),
            Event::Ignored(rank, command, len) => {
                write!(f, "client {rank}: unknown command {command:#010x} with {len} bytes is ignored")
            }
            Event::Doubted(rank, label, why) => write!(f, "client {rank}: COLL {label}: {why}"),
            Event::Unchecked(rank, label, processes) => {
                write!(
                    f,
                    "client {rank}: COLL {label}: {processes} processes are too many to be compared with each other"
                )
            }
            Event::Answered(label, mask, len) => {
                write!(f, "broadcast COLL {label}, mask {mask:#x}, {len} bytes")
            }
            Event::Partial { label, left_out, unsent } => {
                write!(f, "COLL {label}: ")?;
                if !left_out.is_empty() {
                    write!(f, "client{} left it out, ", listed(left_out))?;
                }
                if !unsent.is_empty() {
                    let have = if unsent.len() == 1 { "has" } else { "have" };
                    write!(f, "client{} {have} not sent it yet, ", listed(unsent))?;
                }
                f.write_str("and some clients (those of LAM/MPI) misread what only some have sent")
            }
            Event::Done(rank) => write!(f, "client {rank}: DONE"),
            Event::AllDone => f.write_str("broadcast DONE"),
            Event::Ended(rank) => write!(f, "client {rank}: FINI"),
            Event::Lost(rank, why) => write!(f, "client {rank} is lost before its FINI: {why}"),
        }
    }
}

/// Ranks, to follow the word `client`.
fn listed(ranks: &[Rank]) -> String {
    let listed: Vec<String> = ranks.iter().map(Rank::to_string).collect();
    format!("{} {}", if listed.len() == 1 { "" } else { "s" }, listed.join(", "))
}
