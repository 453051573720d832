//! A message in flight.

use gpc_trees::Id;

use super::faults::Passage;
use chained_gpc::wire::Message;

/// A message in flight.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) from: Id,
    pub(super) to: Id,
    pub(super) passage: Passage,
    /// Incarnation of the sender.
    pub(super) begun: u64,
    pub(super) sent: Sent,
    pub(super) message: Message,
}

/// Send time of a message in nanoseconds, with two flags. Packed in one word, so that a parcel takes two cache lines,
/// not three.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent(u64);

impl Sent {
    const DATA: u64 = 1 << 63;
    const LIE: u64 = 1 << 62;

    /// No world lasts long enough for a time to use the bits of the flags.
    pub(super) fn at(now: u64) -> Sent {
        Sent(now & !(Sent::DATA | Sent::LIE))
    }

    /// Marks the data of a long reply, whose head was sent before.
    pub(super) fn data(self, is: bool) -> Sent {
        Sent(self.0 | if is { Sent::DATA } else { 0 })
    }

    /// Marks a message from a sender that has no part in the call that it names.
    pub(super) fn lie(self, is: bool) -> Sent {
        Sent(self.0 | if is { Sent::LIE } else { 0 })
    }

    pub(super) fn is_data(self) -> bool {
        self.0 & Sent::DATA > 0
    }

    pub(super) fn is_lie(self) -> bool {
        self.0 & Sent::LIE > 0
    }

    pub(super) fn time(self) -> u64 {
        Sent::at(self.0).0
    }
}
