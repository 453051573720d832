//! State of one client in a session.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::check::CheckedValues;
use super::{ConnId, Stage};
use crate::wire::Label;

#[derive(Debug)]
pub(super) struct Seat {
    /// Its connection; `None` if that has ended after FINI, or after all clients were done.
    pub(super) conn: Option<ConnId>,
    /// The labels that it has sent, with the values that may still be broadcast. The values are empty after their last
    /// broadcast.
    pub(super) sent: BTreeMap<Label, Bytes>,
    /// Labels whose values are still to be broadcast.
    pub(super) unanswered: BTreeSet<Label>,
    /// The last label that it has sent.
    pub(super) last: Option<Label>,
    /// Whether it has sent DONE.
    pub(super) done: bool,
    /// Whether it has sent FINI.
    pub(super) ended: bool,
    /// Bytes that arrived after FINI.
    pub(super) late: usize,
    /// Number of unknown commands that it has sent.
    pub(super) ignored: u32,
    /// Values that later ones are checked against.
    pub(super) checked: CheckedValues,
}

impl Seat {
    pub(super) fn new(conn: ConnId) -> Seat {
        Seat {
            conn: Some(conn),
            sent: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            last: None,
            done: false,
            ended: false,
            late: 0,
            ignored: 0,
            checked: CheckedValues::default(),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        match (self.done, self.last) {
            (true, _) => Stage::Done,
            (false, Some(label)) => Stage::At(label),
            (false, None) => Stage::Joined,
        }
    }

    /// Bytes of values that are held.
    pub(super) fn held(&self) -> usize {
        let waiting: usize = self.sent.values().map(Bytes::len).sum();
        // Values that also wait to be broadcast share their memory, and count once.
        let waits = |label: &Label| self.sent.get(label).is_some_and(|values| !values.is_empty());
        let compared = self.checked.retained().filter(|(label, _)| !waits(label));
        waiting + compared.map(|(_, len)| len).sum::<usize>()
    }
}
