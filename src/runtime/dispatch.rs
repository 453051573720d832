//! Reads the links, and dispatches their frames. A short, usual frame is processed where it was read
//! (`chain::fast_path`). All other frames pass through the link's inbox, in the order of their arrival.
//!
//! Source: docs/wire.md.

use std::borrow::Cow;
use std::io;

use gpc_trees::{Id, Tree};
use tracing::warn;

use super::connection::{LARGE_IO, MESSAGES_MAX, Progress, READ_BUDGET, broken};
use super::event_loop::EventLoop;
use super::loop_state::UNBOUNDED;
use super::request::Request;
use super::shared_state::SharedState;
use super::short_jobs::ShortSource;
use crate::branch_hint::{likely, unlikely};
use crate::chain::{
    self, CallOrigin, ChildRequest, FastResponse, FastResult, FastSlot, FastStart, Input, RootReply, Start,
};
use crate::link::peering::LinkKey;
use crate::link::{Context, Phase};
use crate::transport::ByteStream as _;
use crate::wire::frame::{FRAME_HEADER, FrameError, Kind};
use crate::wire::message::{Answer, Classes, Merging, Response};
use crate::wire::short::{Particulars, ShortRequest, ShortResponse};
use crate::wire::{CallContext, CallId, Message, Reason};

/// The properties of the node that an inbox needs.
struct PeerContext<'a> {
    node: &'a chain::Node,
    shared: &'a SharedState,
    peer: Option<Id>,
}

impl Context for PeerContext<'_> {
    fn tree(&self, id: u64) -> Option<Tree> {
        self.shared.functions.tree_by_id(id)
    }

    fn awaits(&self, call: CallId) -> bool {
        self.peer.is_some_and(|peer| self.node.awaits(peer, call))
    }

    fn reply_max(&self) -> u64 {
        self.node.config().reply_max
    }

    fn streams(&self, func: u64) -> bool {
        self.shared.functions.streams(func)
    }

    fn merging(&self, callback: u64) -> Merging {
        self.shared.functions.merging(callback)
    }

    fn classes(&self, func: u64, callback: Option<u64>) -> Classes {
        self.shared.executors.classes(&self.shared.functions, func, callback)
    }

    fn passes_on(&self, call: CallId) -> bool {
        self.peer.is_some_and(|peer| self.node.passes_on(peer, call))
    }
}

impl EventLoop {
    /// Reads a link. Returns whether anything arrived. With `to_end` the peer has closed its side: then a short read
    /// does not mean that the socket is empty.
    pub(super) fn read_link(&mut self, key: LinkKey, to_end: bool) -> bool {
        // Moved out of the connections, so that frames can be processed in place.
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
        while *read < READ_BUDGET && self.turn.done - before < MESSAGES_MAX && !self.has_spent_budget() {
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
                    connection.link.has_heartbeat |= connection.socket.take_received();
                    return Progress::Waiting;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return broke(&error),
            };
            *read += count;
            connection.used = self.connections.turn;
            self.connections.traffic.has_grown_buffers |= count > LARGE_IO;
            self.connections.traffic.metrics.read.add(count as u64);
            let filled = connection.link.inbox.commit_read(count, &mut self.connections.events);
            if filled > 0 {
                connection.link.has_heartbeat = true;
                self.deliver_messages(key);
            }
            if let Err(error) = self.take_bytes(key, &buffer[..count - filled]) {
                return misbehaved(key, &error);
            }
            // A short read empties a stream: later bytes are a new event of the poll.
            if count < whole && !to_end {
                return Progress::Waiting;
            }
        }
        Progress::More
    }

    /// Processes the next bytes of a link, in order.
    fn take_bytes(&mut self, key: LinkKey, mut bytes: &[u8]) -> Result<(), FrameError> {
        // A call on the fast path counts as a heartbeat, which the chain then need not record again.
        let mut counted = false;
        // Terminates: each round consumes a frame or all bytes.
        while !bytes.is_empty() {
            let Some(link) = self.connections.links.table.link(key) else { return Ok(()) };
            let frame = match link.phase {
                Phase::Closing => return Ok(()),
                // Earlier messages, on any link, reach the chain first.
                Phase::Up(peer) if link.allows_fast_path() && self.connections.links.arrivals.is_empty() => {
                    if let Some(rest) = self.on_fast_path(key, peer, bytes) {
                        (bytes, counted) = (rest, true);
                        self.turn.done += 1;
                        continue;
                    }
                    first_frame(bytes)
                }
                _ => bytes.len(),
            };
            let (frame, rest) = bytes.split_at(frame);
            self.process_waiting_frames(key);
            self.feed(key, frame, !counted)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Processes bytes on the general path. `is_heartbeat` is whether they count as a heartbeat.
    #[inline(never)]
    pub(super) fn feed(&mut self, key: LinkKey, bytes: &[u8], is_heartbeat: bool) -> Result<(), FrameError> {
        let EventLoop { node, shared, connections, .. } = self;
        let Some(connection) = connections.links.table.get_mut(key) else { return Ok(()) };
        let peer = match connection.link.phase {
            Phase::Up(peer) => Some(peer),
            _ => None,
        };
        connection.link.has_heartbeat |= is_heartbeat;
        let fed = connection.feed(bytes, &PeerContext { node, shared, peer }, &mut connections.events);
        self.deliver_messages(key);
        fed
    }

    /// Passes the messages of a link to the chain.
    fn deliver_messages(&mut self, key: LinkKey) {
        self.connections.handle_events(self.clock.time(), &self.shared.functions, key);
        self.deliver_arrivals();
    }

    /// Processes the frame at the start of `bytes` on the fast path, if it qualifies. Returns the bytes after it.
    #[inline(always)]
    fn on_fast_path<'a>(&mut self, key: LinkKey, peer: Id, bytes: &'a [u8]) -> Option<&'a [u8]> {
        const REQUEST: u8 = Kind::Request as u8;
        const RESPONSE: u8 = Kind::Response as u8;
        match *bytes.get(4)? {
            REQUEST => {
                let (request, rest) = ShortRequest::parse(bytes)?;
                let frame = &bytes[..bytes.len() - rest.len()];
                self.request_on_fast_path((key, peer), &request, frame).map(|()| rest)
            }
            RESPONSE => {
                let (response, rest) = ShortResponse::parse(bytes)?;
                self.response_on_fast_path(peer, &response).then_some(rest)
            }
            _ => None,
        }
    }

    /// Executes a request where it was read, if it qualifies.
    #[inline(always)]
    fn request_on_fast_path(
        &mut self,
        (key, peer): (LinkKey, Id),
        request: &ShortRequest<'_>,
        frame: &[u8],
    ) -> Option<()> {
        let EventLoop { node, executor, clock, shared, short, .. } = self;
        let entry = executor.inline_entry(request.plan.func()).filter(|_| short.waiting.is_empty());
        let Some(entry) = entry else { return self.request_outside((key, peer), request.plan.func(), frame) };
        let of = &request.particulars;
        match node.begin_fast(|| clock.time(), peer, request) {
            FastStart::General => None,
            FastStart::Leaf => {
                let (ids, own) = node.leaf_room()?;
                let context = CallContext::default();
                let request = Request::short(&**shared, Some(peer), (&request.plan, of), (ids, &context));
                let result = entry.answer(&request, own);
                drop(context);
                self.answer_alone(key, of.call, result)
            }
            FastStart::WithChildren => self.run_with_children(key, peer, request),
        }
    }

    /// Queues a request whose function runs outside the loop, if it qualifies.
    #[inline(never)]
    fn request_outside(&mut self, (key, parent): (LinkKey, Id), func: u64, frame: &[u8]) -> Option<()> {
        self.runs_outside_loop(func).then(|| {
            let came = self.clock.time();
            self.short.waiting.push_back(ShortSource::Frame { came, key, parent, bytes: frame.into() });
        })
    }

    /// Answers a request whose func has run at a leaf.
    #[inline(always)]
    pub(super) fn answer_alone(
        &mut self,
        key: LinkKey,
        call: CallId,
        result: Result<(), Box<Reason>>,
    ) -> Option<()> {
        let EventLoop { node, connections, clock, .. } = self;
        if node.is_func_timed() {
            node.time_func(clock.reading());
        }
        let link = connections.links.table.link_mut(key)?;
        match node.leaf_ran(call, result) {
            Ok((head, answer)) => link.outbox.own_response(&head, &answer),
            Err(answer) => link.outbox.push(Message::Response(Response { call, answer: *answer })),
        }
        node.leaf_answered();
        link.unacknowledged += 1;
        link.consume();
        link.mark(&mut connections.links.dirty, key);
        Some(())
    }

    /// Executes a request, and forwards it to the children.
    #[inline(never)]
    fn run_with_children(&mut self, key: LinkKey, peer: Id, request: &ShortRequest<'_>) -> Option<()> {
        let EventLoop { node, executor, shared, .. } = self;
        let of = &request.particulars;
        let (ids, own) = node.reply_room()?;
        let context = CallContext::default();
        let request = Request::short(&**shared, Some(peer), (&request.plan, of), (ids, &context));
        let result = executor.last_used()?.answer(&request, own);
        drop(context);
        self.ran_with_children((key, peer), of, result)
    }

    /// Forwards a request whose func has run to the children.
    #[inline(always)]
    pub(super) fn ran_with_children(
        &mut self,
        (key, peer): (LinkKey, Id),
        of: &Particulars<'_>,
        result: Result<(), Box<Reason>>,
    ) -> Option<()> {
        let EventLoop { node, connections, outputs, clock, .. } = self;
        if node.is_func_timed() {
            node.time_func(clock.reading());
        }
        let send = |child: ChildRequest<'_>| connections.relay(clock.time(), &child);
        let ran = node.func_ran(CallOrigin::Parent(peer), of, result, || clock.now(), send, outputs);
        let link = connections.links.table.link_mut(key)?;
        let answered = match ran {
            FastResult::Waits => false,
            FastResult::Answered(answer) => {
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

    /// Processes a child's answer where it was read, if a call on the fast path waits for it.
    #[inline(never)]
    fn response_on_fast_path(&mut self, peer: Id, response: &ShortResponse<'_>) -> bool {
        match self.node.fast_response(|| self.clock.time(), peer, response) {
            FastResponse::General => return false,
            FastResponse::Waits => self.polling.expects_more = true,
            FastResponse::Complete(place) => {
                self.polling.expects_more = false;
                self.complete(place);
            }
        }
        true
    }

    /// Ends a call on the fast path after the answer of its last child.
    #[inline(always)]
    fn complete(&mut self, place: FastSlot) {
        let EventLoop { node, connections, outputs, clock, .. } = self;
        if let Some((parent, head, answer)) = node.fast_answer(place)
            && let Some((link, dirty, key)) = connections.links.link_up(parent)
        {
            link.outbox.short_response(&head, &answer);
            link.mark(dirty, key);
            return node.end_fast(place);
        }
        if let Some(ended) = node.finish_fast(|| clock.time(), place, outputs) {
            self.finish(ended.ticket, ended.call, Ok(ended.reply), None);
        }
        self.settle();
    }

    /// Ends a call that was started here, with this answer.
    fn answered(&mut self, ticket: u64, call: CallId, answer: Answer) {
        self.finish(ticket, call, answer.into_result().map(|reply| reply.map(RootReply::Aggregated)), None);
    }

    /// Starts a call, on the fast path if it qualifies.
    pub(super) fn start(&mut self, ticket: u64, start: Box<Start>) {
        if likely(self.short.waiting.is_empty()) && self.start_on_fast_path(ticket, &start) {
            return;
        }
        let usual = !start.watch && !start.partial && !start.follow && start.parts.is_none();
        let data = start.data.as_bytes().filter(|_| usual).map(Cow::into_owned);
        match data {
            Some(data) if self.runs_outside_loop(start.func) => {
                let came = self.clock.time();
                self.short.waiting.push_back(ShortSource::Start { came, ticket, start, data });
            }
            _ => {
                // Calls start in order.
                self.process_waiting_starts();
                self.apply(Input::Start { ticket, start });
            }
        }
    }

    fn start_on_fast_path(&mut self, ticket: u64, start: &Start) -> bool {
        let Some(data) = start.data.as_bytes() else { return false };
        let EventLoop { node, executor, clock, shared, calls, .. } = self;
        let Some(entry) = executor.inline_entry(start.func) else { return false };
        let mut room = calls.key_buffer.take().unwrap_or_default();
        let short = start.short(node.next_name(), &data, &mut room);
        let Some(request) = short.filter(|request| node.start_fast(clock.time(), request, start.watch))
        else {
            calls.key_buffer = Some(room);
            return false;
        };
        let of = &request.particulars;
        let result = match node.reply_room() {
            Some((ids, own)) if !start.watch => {
                let context = CallContext::default();
                entry.answer(&Request::short(&**shared, None, (&request.plan, of), (ids, &context)), own)
            }
            _ => Ok(()),
        };
        let origin = CallOrigin::Application { ticket, watch: start.watch };
        self.ran_at_root(origin, of, result);
        self.calls.key_buffer = Some(room);
        true
    }

    /// Sends the request of a call that starts here to the children, after its function.
    #[inline(always)]
    pub(super) fn ran_at_root(
        &mut self,
        origin: CallOrigin,
        of: &Particulars<'_>,
        result: Result<(), Box<Reason>>,
    ) {
        let EventLoop { node, connections, outputs, clock, .. } = self;
        // A root that only watches runs no function.
        let watches = matches!(origin, CallOrigin::Application { watch: true, .. });
        if node.is_func_timed() && !watches {
            node.time_func(clock.reading());
        }
        let mut children = 0;
        let relay = |child: ChildRequest<'_>| {
            children += 1;
            connections.relay(clock.time(), &child);
        };
        let ran = node.func_ran(origin, of, result, || clock.now(), relay, outputs);
        self.calls.children = children;
        if let (FastResult::Answered(answer), CallOrigin::Application { ticket, .. }) = (ran, origin) {
            self.answered(ticket, of.call, answer);
        }
        self.settle();
    }
}

/// Length of the frame at the start of `bytes`, in bytes; all bytes if it is not whole.
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
