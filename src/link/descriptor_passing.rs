//! Descriptor passing: long data of a request are sent as sealed memory, whose descriptor goes beside the bytes of the
//! link. An EXTENT frame names the call and the length.
//!
//! Source: docs/wire.md, "Data by descriptor". Data that cannot be passed this way are cut into segments.

use bytes::Bytes;

use super::outbox::{BodyPart, Stream};
use crate::wire::body::Extent;
use crate::wire::frame::{EXTENT, EXTENT_MIN, FRAME_HEADER, Kind, SEGMENT};
use crate::wire::head::ExtentRef;

/// Passes descriptors of sealed memory to the peer of a link.
pub trait DescriptorSender {
    /// Whether the peer accepts another descriptor.
    fn room(&mut self) -> DescriptorRoom;

    /// Copies bytes into sealed memory; `None` if the system gives none.
    fn seal(&mut self, bytes: &Bytes) -> Option<Extent>;

    /// Sends a descriptor before the last of the `queued` bytes of the link. Returns false if the data must be sent as
    /// segments.
    fn send(&mut self, extent: &Extent, queued: usize) -> bool;
}

/// Whether a descriptor can be passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DescriptorRoom {
    /// Now.
    Available,
    /// After the peer has accepted earlier descriptors.
    Full,
    /// Never on this link.
    Unsupported,
}

/// A link without descriptor passing.
pub(super) struct NoDescriptors;

impl DescriptorSender for NoDescriptors {
    fn room(&mut self) -> DescriptorRoom {
        DescriptorRoom::Unsupported
    }

    fn seal(&mut self, _: &Bytes) -> Option<Extent> {
        None
    }

    fn send(&mut self, _: &Extent, _: usize) -> bool {
        false
    }
}

/// Result of an attempt to pass the next data of a stream by descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PassOutcome {
    /// This number of bytes was passed; the EXTENT frame is to be written.
    Passed(usize),
    /// The data must wait.
    Blocked,
    /// The data must be sent as segments.
    UseSegments,
}

impl Stream {
    /// Passes the next data by descriptor, if they are long and the peer accepts a descriptor.
    pub(super) fn pass_descriptor(
        &mut self,
        descriptors: &mut dyn DescriptorSender,
        queued: usize,
    ) -> PassOutcome {
        // EXTENT frames exist for requests only.
        if self.head.is_some() || self.kind != Kind::Request {
            return PassOutcome::UseSegments;
        }
        let Some(BodyPart::Body { body, read, limit }) = self.parts.front_mut() else {
            return PassOutcome::UseSegments;
        };
        if body.len() <= SEGMENT as u64 {
            return PassOutcome::UseSegments;
        }
        match descriptors.room() {
            DescriptorRoom::Available => {}
            DescriptorRoom::Full => return PassOutcome::Blocked,
            DescriptorRoom::Unsupported => return PassOutcome::UseSegments,
        }
        let allowed = limit.saturating_sub(*read);
        let extent = match body.extent(*read) {
            // An extent has at most half a window, so the window will reach its end.
            Some(extent) if extent.length() as u64 > allowed => return PassOutcome::Blocked,
            Some(extent) => extent,
            None => {
                if body.arrived().saturating_sub(*read) < EXTENT_MIN as u64 {
                    return PassOutcome::UseSegments;
                }
                // Reading data that are still arriving may copy them: take at most a segment.
                let bytes = body.read(*read, if body.is_whole() { EXTENT } else { SEGMENT });
                if bytes.len() < EXTENT_MIN {
                    return PassOutcome::UseSegments;
                }
                // This extent has at most half a window, too.
                if bytes.len() as u64 > allowed {
                    return PassOutcome::Blocked;
                }
                let Some(extent) = descriptors.seal(&bytes) else { return PassOutcome::UseSegments };
                extent
            }
        };
        if !descriptors.send(&extent, queued + FRAME_HEADER + ExtentRef::LENGTH) {
            return PassOutcome::UseSegments;
        }
        *read += extent.length() as u64;
        body.passed(*read);
        if *read == body.len() {
            self.parts.pop_front();
        }
        PassOutcome::Passed(extent.length())
    }
}
