//! One end of a connection, as the checkers know it.

use gpc_trees::Id;

use super::first_frames::{FirstFrame, SECOND_END, THIRD_END, first, second};
use super::observation::{End, Member};
use chained_gpc::link::peering::Source;

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) to: Option<Id>,
    pub(super) source: Option<Source>,
    pub(super) member: Option<Member>,
    pub(super) rings: bool,
    pub(super) unpermitted: bool,
    pub(super) since: u64,
    pub(super) mate: Option<End>,
    pub(super) ours: bool,
    pub(super) proves: bool,
    pub(super) encrypts: bool,
    pub(super) took: Vec<u8>,
    pub(super) wrote: Vec<u8>,
    pub(super) open: bool,
    pub(super) finished: bool,
    pub(super) up: Option<Id>,
}

impl Connection {
    /// Whether the first frame was complete within the first `before` bytes written.
    pub(super) fn is_first_written(&self, before: usize) -> bool {
        let proof = match (self.proves, self.ours) {
            (false, _) => 0,
            (true, true) => THIRD_END,
            (true, false) => SECOND_END,
        };
        self.wrote.get(proof..before).is_some_and(|bytes| first(bytes, self.proves).is_some())
    }

    /// The first frame after the proof, received or written.
    pub(super) fn first(&self, took: bool) -> Option<FirstFrame> {
        first(self.behind_proof(took)?, self.proves)
    }

    /// The second frame written after the proof.
    pub(super) fn second_written(&self) -> Option<FirstFrame> {
        second(self.behind_proof(false)?, self.proves)
    }

    /// The bytes after the proof, received or written.
    fn behind_proof(&self, took: bool) -> Option<&[u8]> {
        let proof = match (self.proves, took == self.ours) {
            (false, _) => 0,
            (true, true) => SECOND_END,
            (true, false) => THIRD_END,
        };
        let bytes = if took { &self.took } else { &self.wrote };
        // If only one of the sides uses proofs, no hello counts.
        if !self.ours && self.took.starts_with(b"cGPC") != self.proves {
            return None;
        }
        bytes.get(proof..)
    }
}
