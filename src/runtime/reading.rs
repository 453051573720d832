//! What comes in on the links: reads them, and turns what the peers say into inputs for the chain.
//!
//! Source: docs/wire.md; a link's first frame is a hello, whatever follows is for the chain or for the link itself.

use gpc_trees::Id;

use super::link::{Context, Event, HIWATER, Host, Phase, Progress};
use super::links::{Arrival, Links, mark};
use super::peer::LinkKey;
use crate::chain::Time;
use crate::wire::frame::WINDOW;
use crate::wire::leaf::LeafRequest;
use crate::wire::message::{Answer, Response};
use crate::wire::{CallId, Cause, Coverage, Failure, Message, Stage};

/// What reading needs to know of the node beside the links.
pub(super) trait Surroundings {
    fn me(&self) -> Id;
    fn tree(&self, id: u32) -> Option<gpc_trees::Tree>;
    fn awaits(&self, child: Id, call: CallId) -> bool;
    fn reply_max(&self) -> u64;
    fn passes_on(&self, child: Id, call: CallId) -> bool;
    /// Runs a request to this id alone on the spot, if it may: its answer.
    fn run_on_the_spot(&mut self, from: Id, request: &LeafRequest<'_>) -> Option<Answer>;
    fn streams(&self, func: u32) -> bool;
}

struct PeerContext<'a> {
    surroundings: &'a mut dyn Surroundings,
    peer: Option<Id>,
}

impl Host for PeerContext<'_> {
    fn me(&self) -> Id {
        self.surroundings.me()
    }

    fn run_on_the_spot(&mut self, request: &LeafRequest<'_>) -> Option<Answer> {
        self.surroundings.run_on_the_spot(self.peer?, request)
    }
}

impl Context for PeerContext<'_> {
    fn tree(&self, id: u32) -> Option<gpc_trees::Tree> {
        self.surroundings.tree(id)
    }

    fn awaits(&self, call: CallId) -> bool {
        self.peer.is_some_and(|peer| self.surroundings.awaits(peer, call))
    }

    fn reply_max(&self) -> u64 {
        self.surroundings.reply_max()
    }

    fn streams(&self, func: u32) -> bool {
        self.surroundings.streams(func)
    }

    fn passes_on(&self, call: CallId) -> bool {
        self.peer.is_some_and(|peer| self.surroundings.passes_on(peer, call))
    }
}

/// What the system says of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readiness {
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The peer is through, or the connection broke.
    pub(super) closed: bool,
}

impl From<&mio::event::Event> for Readiness {
    fn from(event: &mio::event::Event) -> Readiness {
        let closed = event.is_read_closed() || event.is_write_closed() || event.is_error();
        Readiness { readable: event.is_readable() || closed, writable: event.is_writable(), closed }
    }
}

impl Links {
    /// Something happened on a link's socket.
    pub(super) fn ready(
        &mut self,
        now: Time,
        key: LinkKey,
        event: Readiness,
        surroundings: &mut dyn Surroundings,
    ) {
        let Some(link) = self.links.get_mut(&key) else { return };
        if let Phase::Connecting(peer) = link.phase {
            match link.socket.take_error() {
                Ok(Some(error)) | Err(error) => return self.close(key, &error.to_string()),
                Ok(None) if !link.socket.is_connected() => return,
                Ok(None) => {}
            }
            self.greet(key, peer);
        }
        let mut room = event.writable;
        if let Some(link) = self.links.get_mut(&key)
            && let Some(socket) = link.socket.ring_mut()
        {
            socket.rung(event.closed);
            room |= socket.has_room_again();
            self.watched.watch(key, link);
        }
        if event.readable {
            self.read(now, key, event.closed, surroundings);
        }
        if room {
            mark(&mut self.dirty, key);
        }
    }

    /// Reads from the rings in which something has come, and goes on writing where room was made.
    pub(super) fn read_rings(&mut self, now: Time, surroundings: &mut dyn Surroundings) {
        // Bounded: reading a link watches no other.
        for place in 0.. {
            let Some(key) = self.watched.key(place) else { return };
            let socket = self.links.get(&key).and_then(|link| link.socket.ring());
            let Some(socket) = socket.filter(|socket| socket.has_come()) else { continue };
            if socket.has_room_again() {
                mark(&mut self.dirty, key);
            }
            self.rings_read = true;
            self.read(now, key, false, surroundings);
        }
    }

    /// Reads again from the links that had more than one turn allows.
    pub(super) fn read_rest(&mut self, now: Time, surroundings: &mut dyn Surroundings) {
        for key in std::mem::take(&mut self.unread) {
            self.read(now, key, true, surroundings);
        }
    }

    fn read(&mut self, now: Time, key: LinkKey, to_end: bool, surroundings: &mut dyn Surroundings) {
        let Some(link) = self.links.get_mut(&key) else { return };
        if link.phase == Phase::Closing {
            return;
        }
        let peer = match link.phase {
            Phase::Up(peer) => Some(peer),
            _ => None,
        };
        let mut context = PeerContext { surroundings, peer };
        let progress = link.read(&mut self.buffer, to_end, &mut context, &mut self.events);
        let heard = std::mem::take(&mut link.heard) && !link.served;
        if std::mem::take(&mut link.served) {
            mark(&mut self.dirty, key);
        }
        let mut events = std::mem::take(&mut self.events);
        let arrived = self.arrivals.len();
        for event in events.drain(..) {
            if let Err(why) = self.event(now, key, event) {
                self.close(key, &why);
                break;
            }
        }
        self.events = events;
        if heard && arrived == self.arrivals.len() {
            self.arrivals.extend(peer.map(Arrival::Heard));
        }
        match progress {
            Progress::Waiting => {
                if let Some(why) = self.links.get_mut(&key).and_then(|link| link.unwritable.take()) {
                    self.close(key, &why);
                }
            }
            Progress::More => self.unread.push(key),
            Progress::Closed(why) => self.close(key, &why),
        }
    }

    /// One event of a link; an error closes it.
    fn event(&mut self, now: Time, key: LinkKey, event: Event) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&key) else { return Ok(()) };
        match (link.phase, event) {
            (Phase::Closing, _) => Ok(()),
            (Phase::Accepted, Event::Hello(hello)) => {
                self.accepted(now, key, hello);
                Ok(())
            }
            (Phase::Greeting(peer), Event::Hello(hello)) => self.greeted(key, peer, hello),
            (Phase::Greeting(peer), Event::Goodbye(goodbye)) => self.refused(now, key, peer, goodbye),
            (Phase::Up(peer), event) => self.event_up(key, peer, event),
            (_, _) => Err("its first frame is no hello".into()),
        }
    }

    /// One event of a link that is up.
    fn event_up(&mut self, key: LinkKey, from: Id, event: Event) -> Result<(), String> {
        let Some(link) = self.links.get_mut(&key) else { return Ok(()) };
        let arrival = match event {
            Event::Request(request) => {
                link.unacknowledged += 1;
                if link.unacknowledged > HIWATER {
                    return Err(format!("it sent more than the {HIWATER} requests that it has credit for"));
                }
                if request.data.len() > WINDOW {
                    self.granting.push(key);
                }
                if request.skipped > 0 {
                    // It may bring the rest of data that a lost parent has begun to send.
                    self.stir();
                }
                Some(Arrival::Message { from, message: Message::Request(request) })
            }
            event @ (Event::Response(_)
            | Event::ReplyArrived(_)
            | Event::ReplyBegun
            | Event::Unwanted(_)
            | Event::Oversized { .. }) => self.reply_event(key, from, event),
            Event::Cancel(call) => {
                link.outbox.unwanted(call);
                Some(Arrival::Message { from, message: Message::Cancel(call) })
            }
            Event::Release(call) => Some(Arrival::Message { from, message: Message::Release(call) }),
            Event::Moved(call) => Some(Arrival::Message { from, message: Message::Moved(call) }),
            Event::Ping => Some(Arrival::Message { from, message: Message::Ping }),
            Event::Pong => Some(Arrival::Message { from, message: Message::Pong }),
            Event::DataGrew => {
                self.stir();
                None
            }
            Event::DataArrived(call) | Event::DataDue(call) => {
                self.stir();
                Some(Arrival::DataArrived(call))
            }
            Event::Abandoned => {
                link.unacknowledged += 1;
                link.consume();
                None
            }
            Event::Window(window) => {
                link.outbox.widen(&window);
                self.dirty.push(key);
                None
            }
            Event::Credit(count) => {
                link.outbox.grant(count);
                mark(&mut self.dirty, key);
                None
            }
            Event::Goodbye(goodbye) => return Err(format!("it said goodbye: {}", goodbye.text)),
            Event::Hello(_) => return Err("it sent a second hello".into()),
        };
        self.arrivals.extend(arrival);
        Ok(())
    }

    /// What a link says of responses.
    fn reply_event(&mut self, key: LinkKey, from: Id, event: Event) -> Option<Arrival> {
        let link = self.links.get_mut(&key)?;
        match event {
            Event::Response(response) => {
                if !matches!(response.answer, Answer::Arriving(_)) {
                    link.outbox.answered(response.call);
                    mark(&mut self.dirty, key);
                }
                Some(Arrival::Message { from, message: Message::Response(response) })
            }
            Event::ReplyArrived(call) => {
                link.outbox.answered(call);
                mark(&mut self.dirty, key);
                self.stir();
                Some(Arrival::ReplyArrived { from, call })
            }
            Event::ReplyBegun => {
                self.granting.push(key);
                None
            }
            Event::Unwanted(call) => {
                // It would wait for leave to go on.
                link.outbox.push(Message::Cancel(call));
                mark(&mut self.dirty, key);
                None
            }
            Event::Oversized { call, bytes } => {
                let message = format!("its reply of {bytes} bytes is over this node's limit");
                Some(Arrival::Message {
                    from,
                    message: failed(call, Cause::new(from, Stage::Reply, message)),
                })
            }
            _ => None,
        }
    }

    /// More data of some request or reply have come: links that pass them on have something to write.
    fn stir(&mut self) {
        self.stirred = true;
    }
}

/// What an id would answer if it had failed by itself.
fn failed(call: CallId, cause: Cause) -> Message {
    let failure = Failure { cause, coverage: Coverage::new() };
    Message::Response(Response { call, answer: Answer::Failed(Box::new(failure)) })
}
