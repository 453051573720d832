//! Links between nodes. Two ids have one link after another, each with a number, its *epoch*. A message belongs to the
//! epoch in which it was sent; messages of one link and direction arrive in order. Each end learns of a loss at its own
//! time, before anything of the next link.

use std::collections::BTreeMap;

use chained_gpc::trees::Id;

/// The fate of a message at its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is sent on the link of this epoch.
    Goes(u32),
    /// It is written into a lost link, or there is no link and it may not open one.
    Vanishes,
    /// The connection is refused; the sender learns it as the loss of this epoch.
    Refused(u32),
}

/// The fate of a message at its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Receipt {
    /// Its link is lost.
    Dropped,
    In,
    /// It is received after the loss of the previous link. `unreached`: there never was a link.
    InAfterLoss {
        unreached: bool,
    },
}

#[derive(Default)]
struct Pair {
    epoch: u32,
    up: bool,
    /// The ends at the lower id and at the higher id.
    ends: [End; 2],
}

#[derive(Default)]
struct End {
    /// The latest epoch that it has learned of.
    seen: u32,
    /// The latest epoch whose link it has seen up.
    linked: Option<u32>,
    unreached: bool,
    /// Arrival time of its last message, which later messages do not overtake.
    last: u64,
}

/// All links of a world, one for each pair of nodes.
#[derive(Default)]
pub(super) struct Links(BTreeMap<(Id, Id), Pair>);

fn key(a: Id, b: Id) -> (Id, Id) {
    (a.min(b), a.max(b))
}

impl Pair {
    fn end(&mut self, id: Id, other: Id) -> &mut End {
        &mut self.ends[usize::from(id > other)]
    }

    fn lose(&mut self) -> u32 {
        self.epoch += 1;
        self.up = false;
        self.ends.iter_mut().for_each(|end| end.unreached = false);
        self.epoch
    }
}

impl Links {
    /// `opens`: the message may open a link; `answers`: the receiver accepts it.
    pub(super) fn send(&mut self, from: Id, to: Id, opens: bool, answers: bool) -> Fate {
        let pair = self.0.entry(key(from, to)).or_default();
        if pair.end(from, to).seen < pair.epoch {
            return Fate::Vanishes;
        }
        match (pair.up, opens, answers) {
            (true, ..) => Fate::Goes(pair.epoch),
            (false, false, _) => Fate::Vanishes,
            (false, true, true) => {
                pair.up = true;
                Fate::Goes(pair.epoch)
            }
            (false, true, false) => {
                let epoch = pair.lose();
                pair.end(to, from).seen = epoch;
                pair.end(from, to).unreached = true;
                Fate::Refused(epoch)
            }
        }
    }

    /// The arrival time of a message that would arrive at `at` if it were alone.
    pub(super) fn in_order(&mut self, from: Id, to: Id, at: u64) -> u64 {
        let end = self.0.entry(key(from, to)).or_default().end(to, from);
        end.last = end.last.max(at);
        end.last
    }

    pub(super) fn receive(&mut self, from: Id, to: Id, epoch: u32) -> Receipt {
        let Some(pair) = self.0.get_mut(&key(from, to)) else { return Receipt::Dropped };
        if epoch < pair.epoch {
            return Receipt::Dropped;
        }
        let end = pair.end(to, from);
        if epoch == end.seen {
            return Receipt::In;
        }
        end.seen = epoch;
        Receipt::InAfterLoss { unreached: end.unreached }
    }

    /// Whether a message is the first one to reach its receiver on its link.
    pub(super) fn comes_up(&mut self, from: Id, to: Id, epoch: u32) -> bool {
        let Some(pair) = self.0.get_mut(&key(from, to)) else { return false };
        pair.end(to, from).linked.replace(epoch) != Some(epoch)
    }

    /// An end learns of the loss of an epoch. Returns whether there never was a link; `None` if it knew already.
    pub(super) fn take_loss(&mut self, id: Id, peer: Id, epoch: u32) -> Option<bool> {
        let end = self.0.get_mut(&key(id, peer))?.end(id, peer);
        if end.seen >= epoch {
            return None;
        }
        end.seen = epoch;
        Some(end.unreached)
    }

    /// Breaks a link that is up. Returns the epoch that both ends are to learn.
    pub(super) fn break_up(&mut self, a: Id, b: Id) -> Option<u32> {
        self.0.get_mut(&key(a, b)).filter(|pair| pair.up).map(Pair::lose)
    }

    /// One end closes the link. Returns the epoch that the other end is to learn, if there was a link.
    pub(super) fn abandon(&mut self, by: Id, peer: Id) -> Option<u32> {
        let pair = self.0.get_mut(&key(by, peer))?;
        let closed = pair.up.then(|| pair.lose());
        pair.end(by, peer).seen = pair.epoch;
        closed
    }

    /// A node ends. Returns its peers with the epochs that they are to learn.
    pub(super) fn end_of(&mut self, id: Id) -> Vec<(Id, u32)> {
        let mut losses = Vec::new();
        for (&(low, high), pair) in self.0.iter_mut().filter(|((low, high), _)| *low == id || *high == id) {
            let peer = if low == id { high } else { low };
            if pair.up {
                losses.push((peer, pair.lose()));
            }
            let epoch = pair.epoch;
            pair.end(id, peer).seen = epoch;
        }
        losses
    }

    /// The pairs whose link is up.
    pub(super) fn up(&self) -> Vec<(Id, Id)> {
        self.0.iter().filter(|(_, pair)| pair.up).map(|(key, _)| *key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_reported_before_anything_of_the_next_link() {
        let mut links = Links::default();
        assert_eq!(links.send(2, 1, false, true), Fate::Vanishes, "an answer opens none");
        assert_eq!(links.send(1, 2, true, true), Fate::Goes(0));
        assert_eq!((links.in_order(1, 2, 50), links.in_order(1, 2, 40)), (50, 50));
        assert_eq!([links.comes_up(1, 2, 0), links.comes_up(1, 2, 0)], [true, false]);
        let epoch = links.break_up(2, 1).unwrap_or_default();
        assert_eq!((epoch, links.send(1, 2, true, true)), (1, Fate::Vanishes), "this end does not know yet");
        assert_eq!((links.take_loss(1, 2, epoch), links.take_loss(1, 2, epoch)), (Some(false), None));
        assert_eq!(links.send(1, 2, true, true), Fate::Goes(1));
        assert_eq!(links.receive(1, 2, 0), Receipt::Dropped);
        assert_eq!(links.receive(1, 2, 1), Receipt::InAfterLoss { unreached: false });
        assert_eq!(links.take_loss(2, 1, epoch), None, "it was told already");
    }

    #[test]
    fn who_is_not_there_refuses_and_who_closes_knows() {
        let mut links = Links::default();
        assert_eq!(links.send(1, 2, true, false), Fate::Refused(1));
        assert_eq!(links.take_loss(1, 2, 1), Some(true));
        assert_eq!(links.send(1, 2, true, true), Fate::Goes(1));
        assert_eq!(links.abandon(1, 2), Some(2));
        assert_eq!(links.take_loss(2, 1, 2), Some(false));
        assert_eq!(links.send(2, 1, true, true), Fate::Goes(2));
        assert_eq!((links.up(), links.end_of(1)), (vec![(1, 2)], vec![(2, 3)]));
    }
}
