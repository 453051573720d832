//! Encoding of several pieces of output: the data of one call from a node to another.
//!
//! Each piece is its group, rank, stream (0 output, 1 error), length and bytes. Numbers are u32, little-endian, except
//! the stream, which is one byte. Pieces follow each other without a header, separator or trailer.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::{PIECE_MAX, Piece, Stream};
use crate::names::{GroupId, Member};

/// Bytes of a piece's header.
const HEAD: usize = 4 + 4 + 1 + 4;

/// Error: the bytes are not a valid batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} at byte {at}; nodes of a domain must be of one version")]
pub struct BatchError {
    what: &'static str,
    at: usize,
}

/// Encodes pieces. A piece longer than [`PIECE_MAX`] is split, an empty one is left out.
pub fn encode_batch(pieces: &[Piece]) -> Bytes {
    let length = pieces.iter().map(|piece| HEAD + piece.bytes.len()).sum();
    let mut batch = BytesMut::with_capacity(length);
    for piece in pieces {
        for part in piece.bytes.chunks(PIECE_MAX) {
            batch.put_u32_le(piece.member.group.0);
            batch.put_u32_le(piece.member.rank);
            batch.put_u8(match piece.stream {
                Stream::Out => 0,
                Stream::Err => 1,
            });
            batch.put_u32_le(u32::try_from(part.len()).unwrap_or(u32::MAX));
            batch.put_slice(part);
        }
    }
    batch.freeze()
}

/// The pieces of a batch. They share its memory.
///
/// # Errors
/// The bytes are not a valid batch.
pub fn decode_batch(batch: &Bytes) -> Result<Vec<Piece>, BatchError> {
    let mut rest = batch.clone();
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let at = batch.len() - rest.len();
        let wrong = |what| BatchError { what, at };
        if rest.len() < HEAD {
            return Err(wrong("a piece of output that is shorter than its head"));
        }
        let member = Member { group: GroupId(rest.get_u32_le()), rank: rest.get_u32_le() };
        let stream = match rest.get_u8() {
            0 => Stream::Out,
            1 => Stream::Err,
            _ => return Err(wrong("a piece of a stream that there is not")),
        };
        let length = rest.get_u32_le() as usize;
        if length == 0 || length > PIECE_MAX {
            return Err(wrong("a piece of output that is empty or longer than any"));
        }
        if length > rest.len() {
            return Err(wrong("a piece of output that is shorter than it says"));
        }
        pieces.push(Piece { member, stream, bytes: rest.split_to(length) });
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn piece() -> impl Strategy<Value = Piece> {
        let length = prop_oneof![4 => 1..50_usize, 1 => PIECE_MAX - 1..=PIECE_MAX];
        (any::<u32>(), any::<u32>(), any::<bool>(), length, any::<u8>()).prop_map(
            |(group, rank, out, length, byte)| Piece {
                member: Member { group: GroupId(group), rank },
                stream: if out { Stream::Out } else { Stream::Err },
                bytes: vec![byte; length].into(),
            },
        )
    }

    proptest! {
        #[test]
        fn pieces_come_as_they_were_given(pieces in vec(piece(), 0..8)) {
            prop_assert_eq!(decode_batch(&encode_batch(&pieces)), Ok(pieces));
        }

        #[test]
        fn a_batch_that_is_cut_is_an_error_or_has_fewer_pieces(pieces in vec(piece(), 1..5), cut in any::<prop::sample::Index>()) {
            let batch = encode_batch(&pieces);
            match decode_batch(&batch.slice(..cut.index(batch.len()))) {
                Ok(fewer) => prop_assert!(pieces.starts_with(&fewer) && fewer.len() < pieces.len()),
                Err(error) => prop_assert!(error.at < batch.len()),
            }
        }

        #[test]
        fn bytes_that_are_nothing_are_refused_or_read(bytes in vec(0..3_u8, 0..64)) {
            let batch = Bytes::from(bytes);
            if let Ok(pieces) = decode_batch(&batch) {
                prop_assert_eq!(encode_batch(&pieces), batch);
            }
        }
    }

    #[test]
    fn a_piece_that_is_longer_than_any_is_cut_and_an_empty_one_left_out() {
        let member = Member { group: GroupId(1), rank: 0 };
        let piece = |length| Piece { member, stream: Stream::Out, bytes: vec![b'x'; length].into() };
        let batch = encode_batch(&[piece(0), piece(PIECE_MAX + 1)]);
        assert_eq!(decode_batch(&batch), Ok(vec![piece(PIECE_MAX), piece(1)]));
        for (bad, at) in [(&[0; 12][..], 0), (&[0; 13], 0), (&[0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 7], 0)]
        {
            assert_eq!(decode_batch(&Bytes::copy_from_slice(bad)).map_err(|error| error.at), Err(at));
        }
    }
}
