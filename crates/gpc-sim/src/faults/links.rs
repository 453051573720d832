//! Links that break: between two ids there is one link after another, and each end learns of a loss at its own time.
//!
//! Every link of a pair has a number, its *epoch*. A message belongs to the epoch of its sender and never arrives on a
//! later one. Until an end learns of a loss, its messages vanish. An end learns of the loss of the old link before it
//! receives anything on a new one: the contract of [`chain`](chained_gpc::chain), "Order of use".

use gpc_trees::Id;

use crate::check::by_id::ById;
use crate::ranked::Sorted;

/// The link of a message, with the index of the pair, so that the pair is not looked up again at arrival.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Passage {
    place: u32,
    epoch: u32,
}

/// Fate of a message when it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The message is in flight.
    Goes(Passage),
    /// The message goes into a lost link, or has no link.
    Vanishes,
    /// No link can be opened; the sender learns it as the loss of this epoch.
    Refused(u32),
}

/// Fate of a message when it arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Receipt {
    /// The message belongs to a lost link.
    Dropped,
    /// The message is received.
    In,
    /// The message is received after the loss of the previous link; `unreached` as in
    /// [`Input::LinkLost`](chained_gpc::chain::Input::LinkLost).
    InAfterLoss { unreached: bool },
}

/// The links between two ids, one after another, in one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Pair {
    epoch: u32,
    up: bool,
    /// Whether messages in flight on the previous link are lost, too.
    hard: bool,
    /// For the lower and the higher id: whether the loss that it has not learned of was a link that never came up.
    unreached: [bool; 2],
    ends: [End; 2],
}

const _: () = assert!(size_of::<Pair>() == 64);

/// Knowledge of one end.
#[derive(Debug, Default)]
struct End {
    /// Epoch that it has reached.
    seen: u32,
    /// One more than the last epoch whose link it knows to have been up; 0 for none.
    linked: u32,
    /// The epoch of the loss that the end has still to learn of, and the last later epoch in which the other end failed
    /// to connect. The end learns nothing of those later epochs.
    unheard: Option<Box<(u32, u32)>>,
    /// Arrival time of its last message; the next one does not overtake it.
    last_arrival: u64,
}

/// Pairs by index, in blocks of a few thousand: a vector of millions would need three times its size while it grows.
#[derive(Default, Debug)]
struct Pairs(Vec<Vec<Pair>>);

/// Pairs in a block.
const PART: usize = 4096;

impl Pairs {
    fn get(&self, place: u32) -> Option<&Pair> {
        self.0.get(place as usize / PART)?.get(place as usize % PART)
    }

    fn get_mut(&mut self, place: u32) -> Option<&mut Pair> {
        self.0.get_mut(place as usize / PART)?.get_mut(place as usize % PART)
    }

    /// Adds a pair; returns its index.
    fn add(&mut self) -> u32 {
        if self.0.last().is_none_or(|part| part.len() == PART) {
            // Small worlds have a few dozen.
            self.0.push(Vec::with_capacity(if self.0.is_empty() { 0 } else { PART }));
        }
        let (before, part) = (PART * (self.0.len() - 1), self.0.last_mut().expect("there is a part"));
        part.push(Pair::default());
        u32::try_from(before + part.len() - 1).expect("fewer pairs than memory could hold")
    }
}

/// All links of a world, bounded by the pairs that have communicated.
#[derive(Default, Debug)]
pub(crate) struct Links {
    pairs: Pairs,
    /// Index of each pair, by each of its ids. For most ids it fits into a cache line.
    peers: ById<u32, 6>,
    /// Pairs whose link is up.
    up: Sorted<(Id, Id)>,
}

fn key(a: Id, b: Id) -> (Id, Id) {
    (a.min(b), a.max(b))
}

impl End {
    /// Skips an epoch that the other end has ended because it could not connect; `before` is the epoch before it.
    fn hears_nothing_of(&mut self, before: u32, epoch: u32) {
        match &mut self.unheard {
            _ if self.seen == before => self.seen = epoch,
            Some(unheard) if unheard.1 == before => unheard.1 = epoch,
            // A loss is still to be reported to this end.
            unheard => *unheard = Some(Box::new((before, epoch))),
        }
    }
}

/// Index of an id's end of a pair.
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

impl Links {
    /// A pair and its index; adds the pair if it is new.
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

    /// Sends a message. `opens`: it may open a link; `alive`: the receiver accepts connections.
    pub(crate) fn send(&mut self, from: Id, to: Id, opens: bool, alive: bool) -> Fate {
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

    /// Arrival time of a message, given its earliest time `at` and the order of its link.
    pub(crate) fn in_order(&mut self, from: Id, to: Id, passage: Passage, at: u64) -> u64 {
        // Every message in flight has a pair.
        let Some(pair) = self.pairs.get_mut(passage.place) else { return at };
        let end = pair.end(to, from);
        end.last_arrival = end.last_arrival.max(at);
        end.last_arrival
    }

    /// Receives a message.
    pub(crate) fn receive(&mut self, from: Id, to: Id, passage: Passage) -> Receipt {
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

    /// Whether the link of a message is up, and its receiver has reached no later one.
    pub(crate) fn stands(&self, passage: Passage) -> bool {
        let stands = |pair: &Pair| pair.up && pair.epoch == passage.epoch;
        self.pairs.get(passage.place).is_some_and(stands)
    }

    /// Whether this message is the first that its receiver gets on its link: before it, that end learns the incarnation
    /// of its peer.
    pub(crate) fn comes_up(&mut self, from: Id, to: Id, passage: Passage) -> bool {
        let Some(pair) = self.pairs.get_mut(passage.place) else { return false };
        let linked = passage.epoch + 1;
        std::mem::replace(&mut pair.end(to, from).linked, linked) != linked
    }

    /// Records that an end learns of the loss of an epoch. Returns whether the link never came up, or `None` if the end
    /// knew of the loss.
    pub(crate) fn note_loss(&mut self, id: Id, peer: Id, epoch: u32) -> Option<bool> {
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

    /// Epoch that an end has reached; its messages belong to this epoch.
    pub(crate) fn epoch_at(&self, id: Id, peer: Id) -> u32 {
        self.known(id, peer).map_or(0, |pair| pair.ends[side(id, peer)].seen)
    }

    /// Breaks a link that is up; the caller must then report the epoch to both ends.
    pub(crate) fn break_up(&mut self, a: Id, b: Id, hard: bool) -> Option<u32> {
        let epoch = self.known_mut(a, b).filter(|pair| pair.up)?.lose(hard);
        self.up.remove(&key(a, b));
        Some(epoch)
    }

    /// Closes a link at one end; the caller must then report the epoch to the other end. If the link had broken before,
    /// this end learns no more of that, and `None` is returned.
    pub(crate) fn abandon(&mut self, by: Id, peer: Id) -> Option<u32> {
        self.up.remove(&key(by, peer));
        let pair = self.known_mut(by, peer)?;
        let closed = pair.up.then(|| pair.lose(true));
        pair.end(by, peer).seen = pair.epoch;
        closed
    }

    /// Ends a process; returns the peers that must learn of it, each with the epoch. `hard`: its last messages are
    /// lost.
    pub(crate) fn end_of(&mut self, id: Id, hard: bool) -> Vec<(Id, u32)> {
        let mut affected = Vec::new();
        for peer in self.talked_with(id) {
            let Some(pair) = self.known_mut(id, peer) else { continue };
            let lost = pair.up.then(|| pair.lose(hard));
            pair.end(id, peer).seen = pair.epoch;
            if let Some(epoch) = lost {
                self.up.remove(&key(id, peer));
                affected.push((peer, epoch));
            }
        }
        affected
    }

    /// Opens a link if there is none, for a message that is repeated.
    pub(crate) fn reopen(&mut self, from: Id, to: Id) -> Option<Passage> {
        let place = *self.peers.get(from, to)?;
        let pair = self.pairs.get_mut(place)?;
        pair.up = true;
        self.up.insert(key(from, to));
        Some(Passage { place, epoch: pair.epoch })
    }

    /// Ids that an id has communicated with, in ascending order.
    fn talked_with(&self, id: Id) -> Vec<Id> {
        self.peers.of(id).map(|(peer, _)| peer).collect()
    }

    /// Peers of an id whose link is up.
    pub(crate) fn peers_of(&self, id: Id) -> Vec<Id> {
        let up = |peer: &Id| self.known(id, *peer).is_some_and(|pair| pair.up);
        self.talked_with(id).into_iter().filter(up).collect()
    }

    /// Number of links that are up.
    pub(crate) fn up(&self) -> usize {
        self.up.len()
    }

    /// A link that is up, by its rank.
    pub(crate) fn up_at(&self, place: usize) -> Option<(Id, Id)> {
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
        assert_eq!((links.note_loss(1, 2, epoch), links.note_loss(2, 1, epoch)), (Some(false), Some(false)));
        let Fate::Goes(second) = links.send(1, 2, true, true) else { panic!("there is a new one") };
        assert_eq!([1, 2].map(|_| links.comes_up(1, 2, second)), [true, false]);
    }

    #[test]
    fn a_loss_is_told_before_anything_of_the_next_link() {
        let (mut links, old) = opened();
        let epoch = links.break_up(2, 1, true).unwrap();
        assert_eq!(links.send(1, 2, true, true), Fate::Vanishes, "this end does not know yet");
        assert_eq!(links.note_loss(1, 2, epoch), Some(false));
        assert_eq!(links.note_loss(1, 2, epoch), None);
        let Fate::Goes(new) = links.send(1, 2, true, true) else { panic!("there is a new one") };
        assert_eq!(links.receive(1, 2, old), Receipt::Dropped);
        assert_eq!(links.receive(1, 2, new), Receipt::InAfterLoss { unreached: false });
        assert_eq!(links.receive(1, 2, new), Receipt::In);
        assert_eq!(links.note_loss(2, 1, epoch), None, "it was told already");
    }

    #[test]
    fn what_was_under_way_is_lost_or_not() {
        let (mut links, old) = opened();
        let epoch = links.break_up(1, 2, false).unwrap();
        assert_eq!(links.receive(1, 2, old), Receipt::In);
        assert_eq!(links.note_loss(2, 1, epoch), Some(false));
        assert_eq!(links.receive(1, 2, old), Receipt::Dropped);
        assert_eq!(links.break_up(1, 2, false), None, "it is not up");
    }

    /// The end kept sending into a lost link until it learned of the loss, and then also dropped its requests on the
    /// new link.
    #[test]
    fn who_gives_up_a_link_that_has_broken_hears_no_more_of_it() {
        let (mut links, _) = opened();
        let epoch = links.break_up(1, 2, true).unwrap();
        assert_eq!(links.epoch_at(1, 2), 0, "it does not know");
        assert_eq!(links.abandon(1, 2), None, "there is nothing to close");
        assert_eq!((links.epoch_at(1, 2), links.note_loss(1, 2, epoch)), (epoch, None));
        assert!(matches!(links.send(1, 2, true, true), Fate::Goes(_)), "it opens a new one");
        assert_eq!(links.note_loss(2, 1, epoch), Some(false), "the other end has its own time");
    }

    /// An end that its peer could not connect to never learned of the earlier loss, and its messages vanished forever.
    #[test]
    fn the_living_refuse_and_hear_of_what_was_before() {
        let (mut links, _) = opened();
        let lost = links.break_up(1, 2, true).unwrap();
        assert_eq!(links.note_loss(1, 2, lost), Some(false));
        assert_eq!(links.send(1, 2, true, false), Fate::Refused(2));
        assert_eq!(links.note_loss(1, 2, 2), Some(true));
        assert_eq!(links.send(1, 2, true, false), Fate::Refused(3));
        assert_eq!(links.send(2, 1, true, true), Fate::Vanishes, "it is not told yet");
        assert_eq!((links.note_loss(2, 1, lost), links.note_loss(2, 1, lost)), (Some(false), None));
        assert!(matches!(links.send(2, 1, true, true), Fate::Goes(_)));
    }

    #[test]
    fn the_dead_refuse_and_their_peers_are_told() {
        let (mut links, _) = opened();
        assert_eq!(links.end_of(2, true), [(1, 1)]);
        assert_eq!(links.note_loss(1, 2, 1), Some(false));
        assert_eq!(links.send(1, 2, true, false), Fate::Refused(2));
        assert_eq!(links.send(1, 2, true, true), Fate::Vanishes);
        assert_eq!(links.note_loss(1, 2, 2), Some(true));
        assert!(matches!(links.send(1, 2, true, true), Fate::Goes(_)));
        assert_eq!(links.abandon(1, 2), Some(3));
        assert_eq!(links.note_loss(2, 1, 3), Some(false));
    }
}
