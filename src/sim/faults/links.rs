//! Links that can break: between two ids there is one after another, and each end learns of a loss in its own time.
//!
//! Every link of a pair has a number, its *epoch*. A message belongs to the epoch it left on and never arrives on a later one. An end that has not been told of a loss writes into nothing. Before
//! anything of a new link comes to an end, that end is told that the old one is lost: the contract of [`chain`](crate::chain), "Order of use".

use gpc_trees::Id;

use crate::sim::ahead::soon;
use crate::sim::check::by_id::ById;
use crate::sim::ranked::Sorted;

/// The link that a message left on: the pair's place, so that nobody looks for the pair again while the message is under way.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::sim) struct Passage {
    place: u32,
    epoch: u32,
}

/// What becomes of a message as it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim) enum Fate {
    /// It goes its way.
    Goes(Passage),
    /// It is written into a link that is lost, or has none to go on.
    Vanishes,
    /// No link can be made; the sender learns it as the loss of this epoch.
    Refused(u32),
}

/// What becomes of a message as it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim) enum Receipt {
    /// It belongs to a link that is lost.
    Dropped,
    /// It comes in.
    In,
    /// It comes in, after the loss of the link before it; `unreached` as of [`Input::LinkLost`](crate::chain::Input::LinkLost).
    InAfterLoss { unreached: bool },
}

/// The links between two ids, one after another, in one line of memory.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Pair {
    epoch: u32,
    up: bool,
    /// Whether what was under way on the link before is lost, too.
    hard: bool,
    /// Of the lower id, and of the higher one: of the loss that it has not been told of, whether there never was a link.
    unreached: [bool; 2],
    ends: [End; 2],
}

const _: () = assert!(size_of::<Pair>() == 64);

/// What one end knows.
#[derive(Debug, Default)]
struct End {
    /// The epoch that it has come to.
    seen: u32,
    /// One more than the last epoch of which it knows that the link was up; 0 for none.
    linked: u32,
    /// An epoch of whose loss it is still to be told, and the last one behind it of which it hears nothing: the other end could not connect to it.
    unheard: Option<Box<(u32, u32)>>,
    /// When the last message arrives at it: the next one does not overtake it.
    last_arrival: u64,
}

/// Pairs by their places. They lie in parts of a few thousand: a vector of millions that grows takes three times its room for a while.
#[derive(Default, Debug)]
struct Pairs(Vec<Vec<Pair>>);

/// Pairs of a part.
const PART: usize = 4096;

impl Pairs {
    fn get(&self, place: u32) -> Option<&Pair> {
        self.0.get(place as usize / PART)?.get(place as usize % PART)
    }

    fn get_mut(&mut self, place: u32) -> Option<&mut Pair> {
        self.0.get_mut(place as usize / PART)?.get_mut(place as usize % PART)
    }

    /// A new one: its place.
    fn add(&mut self) -> u32 {
        if self.0.last().is_none_or(|part| part.len() == PART) {
            // Small worlds have some dozen.
            self.0.push(Vec::with_capacity(if self.0.is_empty() { 0 } else { PART }));
        }
        let (before, part) = (PART * (self.0.len() - 1), self.0.last_mut().expect("there is a part"));
        part.push(Pair::default());
        u32::try_from(before + part.len() - 1).expect("fewer pairs than memory could hold")
    }
}

/// All links of a world. Bounded by the pairs that have talked.
#[derive(Default, Debug)]
pub(in crate::sim) struct Links {
    pairs: Pairs,
    /// Where they are, as each of the two knows it; of most ids in a line of memory that can be asked for before anything is sent.
    peers: ById<u32, 6>,
    /// The pairs whose link is up.
    up: Sorted<(Id, Id)>,
}

fn key(a: Id, b: Id) -> (Id, Id) {
    (a.min(b), a.max(b))
}

impl End {
    /// The other end has not been able to connect, which has ended the epoch `before`.
    fn hears_nothing_of(&mut self, before: u32, epoch: u32) {
        match &mut self.unheard {
            _ if self.seen == before => self.seen = epoch,
            Some(unheard) if unheard.1 == before => unheard.1 = epoch,
            // It is still to be told of a loss.
            unheard => *unheard = Some(Box::new((before, epoch))),
        }
    }
}

/// Which end of a pair an id is.
fn side(id: Id, other: Id) -> usize {
    usize::from(id > other)
}

impl Pair {
    fn end(&mut self, id: Id, other: Id) -> &mut End {
        &mut self.ends[side(id, other)]
    }

    fn lose(&mut self, hard: bool) -> u32 {
        self.epoch += 1;
        self.up = false;
        self.hard = hard;
        self.unreached = [false; 2];
        self.epoch
    }
}

impl Passage {
    /// That of what goes over a connection of this number.
    pub(in crate::sim) fn over(connection: u32) -> Passage {
        Passage { place: connection, epoch: 0 }
    }

    /// The number of the connection.
    pub(in crate::sim) fn connection(self) -> u32 {
        self.place
    }
}

impl Links {
    /// A pair and its place, which is made where it is not there yet.
    fn pair(&mut self, id: Id, peer: Id) -> (u32, &mut Pair) {
        let place = self.peers.get(id, peer).copied().unwrap_or_else(|| {
            let place = self.pairs.add();
            self.peers.or_insert(id, peer, place);
            self.peers.or_insert(peer, id, place);
            place
        });
        (place, self.pairs.get_mut(place).expect("every place has its pair"))
    }

    fn known(&self, id: Id, peer: Id) -> Option<&Pair> {
        self.pairs.get(*self.peers.get(id, peer)?)
    }

    fn known_mut(&mut self, id: Id, peer: Id) -> Option<&mut Pair> {
        self.pairs.get_mut(*self.peers.get(id, peer)?)
    }

    /// A message is sent; `opens` if it may open a link, `alive` if there is somebody to answer.
    pub(in crate::sim) fn send(&mut self, from: Id, to: Id, opens: bool, alive: bool) -> Fate {
        let (place, pair) = self.pair(from, to);
        if pair.end(from, to).seen < pair.epoch {
            return Fate::Vanishes;
        }
        match (pair.up, opens, alive) {
            (true, ..) => Fate::Goes(Passage { place, epoch: pair.epoch }),
            (false, false, _) => Fate::Vanishes,
            (false, true, true) => {
                pair.up = true;
                let epoch = pair.epoch;
                self.up.insert(key(from, to));
                Fate::Goes(Passage { place, epoch })
            }
            (false, true, false) => {
                let before = pair.epoch;
                let epoch = pair.lose(true);
                pair.end(to, from).hears_nothing_of(before, epoch);
                pair.unreached[side(from, to)] = true;
                Fate::Refused(epoch)
            }
        }
    }

    /// When a message arrives that would arrive at `at` by itself.
    pub(in crate::sim) fn in_order(&mut self, from: Id, to: Id, passage: Passage, at: u64) -> u64 {
        // Nothing arrives that was not sent.
        let Some(pair) = self.pairs.get_mut(passage.place) else { return at };
        let end = pair.end(to, from);
        end.last_arrival = end.last_arrival.max(at);
        end.last_arrival
    }

    /// A message comes to its receiver.
    pub(in crate::sim) fn receive(&mut self, from: Id, to: Id, passage: Passage) -> Receipt {
        let Some(pair) = self.pairs.get_mut(passage.place) else { return Receipt::Dropped };
        let lost = passage.epoch < pair.epoch && pair.hard;
        let end = pair.end(to, from);
        if lost || passage.epoch < end.seen {
            return Receipt::Dropped;
        }
        if passage.epoch == end.seen {
            return Receipt::In;
        }
        end.seen = passage.epoch;
        Receipt::InAfterLoss { unreached: pair.unreached[side(to, from)] }
    }

    /// Whether the link that a message came on stands, and its receiver has come to no other.
    pub(in crate::sim) fn stands(&self, passage: Passage) -> bool {
        let stands = |pair: &Pair| pair.up && pair.epoch == passage.epoch;
        self.pairs.get(passage.place).is_some_and(stands)
    }

    /// An id is to send something soon.
    pub(in crate::sim) fn expect_of(&self, id: Id) {
        self.peers.expect(id);
    }

    /// Something on this link is to come soon.
    pub(in crate::sim) fn expect(&self, passage: Passage) {
        self.pairs.get(passage.place).into_iter().for_each(soon);
    }

    /// Whether this message is the first that comes to its receiver on its link: before it, that end hears which run of the peer the link is with.
    pub(in crate::sim) fn comes_up(&mut self, from: Id, to: Id, passage: Passage) -> bool {
        let Some(pair) = self.pairs.get_mut(passage.place) else { return false };
        let linked = passage.epoch + 1;
        std::mem::replace(&mut pair.end(to, from).linked, linked) != linked
    }

    /// An end learns of the loss of an epoch: whether there never was a link, or `None` if it knows already.
    pub(in crate::sim) fn told(&mut self, id: Id, peer: Id, epoch: u32) -> Option<bool> {
        let pair = self.known_mut(id, peer)?;
        let unreached = pair.unreached[side(id, peer)];
        let end = pair.end(id, peer);
        if end.seen >= epoch {
            return None;
        }
        end.seen = match end.unheard.take() {
            Some(unheard) if unheard.0 == epoch => unheard.1,
            other => {
                end.unheard = other;
                epoch
            }
        };
        Some(unreached)
    }

    /// The epoch that an end has come to: what it sends is for that one.
    pub(in crate::sim) fn epoch_at(&self, id: Id, peer: Id) -> u32 {
        self.known(id, peer).map_or(0, |pair| pair.ends[side(id, peer)].seen)
    }

    /// A link breaks, if it is up; both ends are to be told of the epoch.
    pub(in crate::sim) fn break_up(&mut self, a: Id, b: Id, hard: bool) -> Option<u32> {
        let epoch = self.known_mut(a, b).filter(|pair| pair.up)?.lose(hard);
        self.up.remove(&key(a, b));
        Some(epoch)
    }

    /// One end closes the link, and knows it; the other is to be told of the epoch. Where it has broken before, this end hears no more of that, and there is nothing to tell.
    pub(in crate::sim) fn abandon(&mut self, by: Id, peer: Id) -> Option<u32> {
        self.up.remove(&key(by, peer));
        let pair = self.known_mut(by, peer)?;
        let closed = pair.up.then(|| pair.lose(true));
        pair.end(by, peer).seen = pair.epoch;
        closed
    }

    /// A process ends: its peers are to be told of the epochs. `hard` if what it has sent last is lost with it.
    pub(in crate::sim) fn end_of(&mut self, id: Id, hard: bool) -> Vec<(Id, u32)> {
        let mut told = Vec::new();
        for peer in self.talked_with(id) {
            let Some(pair) = self.known_mut(id, peer) else { continue };
            let lost = pair.up.then(|| pair.lose(hard));
            pair.end(id, peer).seen = pair.epoch;
            if let Some(epoch) = lost {
                self.up.remove(&key(id, peer));
                told.push((peer, epoch));
            }
        }
        told
    }

    /// A new link where there is none, for what comes once more.
    pub(in crate::sim) fn reopen(&mut self, from: Id, to: Id) -> Option<Passage> {
        let place = *self.peers.get(from, to)?;
        let pair = self.pairs.get_mut(place)?;
        pair.up = true;
        self.up.insert(key(from, to));
        Some(Passage { place, epoch: pair.epoch })
    }

    /// With whom an id has talked, in ascending order.
    fn talked_with(&self, id: Id) -> Vec<Id> {
        self.peers.of(id).map(|(peer, _)| peer).collect()
    }

    /// The peers of an id whose link with it is up.
    pub(in crate::sim) fn peers_of(&self, id: Id) -> Vec<Id> {
        let up = |peer: &Id| self.known(id, *peer).is_some_and(|pair| pair.up);
        self.talked_with(id).into_iter().filter(up).collect()
    }

    /// How many links are up.
    pub(in crate::sim) fn up(&self) -> usize {
        self.up.len()
    }

    /// One of those that are up, by its place among them.
    pub(in crate::sim) fn up_at(&self, place: usize) -> Option<(Id, Id)> {
        self.up.at(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> (Links, Passage) {
        let mut links = Links::default();
        let Fate::Goes(passage) = links.send(1, 2, true, true) else { panic!("a request opens a link") };
        (links, passage)
    }

    #[test]
    fn a_link_opens_with_a_request_and_carries_both_ways() {
        let mut links = Links::default();
        assert_eq!(links.send(2, 1, false, true), Fate::Vanishes, "an answer opens none");
        let (mut links, passage) = opened();
        assert_eq!(links.send(2, 1, false, true), Fate::Goes(passage));
        assert_eq!(links.receive(1, 2, passage), Receipt::In);
        assert_eq!(
            [(1, 2, 50), (1, 2, 40), (2, 1, 7)].map(|(from, to, at)| links.in_order(from, to, passage, at)),
            [50, 50, 7]
        );
        assert_eq!((links.up(), links.up_at(0), links.up_at(1)), (1, Some((1, 2)), None));
    }

    #[test]
    fn each_end_hears_once_that_a_link_is_up() {
        let (mut links, first) = opened();
        assert_eq!([1, 2, 3].map(|_| links.comes_up(1, 2, first)), [true, false, false]);
        assert_eq!([1, 2].map(|_| links.comes_up(2, 1, first)), [true, false]);
        let epoch = links.break_up(1, 2, true).unwrap();
        assert_eq!((links.told(1, 2, epoch), links.told(2, 1, epoch)), (Some(false), Some(false)));
        let Fate::Goes(second) = links.send(1, 2, true, true) else { panic!("there is a new one") };
        assert_eq!([1, 2].map(|_| links.comes_up(1, 2, second)), [true, false]);
    }

    #[test]
    fn a_loss_is_told_before_anything_of_the_next_link() {
        let (mut links, old) = opened();
        let epoch = links.break_up(2, 1, true).unwrap();
        assert_eq!(links.send(1, 2, true, true), Fate::Vanishes, "this end does not know yet");
        assert_eq!(links.told(1, 2, epoch), Some(false));
        assert_eq!(links.told(1, 2, epoch), None);
        let Fate::Goes(new) = links.send(1, 2, true, true) else { panic!("there is a new one") };
        assert_eq!(links.receive(1, 2, old), Receipt::Dropped);
        assert_eq!(links.receive(1, 2, new), Receipt::InAfterLoss { unreached: false });
        assert_eq!(links.receive(1, 2, new), Receipt::In);
        assert_eq!(links.told(2, 1, epoch), None, "it was told already");
    }

    #[test]
    fn what_was_under_way_is_lost_or_not() {
        let (mut links, old) = opened();
        let epoch = links.break_up(1, 2, false).unwrap();
        assert_eq!(links.receive(1, 2, old), Receipt::In);
        assert_eq!(links.told(2, 1, epoch), Some(false));
        assert_eq!(links.receive(1, 2, old), Receipt::Dropped);
        assert_eq!(links.break_up(1, 2, false), None, "it is not up");
    }

    /// It went on writing into nothing until it was told of the loss, and took what it had asked since then for lost, too.
    #[test]
    fn who_gives_up_a_link_that_has_broken_hears_no_more_of_it() {
        let (mut links, _) = opened();
        let epoch = links.break_up(1, 2, true).unwrap();
        assert_eq!(links.epoch_at(1, 2), 0, "it does not know");
        assert_eq!(links.abandon(1, 2), None, "there is nothing to close");
        assert_eq!((links.epoch_at(1, 2), links.told(1, 2, epoch)), (epoch, None));
        assert!(matches!(links.send(1, 2, true, true), Fate::Goes(_)), "it opens a new one");
        assert_eq!(links.told(2, 1, epoch), Some(false), "the other end has its own time");
    }

    /// One that could not be connected to was never told of the loss before, and wrote into nothing for ever.
    #[test]
    fn the_living_refuse_and_hear_of_what_was_before() {
        let (mut links, _) = opened();
        let lost = links.break_up(1, 2, true).unwrap();
        assert_eq!(links.told(1, 2, lost), Some(false));
        assert_eq!(links.send(1, 2, true, false), Fate::Refused(2));
        assert_eq!(links.told(1, 2, 2), Some(true));
        assert_eq!(links.send(1, 2, true, false), Fate::Refused(3));
        assert_eq!(links.send(2, 1, true, true), Fate::Vanishes, "it is not told yet");
        assert_eq!((links.told(2, 1, lost), links.told(2, 1, lost)), (Some(false), None));
        assert!(matches!(links.send(2, 1, true, true), Fate::Goes(_)));
    }

    #[test]
    fn the_dead_refuse_and_their_peers_are_told() {
        let (mut links, _) = opened();
        assert_eq!(links.end_of(2, true), [(1, 1)]);
        assert_eq!(links.told(1, 2, 1), Some(false));
        assert_eq!(links.send(1, 2, true, false), Fate::Refused(2));
        assert_eq!(links.send(1, 2, true, true), Fate::Vanishes);
        assert_eq!(links.told(1, 2, 2), Some(true));
        assert!(matches!(links.send(1, 2, true, true), Fate::Goes(_)));
        assert_eq!(links.abandon(1, 2), Some(3));
        assert_eq!(links.told(2, 1, 3), Some(false));
    }
}
