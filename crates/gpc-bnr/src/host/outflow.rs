//! Output on its way to the head: from the processes of this node, and from nodes below it.
//!
//! In a tree of nodes, each node sends its parent one call at a time. The reply means that the head has written the
//! output. So the output in transit is bounded at each node, and a slow head slows down the processes that write.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::mpsc::{SyncSender, TrySendError};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use chained_gpc::trees::Id;

use crate::streams::{Piece, decode_batch, encode_batch, parent};

/// Most bytes of its own processes' output that a node holds; beyond that it reads no more of them.
pub(super) const WINDOW: usize = 1 << 20;

/// Most bytes of one call.
const BATCH_MAX: usize = 1 << 20;

/// Most attempts to send the same output before it is dropped. A lost node costs one attempt, a busy one several.
const AGAIN_MAX: u32 = 16;

/// Bytes before each node's part of a call: origin, number, length.
const PART_HEAD: usize = 4 + 8 + 4;

/// Writes output: receives pieces of whole lines, or of lines that are longer than a piece.
pub type Writer = Box<dyn FnMut(&Piece) -> io::Result<()> + Send>;

/// A batch for the head's output writer.
pub(super) type Writing = Vec<Piece>;

/// Informs the sender of output that it has been written, or the reason why it was not.
pub(super) type ArrivalCallback = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Where output goes.
pub(super) enum Destination {
    /// To the writer of this node, which is the head.
    Written(SyncSender<Writing>),
    /// To another node.
    Sent,
    /// Dropped: there is no writer.
    Dropped,
}

/// Output of one node, in transit.
struct Part {
    origin: Id,
    number: u64,
    batch: Bytes,
    /// Bytes of this node's processes in it; 0 for the output of other nodes.
    own: usize,
    /// Informs the sender; `None` for this node's own output.
    answer: Option<ArrivalCallback>,
}

/// A batch at the head's output writer.
struct AtWriter {
    /// Bytes of this node's processes in it.
    own: usize,
    /// Senders to inform when it has been written.
    answers: Vec<ArrivalCallback>,
}

/// All output at this node.
pub(super) struct Outflow {
    me: Id,
    nodes: Vec<Id>,
    lost: BTreeSet<Id>,
    destination: Destination,
    /// Output of this node's processes that is not yet sent.
    pieces: Vec<Piece>,
    unsent: usize,
    /// Bytes of this node's processes that are sent and not yet written.
    in_flight: usize,
    /// Number of batches that this node has made of its own output.
    made: u64,
    /// Parts that wait to be sent.
    waiting: VecDeque<Part>,
    /// Parts in the call to the next node.
    sent: Vec<Part>,
    /// Consecutive failed attempts to send.
    again: u32,
    /// At the head, the batches at the writer, oldest first.
    writing: VecDeque<AtWriter>,
    /// At the head: whether the own processes are next, so that other nodes do not starve them.
    own_first: bool,
    /// At the head: the last number of each origin. Parts sent again after the loss of a node are not written twice.
    last_written: BTreeMap<Id, u64>,
}

impl Outflow {
    pub(super) fn new(me: Id, nodes: Vec<Id>, destination: Destination) -> Outflow {
        Outflow {
            me,
            nodes,
            lost: BTreeSet::new(),
            destination,
            pieces: Vec::new(),
            unsent: 0,
            in_flight: 0,
            made: 0,
            waiting: VecDeque::new(),
            sent: Vec::new(),
            again: 0,
            writing: VecDeque::new(),
            own_first: false,
            last_written: BTreeMap::new(),
        }
    }

    /// Whether more output of processes may be read.
    pub(super) fn has_room(&self) -> bool {
        self.unsent + self.in_flight < WINDOW
    }

    /// Takes output of a process of this node.
    pub(super) fn take(&mut self, piece: Piece) {
        if !matches!(self.destination, Destination::Dropped) {
            self.unsent += piece.bytes.len();
            self.pieces.push(piece);
        }
    }

    /// Whether all output has been written.
    pub(super) fn is_empty(&self) -> bool {
        self.unsent == 0
            && self.in_flight == 0
            && self.waiting.is_empty()
            && self.sent.is_empty()
            && self.writing.is_empty()
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn counts(&self) -> [(&'static str, usize); 5] {
        [
            ("unsent output", self.unsent),
            ("output in transit", self.in_flight),
            ("output parts that wait", self.waiting.len()),
            ("output parts in a call", self.sent.len()),
            ("output at the writer", self.writing.len()),
        ]
    }

    /// A node is lost: output avoids it from now on.
    pub(super) fn lost(&mut self, node: Id) {
        self.lost.insert(node);
    }

    /// Takes output from nodes below. `answer` is called when it has been written.
    pub(super) fn relay(&mut self, mut data: Bytes, answer: ArrivalCallback) {
        if matches!(self.destination, Destination::Dropped) {
            return answer(Ok(()));
        }
        let mut parts = Vec::new();
        while data.len() >= PART_HEAD {
            let (origin, number, length) = (data.get_u32_le(), data.get_u64_le(), data.get_u32_le() as usize);
            if length > data.len() {
                return answer(Err("output that is shorter than it says".into()));
            }
            parts.push(Part { origin, number, batch: data.split_to(length), own: 0, answer: None });
        }
        match parts.last_mut() {
            // Parts are written in order, so the last one stands for all.
            Some(last) => last.answer = Some(answer),
            None => return answer(Ok(())),
        }
        self.waiting.extend(parts);
    }

    /// At the head: passes output to the writer as far as it has room.
    pub(super) fn write(&mut self) {
        let Destination::Written(writer) = &self.destination else { return };
        let writer = writer.clone();
        // Terminates: each iteration removes something or returns.
        while let Some((writing, part)) = self.next_writing() {
            let own = if part.is_none() { self.unsent } else { 0 };
            match writer.try_send(writing) {
                Ok(()) => {
                    self.own_first = part.is_some();
                    self.in_flight += own;
                    self.unsent -= own;
                    if let Some(part) = &part {
                        self.last_written.insert(part.origin, part.number);
                    }
                    let answers = part.and_then(|part| part.answer).into_iter().collect();
                    self.writing.push_back(AtWriter { own, answers });
                }
                Err(TrySendError::Full(writing)) => {
                    match part {
                        Some(part) => self.waiting.push_front(part),
                        None => self.pieces = writing,
                    }
                    return;
                }
                Err(TrySendError::Disconnected(_)) => {
                    self.destination = Destination::Dropped;
                    self.waiting.extend(part);
                    return self.drop_all();
                }
            }
        }
    }

    /// The next batch for the writer, and its part if it comes from another node.
    fn next_writing(&mut self) -> Option<(Writing, Option<Part>)> {
        // Terminates: each iteration removes a part or returns.
        loop {
            let own = (self.own_first || self.waiting.is_empty()) && self.unsent > 0;
            if own {
                return Some((std::mem::take(&mut self.pieces), None));
            }
            let mut part = self.waiting.pop_front()?;
            if self.last_written.get(&part.origin).is_some_and(|last_written| *last_written >= part.number) {
                self.repeated(part.answer);
                continue;
            }
            match decode_batch(&part.batch) {
                Ok(pieces) => return Some((pieces, Some(part))),
                Err(error) => {
                    let message = format!("output that makes no sense: {error}");
                    part.answer.take().into_iter().for_each(|answer| answer(Err(message.clone())));
                }
            }
        }
    }

    /// At the head: output has arrived again. It, and what came before it in its call, may still be at the writer.
    fn repeated(&mut self, answer: Option<ArrivalCallback>) {
        match (self.writing.back_mut(), answer) {
            (Some(last), answer) => last.answers.extend(answer),
            (None, Some(answer)) => answer(Ok(())),
            (None, None) => {}
        }
    }

    /// At the head: the writer has written the oldest batch.
    pub(super) fn written(&mut self) {
        let Some(AtWriter { own, answers }) = self.writing.pop_front() else { return };
        self.in_flight -= own;
        answers.into_iter().for_each(|answer| answer(Ok(())));
    }

    /// The writer is gone: drops all output.
    pub(super) fn drop_all(&mut self) {
        (self.unsent, self.in_flight) = (0, 0);
        self.pieces.clear();
        let waiting = self.waiting.drain(..).chain(self.sent.drain(..)).filter_map(|part| part.answer);
        for answer in waiting.chain(self.writing.drain(..).flat_map(|batch| batch.answers)) {
            answer(Ok(()));
        }
    }

    /// At other nodes than the head: the next call, with its target. `None` while a call is in transit or there is no
    /// output.
    pub(super) fn next_call(&mut self) -> Option<(Id, Bytes)> {
        if !matches!(self.destination, Destination::Sent) || !self.sent.is_empty() {
            return None;
        }
        let up = self.up()?;
        if self.unsent > 0 {
            self.made += 1;
            let batch = encode_batch(&std::mem::take(&mut self.pieces));
            let own = std::mem::take(&mut self.unsent);
            self.waiting.push_back(Part { origin: self.me, number: self.made, batch, own, answer: None });
            self.in_flight += own;
        }
        let mut data = BytesMut::new();
        while let Some(part) = self.waiting.front() {
            if !data.is_empty() && data.len() + part.batch.len() > BATCH_MAX {
                break;
            }
            data.put_u32_le(part.origin);
            data.put_u64_le(part.number);
            // A batch is far below 4 GiB: the windows bound its pieces.
            data.put_u32_le(u32::try_from(part.batch.len()).unwrap_or(u32::MAX));
            data.extend_from_slice(&part.batch);
            self.sent.extend(self.waiting.pop_front());
        }
        (!self.sent.is_empty()).then(|| (up, data.freeze()))
    }

    /// The call has ended. If it has failed, the output is sent again, perhaps to the next node above.
    pub(super) fn called(&mut self, arrived: Result<(), String>) {
        self.again = if arrived.is_ok() { 0 } else { self.again + 1 };
        if arrived.is_err() && self.again <= AGAIN_MAX && self.up().is_some() {
            self.sent.drain(..).rev().for_each(|part| self.waiting.push_front(part));
            return;
        }
        // Later parts of this node's output may still wait.
        self.in_flight -= self.sent.iter().map(|part| part.own).sum::<usize>();
        for answer in self.sent.drain(..).filter_map(|part| part.answer) {
            answer(arrived.clone());
        }
    }

    /// The next node towards the head that is not lost.
    pub(super) fn up(&self) -> Option<Id> {
        let mut position = self.nodes.iter().position(|id| *id == self.me)?;
        // Terminates: the parent's position is smaller.
        while let Some(above) = parent(position) {
            position = above;
            let id = *self.nodes.get(position)?;
            if !self.lost.contains(&id) {
                return Some(id);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
