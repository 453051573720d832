//! The plan of a call, as its caller makes it.

use std::ops::Range;

use gpc_trees::{Group, IdList, Tree};

use chained_gpc::wire::message::Merging;
use chained_gpc::wire::{Parts, ReplyLimits};

/// Bit of the handles of functions that take their data as they arrive.
pub(crate) const STREAMING: u64 = 4;

/// Whether the function with this handle takes its data as they arrive.
pub(crate) fn takes_as_they_come(func: u64) -> bool {
    func & STREAMING > 0
}

/// A call as its caller plans it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All ids, the root first.
    pub ids: IdList,
    /// The tree over the list.
    pub tree: Tree,
    /// Whether the call continues without lost ids.
    pub partial: bool,
    /// Whether the root neither executes nor contributes.
    pub watch: bool,
    /// Whether replies are collected.
    pub reply_wanted: bool,
    /// Whether a callback that appends merges the replies, instead of aggregation.
    pub callback: bool,
    /// Whether ids forward before they execute.
    pub forward_first: bool,
    /// Bytes of the request's data.
    pub data_bytes: u32,
    /// Time limit, nanoseconds.
    pub limit_ns: u64,
    /// Bytes of each id's reply; it begins with the id, little-endian, as far as it fits.
    pub reply_bytes: u32,
    /// Further contents that distinguish this call from others.
    pub carries: Carries,
}

/// Contents of a call beside its data and replies, so that those of another call are detected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carries {
    /// Handle of func.
    pub func: u64,
    /// Handle of callback, in a call that has one.
    pub callback: u64,
    /// Bytes of the request's header.
    pub header_bytes: u32,
    /// Bytes of the header of each id's reply.
    pub reply_header_bytes: u32,
    /// Order in which callback merges.
    pub merging: Merging,
    /// Whether func takes the data as they arrive.
    pub as_they_come: bool,
    /// Limits of what one id writes.
    pub reply_limits: ReplyLimits,
    /// Scatter call: each id gets its own part of the data.
    pub scatter: bool,
    /// The reply brings the times of all ids.
    pub trace: bool,
    /// When the caller begins to take the replies of the children as they arrive, nanoseconds after its start.
    pub follow_ns: Option<u64>,
}

impl Plan {
    /// Where the data of the ids of a group lie within the data of the call. In a scatter call these are cut into parts
    /// of about the same length, and each id's part differs from the others.
    pub(crate) fn data_range(&self, group: Group) -> Range<usize> {
        let bytes = self.data_bytes as usize;
        if !self.carries.scatter {
            return 0..bytes;
        }
        let ids = u64::from(self.ids.len()).max(1);
        let cut = |place: u32| (u64::from(place) * u64::from(self.data_bytes) / ids) as usize;
        cut(group.start)..cut(group.start + group.len)
    }

    /// The lengths of the parts of a scatter call.
    pub(crate) fn parts(&self) -> Option<Box<Parts>> {
        let part = |start| self.data_range(Group { start, len: 1 }).len() as u64;
        let lengths: Vec<u64> = (0..self.ids.len()).map(part).collect();
        self.carries.scatter.then(|| Parts::of_lengths(lengths.into_iter()).map(Box::new)).flatten()
    }

    /// Whether an id writes more than the call takes.
    pub(crate) fn is_exceeded(&self, header: usize, data: usize) -> bool {
        let ReplyLimits { header_max, data_max } = self.carries.reply_limits;
        self.reply_wanted && (header as u64 > header_max || data as u64 > data_max)
    }
}

impl Default for Carries {
    /// The usual handles, and no headers.
    fn default() -> Carries {
        Carries {
            func: 1,
            callback: 2,
            header_bytes: 0,
            reply_header_bytes: 0,
            merging: Merging::InListOrder,
            as_they_come: false,
            reply_limits: ReplyLimits::UNLIMITED,
            scatter: false,
            trace: false,
            follow_ns: None,
        }
    }
}
