//! Data of requests that come in pieces: the request is there before its data are, and is passed on before they are.
//!
//! An id that has some of the data passes on what it has; who is below follows. A piece is on its way as long as the link stands; what has not come by then never does.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::check::NAMES;
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

/// The same where memory is all that nodes lack: other parents ask while data come that find none.
const FAR_APART: u64 = 40;

/// Data on their way from one id to another.
struct Coming {
    passage: Passage,
    /// What the sender has of them, and where they go.
    source: Body,
    writer: BodyWriter,
}

/// To whom data come, from whom, of which call, and which of them: the later, the higher.
type Way = (Id, Id, CallId, u64);

/// All data that are on their way. Bounded by the requests in flight.
#[derive(Default)]
pub(super) struct Pieces {
    coming: BTreeMap<Way, Coming>,
    /// The same by who sends them: of which call, which of them, and to whom.
    from: BTreeSet<(Id, CallId, u64, Id)>,
    next: u64,
}

impl Pieces {
    fn push(&mut self, at: Id, from: Id, call: CallId, it: Coming) {
        let place = self.next;
        self.next += 1;
        self.from.insert((from, call, place, at));
        self.coming.insert((at, from, call, place), it);
    }

    fn remove(&mut self, way: Way) {
        let (at, from, call, place) = way;
        self.coming.remove(&way);
        self.from.remove(&(from, call, place, at));
    }

    /// What comes to an id from another one.
    fn ways(&self, at: Id, from: Id, call: CallId) -> Vec<Way> {
        let all = (at, from, call, 0)..=(at, from, call, u64::MAX);
        self.coming.range(all).map(|(way, _)| *way).collect()
    }

    /// What is between these ids, from the first to the second or back, or of the first and whoever else, and will not come any more. What is let go gives back the memory of its body.
    fn drop_lost(&mut self, id: Id, peer: Option<Id>, stands: impl Fn(Id, Passage) -> bool) {
        let [first, last] = NAMES;
        let (least, most) = (peer.unwrap_or(0), peer.unwrap_or(Id::MAX));
        let to = self.coming.range((id, least, first, 0)..=(id, most, last, u64::MAX)).map(|(way, _)| *way);
        let sent = self.from.range((id, first, 0, 0)..=(id, last, u64::MAX, Id::MAX));
        let sent = sent.filter(|(.., at)| (least..=most).contains(at));
        let sent = sent.map(|&(from, call, place, at)| (at, from, call, place));
        let ways: Vec<Way> = to.chain(sent).collect();
        for way in ways {
            if self.coming.get(&way).is_some_and(|it| !stands(way.0, it.passage)) {
                self.remove(way);
            }
        }
    }

    /// To whom an id sends data of a call.
    fn below(&self, from: Id, call: CallId) -> Vec<Id> {
        let all = self.from.range((from, call, 0, 0)..=(from, call, u64::MAX, Id::MAX));
        all.map(|(.., at)| *at).collect()
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
        let mut way = None;
        for each in pieces.ways(at, from, call) {
            let passage = pieces.coming.get(&each).map(|coming| coming.passage);
            match passage.is_some_and(|passage| stands(mishaps, linked, at, passage)) {
                true => way = way.or(Some(each)),
                false => pieces.remove(each),
            }
        }
        let (mut whole, mut came, mut due, mut refused) = (false, 0, false, None);
        if let Some(coming) = way.and_then(|way| pieces.coming.get_mut(&way)) {
            let most = 1 + random.below(2 * coming.source.len() / PIECES + 1);
            let bytes = coming.source.read(coming.source.len() - coming.writer.missing(), most as usize);
            came = coming.writer.push(&bytes);
            whole = coming.writer.missing() == 0;
            due = whole || coming.writer.usage() != Use::Whole;
            refused = coming.writer.is_refused().then(|| coming.writer.refusal());
        }
        way.filter(|_| whole || refused.is_some()).into_iter().for_each(|way| pieces.remove(way));
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
