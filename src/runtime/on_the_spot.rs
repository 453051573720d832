//! What comes in on a link: read, and carried out where it lies if it is short and usual; the rest is fed to the link's inbox, frame by frame, in the order in which it came.
//!
//! Source: docs/wire.md; what a call on the fast path is, `chain::spot` says.

use std::borrow::Cow;
use std::io;

use gpc_trees::{Id, Tree};
use tracing::warn;

use super::connection::{MESSAGES_MAX, MUCH, Progress, READ_BUDGET, broken};
use super::event_loop::EventLoop;
use super::loop_state::UNBOUNDED;
use super::request::Request;
use super::short_jobs::ShortSource;
use super::side::Side;
use crate::chain::{self, Asker, Begun, Heard, Input, Place, Ran, RootReply, Start, ToChild};
use crate::hint::{likely, unlikely};
use crate::link::peering::LinkKey;
use crate::link::{Context, Phase};
use crate::transport::ByteStream as _;
use crate::wire::frame::{FRAME_HEADER, FrameError, Kind};
use crate::wire::message::{Answer, Classes, Merging, Response};
use crate::wire::short::{Particulars, ShortRequest, ShortResponse};
use crate::wire::{CallContext, CallId, Message, Reason};

/// What an inbox needs to know of its node.
struct PeerContext<'a> {
    node: &'a chain::Node,
    side: &'a Side,
    peer: Option<Id>,
}

impl Context for PeerContext<'_> {
    fn tree(&self, id: u64) -> Option<Tree> {
        self.side.functions.tree_by_id(id)
    }

    fn awaits(&self, call: CallId) -> bool {
        self.peer.is_some_and(|peer| self.node.awaits(peer, call))
    }

    fn reply_max(&self) -> u64 {
        self.node.config().reply_max
    }

    fn streams(&self, func: u64) -> bool {
        self.side.functions.streams(func)
    }

    fn merging(&self, callback: u64) -> Merging {
        self.side.functions.merging(callback)
    }

    fn classes(&self, func: u64, callback: Option<u64>) -> Classes {
        self.side.executors.classes(&self.side.functions, func, callback)
    }

    fn passes_on(&self, call: CallId) -> bool {
        self.peer.is_some_and(|peer| self.node.passes_on(peer, call))
    }
}

impl EventLoop {
    /// Reads what a link has; says whether it had anything. `to_end` when the system has said that the peer is through: then a short read does not mean that nothing follows.
    pub(super) fn read_link(&mut self, key: LinkKey, to_end: bool) -> bool {
        // Taken out, so that what was read can be carried out where it lies.
        let mut buffer = std::mem::take(&mut self.connections.buffer);
        let mut read = 0;
        let most = match unlikely(self.turn.budget != UNBOUNDED) {
            true => self.bytes_within_budget().min(buffer.len()),
            false => buffer.len(),
        };
        let progress = self.read(key, to_end, &mut buffer[..most], &mut read);
        self.connections.buffer = buffer;
        let came = read > 0 || matches!(progress, Progress::Closed(_));
        self.connections.has_read |= came;
        self.connections.after_reading(self.clock.time(), key, progress);
        came
    }

    fn read(&mut self, key: LinkKey, to_end: bool, buffer: &mut [u8], read: &mut usize) -> Progress {
        let before = self.turn.done;
        while *read < READ_BUDGET && self.turn.done - before < MESSAGES_MAX && !self.has_done_enough() {
            let connection =
                self.connections.links.table.get_mut(key).filter(|one| one.link.phase != Phase::Closing);
            let Some(connection) = connection else { return Progress::Waiting };
            if unlikely(connection.link.phase == Phase::Greeting) {
                *read += 1;
                match self.connections.read_greeting(self.clock.time(), key, buffer) {
                    Some(progress) => return progress,
                    None => continue,
                }
            }
            let (read_at_once, whole) = connection.read_once(buffer);
            let count = match read_at_once {
                Ok(0) => return Progress::Closed("the peer closed the connection".into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.link.heard |= connection.socket.take_heard();
                    return Progress::Waiting;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return broke(&error),
            };
            *read += count;
            connection.used = self.connections.turn;
            self.connections.traffic.much |= count > MUCH;
            self.connections.traffic.metrics.read.add(count as u64);
            let filled = connection.link.inbox.filled(count, &mut self.connections.events);
            if filled > 0 {
                connection.link.heard = true;
                self.heed(key);
            }
            if let Err(error) = self.take_bytes(key, &buffer[..count - filled]) {
                return misbehaved(key, &error);
            }
            // A stream gives all it has: what comes later is a new event.
            if count < whole && !to_end {
                return Progress::Waiting;
            }
        }
        Progress::More
    }

    /// Takes the next bytes of a link, in order.
    fn take_bytes(&mut self, key: LinkKey, mut bytes: &[u8]) -> Result<(), FrameError> {
        // What a call on the fast path has taken was a heartbeat, which the chain need not be told of once more.
        let mut told = false;
        // Each round takes a frame, or all there is.
        while !bytes.is_empty() {
            let Some(link) = self.connections.links.table.link(key) else { return Ok(()) };
            let frame = match link.phase {
                Phase::Closing => return Ok(()),
                // What has come before, on whatever link, is for the chain first.
                Phase::Up(peer) if link.is_plain() && self.connections.links.arrivals.is_empty() => {
                    if let Some(rest) = self.on_the_spot(key, peer, bytes) {
                        (bytes, told) = (rest, true);
                        self.turn.done += 1;
                        continue;
                    }
                    first_frame(bytes)
                }
                _ => bytes.len(),
            };
            let (frame, rest) = bytes.split_at(frame);
            self.take_in_frames(key);
            self.feed(key, frame, !told)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Takes bytes by the general path; `heard` where they are the first heartbeat.
    #[inline(never)]
    pub(super) fn feed(&mut self, key: LinkKey, bytes: &[u8], heard: bool) -> Result<(), FrameError> {
        let EventLoop { node, side, connections, .. } = self;
        let Some(connection) = connections.links.table.get_mut(key) else { return Ok(()) };
        let peer = match connection.link.phase {
            Phase::Up(peer) => Some(peer),
            _ => None,
        };
        connection.link.heard |= heard;
        let fed = connection.feed(bytes, &PeerContext { node, side, peer }, &mut connections.events);
        self.heed(key);
        fed
    }

    /// Gives the chain what has become of what a link has taken in.
    fn heed(&mut self, key: LinkKey) {
        self.connections.heed_events(self.clock.time(), &self.side.functions, key);
        self.take_in();
    }

    /// Carries out the frame at the start of `bytes`, if it is short and usual; returns the bytes behind it.
    #[inline(always)]
    fn on_the_spot<'a>(&mut self, key: LinkKey, peer: Id, bytes: &'a [u8]) -> Option<&'a [u8]> {
        const REQUEST: u8 = Kind::Request as u8;
        const RESPONSE: u8 = Kind::Response as u8;
        match *bytes.get(4)? {
            REQUEST => {
                let (request, rest) = ShortRequest::parse(bytes)?;
                let frame = &bytes[..bytes.len() - rest.len()];
                self.request_on_the_spot((key, peer), &request, frame).map(|()| rest)
            }
            RESPONSE => {
                let (response, rest) = ShortResponse::parse(bytes)?;
                self.response_on_the_spot(peer, &response).then_some(rest)
            }
            _ => None,
        }
    }

    /// Runs a request where it was read, if it may.
    #[inline(always)]
    fn request_on_the_spot(
        &mut self,
        (key, peer): (LinkKey, Id),
        request: &ShortRequest<'_>,
        frame: &[u8],
    ) -> Option<()> {
        let EventLoop { node, executor, clock, side, short, .. } = self;
        let entry = executor.on_the_spot(request.plan.func()).filter(|_| short.waiting.is_empty());
        let Some(entry) = entry else { return self.request_outside((key, peer), request.plan.func(), frame) };
        let of = &request.particulars;
        match node.spot_begins(|| clock.time(), peer, request) {
            Begun::Unusual => None,
            Begun::Alone => {
                let (ids, own) = node.spot_alone()?;
                let context = CallContext::default();
                let request = Request::short(&**side, Some(peer), (&request.plan, of), (ids, &context));
                let result = entry.answer(&request, own);
                drop(context);
                self.answer_alone(key, of.call, result)
            }
            Begun::WithChildren => self.run_with_children(key, peer, request),
        }
    }

    /// Has a request wait until its function runs outside the loop, if it may.
    #[inline(never)]
    fn request_outside(&mut self, (key, parent): (LinkKey, Id), func: u64, frame: &[u8]) -> Option<()> {
        self.goes_outside(func).then(|| {
            let came = self.clock.time();
            self.short.waiting.push_back(ShortSource::Frame { came, key, parent, bytes: frame.into() });
        })
    }

    /// Answers a request whose func has run here, and nowhere else.
    #[inline(always)]
    pub(super) fn answer_alone(
        &mut self,
        key: LinkKey,
        call: CallId,
        result: Result<(), Box<Reason>>,
    ) -> Option<()> {
        let EventLoop { node, connections, clock, .. } = self;
        if node.records() {
            node.spot_func_ended(clock.reading());
        }
        let link = connections.links.table.link_mut(key)?;
        match node.spot_replied(call, result) {
            Ok((head, answer)) => link.outbox.own_response(&head, &answer),
            Err(answer) => link.outbox.push(Message::Response(Response { call, answer: *answer })),
        }
        node.spot_answered();
        link.unacknowledged += 1;
        link.consume();
        link.mark(&mut connections.links.dirty, key);
        Some(())
    }

    /// Runs a request, and sends it on to the children.
    #[inline(never)]
    fn run_with_children(&mut self, key: LinkKey, peer: Id, request: &ShortRequest<'_>) -> Option<()> {
        let EventLoop { node, executor, side, .. } = self;
        let of = &request.particulars;
        let (ids, own) = node.spot_room()?;
        let context = CallContext::default();
        let request = Request::short(&**side, Some(peer), (&request.plan, of), (ids, &context));
        let result = executor.again()?.answer(&request, own);
        drop(context);
        self.ran_with_children((key, peer), of, result)
    }

    /// The function of a request has run: sends it on to the children.
    #[inline(always)]
    pub(super) fn ran_with_children(
        &mut self,
        (key, peer): (LinkKey, Id),
        of: &Particulars<'_>,
        result: Result<(), Box<Reason>>,
    ) -> Option<()> {
        let EventLoop { node, connections, outputs, clock, .. } = self;
        if node.records() {
            node.spot_func_ended(clock.reading());
        }
        let send = |child: ToChild<'_>| connections.relay(clock.time(), &child);
        let ran = node.spot_ran(Asker::Parent(peer), of, result, || clock.now(), send, outputs);
        let link = connections.links.table.link_mut(key)?;
        let answered = match ran {
            Ran::Waits => false,
            Ran::Answered(answer) => {
                link.outbox.push(Message::Response(Response { call: of.call, answer }));
                true
            }
        };
        link.unacknowledged += 1;
        if link.consume() || answered {
            link.mark(&mut connections.links.dirty, key);
        }
        self.settle();
        Some(())
    }

    /// Takes a child's answer where it was read, if a call on the fast path waits for it.
    #[inline(never)]
    fn response_on_the_spot(&mut self, peer: Id, response: &ShortResponse<'_>) -> bool {
        match self.node.spot_heard(|| self.clock.time(), peer, response) {
            Heard::Unusual => return false,
            Heard::Waits => self.looking.awaits_more = true,
            Heard::Complete(place) => {
                self.looking.awaits_more = false;
                self.complete(place);
            }
        }
        true
    }

    /// Every child of a call on the fast path has answered.
    #[inline(always)]
    fn complete(&mut self, place: Place) {
        let EventLoop { node, connections, outputs, clock, .. } = self;
        if let Some((parent, head, answer)) = node.spot_complete(place)
            && let Some((link, dirty, key)) = connections.links.link_up(parent)
        {
            link.outbox.short_response(&head, &answer);
            link.mark(dirty, key);
            return node.spot_ends(place);
        }
        if let Some(ended) = node.spot_ends_here(|| clock.time(), place, outputs) {
            self.finish(ended.ticket, ended.call, Ok(ended.reply), None);
        }
        self.settle();
    }

    /// A call that was started here has ended with this answer.
    fn answered(&mut self, ticket: u64, call: CallId, answer: Answer) {
        self.finish(ticket, call, answer.into_result().map(|reply| reply.map(RootReply::Aggregated)), None);
    }

    /// Starts a call, on the fast path if it may.
    pub(super) fn start(&mut self, ticket: u64, start: Box<Start>) {
        if likely(self.short.waiting.is_empty()) && self.start_on_the_spot(ticket, &start) {
            return;
        }
        let usual = !start.watch && !start.partial && !start.follow && start.parts.is_none();
        let data = start.data.as_bytes().filter(|_| usual).map(Cow::into_owned);
        match data {
            Some(data) if self.goes_outside(start.func) => {
                let came = self.clock.time();
                self.short.waiting.push_back(ShortSource::Start { came, ticket, start, data });
            }
            _ => {
                // In the order in which they were started.
                self.take_in_starts();
                self.apply(Input::Start { ticket, start });
            }
        }
    }

    fn start_on_the_spot(&mut self, ticket: u64, start: &Start) -> bool {
        let Some(data) = start.data.as_bytes() else { return false };
        let mut room = std::mem::take(&mut self.calls.ids_room);
        let EventLoop { node, executor, clock, side, .. } = self;
        let entry = executor.on_the_spot(start.func);
        let request =
            entry.and_then(|entry| Some((entry, node.spot_starts(clock.time(), start, &data, &mut room)?)));
        let Some((entry, request)) = request else {
            self.calls.ids_room = room;
            return false;
        };
        let of = request.particulars;
        let result = match node.spot_room() {
            Some((ids, own)) if !start.watch => {
                let context = CallContext::default();
                entry.answer(&Request::short(&**side, None, (&request.plan, &of), (ids, &context)), own)
            }
            _ => Ok(()),
        };
        let asker = Asker::Here { ticket, watch: start.watch };
        self.ran_at_root(asker, &of, result);
        self.calls.ids_room = room;
        true
    }

    /// The function of a call that starts here has run: sends the request to the children.
    #[inline(always)]
    pub(super) fn ran_at_root(
        &mut self,
        asker: Asker,
        of: &Particulars<'_>,
        result: Result<(), Box<Reason>>,
    ) {
        let EventLoop { node, connections, outputs, clock, .. } = self;
        // A root that only watches has run nothing.
        let watches = matches!(asker, Asker::Here { watch: true, .. });
        if node.records() && !watches {
            node.spot_func_ended(clock.reading());
        }
        let mut children = 0;
        let relay = |child: ToChild<'_>| {
            children += 1;
            connections.relay(clock.time(), &child);
        };
        let ran = node.spot_ran(asker, of, result, || clock.now(), relay, outputs);
        self.calls.children = children;
        if let (Ran::Answered(answer), Asker::Here { ticket, .. }) = (ran, asker) {
            self.answered(ticket, of.call, answer);
        }
        self.settle();
    }
}

/// Bytes of the frame at the start of `bytes`; all of them if it is not there whole.
fn first_frame(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk::<4>().map_or(usize::MAX, |length| u32::from_le_bytes(*length) as usize);
    length.saturating_add(FRAME_HEADER).min(bytes.len())
}

#[cold]
fn broke(error: &io::Error) -> Progress {
    Progress::Closed(broken(error))
}

#[cold]
fn misbehaved(key: LinkKey, error: &FrameError) -> Progress {
    warn!(?key, %error, "a peer broke the protocol: its link is closed");
    Progress::Closed(format!("the peer broke the protocol: {error}"))
}
