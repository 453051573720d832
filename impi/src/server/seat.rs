//! One client of the session: what it has sent, and how far it has come.

use std::collections::BTreeMap;

use bytes::Bytes;

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
    pub(super) counts: Counts,
}

/// What a client has said of its size.
#[derive(Clone, Default, Debug)]
pub(super) struct Counts {
    /// C_NHOSTS.
    pub(super) hosts: Option<u32>,
    /// C_NPROCS.
    pub(super) procs: Option<u32>,
    /// H_ACKMARK, until H_HIWATER has come.
    pub(super) ackmarks: Option<Bytes>,
}

impl Seat {
    pub(super) fn new(conn: ConnId) -> Seat {
        Seat {
            conn: Some(conn),
            sent: BTreeMap::new(),
            highest: None,
            done: false,
            ended: false,
            counts: Counts::default(),
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
}

impl Counts {
    /// Remembers what later labels are compared with.
    pub(super) fn learn(&mut self, label: Label, values: &Bytes) {
        let number = || values[..].try_into().map(u32::from_be_bytes).ok();
        match label {
            Label::C_NHOSTS => self.hosts = number(),
            Label::C_NPROCS => self.procs = number(),
            Label::H_ACKMARK => self.ackmarks = Some(values.clone()),
            Label::H_HIWATER => self.ackmarks = None,
            _ => {}
        }
    }
}
