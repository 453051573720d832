//! The record of an ended call in the flight recorder.

use gpc_trees::Id;

use super::Time;
use super::end::End;
use crate::wire::span::Span;

/// One ended call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CallRecord {
    pub(super) sequence: u64,
    pub(super) func: u64,
    pub(super) came: Time,
    pub(super) root: Id,
    /// This id itself if the call was started here.
    pub(super) parent: Id,
    /// Since the call came, as are all spans here.
    pub(super) began: Span,
    pub(super) ended: Span,
    pub(super) callbacks: Span,
    /// The child that answered last; any id if there was none.
    pub(super) last: Id,
    pub(super) last_at: Span,
    pub(super) answered: Span,
    pub(super) end: End,
}

impl CallRecord {
    /// A record of no call.
    pub(super) fn empty(me: Id) -> CallRecord {
        let none = Span::of_nanos(0);
        CallRecord {
            sequence: 0,
            func: 0,
            came: Time::default(),
            root: me,
            parent: me,
            began: none,
            ended: none,
            callbacks: none,
            last: 0,
            last_at: Span::NONE,
            answered: none,
            end: End::Done,
        }
    }
}

const _: () = assert!(size_of::<CallRecord>() == 64, "as docs/limits.md says");
