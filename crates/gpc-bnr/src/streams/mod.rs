//! Standard output and error of processes, on the way to the head. No I/O.
//!
//! A [`Splitter`] cuts the output of one process into [`Piece`]s. Where possible a piece ends with a line end, so that
//! lines of several processes do not mix. Nodes send pieces up a tree of fan-out [`FAN_OUT`], in batches.
//!
//! # Memory
//! A splitter buffers less than [`PIECE_MAX`] bytes: an unfinished line.

mod batch;
mod splitter;

pub use batch::{BatchError, decode_batch, encode_batch};
pub use splitter::Splitter;

use bytes::Bytes;

use crate::names::Member;

/// Largest piece, in bytes. A longer line is split.
pub const PIECE_MAX: usize = 64 << 10;

/// Number of nodes that send their output to the same node.
pub const FAN_OUT: usize = 8;

/// An output of a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Output of a process: one or more whole lines, a part of a line longer than [`PIECE_MAX`], or the last line without a
/// line end. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The process that wrote it.
    pub member: Member,
    /// The output that it was written to.
    pub stream: Stream,
    /// The bytes.
    pub bytes: Bytes,
}

/// The node that receives another node's output. Both are positions in the list of a domain's nodes; the head, at
/// position 0, has none. If a parent is lost, the sender uses the parent's parent: positions decrease down to the head.
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
