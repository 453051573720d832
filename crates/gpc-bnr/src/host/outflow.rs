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

/// A batch for the head's output writer: pieces, and the bytes in them from this node's processes.
pub(super) type Writing = (Vec<Piece>, usize);

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
    /// Informs the sender; `None` for this node's own output.
    answer: Option<ArrivalCallback>,
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
    /// At the head, the batches at the writer: own bytes of each, and the sender to inform.
    writing: VecDeque<(usize, Option<ArrivalCallback>)>,
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
        self.unsent == 0 && self.in_flight == 0 && self.waiting.is_empty() && self.sent.is_empty()
    }

    /// A node is lost: output avoids it from now on.
    pub(super) fn lost(&mut self, node: Id) {
        self.lost.insert(node);
    }

    /// Takes output from nodes below. `answer` is called when it has been written.
    pub(super) fn relay(&mut self, mut data: Bytes, answer: ArrivalCallback) {
        let mut parts = Vec::new();
        while data.len() >= PART_HEAD {
            let (origin, number, length) = (data.get_u32_le(), data.get_u64_le(), data.get_u32_le() as usize);
            if length > data.len() {
                return answer(Err("output that is shorter than it says".into()));
            }
            parts.push(Part { origin, number, batch: data.split_to(length), answer: None });
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
            let own = writing.1;
            match writer.try_send(writing) {
                Ok(()) => {
                    self.in_flight += own;
                    self.unsent -= own;
                    if let Some(part) = &part {
                        self.last_written.insert(part.origin, part.number);
                    }
                    self.writing.push_back((own, part.and_then(|part| part.answer)));
                }
                Err(TrySendError::Full(writing)) => {
                    match part {
                        Some(part) => self.waiting.push_front(part),
                        None => self.pieces = writing.0,
                    }
                    return;
                }
                Err(TrySendError::Disconnected(_)) => {
                    self.destination = Destination::Dropped;
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
            self.own_first = !own;
            if own {
                return Some(((std::mem::take(&mut self.pieces), self.unsent), None));
            }
            let mut part = self.waiting.pop_front()?;
            if self.last_written.get(&part.origin).is_some_and(|last_written| *last_written >= part.number) {
                part.answer.into_iter().for_each(|answer| answer(Ok(())));
                continue;
            }
            match decode_batch(&part.batch) {
                Ok(pieces) => return Some(((pieces, 0), Some(part))),
                Err(error) => {
                    let message = format!("output that makes no sense: {error}");
                    part.answer.take().into_iter().for_each(|answer| answer(Err(message.clone())));
                }
            }
        }
    }

    /// At the head: the writer has written the oldest batch.
    pub(super) fn written(&mut self, own: usize) {
        self.in_flight -= own.min(self.in_flight);
        if let Some((_, Some(answer))) = self.writing.pop_front() {
            answer(Ok(()));
        }
    }

    /// The writer is gone: drops all output.
    pub(super) fn drop_all(&mut self) {
        (self.unsent, self.in_flight) = (0, 0);
        self.pieces.clear();
        let waiting = self.waiting.drain(..).chain(self.sent.drain(..)).filter_map(|part| part.answer);
        for answer in waiting.chain(self.writing.drain(..).filter_map(|(_, answer)| answer)) {
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
            self.waiting.push_back(Part { origin: self.me, number: self.made, batch, answer: None });
            self.in_flight += std::mem::take(&mut self.unsent);
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
        if self.sent.iter().any(|part| part.origin == self.me) {
            self.in_flight = 0;
        }
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
mod tests {
    use std::sync::mpsc::{self, Receiver};

    use proptest::prelude::*;

    use super::*;
    use crate::names::{GroupId, Member};
    use crate::streams::Stream;

    fn piece(rank: u32, text: &str) -> Piece {
        let member = Member { group: GroupId(1), rank };
        Piece { member, stream: Stream::Out, bytes: Bytes::copy_from_slice(text.as_bytes()) }
    }

    fn head() -> (Outflow, Receiver<Writing>) {
        let (writer, writings) = mpsc::sync_channel(4);
        (Outflow::new(0, (0..20).collect(), Destination::Written(writer)), writings)
    }

    fn node(id: Id) -> Outflow {
        Outflow::new(id, (0..20).collect(), Destination::Sent)
    }

    fn callback() -> (ArrivalCallback, Receiver<Result<(), String>>) {
        let (sender, arrived) = mpsc::channel();
        (Box::new(move |result| sender.send(result).unwrap()), arrived)
    }

    #[test]
    fn output_of_a_node_is_answered_for_when_the_head_has_written_it() {
        let ((mut head, writings), mut between, mut leaf) = (head(), node(1), node(9));
        leaf.take(piece(5, "hello\n"));
        let (up, data) = leaf.next_call().unwrap();
        assert_eq!((up, leaf.next_call().is_none()), (1, true), "one call at a time");
        let (answer, at_leaf) = callback();
        between.relay(data, answer);
        between.take(piece(1, "own\n"));
        let (up, data) = between.next_call().unwrap();
        assert_eq!(up, 0);
        let (answer, at_between) = callback();
        head.relay(data, answer);
        head.write();
        let texts: Vec<Bytes> =
            writings.try_iter().flat_map(|(pieces, _)| pieces).map(|piece| piece.bytes).collect();
        assert_eq!(texts, ["hello\n", "own\n"]);
        assert!(at_between.try_recv().is_err() && at_leaf.try_recv().is_err(), "not yet written");
        head.written(0);
        head.written(0);
        between.called(at_between.recv().unwrap());
        leaf.called(at_leaf.recv().unwrap());
        assert!(head.is_empty() && between.is_empty() && leaf.is_empty());
    }

    #[test]
    fn what_goes_another_way_since_a_node_was_lost_is_written_once() {
        let ((mut head, writings), mut leaf) = (head(), node(9));
        leaf.take(piece(5, "once\n"));
        let (_, data) = leaf.next_call().unwrap();
        // The output came through node 1, which was lost before it could reply.
        head.relay(data, callback().0);
        leaf.lost(1);
        leaf.called(Err("node 1 is lost".into()));
        let (up, data) = leaf.next_call().unwrap();
        assert_eq!(up, 0);
        let (answer, arrived) = callback();
        head.relay(data, answer);
        head.write();
        assert_eq!(writings.try_iter().flat_map(|(pieces, _)| pieces).count(), 1);
        assert_eq!(arrived.recv().unwrap(), Ok(()));
    }

    #[test]
    fn what_never_arrives_is_dropped_in_the_end_and_said_to_be() {
        let mut node = node(1);
        node.relay(node_data(), Box::new(|_| {}));
        node.take(piece(1, "lost\n"));
        for _ in 0..=AGAIN_MAX {
            assert!(node.next_call().is_some());
            node.called(Err("busy".into()));
        }
        assert!(node.next_call().is_none() && node.is_empty() && node.has_room());
    }

    fn node_data() -> Bytes {
        let mut node = node(9);
        node.take(piece(9, "relayed\n"));
        node.next_call().unwrap().1
    }

    #[test]
    fn a_writer_that_is_slow_holds_up_who_writes() {
        let (mut head, writings) = head();
        let line = "x".repeat(60_000);
        let mut taken = 0;
        // Terminates: the window is finite.
        while head.has_room() {
            head.take(piece(0, &line));
            head.write();
            taken += line.len();
        }
        assert!((WINDOW..WINDOW + line.len()).contains(&taken));
        let (_, own) = writings.recv().unwrap();
        head.written(own);
        assert!(head.has_room());
    }

    proptest! {
        #[test]
        fn any_bytes_of_another_node_are_output_or_refused(data: Vec<u8>) {
            let (mut head, _writings) = head();
            let (answer, arrived) = callback();
            head.relay(data.into(), answer);
            head.write();
            head.drop_all();
            prop_assert_eq!(arrived.try_iter().count(), 1);
        }
    }
}
