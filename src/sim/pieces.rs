//! Data of requests that come in pieces: the request is there before its data are, and is passed on before they are.
//!
//! An id that has some of the data passes on what it has; who is below follows. A piece is on its way as long as the link stands; what has not come by then never does.

use gpc_trees::Id;

use super::faults::Passage;
use super::world::{Event, World};
use crate::chain::Input;
use crate::wire::{Body, BodyWriter, CallId, Message};

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
pub(super) struct Pieces(Vec<Coming>);

impl World {
    /// A request has come in: where its data come in pieces, they come later.
    pub(super) fn begin_pieces(&mut self, at: Id, from: Id, passage: Passage, message: Message) -> Message {
        let Message::Request(mut request) = message else { return message };
        let whole = request.data.is_whole();
        // What its sender does not have cannot be there; and of what is short there are no pieces.
        if request.data.is_empty() || whole && !(self.profile.in_pieces && self.random.chance(1, 2)) {
            return Message::Request(request);
        }
        let (body, writer) = Body::arriving(request.data.len());
        let source = request.data.fork();
        std::sync::Arc::make_mut(&mut request).data = body;
        let call = request.call;
        self.pieces.0.push(Coming { at, from, call, passage, source, writer });
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
        let stands = |coming: &Coming, world: &World| {
            let mishaps = world.mishaps.as_ref();
            mishaps.is_some_and(|mishaps| mishaps.links.stands(from, at, coming.passage))
        };
        let mut all = std::mem::take(&mut self.pieces.0);
        all.retain(|it| (it.at, it.from, it.call) != (at, from, call) || stands(it, self));
        let place = all.iter().position(|it| (it.at, it.from, it.call) == (at, from, call));
        let (mut whole, mut came) = (false, 0);
        if let Some(coming) = place.and_then(|place| all.get_mut(place)) {
            let most = 1 + self.random.below(2 * coming.source.len() / PIECES + 1);
            let bytes = coming.source.read(coming.source.len() - coming.writer.missing(), most as usize);
            came = coming.writer.push(&bytes);
            whole = coming.writer.missing() == 0;
        }
        if let Some(place) = place.filter(|_| whole) {
            all.swap_remove(place);
        }
        self.pieces.0 = all;
        if came == 0 || !self.hosts.is_up(at) || self.hosts.run(at) != run {
            return;
        }
        self.trace
            .say(self.now, format_args!("{at} has {came} more bytes of the data of {call} from {from}"));
        if whole {
            self.input(at, Input::DataArrived(call));
        } else {
            self.next_piece(at, from, call);
        }
        self.more_below(at, call);
    }

    /// An id may have more of a call's data than those below have been sent.
    pub(super) fn more_below(&mut self, at: Id, call: CallId) {
        let below: Vec<Id> =
            self.pieces.0.iter().filter(|it| (it.from, it.call) == (at, call)).map(|it| it.at).collect();
        below.into_iter().for_each(|below| self.next_piece(below, at, call));
    }
}
