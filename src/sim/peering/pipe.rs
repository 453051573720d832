//! A connection between two: two ordered streams of bytes, each with its delay, cut anywhere; the attacker sees all of it.

use std::collections::VecDeque;

use gpc_trees::Id;

use super::check::Process;
use super::member::Member;
use crate::peering::{LinkKey, Source, Way};

/// Where the attacker connects from.
pub(super) const ATTACKER: Source = 0xbad;

/// Who is at an end of a connection.
#[derive(Debug)]
pub(super) enum Owner {
    /// A process, once it knows of it.
    Process(Process, Option<LinkKey>),
    /// Who plays these bytes as soon as the connection stands, and says nothing else.
    Player(Vec<u8>),
    /// Who sends back what comes.
    Mirror,
    /// A member that lies.
    Member(Box<Member>),
    /// Nobody listens there.
    Nobody,
}

/// A part of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Chunk {
    /// The connection reaches the other side.
    Opens,
    /// The other side knows that it stands.
    Stands,
    Bytes(Vec<u8>),
    /// Nothing follows.
    Ends,
}

/// What is done to a stream on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Tamper {
    /// These bits of the byte at this place are flipped.
    Flip(usize, u8),
    /// These bytes come before the one at this place.
    Insert(usize, Vec<u8>),
    /// So many bytes from this place on do not arrive.
    Drop(usize, usize),
}

/// One direction.
#[derive(Default, Debug)]
pub(super) struct Stream {
    /// What is under way, and when it is there.
    pub(super) chunks: VecDeque<(u64, Chunk)>,
    /// All that was sent: what the attacker has recorded.
    pub(super) sent: Vec<u8>,
    pub(super) tamper: Option<Tamper>,
}

/// A connection: side 0 has opened it.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) owners: [Owner; 2],
    /// By the side that sends.
    pub(super) streams: [Stream; 2],
    /// The ids at its ends, for cuts.
    pub(super) between: [Id; 2],
    pub(super) way: Way,
    /// Whether memory for rings is offered, and whether it arrives.
    pub(super) rings: bool,
    pub(super) rings_come: bool,
    /// Where side 0 has connected from, if it is no process.
    pub(super) source: Source,
    /// Nanoseconds that a chunk takes, at least.
    pub(super) latency: u64,
    /// Until when nobody may rely on answers: it was slow, cut or changed.
    pub(super) troubled: u64,
}

impl Pipe {
    pub(super) fn new(owners: [Owner; 2], between: [Id; 2], latency: u64, way: Way, rings: bool) -> Pipe {
        let (streams, source) = (Default::default(), ATTACKER);
        Pipe { owners, streams, between, way, rings, rings_come: rings, source, latency, troubled: 0 }
    }

    /// What becomes of bytes that a side sends.
    pub(super) fn changed(&mut self, side: usize, bytes: &[u8]) -> Vec<u8> {
        let stream = &mut self.streams[side];
        let (from, mut bytes) = (stream.sent.len(), bytes.to_vec());
        stream.sent.extend_from_slice(&bytes);
        let within = |at: usize| at.checked_sub(from).filter(|at| *at < bytes.len());
        match stream.tamper.clone() {
            Some(Tamper::Flip(at, bits)) => {
                if let Some(at) = within(at) {
                    bytes[at] ^= bits;
                }
            }
            Some(Tamper::Insert(at, more)) => {
                if let Some(at) = within(at) {
                    bytes.splice(at..at, more);
                }
            }
            Some(Tamper::Drop(at, count)) => {
                if let Some(at) = within(at) {
                    bytes.drain(at..(at + count).min(bytes.len()));
                }
            }
            None => {}
        }
        bytes
    }

    /// Whether the end of what a side sends has come by now, read or not.
    pub(super) fn has_ended(&self, side: usize, now: u64) -> bool {
        self.streams[side].chunks.iter().any(|(at, chunk)| *at <= now && *chunk == Chunk::Ends)
    }
}
