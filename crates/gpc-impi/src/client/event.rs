//! Events of a client's session, for observers.

use std::fmt;
use std::net::SocketAddr;

use crate::server::Rank;
use crate::wire::{Command, Label, Method};

/// Stage of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientStage {
    /// It has sent AUTH.
    Auth,
    /// It has sent its rank.
    Impi,
    /// It has sent this label.
    At(Label),
    /// It has joined, and all labels that it has sent were broadcast.
    Between,
    /// It has sent DONE.
    Done,
    /// All clients are done.
    Over,
}

/// An event of a client's session. Texts from peers are bounded and escaped.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ClientEvent {
    /// The client has connected, from its own address to the server's.
    Connected(SocketAddr, SocketAddr),
    /// The server has closed the connection before it sent the number of clients, for this reason as far as it is
    /// known; the client connects again.
    Again(String),
    /// The server has chosen an authentication method.
    Auth(Method),
    /// The client has joined, with this rank among this number of clients.
    Joined(Rank, u32),
    /// The client has sent values, of this many bytes.
    Sent(Label, usize),
    /// The server has broadcast a label, with this mask of clients and this many bytes of values.
    Answered(Label, u32, usize),
    /// The server has broadcast an unknown label, with this many bytes of values.
    Unknown(Label, usize),
    /// The server has sent an unknown command, with this many bytes, which was ignored.
    Ignored(Command, usize),
    /// Values that were understood, although they deviate from the source.
    Doubted(Label, String),
    /// The client has sent all its labels.
    Done,
    /// All clients are done. The flag says whether the labels of this project were broadcast.
    AllDone(bool),
    /// The client's processes have ended.
    Ended,
    /// The connection has ended after all clients were done.
    Lost(String),
}

/// A part of a sentence, after `while`: `waiting for COLL H_PORT`.
impl fmt::Display for ClientStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientStage::Auth => f.write_str("waiting for the server's choice of AUTH"),
            ClientStage::Impi => f.write_str("waiting for the number of clients (IMPI)"),
            ClientStage::At(label) => write!(f, "waiting for COLL {label}"),
            ClientStage::Between => f.write_str("going to the next label"),
            ClientStage::Done => f.write_str("waiting for DONE"),
            ClientStage::Over => f.write_str("closing the session, after DONE"),
        }
    }
}

impl fmt::Display for ClientEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientEvent::Connected(from, to) => write!(f, "connected to {to} from {from}"),
            ClientEvent::Again(why) => {
                write!(f, "the server was lost before it let this client in: {why}; trying again")
            }
            ClientEvent::Auth(Method::None) => f.write_str("AUTH without a proof"),
            ClientEvent::Auth(Method::Key) => f.write_str("AUTH by the key, which was sent"),
            ClientEvent::Joined(rank, size) => write!(f, "IMPI: client {rank} of {size}"),
            ClientEvent::Sent(label, len) => write!(f, "sent COLL {label}, {len} bytes"),
            ClientEvent::Answered(label, mask, len) => {
                write!(f, "received COLL {label}, mask {mask:#x}, {len} bytes")
            }
            ClientEvent::Unknown(label, len) => {
                write!(f, "received COLL {label} with {len} bytes, which is unknown here")
            }
            ClientEvent::Ignored(command, len) => {
                write!(f, "received unknown {command} with {len} bytes, which is ignored")
            }
            ClientEvent::Doubted(label, why) => write!(f, "COLL {label}: {why}"),
            ClientEvent::Done => f.write_str("sent DONE"),
            ClientEvent::AllDone(true) => f.write_str("received DONE: all clients are done"),
            ClientEvent::AllDone(false) => {
                f.write_str("received DONE: all clients are done, without the labels of this project")
            }
            ClientEvent::Ended => f.write_str("sent FINI"),
            ClientEvent::Lost(why) => write!(f, "the server is lost after DONE: {why}"),
        }
    }
}
