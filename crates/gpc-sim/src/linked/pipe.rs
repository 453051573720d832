//! A connection between two processes, and what is in flight on it.

use std::collections::VecDeque;

use gpc_trees::Id;

use super::given::GivenMessages;
use super::step::ConnectionEvent;
use super::stream::StreamRules;
use chained_gpc::link::peering::LinkKey;

/// One end of a connection, and the stream of bytes that leads to it.
#[derive(Debug)]
pub(super) struct End {
    pub(super) id: Id,
    /// Start of the run that has this end; 0 before that.
    pub(super) begun: u64,
    /// Time since which its process knows of it.
    pub(super) since: u64,
    /// Whether its process knows of it and has not closed it.
    pub(super) open: bool,
    /// Its key in the table of its process, while it is there.
    pub(super) key: Option<LinkKey>,
    /// Items to arrive, in order: a partition or a pause holds back all of them.
    pub(super) coming: VecDeque<ConnectionEvent>,
    /// Bytes that have arrived and that its process does not read yet.
    pub(super) unread: Vec<u8>,
    /// Bytes that were written and not read.
    pub(super) held: usize,
    /// Messages that the link of the other side was given, and that have not arrived.
    pub(super) given: GivenMessages,
    /// What may be written to this end.
    pub(super) rules: StreamRules,
    /// Bytes of frames written to it when its writer last had nothing left to write.
    pub(super) rested_at: u64,
    /// Arrival time of the last item; the next one does not overtake it.
    last_arrival: u64,
    /// Time at which its process has read the last bytes.
    pub(super) taken_in: u64,
    /// Time at which its stream ends; `u64::MAX` while nothing has ended it.
    pub(super) ends_at: u64,
}

/// State of a connection that its ends have not closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Health {
    Intact,
    /// Writes are lost; items in flight arrive.
    Broken,
    /// Items in flight are lost, too.
    Gone,
}

/// A connection; side 0 has opened it.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) ends: [End; 2],
    /// The run that it was opened to; a later run does not get it.
    pub(super) listener: Option<u32>,
    health: Health,
    /// Whether it takes no bytes once it is broken; otherwise they are lost.
    pub(super) fills: bool,
}

impl Pipe {
    pub(super) fn new(from: Id, to: Id) -> Pipe {
        let end = |id, open| End {
            id,
            begun: 0,
            since: 0,
            open,
            key: None,
            coming: VecDeque::new(),
            unread: Vec::new(),
            held: 0,
            given: GivenMessages::default(),
            rules: StreamRules::default(),
            rested_at: 0,
            last_arrival: 0,
            taken_in: 0,
            ends_at: u64::MAX,
        };
        Pipe { ends: [end(from, true), end(to, false)], listener: None, health: Health::Intact, fills: false }
    }

    /// The lower and the higher id at its ends.
    pub(super) fn between(&self) -> (Id, Id) {
        let [a, b] = [0, 1].map(|side| self.ends[side].id);
        (a.min(b), a.max(b))
    }

    pub(super) fn is_broken(&self) -> bool {
        self.health != Health::Intact
    }

    /// Whether items in flight are lost.
    pub(super) fn is_gone(&self) -> bool {
        self.health == Health::Gone
    }

    /// Breaks the connection: nothing more can be written.
    pub(super) fn break_up(&mut self, hard: bool) {
        self.health = if hard || self.is_gone() { Health::Gone } else { Health::Broken };
    }

    /// Loses all bytes in flight to a side but this many: the connection breaks in the middle of what was written.
    pub(super) fn lose_bytes(&mut self, side: usize, mut kept: usize) {
        for item in &mut self.ends[side].coming {
            if let ConnectionEvent::Bytes(bytes) = item {
                bytes.truncate(kept);
                kept -= bytes.len();
            }
        }
    }

    /// Bytes in flight to a side.
    pub(super) fn bytes_in_flight(&self, side: usize) -> usize {
        let bytes = |item: &ConnectionEvent| match item {
            ConnectionEvent::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        self.ends[side].coming.iter().map(bytes).sum()
    }

    /// Arrival time of an item at a side, given its earliest time `at`.
    pub(super) fn in_order(&mut self, side: usize, at: u64) -> u64 {
        let end = &mut self.ends[side];
        end.last_arrival = end.last_arrival.max(at);
        end.last_arrival
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overtakes_on_one_side_and_a_loss_is_not_mended() {
        let mut pipe = Pipe::new(9, 4);
        assert_eq!(pipe.between(), (4, 9));
        assert_eq!([50, 40, 60].map(|at| pipe.in_order(1, at)), [50, 50, 60]);
        assert_eq!(pipe.in_order(0, 7), 7);
        pipe.break_up(true);
        pipe.break_up(false);
        assert!(pipe.is_broken() && pipe.is_gone());
    }

    #[test]
    fn bytes_in_flight_are_lost_from_their_end() {
        let mut pipe = Pipe::new(1, 2);
        let items = [ConnectionEvent::Bytes(vec![1, 2, 3]), ConnectionEvent::Stands];
        pipe.ends[1].coming.extend(items.into_iter().chain([ConnectionEvent::Bytes(vec![4, 5])]));
        assert_eq!(pipe.bytes_in_flight(1), 5);
        pipe.lose_bytes(1, 4);
        assert_eq!((pipe.bytes_in_flight(1), pipe.ends[1].coming.len()), (4, 3));
        pipe.lose_bytes(1, 2);
        assert!(matches!(&pipe.ends[1].coming[0], ConnectionEvent::Bytes(bytes) if bytes == &[1, 2]));
    }
}
