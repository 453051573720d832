//! Steps of request data that arrive in pieces.

use gpc_trees::Id;

use super::check::Observation;
use super::event::Event;
use super::faults::{Mishaps, Passage};
use super::large::LARGE;
use super::pieces::Transfer;
use super::profile::PIECES;
use super::world::World;
use chained_gpc::chain::Input;
use chained_gpc::wire::body::Spare;
use chained_gpc::wire::{Body, BodyUse, CallId, Message};

/// Approximate number of pieces of a request's data in a large world, where each of many levels cuts the data again.
const PIECES_OF_MANY: u64 = 1;

/// In a large world, complete data are cut only on the way to a subtree of at most this many ids.
const FEW_BELOW: u32 = 64;

impl World {
    /// Drops the transfers between an id and a peer, or all peers, whose link is lost.
    pub(super) fn drop_lost_pieces(&mut self, id: Id, peer: Option<Id>) {
        let World { pieces, mishaps, .. } = self;
        pieces.drop_lost(id, peer, |_, passage| stands(mishaps, passage));
    }

    /// Handles an arrived request: if its data arrive in pieces, starts their transfer.
    pub(super) fn begin_pieces(&mut self, at: Id, from: Id, passage: Passage, message: Message) -> Message {
        let Message::Request(mut request) = message else { return message };
        let whole = request.body().is_whole();
        // In a large world one in eight small subtrees is enough. An id that receives data in pieces forwards them in
        // pieces, and each piece costs as many events as a message.
        let (one_in, most) = if self.scenario.n > LARGE { (8, FEW_BELOW) } else { (2, u32::MAX) };
        let cuts = self.profile.in_pieces && request.ids.len() <= most;
        // Data that the sender does not have yet arrive later in any case; empty data have no pieces.
        if request.body().is_empty() || whole && !(cuts && self.random.chance(1, one_in)) {
            return Message::Request(request);
        }
        // As in the runtime: func takes them as they arrive, and they are kept where an adopter may ask for them or
        // children receive them later.
        let scatters = request.parts.as_ref().is_some_and(|parts| parts.count() > 1);
        let at_once = request.forward_first || request.ids.len() == 1;
        let usage = match self.takes_as_they_come(request.call) {
            false => BodyUse::Whole,
            true if at_once && !request.partial && !scatters => BodyUse::Passing,
            true => BodyUse::Retained,
        };
        let memory = self.node(at).map(|node| node.config().memory.clone()).unwrap_or_default();
        let (body, writer) =
            Body::arriving_in(request.body().len(), usage, &Spare::default().within(&memory));
        let source = request.body().fork();
        std::sync::Arc::make_mut(&mut request).set_body(body);
        let call = request.call;
        self.pieces.push(at, from, call, Transfer { passage, source, writer });
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
        let World { pieces, mishaps, random, .. } = self;
        let (mut whole, mut came, mut due, mut refused, mut gone) = (false, 0, false, None, false);
        let first = pieces.first(at, from, call, |passage| stands(mishaps, passage));
        let over = first.and_then(|(place, transfer)| {
            let most = 1 + random.below(2 * transfer.source.len() / about + 1);
            let next = transfer.source.len() - transfer.writer.missing();
            let bytes = transfer.source.read(next, most as usize);
            gone = bytes.is_empty() && next < transfer.source.arrived() && !transfer.source.is_refused();
            came = transfer.writer.push(&bytes);
            whole = transfer.writer.missing() == 0;
            due = whole || transfer.writer.usage() != BodyUse::Whole;
            refused = transfer.writer.is_refused().then(|| transfer.writer.refusal());
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

/// Whether the link of a transfer is up.
fn stands(mishaps: &Option<Mishaps>, passage: Passage) -> bool {
    mishaps.as_ref().is_some_and(|mishaps| mishaps.links.stands(passage))
}
