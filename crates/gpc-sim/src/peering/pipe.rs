//! A connection: two ordered streams of bytes with a delay, split anywhere; the attacker reads all of it.

use std::collections::VecDeque;

use gpc_trees::Id;

use super::check::Process;
use super::member::Member;
use chained_gpc::link::peering::{LinkKey, Source, Transport};

/// Address that the attacker connects from.
pub(super) const ATTACKER: Source = 0xbad;

/// Owner of one end of a connection.
#[derive(Debug)]
pub(super) enum Owner {
    /// A process, with its key once it knows the connection.
    Process(Process, Option<LinkKey>),
    /// Sends these bytes once the connection is established, and nothing else.
    Player(Vec<u8>),
    /// Sends back all that it receives.
    Mirror,
    /// A member that lies.
    Member(Box<Member>),
    /// No listener.
    Nobody,
}

/// A part of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Chunk {
    /// The connection reaches the other side.
    Opens,
    /// The other side has accepted it.
    Stands,
    Bytes(Vec<u8>),
    /// End of the stream.
    Ends,
}

/// A change of a stream in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Tamper {
    /// Flips these bits of the byte at this position.
    Flip(usize, u8),
    /// Inserts these bytes before the byte at this position.
    Insert(usize, Vec<u8>),
    /// Drops this many bytes from this position on.
    Drop(usize, usize),
}

/// One direction of a connection.
#[derive(Default, Debug)]
pub(super) struct Stream {
    /// Chunks in flight, each with its arrival time.
    pub(super) chunks: VecDeque<(u64, Chunk)>,
    /// All bytes sent, as the attacker has recorded them.
    pub(super) sent: Vec<u8>,
    pub(super) tamper: Option<Tamper>,
}

/// A connection; side 0 has opened it.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) owners: [Owner; 2],
    /// Indexed by the sending side.
    pub(super) streams: [Stream; 2],
    /// The ids at its ends, for cuts.
    pub(super) between: [Id; 2],
    pub(super) way: Transport,
    /// Whether memory for rings is offered, and whether it arrives.
    pub(super) rings: bool,
    pub(super) rings_come: bool,
    /// Source address of side 0, if it is not a process.
    pub(super) source: Source,
    /// Least delay of a chunk, nanoseconds.
    pub(super) latency: u64,
    /// Time until which answers may be late or missing: the connection is slow, cut or changed.
    pub(super) troubled: u64,
}

impl Pipe {
    pub(super) fn new(
        owners: [Owner; 2],
        between: [Id; 2],
        latency: u64,
        way: Transport,
        rings: bool,
    ) -> Pipe {
        let (streams, source) = (Default::default(), ATTACKER);
        Pipe { owners, streams, between, way, rings, rings_come: rings, source, latency, troubled: 0 }
    }

    /// Applies the planned change to bytes of a side.
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

    /// Whether the end of a side's stream has arrived, read or not.
    pub(super) fn has_ended(&self, side: usize, now: u64) -> bool {
        self.streams[side].chunks.iter().any(|(at, chunk)| *at <= now && *chunk == Chunk::Ends)
    }
}
