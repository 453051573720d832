//! A link: a connection between two nodes, with the two halves of its protocol.
//!
//! [`Inbox`] and [`Outbox`] know the wire and no socket; `Link` joins them to one.

mod inbox;
mod leave;
mod outbox;
mod replies;

use std::io::{self, IoSliceMut, Read, Write};

use gpc_trees::Id;
use smallvec::SmallVec;
use tracing::warn;

pub use inbox::{BODIES_MAX, Context, Event, Inbox};
pub use outbox::{Outbox, PARTS_MAX};

use super::socket::Socket;
use crate::chain::Time;
use crate::wire::Message;
use crate::wire::frame::FrameError;
use crate::wire::leaf::LeafRequest;
use crate::wire::message::{Answer, Response};

/// Requests that a node takes on a link without having acknowledged them: enough to keep the link busy, and a bound on what waits at a slow node.
pub const HIWATER: u32 = 256;

/// Acknowledge at least every so many requests, so that the sender hears long before it must stop.
pub const ACKMARK: u32 = 64;

/// Bytes that may wait for a peer to read them while it still gets credit for requests: the replies to those that it has credit for, of a segment each, may come on top.
const BACKLOG: u64 = 4 << 20;

/// Long replies that may wait for windows of a peer that still gets credit for requests: as many as requests may be in arrival. Windows must not depend on credit, and credit does not depend on windows below it.
const REPLIES_MAX: usize = BODIES_MAX;

/// Bytes read from one link before the others get their turn.
const READ_BUDGET: usize = 1 << 20;

/// Bytes read behind a segment that is passing: the head of the next one, and small messages between the two; what it brings of the next one's bytes is copied.
const BEHIND: usize = 4 << 10;

/// Gather writes on one link before the others get their turn.
const WRITE_BUDGET: usize = 16;

/// What a link asks of its node.
pub(super) trait Host: Context {
    /// The node's id.
    fn me(&self) -> Id;
    /// Runs a request to the node alone on the spot, if it may: its answer.
    fn run_on_the_spot(&mut self, request: &LeafRequest<'_>) -> Option<Answer>;
}

/// How far a link has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Our attempt to reach this id is under way.
    Connecting(Id),
    /// Connected to this id, our hello is sent; its is awaited.
    Greeting(Id),
    /// Someone has connected; their hello is awaited.
    Accepted,
    /// Both hellos are through.
    Up(Id),
    /// The last frame is queued; closes when it is written.
    Closing,
}

/// What became of reading or writing.
#[derive(Debug)]
pub(super) enum Progress {
    /// All that can be done now is done.
    Waiting,
    /// There is more, but it is the others' turn.
    More,
    /// The connection has ended.
    Closed(String),
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: Socket,
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    pub(super) phase: Phase,
    /// Until both hellos are through, or the last frame is out: when to give up.
    pub(super) deadline: Option<Time>,
    /// Why nothing can be written any more; what the peer has sent before is still to be read.
    pub(super) unwritable: Option<String>,
    /// Requests consumed and not acknowledged.
    consumed: u32,
    /// Requests received and not acknowledged.
    pub(super) unacknowledged: u32,
    /// Whether the peer has given a sign of life since this was last looked at: bytes have come, or it has taken some of what had to wait for it.
    pub(super) heard: bool,
    /// Whether a request has run on the spot since this was last looked at: its answer is to be written.
    pub(super) served: bool,
    /// Whether bytes wait for the peer to take those before them.
    pub(super) blocked: bool,
    /// Whether it has had long data to send.
    bulk: bool,
    /// Whether the system tells when the socket takes bytes again.
    pub(super) told_of_room: bool,
    /// Whether its rings are among those that the node looks at by itself.
    pub(super) watched: bool,
}

impl Link {
    pub(super) fn new(socket: Socket, phase: Phase, deadline: Time) -> Link {
        Link {
            socket,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            phase,
            deadline: Some(deadline),
            unwritable: None,
            consumed: 0,
            unacknowledged: 0,
            heard: false,
            served: false,
            blocked: false,
            bulk: false,
            told_of_room: true,
            watched: false,
        }
    }

    /// Notes that a request was consumed; acknowledges when enough have been.
    pub(super) fn consume(&mut self) {
        self.consumed += 1;
        self.acknowledge();
    }

    /// Acknowledges what has been consumed, when it is enough, and when the peer reads what it is sent: one that only sends gets no more credit.
    fn acknowledge(&mut self) {
        if self.consumed >= ACKMARK
            && self.outbox.backlog() <= BACKLOG
            && self.outbox.replies() <= REPLIES_MAX
        {
            self.outbox.acknowledge(self.consumed);
            self.unacknowledged = self.unacknowledged.saturating_sub(self.consumed);
            self.consumed = 0;
        }
    }

    /// Tells the peer how far the data of its requests may come; says whether there is any news.
    pub(super) fn grant_windows(&mut self) -> bool {
        let mut news = false;
        self.inbox.windows(|window| {
            news = true;
            self.outbox.window(&window);
        });
        news
    }

    /// Reads what is there and appends what it completes. `to_end` when the system has said that the peer is through: then a short read does not
    /// mean that nothing follows.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        to_end: bool,
        host: &mut dyn Host,
        events: &mut Vec<Event>,
    ) -> Progress {
        let mut read = 0;
        while read < READ_BUDGET {
            let (read_at_once, whole) = self.read_once(buffer);
            let count = match read_at_once {
                Ok(0) => return Progress::Closed("the peer closed the connection".into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Waiting,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Progress::Closed(format!("the connection broke: {error}")),
            };
            read += count;
            self.heard = true;
            let behind = count - self.inbox.filled(count, events);
            if let Err(error) = self.take_in(&buffer[..behind], host, events) {
                warn!(phase = ?self.phase, %error, "a peer broke the protocol: its link is closed");
                return Progress::Closed(format!("the peer broke the protocol: {error}"));
            }
            // A stream gives all it has: what comes later is a new event.
            if count < whole && !to_end {
                return Progress::Waiting;
            }
        }
        Progress::More
    }

    /// Takes the next bytes of the link: runs what can run where it lies, and appends what the others complete.
    fn take_in(
        &mut self,
        mut bytes: &[u8],
        host: &mut dyn Host,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        // Each round takes a frame.
        while let Some((request, rest)) = self.leaf_request(bytes, host) {
            let Some(answer) = host.run_on_the_spot(&request) else {
                let (frame, rest) = bytes.split_at(bytes.len() - rest.len());
                self.inbox.feed(frame, host, events)?;
                bytes = rest;
                continue;
            };
            let call = request.head.call;
            self.outbox.push(Message::Response(Response { call, answer }));
            self.unacknowledged += 1;
            self.consume();
            self.served = true;
            bytes = rest;
        }
        self.inbox.feed(bytes, host, events)
    }

    /// The request to this id alone that is next, where nothing else is under way and the peer has credit for it.
    fn leaf_request<'a>(&self, bytes: &'a [u8], host: &dyn Host) -> Option<(LeafRequest<'a>, &'a [u8])> {
        let may = matches!(self.phase, Phase::Up(_)) && self.inbox.is_idle() && self.unacknowledged < HIWATER;
        if may { LeafRequest::parse(bytes, host.me()) } else { None }
    }

    /// One read: of a segment that is passing to where it belongs, with a little behind it; else into the buffer. Returns also how much there was room for.
    fn read_once(&mut self, buffer: &mut [u8]) -> (io::Result<usize>, usize) {
        let Some(room) = self.inbox.room() else { return (self.socket.read(buffer), buffer.len()) };
        let behind = buffer.len().min(BEHIND);
        let whole = room.len() + behind;
        let mut parts = [IoSliceMut::new(room), IoSliceMut::new(&mut buffer[..behind])];
        (self.socket.read_vectored(&mut parts), whole)
    }

    /// Writes what is queued, as one gather write if the socket takes it.
    pub(super) fn flush(&mut self) -> Progress {
        if !self.bulk && self.outbox.is_streaming() {
            self.bulk = true;
            self.socket.prepare_for_bulk();
        }
        for _ in 0..WRITE_BUDGET {
            if !self.outbox.is_ready() {
                return Progress::Waiting;
            }
            self.acknowledge();
            match self.write_once() {
                Ok(0) => return Progress::Closed("the connection takes no more bytes".into()),
                Ok(count) => {
                    // Of a stopped process the system takes no more than its buffers hold.
                    self.heard |= std::mem::take(&mut self.blocked);
                    self.outbox.written(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Progress::Waiting;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Progress::Closed(format!("the connection broke: {error}")),
            }
        }
        Progress::More
    }

    fn write_once(&mut self) -> io::Result<usize> {
        let mut parts = SmallVec::new();
        self.outbox.parts(&mut parts);
        self.socket.write_vectored(&parts)
    }
}
