//! Request data that arrive in pieces: the request arrives before its data, and is forwarded before they are complete.
//!
//! An id that has some of the data forwards them; the ids below follow. Pieces arrive while their link is up; the rest
//! never arrives.

use gpc_trees::Id;
use smallvec::SmallVec;

use super::check::Observation;
use super::faults::{Mishaps, Passage};
use super::linked::Linked;
use super::profile::Profile;
use super::world::{Event, LARGE, World};
use chained_gpc::chain::Input;
use chained_gpc::wire::body::Spare;
use chained_gpc::wire::{Body, BodyWriter, CallId, Message, Use};

/// Approximate number of pieces of a request's data.
const PIECES: u64 = 3;

/// The same in a large world, where each of many levels cuts the data again.
const PIECES_OF_MANY: u64 = 1;

/// In a large world, complete data are cut only on the way to a subtree of at most this many ids.
const FEW_BELOW: u32 = 64;

/// Longest time between two pieces, in latencies.
const APART: u64 = 3;

/// The same where memory is the only narrow limit: other parents send requests while data arrive that find no memory.
const FAR_APART: u64 = 40;

/// Data on their way from one id to another.
struct Coming {
    passage: Passage,
    /// The sender's part of the data, and their destination.
    source: Body,
    writer: BodyWriter,
}

/// Number of a transfer; later transfers have higher numbers.
type Place = u64;

/// All transfers, bounded by the requests in flight.
///
/// They are grouped by id, since a hundred thousand ids of a large world receive data at the same time.
#[derive(Default)]
pub(super) struct Pieces {
    /// Indexed by id; `None` if the id has no transfer.
    all: Vec<Option<Box<AtId>>>,
    next: Place,
    /// Calls whose data arrived in pieces.
    calls: Vec<CallId>,
}

/// Transfers to and from an id: mostly of one call.
#[derive(Default)]
struct AtId {
    /// Ordered by place.
    coming: SmallVec<[(Place, CallId, Id, Coming); 1]>,
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

    /// The first transfer from one id to another whose link is up; removes those whose link is lost.
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

    /// Removes the transfers between an id and a peer, or all peers, whose link is lost. Their bodies free their
    /// memory.
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

    /// Ids that receive data of a call from this id.
    fn below(&self, from: Id, call: CallId) -> SmallVec<[Id; 4]> {
        self.of(from).into_iter().flat_map(|here| here.below(call)).map(|(_, to)| to).collect()
    }
}

/// Whether the link of a transfer is up.
fn stands(mishaps: &Option<Mishaps>, linked: &Option<Box<Linked>>, at: Id, passage: Passage) -> bool {
    match (linked, mishaps) {
        (Some(linked), _) => linked.stands(at, passage),
        (None, mishaps) => mishaps.as_ref().is_some_and(|mishaps| mishaps.links.stands(passage)),
    }
}

impl Profile {
    /// Longest time between two pieces over a link of this latency, nanoseconds.
    fn piece_ns(&self, latency_ns: u64) -> u64 {
        latency_ns * if self.is_filled() { FAR_APART } else { APART }
    }

    /// Time that the data of a request take to one id in the usual number of pieces, nanoseconds.
    pub(super) fn pieces_ns(&self, latency_ns: u64) -> u64 {
        if self.in_pieces { PIECES * self.piece_ns(latency_ns) } else { 0 }
    }
}

impl World {
    /// Drops the transfers between an id and a peer, or all peers, whose link is lost.
    pub(super) fn drop_lost_pieces(&mut self, id: Id, peer: Option<Id>) {
        let World { pieces, mishaps, linked, .. } = self;
        pieces.drop_lost(id, peer, |at, passage| stands(mishaps, linked, at, passage));
    }

    /// Handles an arrived request: if its data arrive in pieces, starts their transfer.
    pub(super) fn begin_pieces(&mut self, at: Id, from: Id, passage: Passage, message: Message) -> Message {
        let Message::Request(mut request) = message else { return message };
        let whole = request.data.is_whole();
        // In a large world one in eight small subtrees is enough. An id that receives data in pieces forwards them in
        // pieces, and each piece costs as many events as a message.
        let (one_in, most) = if self.scenario.n > LARGE { (8, FEW_BELOW) } else { (2, u32::MAX) };
        let cuts = self.profile.in_pieces && request.ids.len() <= most;
        // Data that the sender does not have yet arrive later in any case; empty data have no pieces.
        if request.data.is_empty() || whole && !(cuts && self.random.chance(1, one_in)) {
            return Message::Request(request);
        }
        // As in the runtime: func takes them as they arrive, and they are kept where an adopter may ask for them or
        // children receive them later.
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

    /// Transfers the next piece that the sender has.
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

    /// Continues the transfers to the ids below after new data of a call.
    pub(super) fn more_below(&mut self, at: Id, call: CallId) {
        let below = self.pieces.below(at, call);
        below.into_iter().for_each(|below| self.next_piece(below, at, call));
    }
}
