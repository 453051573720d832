//! With whom each id has talked, and where what is known of the two lies.
//!
//! Of each id the first few stand in one line of memory, which can be asked for before anything is sent; a table has the others. Most ids of a large world have a parent and some children; of a flat tree's root nearly all stand in the table.

use gpc_trees::Id;

use crate::chain::{Seeded, SeededMap};
use crate::sim::ahead::soon;

/// So many peers of an id stand in its line.
const NEAR: usize = 8;

/// The first peers of an id, and their places; as many as it has.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Line([(Id, u32); NEAR]);

const _: () = assert!(size_of::<Line>() == 64);

/// A place that nothing has.
const NONE: u32 = u32::MAX;

impl Line {
    const EMPTY: Line = Line([(0, NONE); NEAR]);

    fn place(&self, peer: Id) -> Option<u32> {
        let there = |(id, place): &&(Id, u32)| *id == peer && *place != NONE;
        self.0.iter().find(there).map(|(_, place)| *place)
    }

    fn is_full(&self) -> bool {
        self.0[NEAR - 1].1 != NONE
    }
}

/// See the [module](self). Bounded by the pairs that have talked.
#[derive(Debug)]
pub(super) struct Peers {
    lines: Vec<Line>,
    /// By an id and its peer: the places of those that have no room in its line.
    others: SeededMap<(Id, Id), u32>,
    /// By such an id: these peers.
    further: SeededMap<Id, Vec<Id>>,
}

impl Peers {
    /// Nobody has talked with anybody yet, of `n` ids.
    pub(super) fn of(n: u32) -> Peers {
        // Ids are nobody's choice here.
        let (others, further) =
            (SeededMap::with_hasher(Seeded::new(0)), SeededMap::with_hasher(Seeded::new(0)));
        Peers { lines: vec![Line::EMPTY; n as usize], others, further }
    }

    /// Where what is known of two ids lies; both know it.
    pub(super) fn place(&self, id: Id, peer: Id) -> Option<u32> {
        let line = self.lines.get(id as usize)?;
        line.place(peer).or_else(|| line.is_full().then(|| self.place_elsewhere(id, peer)).flatten())
    }

    /// It may stand in the line of the other: that of a root does with most of those that it has.
    fn place_elsewhere(&self, id: Id, peer: Id) -> Option<u32> {
        let its = self.lines.get(peer as usize).and_then(|line| line.place(id));
        its.or_else(|| self.others.get(&(id, peer)).copied())
    }

    /// Two ids talk for the first time.
    pub(super) fn add(&mut self, id: Id, peer: Id, place: u32) {
        assert!(place < NONE, "fewer pairs than memory could hold");
        let most = id.max(peer) as usize;
        if self.lines.len() <= most {
            self.lines.resize(most + 1, Line::EMPTY);
        }
        for (id, peer) in [(id, peer), (peer, id)] {
            let line = &mut self.lines[id as usize].0;
            match line.iter_mut().find(|(_, place)| *place == NONE) {
                Some(free) => *free = (peer, place),
                None => {
                    self.others.insert((id, peer), place);
                    self.further.entry(id).or_default().push(peer);
                }
            }
        }
    }

    /// With whom an id has talked, in ascending order.
    pub(super) fn talked_with(&self, id: Id) -> Vec<Id> {
        let near = self.lines.get(id as usize).into_iter().flat_map(|line| &line.0);
        let near = near.filter(|(_, place)| *place != NONE).map(|(peer, _)| *peer);
        let mut peers: Vec<Id> = near.chain(self.further.get(&id).into_iter().flatten().copied()).collect();
        peers.sort_unstable();
        peers
    }

    /// An id is to send something soon.
    pub(super) fn expect(&self, id: Id) {
        self.lines.get(id as usize).into_iter().for_each(soon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_know_where_they_are_however_many_they_know() {
        let mut peers = Peers::of(30);
        for (place, peer) in (1..30).rev().enumerate() {
            assert_eq!((peers.place(0, peer), peers.place(peer, 0)), (None, None));
            peers.add(0, peer, place as u32);
        }
        for (place, peer) in (1..30).rev().enumerate() {
            let place = Some(place as u32);
            assert_eq!((peers.place(0, peer), peers.place(peer, 0)), (place, place));
            assert_eq!(peers.talked_with(peer), [0]);
        }
        assert_eq!(peers.talked_with(0), (1..30).collect::<Vec<_>>());
        assert_eq!((peers.place(1, 2), peers.place(7, 99), peers.place(99, 7)), (None, None, None));
        assert_eq!(peers.talked_with(99), []);
    }
}
