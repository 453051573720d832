//! Reads the links: converts the messages of peers into inputs of the chain.
//!
//! Source: docs/wire.md; a link's first frame is a hello, and the others are for the chain or for the link itself.

use gpc_trees::Id;

use super::clock::Clock;
use super::connection::Progress;
use super::functions::Functions;
use super::links::{Arrival, Links};
use super::readiness::Readiness;
use crate::chain::{Input, Time};
use crate::hint::{cold_path, unlikely};
use crate::link::peering::LinkKey;
use crate::link::{Event, HIWATER, Link, Loss, Phase};
use crate::wire::frame::WINDOW;
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::message::{Answer, Response};
use crate::wire::{CallId, Cause, CauseKind, Coverage, Failure, Message, Stage};

impl Links {
    /// Handles an event of a connecting link; returns whether it is connected.
    #[cold]
    fn connected(&mut self, now: Time, key: LinkKey) -> bool {
        let Some(connection) = self.links.get_mut(key) else { return false };
        match connection.socket.take_error() {
            Ok(Some(error)) | Err(error) => {
                self.close(now, key, &error.to_string());
                return false;
            }
            Ok(None) if !connection.socket.is_connected() => return false,
            Ok(None) => {}
        }
        self.greet(now, key);
        true
    }

    /// Handles an event of a link's socket; returns whether there is something to read.
    pub(super) fn ready(&mut self, clock: &Clock, key: LinkKey, event: Readiness) -> bool {
        let Some(link) = self.links.link_mut(key) else { return false };
        if let Phase::Connecting(_) = link.phase
            && !self.connected(clock.time(), key)
        {
            return false;
        }
        let mut room = event.writable;
        if let Some(connection) = self.links.get_mut(key)
            && let Some(socket) = connection.socket.ring_mut()
        {
            cold_path();
            socket.rung(event.closed);
            room |= socket.has_room_again();
            self.watched.watch(key, connection);
        }
        if unlikely(room) {
            self.note_room(clock, key);
        }
        event.readable
    }

    /// Records that a link's socket has room for more bytes.
    #[inline(never)]
    fn note_room(&mut self, clock: &Clock, key: LinkKey) {
        if let Some(connection) = self.links.get_mut(key) {
            connection.has_room(clock.time());
        }
        self.note(key);
    }

    /// Checks the ring at an index of the polled rings: returns the link, and whether bytes have arrived; `None` after
    /// the last.
    pub(super) fn look_at_ring(&mut self, place: usize) -> Option<(LinkKey, bool)> {
        let key = self.watched.key(place)?;
        let socket = self.links.get(key).and_then(|connection| connection.socket.ring());
        let Some(socket) = socket.filter(|socket| socket.has_come()) else { return Some((key, false)) };
        if socket.has_room_again() {
            self.note(key);
        }
        Some((key, true))
    }

    /// Converts the events of a link into inputs of the chain.
    pub(super) fn heed_events(&mut self, now: Time, functions: &Functions, key: LinkKey) {
        let mut events = std::mem::take(&mut self.events);
        let arrived = self.arrivals.len();
        for event in events.drain(..) {
            if let Err(why) = self.event(now, functions, key, event) {
                self.close(now, key, &why);
                break;
            }
        }
        self.events = events;
        if arrived != self.arrivals.len()
            && let Some(link) = self.links.link_mut(key)
        {
            link.heard = false;
        }
    }

    /// Handles the progress of a read.
    pub(super) fn after_reading(&mut self, now: Time, key: LinkKey, progress: Progress) {
        let connection = self.links.get(key);
        let quiet = connection.is_none_or(|one| !one.link.heard && one.unwritable.is_none());
        if unlikely(!quiet || !matches!(progress, Progress::Waiting)) {
            self.note_reading(now, key, progress);
        }
    }

    /// The same, if the read had effects beyond calls on the fast path.
    #[inline(never)]
    fn note_reading(&mut self, now: Time, key: LinkKey, progress: Progress) {
        if let Some(link) = self.links.link_mut(key)
            && let Phase::Up(peer) = link.phase
            && std::mem::take(&mut link.heard)
        {
            self.arrivals.push_back(Arrival::Input(Input::Heard(peer)));
        }
        match progress {
            Progress::Waiting => {
                if let Some(why) = self.links.get_mut(key).and_then(|connection| connection.unwritable.take())
                {
                    self.close(now, key, &why);
                }
            }
            Progress::More => self.read_later(key),
            Progress::Closed(why) | Progress::Stuck(why) => self.close(now, key, &why),
        }
    }

    /// Handles one event of a link; an error closes the link.
    fn event(&mut self, now: Time, functions: &Functions, key: LinkKey, event: Event) -> Result<(), String> {
        let Some(link) = self.links.link_mut(key) else { return Ok(()) };
        match (link.phase, event) {
            (Phase::Closing, _) => Ok(()),
            (Phase::Up(peer), event) => {
                if let Event::Request(request) = &event {
                    if unlikely(link.unfinished.is_some()) {
                        self.rest_has_come(key);
                    }
                    if self.forbids(functions, key, peer, request)? || self.refuses(key, request) {
                        return Ok(());
                    }
                }
                self.event_up(now, key, peer, event)
            }
            // Earlier bytes are handled by peering.
            (Phase::Connecting(_) | Phase::Greeting, _) => Err("its first frame is no hello".into()),
        }
    }

    /// Handles one event of a link that is up.
    fn event_up(&mut self, now: Time, key: LinkKey, from: Id, event: Event) -> Result<(), String> {
        let Some(link) = self.links.link_mut(key) else { return Ok(()) };
        let input = match event {
            Event::Request(request) => {
                link.unacknowledged += 1;
                if link.unacknowledged > HIWATER {
                    return Err(too_many());
                }
                if request.data.len() > WINDOW {
                    self.granting.push(key);
                }
                if request.skipped > 0 {
                    // It may complete data that a lost parent has begun to send.
                    self.stir();
                }
                Some(Input::Message { from, message: Message::Request(request) })
            }
            event @ (Event::Response(_)
            | Event::ReplyArrived(_)
            | Event::ReplyBegun
            | Event::Unwanted(_)
            | Event::ReplyRefused { .. }
            | Event::Oversized { .. }) => self.reply_event(key, from, event),
            Event::Cancel(call) => {
                link.outbox.unwanted(call);
                Some(Input::Message { from, message: Message::Cancel(call) })
            }
            Event::Release(call) => Some(Input::Message { from, message: Message::Release(call) }),
            Event::Moved(call) => Some(Input::Message { from, message: Message::Moved(call) }),
            event @ (Event::Ping | Event::Pong | Event::Pause(_)) => {
                self.heartbeat_event(now, key, from, event)
            }
            Event::DataGrew => {
                self.stir();
                None
            }
            Event::DataArrived(call) | Event::DataDue(call) => {
                self.stir();
                Some(Input::DataArrived(call))
            }
            event @ (Event::Begun { .. } | Event::Abandoned | Event::Refused(_)) => {
                self.unfinished_event(now, key, event)?;
                None
            }
            Event::DataRefused { call, why } => Some(Input::DataRefused { call, why }),
            Event::Window(window) => {
                link.outbox.widen(&window);
                link.mark(&mut self.dirty, key);
                None
            }
            Event::Credit(count) => {
                link.outbox.grant(count);
                link.mark(&mut self.dirty, key);
                None
            }
            Event::Goodbye(goodbye) => return Err(part(link, &goodbye)),
            Event::Hello(_) => return Err("it sent a second hello".into()),
        };
        self.arrivals.extend(input.map(Arrival::Input));
        Ok(())
    }

    /// Handles an event of a heartbeat or a pause.
    fn heartbeat_event(&mut self, now: Time, key: LinkKey, from: Id, event: Event) -> Option<Input> {
        let message = match event {
            Event::Ping => Message::Ping,
            Event::Pong => {
                if unlikely(self.peering.has_waiting_runs()) {
                    self.confirm_old_run(now, key, from);
                }
                Message::Pong
            }
            Event::Pause(length) => {
                self.peer_pauses(now, key, length);
                Message::Pause(length)
            }
            _ => return None,
        };
        Some(Input::Message { from, message })
    }

    /// Handles an event of a response.
    fn reply_event(&mut self, key: LinkKey, from: Id, event: Event) -> Option<Input> {
        let link = self.links.link_mut(key)?;
        match event {
            Event::Response(response) => {
                if !matches!(response.answer, Answer::Arriving(_)) {
                    link.outbox.answered(response.call);
                    link.mark(&mut self.dirty, key);
                }
                Some(Input::Message { from, message: Message::Response(response) })
            }
            Event::ReplyArrived(call) => {
                link.outbox.answered(call);
                link.mark(&mut self.dirty, key);
                self.stir();
                Some(Input::ReplyArrived { from, call })
            }
            Event::ReplyBegun => {
                self.granting.push(key);
                None
            }
            Event::Unwanted(call) => {
                // Otherwise the peer's reply would wait for its send window.
                link.outbox.push(Message::Cancel(call));
                link.mark(&mut self.dirty, key);
                None
            }
            Event::ReplyRefused { call, why } => Some(Input::ReplyRefused { from, call, why }),
            Event::Oversized { call, bytes } => {
                let message = format!("its reply of {bytes} bytes is over this node's limit");
                let cause = Cause::new(from, Stage::Reply, CauseKind::OverLimit, message);
                Some(Input::Message { from, message: failed(call, cause) })
            }
            _ => None,
        }
    }

    /// Records that more data of a request or reply have arrived: links that forward them have bytes to write.
    fn stir(&mut self) {
        self.stirred = true;
    }
}

/// The peer ends the link: returns why it is lost.
fn part(link: &mut Link, goodbye: &Goodbye) -> String {
    link.loss = loss_of(goodbye.reason);
    format!("it said goodbye: {}", goodbye.text)
}

/// How a link is lost whose peer sends a goodbye.
fn loss_of(reason: GoodbyeReason) -> Loss {
    match reason {
        GoodbyeReason::Shutdown => Loss::Left,
        GoodbyeReason::Duplicate => Loss::Replaced,
        GoodbyeReason::LinkClosed => Loss::Closed,
        // These are for hellos: the peer violates the protocol.
        GoodbyeReason::Refused | GoodbyeReason::OtherJob => Loss::Broken,
    }
}

/// The error of a peer that exceeds its credit.
pub(super) fn too_many() -> String {
    format!("it sent more than the {HIWATER} requests that it has credit for")
}

/// The response that an id would send if it had failed by itself.
fn failed(call: CallId, cause: Cause) -> Message {
    let failure = Failure { cause, coverage: Coverage::new() };
    Message::Response(Response { call, answer: Answer::Failed(Box::new(failure)) })
}
