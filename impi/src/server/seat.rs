//! One client of the session: what it has sent, and how far it has come.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::check::Said;
use super::{ConnId, Stage};
use crate::wire::Label;

/// One client of the session.
#[derive(Debug)]
pub(super) struct Seat {
    /// `None` when the connection has ended after all that mattered.
    pub(super) conn: Option<ConnId>,
    /// Values that are not broadcast yet.
    pub(super) sent: BTreeMap<Label, Bytes>,
    /// The highest label that it has sent: it has moved past all lower ones.
    pub(super) highest: Option<Label>,
    /// Whether it has sent DONE.
    pub(super) done: bool,
    /// Whether it has sent FINI.
    pub(super) ended: bool,
    /// Labels that it has sent.
    pub(super) labels: u32,
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
            highest: None,
            done: false,
            ended: false,
            labels: 0,
            late: 0,
            ignored: 0,
            said: Said::default(),
        }
    }

    /// Up to which label everything of this client has come.
    pub(super) fn passed(&self) -> Option<Label> {
        if self.done { Some(Label(u32::MAX)) } else { self.highest }
    }

    pub(super) fn stage(&self) -> Stage {
        match (self.done, self.highest) {
            (true, _) => Stage::Done,
            (false, Some(label)) => Stage::At(label),
            (false, None) => Stage::Joined,
        }
    }

    /// Bytes of values that are held.
    pub(super) fn held(&self) -> usize {
        let waiting: usize = self.sent.values().map(Bytes::len).sum();
        // Those that wait to be broadcast as well are there once.
        let compared = self.said.kept().filter(|(label, _)| !self.sent.contains_key(label));
        waiting + compared.map(|(_, len)| len).sum::<usize>()
    }
}
