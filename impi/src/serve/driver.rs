//! The loop: what the system tells, the machine, and what it wants done.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::link::{Came, Link};
use super::{LISTENER, STOPPER, ServeError, Stopper};
use crate::server::{ConnId, Event, Failure, Input, Output, Server};

/// Most bytes that are read of one connection before the others have their turn.
const READ_MAX: usize = 64 << 10;

/// Most connections that are taken before the others have their turn: few beside the 64 who may have said nothing, so that what one has sent is read before others take its place.
const ACCEPTED_MAX: usize = 16;

/// Most connections, those that are being closed among them: the machine keeps 32 clients and 64 who have not said who they are. More wait to be taken.
const LINKS_MAX: usize = 160;

/// How long nothing is accepted after that has failed: the system is short of descriptors or memory.
const SHORT: Duration = Duration::from_millis(100);

/// How long what waits to be sent may take to leave when a connection is to be closed: long enough for a network, and nobody waits for a client that does not read.
const FLUSH: Duration = Duration::from_secs(5);

/// What the system tells at a time.
const EVENTS: usize = 256;

/// First token of a connection.
const FIRST: usize = 2;

/// A session over sockets.
pub(super) struct Driver<F> {
    poll: Poll,
    /// `None` when the session is over.
    listener: Option<TcpListener>,
    accepting: Accepting,
    /// Whether it was said that none can be taken.
    warned: bool,
    server: Server,
    links: BTreeMap<ConnId, Link>,
    next: u64,
    began: Instant,
    on_event: F,
    ended: Option<Result<(), Failure>>,
}

/// What is known of those who want to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Accepting {
    /// There may be some.
    Ready,
    /// There are none until the system says so.
    Idle,
    /// There may be some, and the system does not let them in before this time.
    Short(Duration),
}

impl<F: FnMut(Duration, &Event)> Driver<F> {
    pub(super) fn new(
        poll: Poll,
        listener: TcpListener,
        server: Server,
        began: Instant,
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
            began,
            on_event,
            ended: None,
        }
    }

    /// Until the session is over, and what waited to be sent has left.
    pub(super) fn run(mut self, stopper: &Stopper) -> Result<(), ServeError> {
        let mut events = Events::with_capacity(EVENTS);
        let mut buffer = vec![0; READ_MAX];
        // Ends: with the session, and the time limit of what is to leave afterwards.
        while self.ended.is_none() || !self.links.is_empty() {
            match self.poll.poll(&mut events, self.patience()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled.map_err(ServeError::System)?,
            }
            events.iter().for_each(|event| self.told(event));
            if stopper.is_told() {
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
        self.began.elapsed()
    }

    /// How long the system may take until it tells something; `None` where nothing but that matters.
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

    /// Whether there is a place for one more.
    fn accepts(&self) -> bool {
        self.listener.is_some() && self.links.len() < LINKS_MAX
    }

    fn told(&mut self, event: &mio::event::Event) {
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
                    // Those who have gone again.
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => {
                        if !std::mem::replace(&mut self.warned, true) {
                            (self.on_event)(self.began.elapsed(), &Event::Unaccepted(error.to_string()));
                        }
                        return self.crowded();
                    }
                },
            }
        }
    }

    /// Nothing can be accepted: as soon as another connection has made room, or some time later.
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

    /// Reads once of each connection that may have something.
    fn read(&mut self, buffer: &mut [u8]) {
        let ready: Vec<ConnId> =
            self.links.iter().filter(|(_, link)| link.reads()).map(|(id, _)| *id).collect();
        for id in ready {
            // What came before may have closed it.
            let Some(link) = self.links.get_mut(&id).filter(|link| link.reads()) else { continue };
            match link.read(buffer) {
                Came::Nothing => {}
                Came::Bytes(count) => self.handle(Input::Received(id, &buffer[..count])),
                Came::Closed => self.handle(Input::Closed(id)),
                Came::End(why) => {
                    self.links.remove(&id);
                    self.handle(Input::Lost(id, &why));
                }
            }
        }
    }

    /// Writes once to each connection for which something waits.
    fn write(&mut self) {
        self.links.values_mut().filter(|link| link.writes()).for_each(Link::write);
    }

    /// Closes what is to be closed, when all has left or its time is over.
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
