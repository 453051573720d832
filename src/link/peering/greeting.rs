//! State of one connection before it is a link: the progress of its proof and its hellos.

use gpc_trees::Id;

use super::piece::{ExpectedPiece, Piece, with_length};
use super::proof::{
    FIRST_LENGTH, Handshake, ProofError, RECORD_MAX, SECOND_LENGTH, Session, TAG, THIRD_LENGTH,
};
use super::{PublicKey, preamble::PREAMBLE};
use crate::chain::Time;
use crate::wire::Hello;
use crate::wire::frame::{FRAME_HEADER, FrameError, FrameHeader, Kind, flags};
use crate::wire::head::Goodbye;

/// Transport of a connection, as reported by the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// A Unix socket to a process of a user that this node links with.
    User,
    /// TCP within one host.
    Loopback,
    /// TCP that leaves the host, or may leave it.
    Network,
    /// The network of the program, which reports that this id is at the other end.
    Host(Id),
}

impl Transport {
    /// Whether the other end is known without a proof: by its user, or by the program.
    pub(super) fn is_known(self) -> bool {
        matches!(self, Transport::User | Transport::Host(_))
    }
}

/// How the peer of a link has proved its membership.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Proof {
    /// Not proved.
    None,
    /// By its user, over a Unix socket, or by the program whose network it is.
    User,
    /// By the secret of the job.
    Secret,
    /// By the secret and by the key that is listed for its id.
    Key,
}

/// Address of a connecting process as a number, of any kind of address.
pub type Source = u128;

/// Stage of a connection. "Ours" are connections that this node opened, "theirs" those that it accepted.
#[derive(Debug)]
pub(super) enum Stage {
    /// Ours: being opened.
    Opening,
    /// Ours: waits for the second message of the proof.
    Second(Box<dyn Handshake>),
    /// Ours: waits for the answer to this node's hello.
    Answer,
    /// Theirs: no bytes have arrived.
    Silent,
    /// Theirs: waits for the first message, after this preamble.
    First([u8; PREAMBLE]),
    /// Theirs: waits for the third message.
    Third(Box<dyn Handshake>),
    /// Theirs: waits for the peer's hello.
    Hello,
    /// Theirs: waits, because another run of the id has a link that may be alive.
    OnHold(Hello),
}

/// A connection that is not a link yet.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) stage: Stage,
    pub(super) transport: Transport,
    /// Source address of an accepted connection; `None` for this node's own.
    pub(super) source: Option<Source>,
    /// The peer, once known.
    pub(super) peer: Option<Id>,
    /// The key that the peer has proved.
    pub(super) key: Option<PublicKey>,
    /// Session that seals the hellos, and what follows if that is encrypted.
    pub(super) session: Option<Box<dyn Session>>,
    pub(super) encrypt: bool,
    /// Whether memory for rings has arrived from the peer, or was offered to it.
    pub(super) rings: bool,
    /// Time limit of the present stage.
    pub(super) until: Option<Time>,
    pub(super) piece: Piece,
}

/// The first frame from a side.
pub(super) enum FirstFrame {
    Hello(Hello),
    Goodbye(Goodbye),
}

impl Greeting {
    /// Returns a connection to a peer that is being opened.
    pub(super) fn to(peer: Id) -> Greeting {
        let piece = Piece::new(ExpectedPiece::Nothing);
        Greeting {
            stage: Stage::Opening,
            peer: Some(peer),
            piece,
            ..Greeting::from(Transport::Network, None)
        }
    }

    /// Returns an accepted connection.
    pub(super) fn from(transport: Transport, source: Option<Source>) -> Greeting {
        Greeting {
            stage: Stage::Silent,
            transport,
            source,
            peer: None,
            key: None,
            session: None,
            encrypt: false,
            rings: false,
            until: None,
            piece: Piece::new(ExpectedPiece::Beginning),
        }
    }

    /// Whether this node opened it.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.stage, Stage::Opening | Stage::Second(_) | Stage::Answer)
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        let first = if self.session.is_some() { ExpectedPiece::Record } else { ExpectedPiece::Frame };
        self.piece = Piece::new(match stage {
            Stage::Opening | Stage::OnHold(_) => ExpectedPiece::Nothing,
            Stage::Silent => ExpectedPiece::Beginning,
            Stage::First(_) => ExpectedPiece::Message(FIRST_LENGTH),
            Stage::Second(_) => ExpectedPiece::Message(SECOND_LENGTH),
            Stage::Third(_) => ExpectedPiece::Message(THIRD_LENGTH),
            Stage::Answer | Stage::Hello => first,
        });
        self.stage = stage;
    }

    /// Returns a frame's bytes on this connection, sealed if there is a session.
    pub(super) fn frame(&mut self, kind: Kind, flags: u8, payload: &[u8]) -> Result<Vec<u8>, ProofError> {
        let length = u32::try_from(payload.len()).map_err(|_| ProofError)?;
        let frame = [&FrameHeader { length, kind, flags }.emit()[..], payload].concat();
        match &mut self.session {
            None => Ok(frame),
            Some(session) => {
                let mut record = vec![0; (frame.len() + TAG).min(RECORD_MAX)];
                let sealed = session.seal(&frame, &mut record)?;
                Ok(with_length(&record[..sealed]))
            }
        }
    }

    /// Opens a record that contains one frame.
    pub(super) fn open(&mut self, record: &[u8]) -> Result<(FrameHeader, Vec<u8>), RecordError> {
        let mut plain = vec![0; record.len()];
        let session = self.session.as_mut().ok_or(ProofError)?;
        let length = session.open(record, &mut plain)?;
        plain.truncate(length);
        let kind = Kind::Hello;
        let too_short = FrameError::TooShort { kind, length, needed: FRAME_HEADER };
        let header = FrameHeader::parse(*plain.first_chunk().ok_or(too_short)?)?;
        let payload = plain.split_off(FRAME_HEADER);
        match payload.len().cmp(&(header.length as usize)) {
            std::cmp::Ordering::Equal => Ok((header, payload)),
            _ => Err(FrameError::TooMuch { kind: header.kind, extra: payload.len() as u64 }.into()),
        }
    }
}

/// Why received bytes are rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error(transparent)]
    ProofError(#[from] ProofError),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Reads the first frame from a side.
pub(super) fn first_frame(header: FrameHeader, payload: &[u8]) -> Result<FirstFrame, FrameError> {
    match header.kind {
        Kind::Hello => {
            let set = |flag| header.flags & flag != 0;
            let hello = Hello::parse(payload)?;
            Ok(FirstFrame::Hello(Hello { rings: set(flags::RINGS), extents: set(flags::EXTENTS), ..hello }))
        }
        Kind::Goodbye => Goodbye::parse(payload).map(FirstFrame::Goodbye),
        kind => Err(FrameError::OutOfPlace { kind, when: "before the hello" }),
    }
}

/// The flags of a hello's frame.
pub(super) fn hello_flags(hello: &Hello) -> u8 {
    let flags = [(hello.rings, flags::RINGS), (hello.extents, flags::EXTENTS)];
    flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag)
}
