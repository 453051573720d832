//! A connection between two processes, and what is under way on it beside messages of calls.

use std::collections::VecDeque;

use gpc_trees::Id;

use crate::peering::LinkKey;
use crate::sim::rooms::Room;
use crate::sim::world::Parcel;

/// What is under way on a connection.
#[derive(Debug)]
pub(super) enum Item {
    Message(Room<Parcel>),
    Other(What),
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) id: Id,
    /// When the run of it began that has this end; 0 until it has.
    pub(super) begun: u64,
    /// Since when its process knows of it.
    pub(super) since: u64,
    /// Its process knows of it and has not closed it.
    pub(super) open: bool,
    /// What comes, in order: a partition and a process that stands still hold back all of it.
    pub(super) coming: VecDeque<Item>,
    /// When the last thing arrives here: the next one does not overtake it.
    last_arrival: u64,
    /// When its process has the last message that has come: hellos cost it no time, and stay behind what they follow.
    pub(super) taken_in: u64,
    /// When the end of what comes is here; `u64::MAX` as long as nothing has ended it.
    pub(super) ends_at: u64,
    /// Until when the peer stays away, as far as it has said.
    pub(super) back_at: u64,
}

/// What has become of a connection that nobody has closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Health {
    Intact,
    /// What is written goes nowhere; what was under way comes.
    Broken,
    /// What was under way is lost, too.
    Gone,
}

/// A connection: side 0 has opened it.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) ends: [End; 2],
    /// The run of the id that it leads to that was there when it came: another one does not find it.
    pub(super) listener: Option<u32>,
    health: Health,
}

/// Names an end of a connection. They grow, and none is used twice.
pub(super) fn key_of(pipe: u32, side: usize) -> LinkKey {
    LinkKey(pipe as usize * 2 + side)
}

/// The connection of an end, and which of both it is.
pub(super) fn of_key(key: LinkKey) -> (u32, usize) {
    // Made of a `u32` and a side.
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

    /// The end that is at an id: no process connects to itself.
    pub(super) fn end_of(&self, id: Id) -> Option<usize> {
        self.ends.iter().position(|end| end.id == id)
    }

    /// The lower id at its ends, and the higher one.
    pub(super) fn between(&self) -> (Id, Id) {
        let [a, b] = [0, 1].map(|side| self.ends[side].id);
        (a.min(b), a.max(b))
    }

    pub(super) fn is_broken(&self) -> bool {
        self.health != Health::Intact
    }

    /// Whether what was under way is lost.
    pub(super) fn is_gone(&self) -> bool {
        self.health == Health::Gone
    }

    /// Nothing is written on it any more.
    pub(super) fn break_up(&mut self, hard: bool) {
        self.health = if hard || self.is_gone() { Health::Gone } else { Health::Broken };
    }

    /// When something comes to a side that would come at `at` by itself.
    pub(super) fn in_order(&mut self, side: usize, at: u64) -> u64 {
        let end = &mut self.ends[side];
        end.last_arrival = end.last_arrival.max(at);
        end.last_arrival
    }
}

/// What happens to a connection.
#[derive(Debug)]
pub(in crate::sim) enum What {
    /// It reaches the host that it leads to.
    Opens,
    /// The process there learns of it.
    Accepted,
    /// Who has opened it learns that it stands.
    Stands,
    /// Nobody takes it: who has opened it learns that.
    Refused,
    /// A hello comes, or what proves it.
    Bytes(Vec<u8>),
    /// Nothing follows.
    Ends,
}

/// Something that happens at an end of a connection.
#[derive(Debug)]
pub(in crate::sim) struct Step {
    pub(super) pipe: u32,
    /// The end that it comes to.
    pub(super) side: usize,
    pub(in crate::sim) from: Id,
    pub(in crate::sim) to: Id,
    pub(super) what: What,
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
