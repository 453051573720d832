//! A connection between two processes, and what is in flight on it.

use std::collections::VecDeque;

use gpc_trees::Id;

use crate::parcel::Parcel;
use chained_gpc::link::peering::LinkKey;

/// An item in flight on a connection.
#[derive(Debug)]
pub(super) enum Item {
    Message(Box<Parcel>),
    Other(ConnectionEvent),
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) id: Id,
    /// Start of the run that has this end; 0 before that.
    pub(super) begun: u64,
    /// Time since which its process knows of it.
    pub(super) since: u64,
    /// Whether its process knows of it and has not closed it.
    pub(super) open: bool,
    /// Items to arrive, in order: a partition or a pause holds back all of them.
    pub(super) coming: VecDeque<Item>,
    /// Arrival time of the last item; the next one does not overtake it.
    last_arrival: u64,
    /// Time at which its process has read the last message: hellos cost no time, and stay behind what they follow.
    pub(super) taken_in: u64,
    /// Time at which its stream ends; `u64::MAX` while nothing has ended it.
    pub(super) ends_at: u64,
    /// Time until which the peer has announced a pause.
    pub(super) back_at: u64,
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
}

/// Key of an end of a connection. Keys grow, and none is used twice.
pub(super) fn key_of(pipe: u32, side: usize) -> LinkKey {
    LinkKey(pipe as usize * 2 + side)
}

/// Connection and side of an end.
pub(super) fn of_key(key: LinkKey) -> (u32, usize) {
    // The key was made from a `u32` and a side.
    ((key.0 / 2) as u32, key.0 % 2)
}

impl Pipe {
    pub(super) fn new(from: Id, to: Id) -> Pipe {
        let end = |id, open| End {
            id,
            begun: 0,
            since: 0,
            open,
            coming: VecDeque::new(),
            last_arrival: 0,
            taken_in: 0,
            ends_at: u64::MAX,
            back_at: 0,
        };
        Pipe { ends: [end(from, true), end(to, false)], listener: None, health: Health::Intact }
    }

    /// The side of an id: no process connects to itself.
    pub(super) fn end_of(&self, id: Id) -> Option<usize> {
        self.ends.iter().position(|end| end.id == id)
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

    /// Arrival time of an item at a side, given its earliest time `at`.
    pub(super) fn in_order(&mut self, side: usize, at: u64) -> u64 {
        let end = &mut self.ends[side];
        end.last_arrival = end.last_arrival.max(at);
        end.last_arrival
    }
}

/// An event of a connection, or an item of its stream.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// The attempt reaches the host.
    Opens,
    /// The process there learns of it.
    Accepted,
    /// The opening side learns that it is connected.
    Stands,
    /// The opening side learns that it was refused.
    Refused,
    /// Bytes of a hello or its proof.
    Bytes(Vec<u8>),
    /// End of the stream.
    Ends,
}

/// An event at one end of a connection.
#[derive(Debug)]
pub(crate) struct Step {
    pub(super) pipe: u32,
    /// The side where it happens.
    pub(super) side: usize,
    pub(crate) from: Id,
    pub(crate) to: Id,
    pub(super) what: ConnectionEvent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_end() {
        for (pipe, side) in [(0, 0), (0, 1), (7, 0), (u32::MAX / 2, 1)] {
            assert_eq!(of_key(key_of(pipe, side)), (pipe, side));
        }
        let pipe = Pipe::new(9, 4);
        assert_eq!((pipe.end_of(9), pipe.end_of(4), pipe.end_of(5)), (Some(0), Some(1), None));
        assert_eq!(pipe.between(), (4, 9));
    }

    #[test]
    fn nothing_overtakes_on_one_side_and_a_loss_is_not_mended() {
        let mut pipe = Pipe::new(1, 2);
        assert_eq!([50, 40, 60].map(|at| pipe.in_order(1, at)), [50, 50, 60]);
        assert_eq!(pipe.in_order(0, 7), 7);
        pipe.break_up(true);
        pipe.break_up(false);
        assert!(pipe.is_broken() && pipe.is_gone());
    }
}
