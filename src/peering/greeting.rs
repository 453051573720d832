//! One connection before it is a link: how far its proof and its hellos have come.

use gpc_trees::Id;

use super::piece::{Expected, Piece, with_length};
use super::proof::{
    FIRST_LENGTH, Handshake, RECORD_MAX, SECOND_LENGTH, Session, TAG, THIRD_LENGTH, Unproved,
};
use super::{PublicKey, preamble::PREAMBLE};
use crate::chain::Time;
use crate::wire::Hello;
use crate::wire::frame::{FRAME_HEADER, FrameError, FrameHeader, Kind, flags};
use crate::wire::head::Goodbye;

/// By which way two nodes are connected, as the system says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A Unix socket, whose other end is of a user that this node links with.
    User,
    /// TCP on one host.
    Loopback,
    /// TCP that leaves the host, or may.
    Network,
}

/// How the node at the other end of a link was proved to be a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Proof {
    /// Not at all.
    None,
    /// By its user: the link is a Unix socket.
    User,
    /// It has the secret of the job.
    Secret,
    /// It has the secret, and the key that is listed for its id.
    Key,
}

/// Where somebody has connected from, as a number: an address, of whatever kind.
pub type Source = u128;

/// How far a connection has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// Ours: it does not stand yet.
    Opening,
    /// Ours: the second message of the proof is awaited.
    Second(Box<dyn Handshake>),
    /// Ours: the answer to our hello is awaited.
    Answer,
    /// Theirs: nothing has come.
    Silent,
    /// Theirs: the first message is awaited, behind this preamble.
    First([u8; PREAMBLE]),
    /// Theirs: the third message is awaited.
    Third(Box<dyn Handshake>),
    /// Theirs: their hello is awaited.
    Hello,
    /// Theirs: another run of the id has a link that may still stand.
    OnHold(Hello),
}

/// A connection that is no link yet.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) stage: Stage,
    pub(super) way: Way,
    /// Where somebody has connected from; none of our own connections.
    pub(super) source: Option<Source>,
    /// Whom it is with, as far as it was said.
    pub(super) peer: Option<Id>,
    /// The key that the peer has proved to have.
    pub(super) key: Option<PublicKey>,
    /// Seals the hellos, and what follows if that is encrypted.
    pub(super) session: Option<Box<dyn Session>>,
    pub(super) encrypt: bool,
    /// Whether the peer's memory for rings has come, or ours was offered.
    pub(super) rings: bool,
    /// Until when it may go on as it is.
    pub(super) until: Option<Time>,
    pub(super) piece: Piece,
}

/// The first frame of a side.
pub(super) enum FirstFrame {
    Hello(Hello),
    Goodbye(Goodbye),
}

impl Greeting {
    /// A connection to a peer, which does not stand yet.
    pub(super) fn to(peer: Id) -> Greeting {
        let piece = Piece::new(Expected::Nothing);
        Greeting { stage: Stage::Opening, peer: Some(peer), piece, ..Greeting::from(Way::Network, None) }
    }

    /// A connection that somebody has opened.
    pub(super) fn from(way: Way, source: Option<Source>) -> Greeting {
        Greeting {
            stage: Stage::Silent,
            way,
            source,
            peer: None,
            key: None,
            session: None,
            encrypt: false,
            rings: false,
            until: None,
            piece: Piece::new(Expected::Beginning),
        }
    }

    /// Whether this side has opened it.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.stage, Stage::Opening | Stage::Second(_) | Stage::Answer)
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        let first = if self.session.is_some() { Expected::Record } else { Expected::Frame };
        self.piece = Piece::new(match stage {
            Stage::Opening | Stage::OnHold(_) => Expected::Nothing,
            Stage::Silent => Expected::Beginning,
            Stage::First(_) => Expected::Message(FIRST_LENGTH),
            Stage::Second(_) => Expected::Message(SECOND_LENGTH),
            Stage::Third(_) => Expected::Message(THIRD_LENGTH),
            Stage::Answer | Stage::Hello => first,
        });
        self.stage = stage;
    }

    /// A frame as it goes over this connection: sealed, once there is a session.
    pub(super) fn frame(&mut self, kind: Kind, flags: u8, payload: &[u8]) -> Result<Vec<u8>, Unproved> {
        let length = u32::try_from(payload.len()).map_err(|_| Unproved)?;
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

    /// Opens a record that holds one frame.
    pub(super) fn open(&mut self, record: &[u8]) -> Result<(FrameHeader, Vec<u8>), Refused> {
        let mut plain = vec![0; record.len()];
        let session = self.session.as_mut().ok_or(Unproved)?;
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

/// Why what came is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error(transparent)]
    Unproved(#[from] Unproved),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// Reads the first frame of a side.
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
