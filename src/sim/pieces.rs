//! Data of requests that come in pieces: the request is there before its data are, and is passed on before they are.
//!
//! An id that has some of the data passes on what it has; who is below follows. A piece is on its way as long as the link stands; what has not come by then never does.

use gpc_trees::Id;
use smallvec::SmallVec;

use super::check::Observation;
use super::faults::{Mishaps, Passage};
use super::linked::Linked;
use super::world::{Event, World};
use crate::chain::{Input, Seeded, SeededMap};
use crate::wire::body::Spare;
use crate::wire::{Body, BodyWriter, CallId, Message, Use};

/// Pieces that the data of a request come in, about.
const PIECES: u64 = 3;

/// Longest that a piece is behind what came before it, in latencies.
const APART: u64 = 3;

/// The same where memory is all that nodes lack: other parents ask while data come that find none.
const FAR_APART: u64 = 40;

/// Data on their way from one id to another.
struct Coming {
    passage: Passage,
    /// What the sender has of them, and where they go.
    source: Body,
    writer: BodyWriter,
}

/// Which data these are: the later, the higher.
type Place = u64;

/// Data that come to an id for a call, by their places; from whom.
type Here = SmallVec<[(Place, Id, Coming); 1]>;

/// All data that are on their way. Bounded by the requests in flight.
///
/// Found by a hash of the id and the call, since a hundred thousand ids of a large world get data at one time. Never iterated.
pub(super) struct Pieces {
    coming: SeededMap<(Id, CallId), Here>,
    /// The same by who sends them: to whom they go, in the order of their places.
    from: SeededMap<(Id, CallId), Receivers>,
    next: Place,
    /// Calls whose data have come in pieces.
    calls: Vec<CallId>,
}

/// To whom data of a call go. A root may send them to a million: what has come stays here until it is half of all.
#[derive(Default)]
struct Receivers {
    all: Vec<(Place, Option<Id>)>,
    gone: usize,
}

impl Receivers {
    /// Nothing more is sent of the data at this place. Says whether nobody is left who is sent any.
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

impl Default for Pieces {
    fn default() -> Pieces {
        // Ids and calls are nobody's choice here.
        let hash = Seeded::new(0);
        let (coming, from) = (SeededMap::with_hasher(hash), SeededMap::with_hasher(hash));
        Pieces { coming, from, next: 0, calls: Vec::new() }
    }
}

impl Pieces {
    fn push(&mut self, at: Id, from: Id, call: CallId, it: Coming) {
        let place = self.next;
        self.next += 1;
        self.from.entry((from, call)).or_default().all.push((place, Some(at)));
        self.coming.entry((at, call)).or_default().push((place, from, it));
        if !self.calls.contains(&call) {
            self.calls.push(call);
        }
    }

    fn remove(&mut self, at: Id, call: CallId, place: Place) {
        let Some(here) = self.coming.get_mut(&(at, call)) else { return };
        let Some(index) = here.iter().position(|(its, ..)| *its == place) else { return };
        let (_, from, _) = here.remove(index);
        if here.is_empty() {
            self.coming.remove(&(at, call));
        }
        if self.from.get_mut(&(from, call)).is_some_and(|to| to.remove(place)) {
            self.from.remove(&(from, call));
        }
    }

    /// What comes to an id from another one: the first that comes over a link that stands; the others do not come any more.
    fn first(
        &mut self,
        at: Id,
        from: Id,
        call: CallId,
        stands: impl Fn(Passage) -> bool,
    ) -> Option<(Place, &mut Coming)> {
        let here = self.coming.get(&(at, call))?;
        let its = here.iter().filter(|(_, sender, _)| *sender == from);
        let lost: SmallVec<[Place; 2]> =
            its.filter(|(.., it)| !stands(it.passage)).map(|(place, ..)| *place).collect();
        lost.into_iter().for_each(|place| self.remove(at, call, place));
        let here = self.coming.get_mut(&(at, call))?;
        let (place, _, it) = here.iter_mut().find(|(_, sender, _)| *sender == from)?;
        Some((*place, it))
    }

    /// What is between these ids, from the first to the second or back, or of the first and whoever else, and will not come any more. What is let go gives back the memory of its body.
    fn drop_lost(&mut self, id: Id, peer: Option<Id>, stands: impl Fn(Id, Passage) -> bool) {
        let concerned = |other: Id| peer.is_none_or(|peer| peer == other);
        for call in self.calls.clone() {
            let to = self.coming.get(&(id, call)).into_iter().flatten();
            let to = to.filter(|(_, from, _)| concerned(*from)).map(|(place, ..)| (id, *place));
            let sent = self.from.get(&(id, call)).into_iter().flat_map(Receivers::iter);
            let sent = sent.filter(|(_, to)| concerned(*to)).map(|(place, to)| (to, place));
            let lost = |&(at, place): &(Id, Place)| {
                let mut here = self.coming.get(&(at, call)).into_iter().flatten();
                here.any(|(its, _, it)| *its == place && !stands(at, it.passage))
            };
            let lost: Vec<(Id, Place)> = to.chain(sent).filter(lost).collect();
            lost.into_iter().for_each(|(at, place)| self.remove(at, call, place));
        }
    }

    /// To whom an id sends data of a call.
    fn below(&self, from: Id, call: CallId) -> SmallVec<[Id; 4]> {
        self.from.get(&(from, call)).into_iter().flat_map(Receivers::iter).map(|(_, to)| to).collect()
    }
}

/// Whether the link that something came on stands.
fn stands(mishaps: &Option<Mishaps>, linked: &Option<Box<Linked>>, at: Id, passage: Passage) -> bool {
    match (linked, mishaps) {
        (Some(linked), _) => linked.stands(at, passage),
        (None, mishaps) => mishaps.as_ref().is_some_and(|mishaps| mishaps.links.stands(passage)),
    }
}

impl World {
    /// Drops what comes between two ids, or an id and whoever else, over links that are lost.
    pub(super) fn drop_lost_pieces(&mut self, id: Id, peer: Option<Id>) {
        let World { pieces, mishaps, linked, .. } = self;
        pieces.drop_lost(id, peer, |at, passage| stands(mishaps, linked, at, passage));
    }

    /// A request has come in: where its data come in pieces, they come later.
    pub(super) fn begin_pieces(&mut self, at: Id, from: Id, passage: Passage, message: Message) -> Message {
        let Message::Request(mut request) = message else { return message };
        let whole = request.data.is_whole();
        // What its sender does not have cannot be there; and of what is short there are no pieces.
        if request.data.is_empty() || whole && !(self.profile.in_pieces && self.random.chance(1, 2)) {
            return Message::Request(request);
        }
        // func takes them as they come, and they are kept for an adopter, and for children that get them later.
        let usage = if self.takes_as_they_come(request.call) { Use::Kept } else { Use::Whole };
        let memory = self.node(at).map(|node| node.config().memory.clone()).unwrap_or_default();
        let (body, writer) = Body::arriving_in(request.data.len(), usage, &Spare::default().within(&memory));
        let source = request.data.fork();
        std::sync::Arc::make_mut(&mut request).data = body;
        let call = request.call;
        self.pieces.push(at, from, call, Coming { passage, source, writer });
        self.next_piece(at, from, call);
        Message::Request(request)
    }

    fn next_piece(&mut self, at: Id, from: Id, call: CallId) {
        let apart = if self.profile.is_filled() { FAR_APART } else { APART };
        let latest = self.hosts.cost(from, at).latency_ns * apart;
        let when = self.now + 1 + self.random.below(latest.max(1));
        self.queue.push(when, Event::Piece { id: at, run: self.hosts.run(at), from, call });
    }

    /// More comes of what is there at the sender.
    pub(super) fn piece(&mut self, at: Id, run: u32, from: Id, call: CallId) {
        let World { pieces, mishaps, linked, random, .. } = self;
        let (mut whole, mut came, mut due, mut refused) = (false, 0, false, None);
        let first = pieces.first(at, from, call, |passage| stands(mishaps, linked, at, passage));
        let over = first.and_then(|(place, coming)| {
            let most = 1 + random.below(2 * coming.source.len() / PIECES + 1);
            let bytes = coming.source.read(coming.source.len() - coming.writer.missing(), most as usize);
            came = coming.writer.push(&bytes);
            whole = coming.writer.missing() == 0;
            due = whole || coming.writer.usage() != Use::Whole;
            refused = coming.writer.is_refused().then(|| coming.writer.refusal());
            (whole || refused.is_some()).then_some(place)
        });
        over.into_iter().for_each(|place| pieces.remove(at, call, place));
        if came == 0 && refused.is_none() || !self.hosts.is_up(at) || self.hosts.run(at) != run {
            return;
        }
        if let Some(why) = refused {
            self.trace.say(self.now, format_args!("{at} has no memory for the data of {call} from {from}"));
            return self.input(at, Input::DataRefused { call, why });
        }
        self.trace
            .say(self.now, format_args!("{at} has {came} more bytes of the data of {call} from {from}"));
        if whole {
            self.observe(&Observation::DataCame { at, from, call });
        }
        if due {
            self.input(at, Input::DataArrived(call));
        }
        if !whole {
            self.next_piece(at, from, call);
        }
        self.more_below(at, call);
    }

    /// An id may have more of a call's data than those below have been sent.
    pub(super) fn more_below(&mut self, at: Id, call: CallId) {
        let below = self.pieces.below(at, call);
        below.into_iter().for_each(|below| self.next_piece(below, at, call));
    }
}
