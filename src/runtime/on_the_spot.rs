//! What comes in on a link: read, and carried out where it lies if it is short and usual; the rest is fed to the link's inbox, frame by frame, in the order in which it came.
//!
//! Source: docs/wire.md; what a call on the spot is, `chain::spot` says.

use std::io;

use gpc_trees::{Id, Tree};
use tracing::warn;

use super::event_loop::EventLoop;
use super::functions::Functions;
use super::link::{Context, HIWATER, Phase, Progress, READ_BUDGET};
use super::peer::LinkKey;
use super::request::Request;
use crate::chain::{self, Asker, Heard, Input, Place, Ran, RootReply, Start, Time, ToChild};
use crate::wire::frame::{FRAME_HEADER, FrameError, Kind};
use crate::wire::message::{Answer, Response};
use crate::wire::short::{ShortRequest, ShortResponse};
use crate::wire::{CallId, Message};

/// What an inbox needs to know of its node.
struct PeerContext<'a> {
    node: &'a chain::Node,
    functions: &'a Functions,
    peer: Option<Id>,
}

impl Context for PeerContext<'_> {
    fn tree(&self, id: u32) -> Option<Tree> {
        self.functions.tree_by_id(id)
    }

    fn awaits(&self, call: CallId) -> bool {
        self.peer.is_some_and(|peer| self.node.awaits(peer, call))
    }

    fn reply_max(&self) -> u64 {
        self.node.config().reply_max
    }

    fn streams(&self, func: u32) -> bool {
        self.functions.streams(func)
    }

    fn passes_on(&self, call: CallId) -> bool {
        self.peer.is_some_and(|peer| self.node.passes_on(peer, call))
    }
}

impl EventLoop {
    /// Reads what a link has; says whether it had anything. `to_end` when the system has said that the peer is through: then a short read does not mean that nothing follows.
    pub(super) fn read_link(&mut self, now: Time, key: LinkKey, to_end: bool) -> bool {
        // Taken out, so that what was read can be carried out where it lies.
        let mut buffer = std::mem::take(&mut self.links.buffer);
        let mut read = 0;
        let progress = self.read(now, key, to_end, &mut buffer, &mut read);
        self.links.buffer = buffer;
        let came = read > 0 || matches!(progress, Progress::Closed(_));
        self.links.has_read |= came;
        self.links.after_reading(key, progress);
        came
    }

    fn read(
        &mut self,
        now: Time,
        key: LinkKey,
        to_end: bool,
        buffer: &mut [u8],
        read: &mut usize,
    ) -> Progress {
        while *read < READ_BUDGET {
            let link = self.links.links.get_mut(key).filter(|link| link.phase != Phase::Closing);
            let Some(link) = link else { return Progress::Waiting };
            let (read_at_once, whole) = link.read_once(buffer);
            let count = match read_at_once {
                Ok(0) => return Progress::Closed("the peer closed the connection".into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Waiting,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return broke(&error),
            };
            *read += count;
            link.heard = true;
            let filled = link.inbox.filled(count, &mut self.links.events);
            if filled > 0 {
                self.heed(now, key);
            }
            if let Err(error) = self.take_bytes(now, key, &buffer[..count - filled]) {
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
    fn take_bytes(&mut self, now: Time, key: LinkKey, mut bytes: &[u8]) -> Result<(), FrameError> {
        // Each round takes a frame, or all there is.
        while !bytes.is_empty() {
            let Some(link) = self.links.links.get(key) else { return Ok(()) };
            let frame = match link.phase {
                Phase::Closing => return Ok(()),
                // What has come before, on whatever link, is for the chain first.
                Phase::Up(peer) if link.inbox.is_idle() && self.links.arrivals.is_empty() => {
                    if let Some(rest) = self.on_the_spot(now, key, peer, bytes) {
                        bytes = rest;
                        continue;
                    }
                    first_frame(bytes)
                }
                _ => bytes.len(),
            };
            let (frame, rest) = bytes.split_at(frame);
            self.feed(now, key, frame)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Takes bytes the long way.
    #[inline(never)]
    fn feed(&mut self, now: Time, key: LinkKey, bytes: &[u8]) -> Result<(), FrameError> {
        let EventLoop { node, functions, links, .. } = self;
        let Some(link) = links.links.get_mut(key) else { return Ok(()) };
        let peer = match link.phase {
            Phase::Up(peer) => Some(peer),
            _ => None,
        };
        let fed = link.feed(bytes, &PeerContext { node, functions, peer }, &mut links.events);
        self.heed(now, key);
        fed
    }

    /// Gives the chain what has become of what a link has taken in.
    fn heed(&mut self, now: Time, key: LinkKey) {
        self.links.heed_events(now, key);
        self.take_in(now);
    }

    /// Carries out the frame at the start of `bytes`, if it is short and usual; returns the bytes behind it.
    fn on_the_spot<'a>(&mut self, now: Time, key: LinkKey, peer: Id, bytes: &'a [u8]) -> Option<&'a [u8]> {
        const REQUEST: u8 = Kind::Request as u8;
        const RESPONSE: u8 = Kind::Response as u8;
        let done = match *bytes.get(4)? {
            REQUEST => {
                let (request, rest) = ShortRequest::parse(bytes)?;
                self.request_on_the_spot(now, key, peer, &request).map(|()| rest)
            }
            RESPONSE => {
                let (response, rest) = ShortResponse::parse(bytes)?;
                self.response_on_the_spot(now, peer, &response).then_some(rest)
            }
            _ => None,
        };
        if done.is_some()
            && let Some(link) = self.links.links.get_mut(key)
        {
            link.heard = false;
        }
        done
    }

    /// Runs a request where it was read, if it may.
    fn request_on_the_spot(
        &mut self,
        now: Time,
        key: LinkKey,
        peer: Id,
        request: &ShortRequest<'_>,
    ) -> Option<()> {
        let EventLoop { node, links, executor, outputs, .. } = self;
        if links.links.get(key)?.unacknowledged >= HIWATER {
            return None;
        }
        let entry = executor.on_the_spot(request.plan.func())?;
        if !node.spot_begins(now, peer, request) {
            return None;
        }
        let mut own = node.spot_reply();
        let of = &request.particulars;
        let view = Request::short(node.config().me, Some(peer), of, node.spot_ids()?);
        let result = entry.answer(&view, &mut own).map(|()| own);
        let ran = node.spot_ran(Asker::Parent(peer), of, result, |child| links.relay(now, &child), outputs);
        let link = links.links.get_mut(key)?;
        let answered = !matches!(ran, Ran::Waits);
        match ran {
            Ran::Waits => {}
            Ran::Answered(answer) => link.outbox.push(Message::Response(Response { call: of.call, answer })),
            Ran::Replied(own) => match node.spot_answers(of.call, &own) {
                Some((head, answer)) => {
                    link.outbox.short_response(&head, &answer);
                    node.keep_reply(own);
                }
                None => {
                    let answer = node.spot_answers_long(own);
                    link.outbox.push(Message::Response(Response { call: of.call, answer }));
                }
            },
        }
        link.unacknowledged += 1;
        if link.consume() || answered {
            link.mark(&mut links.dirty, key);
        }
        self.settle(now);
        Some(())
    }

    /// Takes a child's answer where it was read, if a call on the spot waits for it.
    fn response_on_the_spot(&mut self, now: Time, peer: Id, response: &ShortResponse<'_>) -> bool {
        match self.node.spot_heard(now, peer, response) {
            Heard::Unusual => return false,
            Heard::Waits => self.awaits_more = true,
            Heard::Complete(place) => {
                self.awaits_more = false;
                self.complete(now, place);
            }
        }
        true
    }

    /// Every child of a call on the spot has answered.
    fn complete(&mut self, now: Time, place: Place) {
        let EventLoop { node, links, outputs, .. } = self;
        if let Some((parent, head, answer)) = node.spot_complete(place)
            && let Some((link, dirty, key)) = links.link_up(parent)
        {
            link.outbox.short_response(&head, &answer);
            link.mark(dirty, key);
            return node.spot_ends(place);
        }
        if let Some(ended) = node.spot_ends_here(place, outputs) {
            self.finish(ended.ticket, ended.call, Ok(ended.reply), None);
        }
        self.settle(now);
    }

    /// A call that was started here has ended with this answer.
    fn answered(&mut self, ticket: u64, call: CallId, answer: Answer) {
        self.finish(ticket, call, answer.into_result().map(|reply| reply.map(RootReply::Aggregated)), None);
    }

    /// Starts a call, on the spot if it may.
    pub(super) fn start(&mut self, now: Time, ticket: u64, start: Box<Start>) {
        if !self.start_on_the_spot(now, ticket, &start) {
            self.apply(now, Input::Start { ticket, start });
        }
    }

    fn start_on_the_spot(&mut self, now: Time, ticket: u64, start: &Start) -> bool {
        let Some(data) = start.data.as_bytes() else { return false };
        let mut room = std::mem::take(&mut self.ids_room);
        let EventLoop { node, links, executor, outputs, .. } = self;
        let entry = executor.on_the_spot(start.func);
        let request = entry.and_then(|entry| Some((entry, node.spot_starts(now, start, &data, &mut room)?)));
        let Some((entry, request)) = request else {
            self.ids_room = room;
            return false;
        };
        let of = request.particulars;
        let mut own = node.spot_reply();
        let result = match node.spot_ids() {
            Some(ids) if !start.watch => {
                entry.answer(&Request::short(node.config().me, None, &of, ids), &mut own).map(|()| own)
            }
            _ => Ok(own),
        };
        let asker = Asker::Here { ticket, watch: start.watch };
        let mut children = 0;
        let relay = |child: ToChild<'_>| {
            children += 1;
            links.relay(now, &child);
        };
        let ran = node.spot_ran(asker, &of, result, relay, outputs);
        let call = of.call;
        (self.ids_room, self.children) = (room, children);
        match ran {
            Ran::Waits => {}
            Ran::Answered(answer) => self.answered(ticket, call, answer),
            Ran::Replied(own) => {
                let answer = self.node.spot_answers_long(own);
                self.answered(ticket, call, answer);
            }
        }
        self.settle(now);
        true
    }
}

/// Bytes of the frame at the start of `bytes`; all of them if it is not there whole.
fn first_frame(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk::<4>().map_or(usize::MAX, |length| u32::from_le_bytes(*length) as usize);
    length.saturating_add(FRAME_HEADER).min(bytes.len())
}

#[cold]
fn broke(error: &io::Error) -> Progress {
    Progress::Closed(format!("the connection broke: {error}"))
}

#[cold]
fn misbehaved(key: LinkKey, error: &FrameError) -> Progress {
    warn!(?key, %error, "a peer broke the protocol: its link is closed");
    Progress::Closed(format!("the peer broke the protocol: {error}"))
}
