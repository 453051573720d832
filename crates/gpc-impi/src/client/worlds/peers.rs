//! The clients of a world: the real state machine as its driver runs it, and clients of other implementations.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::super::{Client, ClientFault, ClientSettings, Learned};
use crate::wire::{Command, Frame, Label, Reader, coll, command};

/// A client, from its first connection to its end.
pub(super) struct Peer {
    pub(super) settings: ClientSettings,
    pub(super) kind: Kind,
    /// The current connection.
    pub(super) conn: Option<usize>,
    pub(super) begun: Duration,
    /// Reconnections that are left.
    pub(super) again: u32,
    pub(super) end: Option<(Duration, PeerEnd)>,
}

pub(super) enum Kind {
    /// A client of this project.
    Own(Option<Box<Client>>),
    Foreign(Foreign),
}

/// How a client has ended, as far as its driver knows.
#[derive(Debug)]
pub(super) enum PeerEnd {
    Learned(Box<Learned>),
    /// A foreign client has received DONE.
    Done,
    Failed(ClientFault),
    /// A foreign client was lost, or the server does not listen.
    Lost,
}

/// A client of another implementation: it sends its labels in an order of its own.
pub(super) struct Foreign {
    reader: Reader,
    /// The labels to send, in order. The first one may be waiting for its broadcast.
    labels: VecDeque<(Label, Vec<u8>)>,
    /// Whether it sends each label after the broadcast of the one before.
    waits: bool,
    /// The last broadcast of each label.
    pub(super) answers: BTreeMap<Label, (u32, Bytes)>,
}

impl Foreign {
    pub(super) fn new(labels: VecDeque<(Label, Vec<u8>)>, waits: bool) -> Foreign {
        let mut reader = Reader::new();
        reader.expect_raw(8);
        Foreign { reader, labels, waits, answers: BTreeMap::new() }
    }

    /// Handles bytes of the server. Returns the bytes to send, and whether DONE has arrived.
    pub(super) fn receive(&mut self, rank: u32, mut bytes: &[u8]) -> (Vec<u8>, bool) {
        let (mut out, mut done) = (Vec::new(), false);
        // Ends: each round consumes bytes.
        while !bytes.is_empty() {
            match self.reader.take(&mut bytes, |_| 1 << 20).unwrap() {
                Some(Frame::Raw(_)) => out.extend_from_slice(&command(Command::Impi, &[rank])),
                Some(Frame::Command(Command::Impi, _)) => self.send_next(&mut out),
                Some(Frame::Command(Command::Coll, payload)) => self.answered(rank, payload, &mut out),
                Some(Frame::Command(Command::Done, _)) => done = true,
                Some(frame) => panic!("{frame:?}"),
                None => {}
            }
        }
        (out, done)
    }

    fn answered(&mut self, rank: u32, payload: Bytes, out: &mut Vec<u8>) {
        let [label, mask] = [0, 4].map(|at| u32::from_be_bytes(*payload[at..].first_chunk().unwrap()));
        let label = Label(label);
        if let Some((before, _)) = self.answers.insert(label, (mask, payload.slice(8..))) {
            assert!(before & !mask == 0 && before != mask, "COLL {label} has {mask:#x} after {before:#x}");
        }
        let is_first = self.labels.front().is_some_and(|(first, _)| *first == label);
        if self.waits && is_first && mask >> rank & 1 == 1 {
            self.labels.pop_front();
            self.send_next(out);
        }
    }

    /// Sends the next label, or all of them, and DONE after the last one.
    fn send_next(&mut self, out: &mut Vec<u8>) {
        while let Some((label, values)) = self.labels.front() {
            out.extend_from_slice(&coll(*label, None, [&values[..]]));
            if self.waits {
                return;
            }
            self.labels.pop_front();
        }
        out.extend_from_slice(&command(Command::Done, &[]));
    }
}
