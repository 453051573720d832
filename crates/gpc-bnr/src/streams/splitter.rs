//! Splits the bytes of a pipe into pieces that end with a line end.

use bytes::BytesMut;

use super::{PIECE_MAX, Piece, Stream};
use crate::names::Member;

/// Splits one output of one process.
#[derive(Debug)]
pub struct Splitter {
    member: Member,
    stream: Stream,
    /// An unfinished line, shorter than [`PIECE_MAX`].
    pending: BytesMut,
}

impl Splitter {
    /// A splitter for one output of a process.
    pub fn new(member: Member, stream: Stream) -> Splitter {
        Splitter { member, stream, pending: BytesMut::new() }
    }

    /// Takes received bytes, and passes each finished piece to `take`.
    pub fn bytes(&mut self, mut bytes: &[u8], take: &mut impl FnMut(Piece)) {
        // Terminates: each iteration consumes at least one byte.
        while !bytes.is_empty() {
            let room = PIECE_MAX - self.pending.len();
            let (part, rest) = bytes.split_at(room.min(bytes.len()));
            let line_end = part.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            match line_end {
                Some(end) => {
                    self.pending.extend_from_slice(&part[..end]);
                    self.give(take);
                    bytes = &bytes[end..];
                }
                None => {
                    self.pending.extend_from_slice(part);
                    if self.pending.len() == PIECE_MAX {
                        self.give(take);
                    }
                    bytes = rest;
                }
            }
        }
    }

    /// The output has ended: passes the unfinished line, if any, to `take`.
    pub fn end(&mut self, take: &mut impl FnMut(Piece)) {
        if !self.pending.is_empty() {
            self.give(take);
        }
    }

    /// Number of buffered bytes: the length of the unfinished line.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    fn give(&mut self, take: &mut impl FnMut(Piece)) {
        let bytes = self.pending.split().freeze();
        take(Piece { member: self.member, stream: self.stream, bytes });
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::names::GroupId;

    const MEMBER: Member = Member { group: GroupId(1), rank: 2 };

    /// The pieces for these received parts. Checks that less than a piece is buffered after each part.
    fn pieces(parts: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut splitter = Splitter::new(MEMBER, Stream::Err);
        let mut pieces = Vec::new();
        let mut take = |piece: Piece| {
            assert_eq!((piece.member, piece.stream), (MEMBER, Stream::Err));
            pieces.push(piece.bytes.to_vec());
        };
        for part in parts {
            splitter.bytes(part, &mut take);
            assert!(splitter.pending() < PIECE_MAX);
        }
        splitter.end(&mut take);
        assert_eq!(splitter.pending(), 0);
        splitter.end(&mut take);
        pieces
    }

    /// Parts as a pipe delivers them, with few or many line ends.
    fn part() -> impl Strategy<Value = Vec<u8>> {
        let text = prop_oneof![Just(b"a".to_vec()), Just(b"\n".to_vec()), Just(b"some words\nand".to_vec())];
        (text, prop_oneof![0..10_usize, 60_000..70_000_usize, 130_000..140_000_usize])
            .prop_map(|(text, count)| text.into_iter().cycle().take(count).collect())
    }

    proptest! {
        #[test]
        fn the_pieces_are_exactly_what_came(parts in vec(part(), 0..8)) {
            let pieces = pieces(&parts);
            prop_assert_eq!(pieces.concat(), parts.concat());
            for (index, piece) in pieces.iter().enumerate() {
                prop_assert!(!piece.is_empty() && piece.len() <= PIECE_MAX);
                let is_last = index + 1 == pieces.len();
                let is_cut = piece.len() == PIECE_MAX && !piece.contains(&b'\n');
                prop_assert!(piece.ends_with(b"\n") || is_cut || is_last);
            }
        }

        #[test]
        fn a_line_that_has_ended_is_not_held(parts in vec(part(), 1..4)) {
            let mut splitter = Splitter::new(MEMBER, Stream::Out);
            let mut given = 0;
            parts.iter().for_each(|part| splitter.bytes(part, &mut |piece| given += piece.bytes.len()));
            let all = parts.concat();
            let whole = all.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            prop_assert!(given >= whole);
        }
    }

    #[test]
    fn lines_stay_whole() {
        let parts: Vec<Vec<u8>> = ["one\ntw", "o\n", "", "three", "\nfour"].map(Vec::from).to_vec();
        assert_eq!(pieces(&parts), ["one\n", "two\n", "three\n", "four"].map(Vec::from));
        // Lines that arrive together are one piece.
        let parts = ["a\nb\nc", "\nd\n"].map(Vec::from);
        assert_eq!(pieces(&parts), ["a\nb\n", "c\nd\n"].map(Vec::from));
    }

    /// A line end at the last byte of a full piece belongs to that piece; one byte later, the line is split.
    #[test]
    fn a_line_is_cut_only_if_it_is_longer_than_a_piece() {
        let line = |length: usize| [vec![b'x'; length - 1], vec![b'\n']].concat();
        assert_eq!(pieces(&[line(PIECE_MAX)]), [line(PIECE_MAX)]);
        // Its line end arrives later.
        let parts = [vec![b'x'; PIECE_MAX - 1], b"\n".to_vec()];
        assert_eq!(pieces(&parts), [line(PIECE_MAX)]);
        let (one, two) = (vec![b'x'; PIECE_MAX], b"\n".to_vec());
        assert_eq!(pieces(&[line(PIECE_MAX + 1)]), [one, two]);
    }
}
