//! A long message that is being sent: its body is cut into segments, as far as its bytes have arrived.

use std::collections::VecDeque;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::link::send_window::SendWindow;
use crate::wire::frame::{Kind, SEGMENT};
use crate::wire::{Body, CallId, Share};

/// A part of a long body.
#[derive(Debug)]
pub(in crate::link) enum BodyPart {
    Bytes(Bytes),
    /// The peer accepts the data up to `limit`.
    Body {
        body: Body,
        read: u64,
        limit: u64,
    },
}

/// A long message that is being sent.
#[derive(Debug)]
pub(in crate::link) struct Stream {
    pub(in crate::link) call: CallId,
    pub(in crate::link) kind: Kind,
    pub(in crate::link) flags: u8,
    /// The fixed part of the first frame; taken when that frame is cut.
    pub(in crate::link) head: Option<Vec<u8>>,
    /// The unsent parts of the body. Each has bytes left, of which some may still have to arrive.
    pub(in crate::link) parts: VecDeque<BodyPart>,
    /// Send window; without a limit for a request.
    pub(in crate::link) window: SendWindow,
    /// Share of the budget for the bytes of a response, until the last is sent.
    pub(in crate::link) _share: Share,
}

impl Stream {
    pub(in crate::link) fn backlog(&self) -> u64 {
        let left = |part: &BodyPart| match part {
            BodyPart::Bytes(bytes) => bytes.len() as u64,
            BodyPart::Body { body, read, limit } => body.arrived().min(*limit).saturating_sub(*read),
        };
        self.parts.iter().map(left).sum::<u64>().min(self.window.remaining())
    }

    /// Whether the next part is long data. They start in a frame of their own, so every link of a tree cuts them at the
    /// same places, and each node forwards segments as received.
    fn begins_long_data(&self) -> bool {
        matches!(self.parts.front(), Some(BodyPart::Body { body, .. }) if body.len() > SEGMENT as u64)
    }

    /// Returns the next bytes of the body that have arrived, at most `longest`. Removes the parts that are complete.
    pub(in crate::link) fn cut(&mut self, longest: usize) -> SmallVec<[Bytes; 4]> {
        let mut segment = SmallVec::new();
        let most = self.window.remaining_up_to(longest);
        let mut room = most;
        while room > 0
            && let Some(part) = self.parts.front_mut()
        {
            let (piece, through) = match part {
                BodyPart::Bytes(bytes) => {
                    let piece = bytes.split_to(room.min(bytes.len()));
                    let through = bytes.is_empty();
                    (piece, through)
                }
                BodyPart::Body { body, read, limit } => {
                    let allowed = usize::try_from(limit.saturating_sub(*read)).unwrap_or(room);
                    let piece = body.read(*read, room.min(allowed));
                    *read += piece.len() as u64;
                    body.passed(*read);
                    let through = *read == body.len();
                    (piece, through)
                }
            };
            room -= piece.len();
            let stuck = piece.is_empty() && !through;
            if !piece.is_empty() {
                segment.push(piece);
            }
            if through {
                self.parts.pop_front();
            }
            if stuck || (through && self.begins_long_data()) {
                break;
            }
        }
        self.window.consume(most - room);
        segment
    }
}
