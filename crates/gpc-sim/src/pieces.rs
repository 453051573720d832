//! Request data that arrive in pieces: the request arrives before its data, and is forwarded before they are complete.
//!
//! An id that has some of the data forwards them; the ids below follow. Pieces arrive while their link is up; the rest
//! never arrives.

use gpc_trees::Id;
use smallvec::SmallVec;

use super::faults::Passage;
use chained_gpc::wire::{Body, BodyWriter, CallId};

/// Data on their way from one id to another.
pub(super) struct Transfer {
    pub(super) passage: Passage,
    /// The sender's part of the data, and their destination.
    pub(super) source: Body,
    pub(super) writer: BodyWriter,
}

/// Number of a transfer; later transfers have higher numbers.
pub(super) type Place = u64;

/// All transfers, bounded by the requests in flight.
///
/// They are grouped by id, since a hundred thousand ids of a large world receive data at the same time.
#[derive(Default)]
pub(super) struct Pieces {
    /// Indexed by id; `None` if the id has no transfer.
    all: Vec<Option<Box<Transfers>>>,
    next: Place,
    /// Calls whose data arrived in pieces.
    calls: Vec<CallId>,
}

/// Transfers to and from an id: mostly of one call.
#[derive(Default)]
struct Transfers {
    /// Ordered by place.
    incoming: SmallVec<[(Place, CallId, Id, Transfer); 1]>,
    below: SmallVec<[(CallId, Receivers); 1]>,
}

/// Receivers of the data of a call. A root may have a million; ended transfers stay here until they are half of all.
struct Receivers {
    all: SmallVec<[(Place, Option<Id>); 2]>,
    gone: usize,
}

impl Receivers {
    /// A list with a first receiver.
    fn of(place: Place, to: Id) -> Receivers {
        Receivers { all: SmallVec::from_iter([(place, Some(to))]), gone: 0 }
    }

    /// Ends the transfer at this place. Returns whether no receiver is left.
    fn remove(&mut self, place: Place) -> bool {
        if let Ok(at) = self.all.binary_search_by_key(&place, |(place, _)| *place)
            && self.all[at].1.take().is_some()
        {
            self.gone += 1;
        }
        if self.gone * 2 > self.all.len() {
            self.all.retain(|(_, to)| to.is_some());
            self.gone = 0;
        }
        self.all.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (Place, Id)> {
        self.all.iter().filter_map(|&(place, to)| Some((place, to?)))
    }
}

impl Transfers {
    fn incoming(&self, call: CallId) -> impl Iterator<Item = (Place, Id, &Transfer)> {
        let all = self.incoming.iter().filter(move |(_, its, ..)| *its == call);
        all.map(|(place, _, from, it)| (*place, *from, it))
    }

    fn below(&self, call: CallId) -> impl Iterator<Item = (Place, Id)> {
        let all = self.below.iter().filter(move |(its, _)| *its == call);
        all.flat_map(|(_, receivers)| receivers.iter())
    }
}

impl Pieces {
    fn of(&self, id: Id) -> Option<&Transfers> {
        self.all.get(id as usize)?.as_deref()
    }

    fn or_new(&mut self, id: Id) -> &mut Transfers {
        if self.all.len() <= id as usize {
            self.all.resize_with(id as usize + 1, || None);
        }
        self.all[id as usize].get_or_insert_default()
    }

    pub(super) fn push(&mut self, at: Id, from: Id, call: CallId, it: Transfer) {
        let place = self.next;
        self.next += 1;
        let below = &mut self.or_new(from).below;
        match below.iter_mut().find(|(its, _)| *its == call) {
            Some((_, receivers)) => receivers.all.push((place, Some(at))),
            None => below.push((call, Receivers::of(place, at))),
        }
        self.or_new(at).incoming.push((place, call, from, it));
        if !self.calls.contains(&call) {
            self.calls.push(call);
        }
    }

    pub(super) fn remove(&mut self, at: Id, call: CallId, place: Place) {
        let Some(transfers) = self.all.get_mut(at as usize).and_then(Option::as_deref_mut) else { return };
        let Some(index) = transfers.incoming.iter().position(|(its, ..)| *its == place) else { return };
        let (_, _, from, _) = transfers.incoming.remove(index);
        self.drop_unused(at);
        let Some(there) = self.all.get_mut(from as usize).and_then(Option::as_deref_mut) else { return };
        there.below.retain(|(its, to)| *its != call || !to.remove(place));
        self.drop_unused(from);
    }

    fn drop_unused(&mut self, id: Id) {
        self.all[id as usize].take_if(|it| it.incoming.is_empty() && it.below.is_empty());
    }

    /// The first transfer from one id to another whose link is up; removes those whose link is lost.
    pub(super) fn first(
        &mut self,
        at: Id,
        from: Id,
        call: CallId,
        stands: impl Fn(Passage) -> bool,
    ) -> Option<(Place, &mut Transfer)> {
        let its = self.of(at)?.incoming(call).filter(|(_, sender, _)| *sender == from);
        let lost: SmallVec<[Place; 2]> =
            its.filter(|(.., it)| !stands(it.passage)).map(|(place, ..)| place).collect();
        lost.into_iter().for_each(|place| self.remove(at, call, place));
        let transfers = self.all[at as usize].as_deref_mut()?;
        let (place, .., it) =
            transfers.incoming.iter_mut().find(|(_, its, sender, _)| (*its, *sender) == (call, from))?;
        Some((*place, it))
    }

    /// Removes the transfers between an id and a peer, or all peers, whose link is lost. Their bodies free their
    /// memory.
    pub(super) fn drop_lost(&mut self, id: Id, peer: Option<Id>, stands: impl Fn(Id, Passage) -> bool) {
        let concerned = |other: Id| peer.is_none_or(|peer| peer == other);
        for call in self.calls.clone() {
            let Some(transfers) = self.of(id) else { return };
            let to = transfers
                .incoming(call)
                .filter(|(_, from, _)| concerned(*from))
                .map(|(place, ..)| (id, place));
            let sent = transfers.below(call).filter(|(_, to)| concerned(*to)).map(|(place, to)| (to, place));
            let lost = |&(at, place): &(Id, Place)| {
                let mut there = self.of(at).into_iter().flat_map(|there| there.incoming(call));
                there.any(|(its, _, it)| its == place && !stands(at, it.passage))
            };
            let lost: Vec<(Id, Place)> = to.chain(sent).filter(lost).collect();
            lost.into_iter().for_each(|(at, place)| self.remove(at, call, place));
        }
    }

    /// Ids that receive data of a call from this id.
    pub(super) fn below(&self, from: Id, call: CallId) -> SmallVec<[Id; 4]> {
        self.of(from).into_iter().flat_map(|transfers| transfers.below(call)).map(|(_, to)| to).collect()
    }
}
