//! Splits the bytes on a connection before it is a link into pieces: frames in clear, messages of the proof, one sealed
//! record.
//!
//! The buffer never exceeds the maximum length of a piece, and grows only with received bytes.

use super::preamble::{PREAMBLE, Preamble};
use super::proof::TAG;
use crate::wire::frame::{FIRST_MAX, FRAME_HEADER, FrameError, FrameHeader};

/// Length of the length field before each message of the proof and each record, in bytes.
pub const LENGTH: usize = 2;

/// Maximum length of a record before the link is up: a sealed first frame.
const RECORD_FIRST: usize = FRAME_HEADER + FIRST_MAX + TAG;

/// The piece expected next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExpectedPiece {
    /// A preamble, or the frame of a peer that proves nothing.
    Beginning,
    /// A frame in clear.
    Frame,
    /// A message of the proof, of this length, or its rejection.
    Message(usize),
    /// A sealed frame.
    Record,
    /// Nothing: it is this side's turn.
    Nothing,
}

/// A received piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ReceivedPiece {
    Preamble([u8; PREAMBLE]),
    Frame(FrameHeader, Vec<u8>),
    Message(Vec<u8>),
    /// The other side rejects the proof.
    Refusal,
    Record(Vec<u8>),
}

/// Bytes that are not the expected piece.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum PieceError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("it sent a message of {0} bytes instead of its proof")]
    Message(usize),
    #[error("it sent a sealed frame of {0} bytes instead of a hello")]
    Record(usize),
    #[error("it sent bytes before its hello was answered")]
    Early,
}

/// A piece that is being received.
#[derive(Debug)]
pub(super) struct Piece {
    expected: ExpectedPiece,
    /// Number of bytes to receive first: its header, then all of it.
    needed: usize,
    bytes: Vec<u8>,
}

impl Piece {
    pub(super) fn new(expected: ExpectedPiece) -> Piece {
        let needed = match expected {
            ExpectedPiece::Beginning | ExpectedPiece::Frame => FRAME_HEADER,
            ExpectedPiece::Message(_) | ExpectedPiece::Record => LENGTH,
            ExpectedPiece::Nothing => 1,
        };
        Piece { expected, needed, bytes: Vec::new() }
    }

    /// Number of bytes to receive next; all of them belong to this piece.
    pub(super) fn wants(&self) -> usize {
        self.needed - self.bytes.len()
    }

    /// Whether no byte of it has arrived.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes bytes up to the end of the piece, and returns the piece when it is complete.
    pub(super) fn feed(&mut self, bytes: &mut &[u8]) -> Result<Option<ReceivedPiece>, PieceError> {
        // At most two iterations: the header, then the rest.
        loop {
            let (taken, rest) = bytes.split_at(self.wants().min(bytes.len()));
            self.bytes.extend_from_slice(taken);
            *bytes = rest;
            if self.wants() > 0 {
                return Ok(None);
            }
            let whole = self.whole()?;
            if self.needed == whole {
                let piece = self.take();
                return Ok(Some(piece));
            }
            self.needed = whole;
        }
    }

    /// Returns the length of the piece according to its header.
    fn whole(&self) -> Result<usize, PieceError> {
        let header = |length: usize| match (self.expected, length) {
            (ExpectedPiece::Message(exact), length) if length != 0 && length != exact => {
                Err(PieceError::Message(length))
            }
            (ExpectedPiece::Record, length) if !(FRAME_HEADER + TAG..=RECORD_FIRST).contains(&length) => {
                Err(PieceError::Record(length))
            }
            _ => Ok(LENGTH + length),
        };
        match (self.expected, self.bytes.first_chunk(), self.bytes.first_chunk()) {
            (ExpectedPiece::Nothing, ..) => Err(PieceError::Early),
            (ExpectedPiece::Beginning, Some(first), _) if Preamble::begins(*first) => Ok(PREAMBLE),
            (ExpectedPiece::Beginning | ExpectedPiece::Frame, Some(first), _) => {
                let FrameHeader { kind, length, .. } = FrameHeader::parse(*first)?;
                match length as usize {
                    length if length > FIRST_MAX => {
                        let extra = (length - FIRST_MAX) as u64;
                        Err(FrameError::TooMuch { kind, extra }.into())
                    }
                    length => Ok(FRAME_HEADER + length),
                }
            }
            (_, _, Some(length)) => header(u16::from_le_bytes(*length).into()),
            // Unreachable: the header has been received.
            (_, _, None) => Ok(self.needed),
        }
    }

    fn take(&mut self) -> ReceivedPiece {
        let bytes = std::mem::take(&mut self.bytes);
        match (self.expected, bytes.first_chunk()) {
            (ExpectedPiece::Beginning, Some(first)) if Preamble::begins(*first) => {
                ReceivedPiece::Preamble(*first)
            }
            (ExpectedPiece::Message(_), _) if bytes.len() == LENGTH => ReceivedPiece::Refusal,
            (ExpectedPiece::Message(_), _) => ReceivedPiece::Message(bytes[LENGTH..].to_vec()),
            (ExpectedPiece::Record, _) => ReceivedPiece::Record(bytes[LENGTH..].to_vec()),
            (_, Some(first)) => {
                let header = FrameHeader::parse(*first).expect("its header was read before");
                ReceivedPiece::Frame(header, bytes[FRAME_HEADER..].to_vec())
            }
            (_, None) => unreachable!("no piece is shorter than its header"),
        }
    }
}

/// Returns a message or record behind its length field.
pub(super) fn with_length(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("messages of the proof and records are shorter");
    [&length.to_le_bytes(), bytes].concat()
}

/// The rejection of a proof, without a reason.
pub(super) const REFUSAL: [u8; LENGTH] = [0; LENGTH];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::frame::Kind;

    fn expected() -> impl Strategy<Value = ExpectedPiece> {
        prop_oneof![
            Just(ExpectedPiece::Beginning),
            Just(ExpectedPiece::Frame),
            Just(ExpectedPiece::Record),
            (1..300usize).prop_map(ExpectedPiece::Message),
        ]
    }

    #[test]
    fn a_piece_ends_at_its_length() {
        let frame = [&[1, 0, 0, 0, 7, 0, 0, 0][..], b"x", b"behind"].concat();
        let mut bytes = &frame[..];
        let piece = Piece::new(ExpectedPiece::Frame).feed(&mut bytes).unwrap().unwrap();
        let header = FrameHeader { length: 1, kind: Kind::Goodbye, flags: 0 };
        assert_eq!((piece, bytes), (ReceivedPiece::Frame(header, b"x".to_vec()), &b"behind"[..]));
        let mut bytes = &[0, 0, 9][..];
        assert_eq!(Piece::new(ExpectedPiece::Message(56)).feed(&mut bytes), Ok(Some(ReceivedPiece::Refusal)));
        assert_eq!(bytes, [9]);
        let refused = |expected, bytes: &[u8]| Piece::new(expected).feed(&mut &*bytes).unwrap_err();
        assert_eq!(refused(ExpectedPiece::Message(56), &[57, 0]), PieceError::Message(57));
        assert_eq!(refused(ExpectedPiece::Record, &[0xff, 0xff]), PieceError::Record(65_535));
        assert_eq!(refused(ExpectedPiece::Nothing, &[1]), PieceError::Early);
        assert!(matches!(refused(ExpectedPiece::Frame, &[1, 2, 0, 0, 1, 0, 0, 0]), PieceError::Frame(_)));
    }

    proptest! {
        /// For any cuts of the bytes, the result is the same, and `wants` never exceeds the piece.
        #[test]
        fn cuts_make_no_difference(
            expected in expected(),
            bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..400),
            cuts in prop::collection::vec(1..50usize, 1..40),
        ) {
            let mut at_once = Piece::new(expected);
            let mut left = &bytes[..];
            let whole = at_once.feed(&mut left);
            let mut pieced = Piece::new(expected);
            let (mut rest, mut piece, mut cuts) = (&bytes[..], Ok(None), cuts.into_iter().cycle());
            while !rest.is_empty() && matches!(piece, Ok(None)) {
                let wanted = pieced.wants();
                let (mut now, later) = rest.split_at(cuts.next().unwrap().min(rest.len()).min(wanted));
                piece = pieced.feed(&mut now);
                prop_assert!(now.is_empty() || piece.is_err());
                rest = later;
            }
            if piece.is_ok() {
                prop_assert_eq!(rest, left);
            }
            prop_assert_eq!(piece, whole);
        }
    }
}
