//! Long data that leave by descriptor: the bytes lie in sealed memory of their own, and the link says which bytes of which call they are.
//!
//! Source: docs/wire.md, "Data by descriptor". What cannot leave so is cut into segments.

use bytes::Bytes;

use super::outbox::{Part, Stream};
use crate::wire::body::Extent;
use crate::wire::frame::{EXTENT, EXTENT_MIN, FRAME_HEADER, Kind, SEGMENT};
use crate::wire::head::ExtentRef;

/// What data leave by, beside the bytes of the link.
pub trait Handover {
    /// Whether the peer takes descriptors, and one more now.
    fn room(&mut self) -> Room;

    /// Sealed memory with these bytes; `None` where there is none.
    fn seal(&mut self, bytes: &Bytes) -> Option<Extent>;

    /// Hands one over, so that the peer has it before it gets the last of these many bytes that the link has queued; false when it must go another way.
    fn hand_over(&mut self, extent: &Extent, queued: usize) -> bool;
}

/// Whether a descriptor may be handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Now.
    Now,
    /// When the peer has taken some of those that are under way.
    Later,
    /// Never.
    Never,
}

/// A link that takes none.
pub(super) struct Never;

impl Handover for Never {
    fn room(&mut self) -> Room {
        Room::Never
    }

    fn seal(&mut self, _: &Bytes) -> Option<Extent> {
        None
    }

    fn hand_over(&mut self, _: &Extent, _: usize) -> bool {
        false
    }
}

/// What became of the next bytes of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handed {
    /// So many are handed over; the frame is to be written.
    Over(usize),
    /// They have to wait.
    Waiting,
    /// They go as segments.
    Not,
}

impl Stream {
    /// Hands the next bytes of the body over, if they are long data and the peer takes them so.
    pub(super) fn hand_over(&mut self, over: &mut dyn Handover, queued: usize) -> Handed {
        // Of a response the frame says nothing.
        if self.head.is_some() || self.kind != Kind::Request {
            return Handed::Not;
        }
        let Some(Part::Body { body, read, limit }) = self.parts.front_mut() else { return Handed::Not };
        if body.len() <= SEGMENT as u64 {
            return Handed::Not;
        }
        match over.room() {
            Room::Now => {}
            Room::Later => return Handed::Waiting,
            Room::Never => return Handed::Not,
        }
        let allowed = limit.saturating_sub(*read);
        let extent = match body.extent(*read) {
            // No piece is longer than half a window, so its end will be allowed.
            Some(extent) if extent.length() as u64 > allowed => return Handed::Waiting,
            Some(extent) => extent,
            None => {
                if body.arrived().saturating_sub(*read) < EXTENT_MIN as u64 {
                    return Handed::Not;
                }
                // What is still arriving may have to be copied to be read, and for a segment there is memory.
                let bytes = body.read(*read, if body.is_whole() { EXTENT } else { SEGMENT });
                if bytes.len() < EXTENT_MIN {
                    return Handed::Not;
                }
                // Nor is this one.
                if bytes.len() as u64 > allowed {
                    return Handed::Waiting;
                }
                let Some(extent) = over.seal(&bytes) else { return Handed::Not };
                extent
            }
        };
        if !over.hand_over(&extent, queued + FRAME_HEADER + ExtentRef::LENGTH) {
            return Handed::Not;
        }
        *read += extent.length() as u64;
        body.passed(*read);
        if *read == body.len() {
            self.parts.pop_front();
        }
        Handed::Over(extent.length())
    }
}
