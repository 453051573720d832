//! Data of requests that come in pieces: the request is there before its data are, and is passed on before they are.
//!
//! An id that has some of the data passes on what it has; who is below follows. A piece is on its way as long as the link stands; what has not come by then never does.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::faults::{Mishaps, Passage};
use super::linked::Linked;
use super::world::{Event, World};
use crate::chain::Input;
use crate::wire::body::Spare;
use crate::wire::{Body, BodyWriter, CallId, Message, Use};

/// Pieces that the data of a request come in, about.
const PIECES: u64 = 3;

/// Longest that a piece is behind what came before it, in latencies.
const APART: u64 = 3;

/// Data on their way from one id to another.
struct Coming {
    at: Id,
    from: Id,
    call: CallId,
    passage: Passage,
    /// What the sender has of them, and where they go.
    source: Body,
    writer: BodyWriter,
}

/// All data that are on their way. Bounded by the requests in flight.
#[derive(Default)]
pub(super) struct Pieces {
    /// By their places: what has come whole gives its place to the last one.
    coming: BTreeMap<u64, Coming>,
    /// The places of those that come to an id from another one.
    to: BTreeSet<(Id, Id, CallId, u64)>,
    /// And of those that an id sends.
    from: BTreeSet<(Id, CallId, u64)>,
}

impl Pieces {
    fn insert(&mut self, place: u64, it: Coming) {
        self.to.insert((it.at, it.from, it.call, place));
        self.from.insert((it.from, it.call, place));
        self.coming.insert(place, it);
    }

    fn push(&mut self, it: Coming) {
        let last = self.coming.last_key_value().map(|(place, _)| *place);
        self.insert(last.map_or(0, |last| last + 1), it);
    }

    fn remove(&mut self, place: u64) -> Option<Coming> {
        let it = self.coming.remove(&place)?;
        self.to.remove(&(it.at, it.from, it.call, place));
        self.from.remove(&(it.from, it.call, place));
        Some(it)
    }

    /// What has come whole.
    fn end(&mut self, place: u64) {
        self.remove(place);
        let last = self.coming.last_key_value().map(|(last, _)| *last).filter(|last| *last > place);
        let moved = last.and_then(|last| self.remove(last));
        moved.into_iter().for_each(|it| self.insert(place, it));
    }

    /// The places of what comes to an id from another one.
    fn places(&self, at: Id, from: Id, call: CallId) -> Vec<u64> {
        let all = (at, from, call, 0)..=(at, from, call, u64::MAX);
        self.to.range(all).map(|(.., place)| *place).collect()
    }

    /// What is between two ids, or comes to one or from it, and will not come any more. What is let go gives back the memory of its body.
    fn drop_lost(&mut self, concerns: impl Fn(Id, Id) -> bool, stands: impl Fn(Id, Passage) -> bool) {
        let lost = |(_, it): &(&u64, &Coming)| concerns(it.at, it.from) && !stands(it.at, it.passage);
        let lost: Vec<u64> = self.coming.iter().filter(lost).map(|(place, _)| *place).collect();
        lost.into_iter().for_each(|place| drop(self.remove(place)));
    }

    /// To whom an id sends data of a call.
    fn below(&self, from: Id, call: CallId) -> Vec<Id> {
        let all = self.from.range((from, call, 0)..=(from, call, u64::MAX));
        all.filter_map(|(.., place)| Some(self.coming.get(place)?.at)).collect()
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
    /// Drops what comes between some ids over links that are lost.
    pub(super) fn drop_lost_pieces(&mut self, concerns: impl Fn(Id, Id) -> bool) {
        let World { pieces, mishaps, linked, .. } = self;
        pieces.drop_lost(concerns, |at, passage| stands(mishaps, linked, at, passage));
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
        self.pieces.push(Coming { at, from, call, passage, source, writer });
        self.next_piece(at, from, call);
        Message::Request(request)
    }

    fn next_piece(&mut self, at: Id, from: Id, call: CallId) {
        let latest = self.hosts.cost(from, at).latency_ns * APART;
        let when = self.now + 1 + self.random.below(latest.max(1));
        self.queue.push(when, Event::Piece { id: at, run: self.hosts.run(at), from, call });
    }

    /// More comes of what is there at the sender.
    pub(super) fn piece(&mut self, at: Id, run: u32, from: Id, call: CallId) {
        let World { pieces, mishaps, linked, random, .. } = self;
        let mut place = None;
        for each in pieces.places(at, from, call) {
            let passage = pieces.coming.get(&each).map(|coming| coming.passage);
            match passage.is_some_and(|passage| stands(mishaps, linked, at, passage)) {
                true => place = place.or(Some(each)),
                false => drop(pieces.remove(each)),
            }
        }
        let (mut whole, mut came, mut due, mut refused) = (false, 0, false, None);
        if let Some(coming) = place.and_then(|place| pieces.coming.get_mut(&place)) {
            let most = 1 + random.below(2 * coming.source.len() / PIECES + 1);
            let bytes = coming.source.read(coming.source.len() - coming.writer.missing(), most as usize);
            came = coming.writer.push(&bytes);
            whole = coming.writer.missing() == 0;
            due = whole || coming.writer.usage() != Use::Whole;
            refused = coming.writer.is_refused().then(|| coming.writer.refusal());
        }
        place.filter(|_| whole || refused.is_some()).into_iter().for_each(|place| pieces.end(place));
        if came == 0 && refused.is_none() || !self.hosts.is_up(at) || self.hosts.run(at) != run {
            return;
        }
        if let Some(why) = refused {
            self.trace.say(self.now, format_args!("{at} has no memory for the data of {call} from {from}"));
            return self.input(at, Input::DataRefused { call, why });
        }
        self.trace
            .say(self.now, format_args!("{at} has {came} more bytes of the data of {call} from {from}"));
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
