//! One client of the session: what it has sent, and how far it has come.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::check::Said;
use super::{ConnId, Stage};
use crate::wire::Label;

/// One client of the session.
#[derive(Debug)]
pub(super) struct Seat {
    /// `None` when the connection has ended after all that mattered.
    pub(super) conn: Option<ConnId>,
    /// The labels that it has sent, with the values that are still to be broadcast; empty where every client has them.
    pub(super) sent: BTreeMap<Label, Bytes>,
    /// Those whose values were not broadcast yet.
    pub(super) unanswered: BTreeSet<Label>,
    /// The label that it has sent last.
    pub(super) last: Option<Label>,
    /// Whether it has sent DONE.
    pub(super) done: bool,
    /// Whether it has sent FINI.
    pub(super) ended: bool,
    /// Bytes that have come after FINI.
    pub(super) late: usize,
    /// Unknown commands that it has sent.
    pub(super) ignored: u32,
    /// What later values are compared with.
    pub(super) said: Said,
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
            said: Said::default(),
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
        // Those that wait to be broadcast as well are there once.
        let waits = |label: &Label| self.sent.get(label).is_some_and(|values| !values.is_empty());
        let compared = self.said.kept().filter(|(label, _)| !waits(label));
        waiting + compared.map(|(_, len)| len).sum::<usize>()
    }
}
