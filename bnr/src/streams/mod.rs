//! What processes write to their standard output and error, on its way to the head. No I/O.
//!
//! A [`Splitter`] cuts what one process writes into [`Piece`]s that end with a line where they can, so that lines of several processes do not mix. Nodes pass pieces up a tree of fan-out [`FAN_OUT`], in batches.
//!
//! # Memory
//! A splitter holds less than [`PIECE_MAX`] bytes: those of a line that has not ended.

mod batch;
mod splitter;

pub use batch::{BatchError, decode_batch, encode_batch};
pub use splitter::Splitter;

use bytes::Bytes;

use crate::names::Member;

/// Most bytes of a piece: a longer line is cut.
pub const PIECE_MAX: usize = 64 << 10;

/// How many nodes give their output to one.
pub const FAN_OUT: usize = 8;

/// Which of its outputs a process has written to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What a process has written to one of its outputs: one or more whole lines, or a part of a line that is longer than [`PIECE_MAX`], or the last one without a line's end. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Who has written it.
    pub member: Member,
    /// To what.
    pub stream: Stream,
    /// What.
    pub bytes: Bytes,
}

/// To which node another one gives its output: both are positions in the list of a domain's nodes, and the head, position 0, gives it to nobody. Who finds a parent lost asks for the parent's parent: positions become smaller, down to the head.
pub fn parent(position: usize) -> Option<usize> {
    position.checked_sub(1).map(|before| before / FAN_OUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_a_few_steps_from_the_head_and_has_few_children() {
        assert_eq!(parent(0), None);
        let mut children = vec![0; 5000];
        for position in 1..5000 {
            let mut at = position;
            let mut steps = 0;
            while let Some(above) = parent(at) {
                assert!(above < at);
                at = above;
                steps += 1;
            }
            assert!(at == 0 && steps <= 5, "{position} takes {steps} steps");
            children[parent(position).unwrap()] += 1;
        }
        assert!(children.iter().all(|count| *count <= FAN_OUT));
        assert_eq!(children[0], FAN_OUT);
    }
}
