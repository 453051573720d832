//! Data of requests that come in pieces: the request is there before its data are, and is passed on before they are.
//!
//! An id that has some of the data passes on what it has; who is below follows. A piece is on its way as long as the link stands; what has not come by then never does.

use gpc_trees::Id;
use smallvec::SmallVec;

use super::ahead::soon;
use super::check::Observation;
use super::faults::{Mishaps, Passage};
use super::linked::Linked;
use super::profile::Profile;
use super::world::{Event, LARGE, World};
use crate::chain::Input;
use crate::wire::body::Spare;
use crate::wire::{Body, BodyWriter, CallId, Message, Use};

/// Pieces that the data of a request come in, about.
const PIECES: u64 = 3;

/// The same in a large world: what is cut is cut again on each of many levels.
const PIECES_OF_MANY: u64 = 1;

/// In a large world whole data come in pieces only to an id whose subtree, with itself, has no more ids than this.
const FEW_BELOW: u32 = 64;

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

/// All data that are on their way. Bounded by the requests in flight.
///
/// Each id has its own, since a hundred thousand ids of a large world get data at one time.
#[derive(Default)]
pub(super) struct Pieces {
    /// By the id; none where nothing comes or goes.
    all: Vec<Option<Box<AtId>>>,
    next: Place,
    /// Calls whose data have come in pieces.
    calls: Vec<CallId>,
}

/// What comes to an id and what it sends on: of one call, mostly.
#[derive(Default)]
struct AtId {
    /// In the order of their places.
    coming: SmallVec<[(Place, CallId, Id, Coming); 1]>,
    below: SmallVec<[(CallId, Receivers); 1]>,
}

/// To whom data of a call go. A root may send them to a million: what has come stays here until it is half of all.
struct Receivers {
    all: SmallVec<[(Place, Option<Id>); 2]>,
    gone: usize,
}

impl Receivers {
    /// The first of them.
    fn of(place: Place, to: Id) -> Receivers {
        Receivers { all: SmallVec::from_iter([(place, Some(to))]), gone: 0 }
    }

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

impl AtId {
    fn coming(&self, call: CallId) -> impl Iterator<Item = (Place, Id, &Coming)> {
        let all = self.coming.iter().filter(move |(_, its, ..)| *its == call);
        all.map(|(place, _, from, it)| (*place, *from, it))
    }

    fn below(&self, call: CallId) -> impl Iterator<Item = (Place, Id)> {
        let all = self.below.iter().filter(move |(its, _)| *its == call);
        all.flat_map(|(_, receivers)| receivers.iter())
    }
}

impl Pieces {
    fn of(&self, id: Id) -> Option<&AtId> {
        self.all.get(id as usize)?.as_deref()
    }

    fn or_new(&mut self, id: Id) -> &mut AtId {
        if self.all.len() <= id as usize {
            self.all.resize_with(id as usize + 1, || None);
        }
        self.all[id as usize].get_or_insert_default()
    }

    /// An id is to have a turn soon.
    pub(super) fn expect(&self, id: Id) {
        self.all.get(id as usize).into_iter().for_each(soon);
    }

    /// And sooner: what comes to it is to be looked at.
    pub(super) fn expect_parts(&self, id: Id) {
        self.of(id).into_iter().for_each(soon);
    }

    fn push(&mut self, at: Id, from: Id, call: CallId, it: Coming) {
        let place = self.next;
        self.next += 1;
        let below = &mut self.or_new(from).below;
        match below.iter_mut().find(|(its, _)| *its == call) {
            Some((_, receivers)) => receivers.all.push((place, Some(at))),
            None => below.push((call, Receivers::of(place, at))),
        }
        self.or_new(at).coming.push((place, call, from, it));
        if !self.calls.contains(&call) {
            self.calls.push(call);
        }
    }

    fn remove(&mut self, at: Id, call: CallId, place: Place) {
        let Some(here) = self.all.get_mut(at as usize).and_then(Option::as_deref_mut) else { return };
        let Some(index) = here.coming.iter().position(|(its, ..)| *its == place) else { return };
        let (_, _, from, _) = here.coming.remove(index);
        self.drop_unused(at);
        let Some(there) = self.all.get_mut(from as usize).and_then(Option::as_deref_mut) else { return };
        there.below.retain(|(its, to)| *its != call || !to.remove(place));
        self.drop_unused(from);
    }

    fn drop_unused(&mut self, id: Id) {
        self.all[id as usize].take_if(|it| it.coming.is_empty() && it.below.is_empty());
    }

    /// What comes to an id from another one: the first that comes over a link that stands; the others do not come any more.
    fn first(
        &mut self,
        at: Id,
        from: Id,
        call: CallId,
        stands: impl Fn(Passage) -> bool,
    ) -> Option<(Place, &mut Coming)> {
        let its = self.of(at)?.coming(call).filter(|(_, sender, _)| *sender == from);
        let lost: SmallVec<[Place; 2]> =
            its.filter(|(.., it)| !stands(it.passage)).map(|(place, ..)| place).collect();
        lost.into_iter().for_each(|place| self.remove(at, call, place));
        let here = self.all[at as usize].as_deref_mut()?;
        let (place, .., it) =
            here.coming.iter_mut().find(|(_, its, sender, _)| (*its, *sender) == (call, from))?;
        Some((*place, it))
    }

    /// What is between these ids, from the first to the second or back, or of the first and whoever else, and will not come any more. What is let go gives back the memory of its body.
    fn drop_lost(&mut self, id: Id, peer: Option<Id>, stands: impl Fn(Id, Passage) -> bool) {
        let concerned = |other: Id| peer.is_none_or(|peer| peer == other);
        for call in self.calls.clone() {
            let Some(here) = self.of(id) else { return };
            let to = here.coming(call).filter(|(_, from, _)| concerned(*from)).map(|(place, ..)| (id, place));
            let sent = here.below(call).filter(|(_, to)| concerned(*to)).map(|(place, to)| (to, place));
            let lost = |&(at, place): &(Id, Place)| {
                let mut there = self.of(at).into_iter().flat_map(|there| there.coming(call));
                there.any(|(its, _, it)| its == place && !stands(at, it.passage))
            };
            let lost: Vec<(Id, Place)> = to.chain(sent).filter(lost).collect();
            lost.into_iter().for_each(|(at, place)| self.remove(at, call, place));
        }
    }

    /// To whom an id sends data of a call.
    fn below(&self, from: Id, call: CallId) -> SmallVec<[Id; 4]> {
        self.of(from).into_iter().flat_map(|here| here.below(call)).map(|(_, to)| to).collect()
    }
}

/// Whether the link that something came on stands.
fn stands(mishaps: &Option<Mishaps>, linked: &Option<Box<Linked>>, at: Id, passage: Passage) -> bool {
    match (linked, mishaps) {
        (Some(linked), _) => linked.stands(at, passage),
        (None, mishaps) => mishaps.as_ref().is_some_and(|mishaps| mishaps.links.stands(passage)),
    }
}

impl Profile {
    /// Longest that a piece is behind what came before it, over a link of this latency, nanoseconds.
    fn piece_ns(&self, latency_ns: u64) -> u64 {
        latency_ns * if self.is_filled() { FAR_APART } else { APART }
    }

    /// How long the data of a request take to one id at the usual number of pieces, nanoseconds.
    pub(super) fn pieces_ns(&self, latency_ns: u64) -> u64 {
        if self.in_pieces { PIECES * self.piece_ns(latency_ns) } else { 0 }
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
        // A large world has enough of them with one in eight where few are below: who gets data in pieces passes them on in pieces, and each takes as many events as a message.
        let (one_in, most) = if self.scenario.n > LARGE { (8, FEW_BELOW) } else { (2, u32::MAX) };
        let cuts = self.profile.in_pieces && request.ids.len() <= most;
        // What its sender does not have cannot be there; and of what is short there are no pieces.
        if request.data.is_empty() || whole && !(cuts && self.random.chance(1, one_in)) {
            return Message::Request(request);
        }
        // As in the runtime: func takes them as they come, and they are kept where an adopter may ask for them, or children get them later.
        let at_once = request.forward_first || request.ids.len() == 1;
        let usage = match self.takes_as_they_come(request.call) {
            false => Use::Whole,
            true if at_once && !request.partial => Use::Passing,
            true => Use::Kept,
        };
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
        let latest = self.profile.piece_ns(self.hosts.cost(from, at).latency_ns);
        let when = self.now + 1 + self.random.below(latest.max(1));
        self.queue.push(when, Event::Piece { id: at, run: self.hosts.run(at), from, call });
    }

    /// More comes of what is there at the sender.
    pub(super) fn piece(&mut self, at: Id, run: u32, from: Id, call: CallId) {
        let about = if self.scenario.n > LARGE { PIECES_OF_MANY } else { PIECES };
        let World { pieces, mishaps, linked, random, .. } = self;
        let (mut whole, mut came, mut due, mut refused, mut gone) = (false, 0, false, None, false);
        let first = pieces.first(at, from, call, |passage| stands(mishaps, linked, at, passage));
        let over = first.and_then(|(place, coming)| {
            let most = 1 + random.below(2 * coming.source.len() / about + 1);
            let next = coming.source.len() - coming.writer.missing();
            let bytes = coming.source.read(next, most as usize);
            gone = bytes.is_empty() && next < coming.source.arrived() && !coming.source.is_refused();
            came = coming.writer.push(&bytes);
            whole = coming.writer.missing() == 0;
            due = whole || coming.writer.usage() != Use::Whole;
            refused = coming.writer.is_refused().then(|| coming.writer.refusal());
            (whole || refused.is_some()).then_some(place)
        });
        over.into_iter().for_each(|place| pieces.remove(at, call, place));
        if gone {
            self.observe(&Observation::DataGone { at, from, call });
        }
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
