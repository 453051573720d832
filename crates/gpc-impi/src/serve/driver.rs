//! The event loop: passes socket events and time to the state machine, and carries out its outputs.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use chained_gpc::Clock;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::link::{Link, ReadOutcome};
use super::{ServeError, Stopper};
use crate::server::{ConnId, Event, Failure, Input, Output, Server};

/// Most bytes that are read from a connection before the others have their turn.
const READ_MAX: usize = 64 << 10;

/// Most connections that are accepted before the others have their turn. This is few in comparison with the 64 that may
/// be silent, so that bytes of one are read before others take its place.
const ACCEPTED_MAX: usize = 16;

/// Most connections, including those that are closing. The state machine keeps 32 clients and 64 connections without a
/// rank; further ones wait to be accepted.
const LINKS_MAX: usize = 160;

/// Pause after a failed accept, when the system is short of descriptors or memory.
const SHORT: Duration = Duration::from_millis(100);

/// Time for outgoing bytes to leave when a connection closes: long enough for a network, and bounded for a client that
/// does not read.
const FLUSH: Duration = Duration::from_secs(5);

/// Most events taken from the system at a time.
const EVENTS: usize = 256;

/// Token of the listening socket.
pub(super) const LISTENER: Token = Token(0);

/// Token of the waker that stops the server.
pub(super) const STOPPER: Token = Token(1);

/// First token of a connection.
const FIRST: usize = 2;

/// A session over sockets.
pub(super) struct Driver<F> {
    poll: Poll,
    /// `None` once the session is over.
    listener: Option<TcpListener>,
    accepting: Accepting,
    /// Whether the event for a failed accept was emitted.
    warned: bool,
    server: Server,
    links: BTreeMap<ConnId, Link>,
    next: u64,
    /// Shows the time since the begin of the session.
    clock: Clock,
    on_event: F,
    ended: Option<Result<(), Failure>>,
}

/// State of the listening socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Accepting {
    /// Connections may be waiting.
    Ready,
    /// No connections are waiting; the next event changes that.
    Idle,
    /// Connections may be waiting, but accepting failed; retry at this time.
    Short(Duration),
}

impl<F: FnMut(Duration, &Event)> Driver<F> {
    pub(super) fn new(
        poll: Poll,
        listener: TcpListener,
        server: Server,
        clock: Clock,
        on_event: F,
    ) -> Driver<F> {
        Driver {
            poll,
            listener: Some(listener),
            accepting: Accepting::Ready,
            warned: false,
            server,
            links: BTreeMap::new(),
            next: 0,
            clock,
            on_event,
            ended: None,
        }
    }

    /// Runs until the session is over, and the outgoing bytes have left.
    pub(super) fn run(mut self, stopper: &Stopper) -> Result<(), ServeError> {
        let mut events = Events::with_capacity(EVENTS);
        let mut buffer = vec![0; READ_MAX];
        // Ends: with the session, and the time limit for the bytes that are still to leave.
        while self.ended.is_none() || !self.links.is_empty() {
            match self.poll.poll(&mut events, self.patience()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled.map_err(ServeError::System)?,
            }
            events.iter().for_each(|event| self.handle_event(event));
            if stopper.is_stopped() {
                break;
            }
            self.accept();
            self.read(&mut buffer);
            self.handle(Input::Tick);
            self.write();
            self.close();
        }
        match self.ended {
            Some(ended) => Ok(ended?),
            None => Err(ServeError::Stopped(self.server.waits())),
        }
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Time to wait for events; `None` if only an event matters.
    fn patience(&self) -> Option<Duration> {
        let busy = self.links.values().any(|link| link.reads() || link.writes());
        if busy || self.accepts() && self.accepting == Accepting::Ready {
            return Some(Duration::ZERO);
        }
        let short = match self.accepting {
            Accepting::Short(until) if self.accepts() => Some(until),
            _ => None,
        };
        let closing = self.links.values().filter_map(|link| link.closing);
        let session = self.ended.is_none().then(|| self.server.deadline()).flatten();
        let first = closing.chain(session).chain(short).min();
        first.map(|first| first.saturating_sub(self.now()))
    }

    /// Whether one more connection may be accepted.
    fn accepts(&self) -> bool {
        self.listener.is_some() && self.links.len() < LINKS_MAX
    }

    fn handle_event(&mut self, event: &mio::event::Event) {
        match event.token() {
            LISTENER if self.accepting == Accepting::Idle => self.accepting = Accepting::Ready,
            LISTENER | STOPPER => {}
            Token(token) => {
                let id = ConnId((token - FIRST) as u64);
                if let Some(link) = self.links.get_mut(&id) {
                    let over = event.is_error() || event.is_read_closed() || event.is_write_closed();
                    link.woken(event.is_readable() || over, event.is_writable() || over);
                }
            }
        }
    }

    fn accept(&mut self) {
        if let Accepting::Short(until) = self.accepting
            && self.now() >= until
        {
            self.accepting = Accepting::Ready;
        }
        for _ in 0..ACCEPTED_MAX {
            if self.accepting != Accepting::Ready || !self.accepts() {
                return;
            }
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, from)) => self.connected(stream, from),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => (self.accepting, self.warned) = (Accepting::Idle, false),
                    // The peer has closed the connection already.
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => {
                        if !std::mem::replace(&mut self.warned, true) {
                            (self.on_event)(self.clock.now(), &Event::Unaccepted(error.to_string()));
                        }
                        return self.crowded();
                    }
                },
            }
        }
    }

    /// Accepting has failed: retry as soon as another connection has made room, or after a pause.
    fn crowded(&mut self) {
        let open = |driver: &Driver<F>| driver.links.values().filter(|link| link.closing.is_none()).count();
        let before = open(self);
        self.handle(Input::Crowded);
        if open(self) == before {
            self.accepting = Accepting::Short(self.now() + SHORT);
        }
    }

    fn connected(&mut self, stream: TcpStream, from: SocketAddr) {
        let (id, mut link) = (ConnId(self.next), Link::new(stream));
        self.next += 1;
        let token = Token(id.0 as usize + FIRST);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(link.stream(), token, interest) {
            let now = self.now();
            return (self.on_event)(now, &Event::Unaccepted(format!("{from} is closed: {error}")));
        }
        self.links.insert(id, link);
        self.handle(Input::Connected(id, &from.to_string()));
    }

    /// Reads once from each connection that may have bytes.
    fn read(&mut self, buffer: &mut [u8]) {
        let ready: Vec<ConnId> =
            self.links.iter().filter(|(_, link)| link.reads()).map(|(id, _)| *id).collect();
        for id in ready {
            // Input from another connection may have closed this one.
            let Some(link) = self.links.get_mut(&id).filter(|link| link.reads()) else { continue };
            match link.read(buffer) {
                ReadOutcome::Nothing => {}
                ReadOutcome::Bytes(count) => self.handle(Input::Received(id, &buffer[..count])),
                ReadOutcome::Closed => self.handle(Input::Closed(id)),
                ReadOutcome::End(why) => {
                    self.links.remove(&id);
                    self.handle(Input::Lost(id, &why));
                }
            }
        }
    }

    /// Writes once to each connection with outgoing bytes.
    fn write(&mut self) {
        self.links.values_mut().filter(|link| link.writes()).for_each(Link::write);
    }

    /// Removes closing connections whose bytes have left or whose time limit has passed.
    fn close(&mut self) {
        let now = self.now();
        let stays = |link: &Link| link.closing.is_none_or(|until| !link.is_flushed() && now < until);
        self.links.retain(|_, link| stays(link));
    }

    fn handle(&mut self, input: Input<'_>) {
        let now = self.now();
        self.server.handle(now, input);
        while let Some(output) = self.server.next_output() {
            match output {
                Output::Send(id, bytes) => {
                    if let Some(link) = self.links.get_mut(&id) {
                        link.send(bytes);
                    }
                }
                Output::Close(id) => {
                    if let Some(link) = self.links.get_mut(&id) {
                        link.closing = Some(now + FLUSH);
                    }
                }
                Output::Event(event) => (self.on_event)(now, &event),
                Output::Ended(ended) => {
                    self.ended = Some(ended);
                    self.listener = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
