//! A node with links: its chain awaits every answer, and consumes requests when it is told to.

use std::collections::VecDeque;
use std::sync::Arc;

use chained_gpc::chain::{Input as ChainInput, Time};
use chained_gpc::link::peering::{Book, Identity, Peering, PublicKey, Strictness};
use chained_gpc::link::{Arrival, Context, HasLink, Link, Links, Phase};
use chained_gpc::wire::body::Spare;
use chained_gpc::wire::{Budget, CallId, Message, Request, Response};
use chained_gpc::{Id, Job, Tree};
use smallvec::SmallVec;

/// Memory of the links of a node, bytes: more than any input fills.
const MEMORY: u64 = 1 << 30;

/// Two peers without keys.
#[derive(Debug)]
pub(super) struct Two;

impl Book for Two {
    fn contains(&self, id: Id) -> bool {
        id < 2
    }

    fn key(&self, _: Id) -> Option<PublicKey> {
        None
    }
}

/// Awaits every answer but those of these calls; passes those of odd calls on as they come.
pub(super) struct AwaitsAllBut<'a>(pub(super) &'a [CallId]);

impl Context for AwaitsAllBut<'_> {
    fn tree(&self, _: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, call: CallId) -> bool {
        !self.0.contains(&call)
    }

    fn reply_max(&self) -> u64 {
        1 << 24
    }

    fn streams(&self, func: u64) -> bool {
        func & 1 == 1
    }

    fn passes_on(&self, call: CallId) -> bool {
        call.sequence & 1 == 1
    }
}

/// A connection: its protocol, and its wire.
#[derive(Debug)]
pub(super) struct End {
    pub(super) link: Link,
    pub(super) wire: usize,
}

impl HasLink for End {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// A node.
pub(super) struct Node {
    pub(super) links: Links<Two, End>,
    pub(super) memory: Budget,
    /// Requests that are not consumed, by arrival.
    pub(super) held: VecDeque<Arc<Request>>,
    /// The calls that have been asked of it, and those that were answered.
    pub(super) asked: Vec<CallId>,
    pub(super) answered: Vec<CallId>,
    /// Replies that are passed on: they are kept until they are whole.
    pub(super) streaming: Vec<Response>,
    /// Losses that are not settled.
    pub(super) losses: Vec<chained_gpc::link::LostLink>,
}

impl Node {
    pub(super) fn new(me: Id, hiwater: u32) -> Node {
        let identity = Identity { me, incarnation: 7, job: Job::default(), hiwater };
        let strictness = Strictness { insecure: true, ..Strictness::default() };
        Node {
            links: Links::new(Peering::new(identity, None, strictness, Two)),
            memory: Budget::new(MEMORY, "a node"),
            held: VecDeque::new(),
            asked: Vec::new(),
            answered: Vec::new(),
            streaming: Vec::new(),
            losses: Vec::new(),
        }
    }

    /// A connection of this wire.
    pub(super) fn end(&self, me: Id, phase: Phase, wire: usize) -> End {
        let mut link = Link::new(phase);
        link.inbox.set_budgets(Spare::default().within(&self.memory), &self.memory);
        link.outbox.set_budgets(me, &self.memory, &self.memory);
        End { link, wire }
    }

    /// Takes in what the links have for the chain.
    pub(super) fn take_in(&mut self) {
        while let Some(arrival) = self.links.arrivals.pop_front() {
            match arrival {
                Arrival::Input(ChainInput::Message { message: Message::Request(request), .. }) => {
                    self.asked.push(request.call);
                    self.held.push_back(request);
                }
                Arrival::Input(ChainInput::Message { message: Message::Response(response), .. }) => {
                    self.answered.push(response.call);
                    self.streaming.push(response);
                }
                Arrival::Input(ChainInput::ReplyArrived { call, .. }) => {
                    self.streaming.retain(|response| response.call != call);
                }
                Arrival::Input(ChainInput::Message { from, message: Message::Cancel(call) }) => {
                    if let Some(place) = self.held.iter().position(|request| request.call == call) {
                        self.held.remove(place);
                        self.links.consume_request(from);
                    }
                }
                Arrival::Input(_) => {}
                Arrival::Lost(lost) => self.losses.push(lost),
            }
        }
    }

    /// The oldest request whose data are whole, or are taken as they come, is consumed.
    pub(super) fn consume(&mut self, peer: Id) -> Option<Arc<Request>> {
        let place = self.held.iter().position(|request| request.data.is_whole())?;
        let request = self.held.remove(place);
        self.links.consume_request(peer);
        request
    }

    /// Writes at most so many bytes on each connection; calls `wrote` with the wire and the bytes.
    pub(super) fn write(&mut self, now: Time, most: usize, mut wrote: impl FnMut(usize, Vec<u8>)) {
        for response in &self.streaming {
            pass(response);
        }
        // func takes what has come.
        self.held.iter().for_each(|request| request.data.passed(request.data.arrived()));
        self.links.send_windows();
        if std::mem::take(&mut self.links.has_stream_data) {
            self.links.mark_streaming();
        }
        for key in std::mem::take(&mut self.links.dirty) {
            let Some(End { link, wire }) = self.links.table.get_mut(key) else { continue };
            link.is_dirty = false;
            if let Phase::Connecting(_) = link.phase {
                continue;
            }
            link.begin_bulk(&|| now, true);
            link.continue_bulk(now);
            link.piggyback_credit();
            let (mut parts, mut bytes) = (SmallVec::new(), Vec::new());
            if link.outbox.prepare() {
                link.outbox.parts(&mut parts);
            }
            parts
                .iter()
                .for_each(|part| bytes.extend_from_slice(&part[..part.len().min(most - bytes.len())]));
            drop(parts);
            link.mark_written(bytes.len());
            link.confirm_ping_sent();
            match link.outbox.is_idle() {
                true => link.end_bulk(),
                false => link.mark(&mut self.links.dirty, key),
            }
            wrote(*wire, bytes);
            self.links.finish_write(key);
        }
    }
}

/// The data of a reply that have come are of no use any more.
fn pass(response: &Response) {
    use chained_gpc::wire::message::Answer;
    use chained_gpc::wire::streaming_reply::StreamingPart;
    let Answer::Arriving(reply) = &response.answer else { return };
    for part in reply.data.parts() {
        if let StreamingPart::Arriving(body) = part {
            body.passed(body.arrived());
        }
    }
}
