//! A link: a connection between two nodes, with the two halves of its protocol.
//!
//! [`Inbox`] and [`Outbox`] know the wire and no socket; `Link` joins them to one.
//!
//! Public for drivers and tools of their own, and outside the promise of semantic versioning: any release may change it.

mod answers;
mod event;
mod handing;
mod holding;
mod inbox;
mod leave;
mod outbox;
mod pace;
mod question;
mod replies;

use std::cell::RefCell;
use std::io::{self, IoSliceMut, Read, Write};

use bytes::Bytes;
use gpc_trees::{Id, Tree};
use smallvec::SmallVec;

pub use event::{Context, Event, Refused};
pub use handing::{Handover, Room};
pub use inbox::{BODIES_MAX, Inbox};
pub(super) use outbox::UnsentRequests;
pub use outbox::{Outbox, PARTS_MAX};

use self::pace::Pace;
use self::question::Question;
use super::events::Loss;
use super::sending::send;
use super::shm::{Extents, RingSocket};
use super::socket::Socket;
use crate::chain::Time;
use crate::hint::unlikely;
use crate::peering::{LinkKey, Proof};
use crate::wire::body::Extent;
use crate::wire::frame::{FrameError, WINDOW};
use crate::wire::message::{Classes, Merging};
use crate::wire::{CallId, Message};

/// Requests that a node takes on a link without having acknowledged them: enough to keep the link busy, and a bound on what waits at a slow node.
pub const HIWATER: u32 = 256;

/// Acknowledge at least every so many requests, so that the sender hears long before it must stop.
pub const ACKMARK: u32 = 128;

/// Acknowledge so many with whatever else is written: alone it would be a write here, and a wake-up there, of an id that waits for its own children meanwhile.
const ACK_BESIDE: u32 = 64;

/// Bytes that may wait for a peer to read them while it still gets credit for requests: the replies to those that it has credit for, of a segment each, may come on top.
const BACKLOG: u64 = 4 << 20;

/// Long replies that may wait for windows of a peer that still gets credit for requests: as many as requests may be in arrival. Windows must not depend on credit, and credit does not depend on windows below it.
const REPLIES_MAX: usize = BODIES_MAX;

/// Bytes read from one link before the others get their turn.
pub(super) const READ_BUDGET: usize = 1 << 20;

/// Messages taken from one link before the others get their turn, but for those that the last read has brought: some milliseconds of work.
pub(super) const MESSAGES_MAX: usize = 1 << 12;

/// Bytes read or written at once that leave next to no room behind.
pub(super) const MUCH: usize = 4 << 10;

/// Bytes read behind a segment that is passing: the head of the next one, and small messages between the two; what it brings of the next one's bytes is copied.
const BEHIND: usize = 4 << 10;

/// Gather writes on one link before the others get their turn.
const WRITE_BUDGET: usize = 16;

/// Bytes handed over by descriptor on one link before the others get their turn: about a millisecond where they have to be copied before.
const HANDED_BUDGET: usize = WINDOW as usize;

/// How far a link has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Our attempt to reach this id is under way.
    Connecting(Id),
    /// Connected: it is with peering until both hellos are through.
    Greeting,
    /// They are.
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
    /// The peer does not read, and too much waits for it.
    Stuck(String),
}

/// One connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: Socket,
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    pub(super) phase: Phase,
    /// How its peer was proved to be a member.
    pub(super) proof: Proof,
    /// Until the last frame is out: when to give up.
    pub(super) deadline: Option<Time>,
    /// Why nothing can be written any more; what the peer has sent before is still to be read.
    pub(super) unwritable: Option<String>,
    /// How it is lost if it ends now.
    pub(super) loss: Loss,
    /// The node's turn in which something came last.
    pub(super) used: u64,
    /// Requests consumed and not acknowledged.
    consumed: u32,
    /// Requests received and not acknowledged.
    pub(super) unacknowledged: u32,
    /// Whether the system has taken anything since requests were acknowledged last, of long data or what goes with them.
    takes: bool,
    /// Whether the peer has sent a heartbeat since this was last looked at: bytes have come, or it has taken some of what had to wait for it.
    pub(super) heard: bool,
    /// Whether it is noted among those that have something to write.
    pub(super) marked: bool,
    /// Whether it is noted among those that have more to read than a turn allowed.
    pub(super) unread: bool,
    /// Whether bytes wait for the peer to take those before them.
    pub(super) blocked: bool,
    /// Of a link through rings: whether the ring was full, and whether descriptors wait for the peer to take those before them.
    full: bool,
    handing_waits: bool,
    /// When the pause ends that the peer has announced last, if it has not ended it.
    pub(super) back: Option<Time>,
    /// When more of a request that has begun must have come.
    pub(super) unfinished: Option<Time>,
    /// Whether more has been written at once than leaves next to no room behind.
    pub(super) much: bool,
    /// Whether it is noted among those that long messages leave on.
    pub(super) streams: bool,
    /// How fast it takes long data; none before the first.
    pace: Option<Box<Pace>>,
    /// Whether a heartbeat request is on its way out.
    question: Question,
    /// Whether the system tells when the socket takes bytes again.
    pub(super) told_of_room: bool,
    /// The node's sealed memory.
    pub(super) extents: Extents,
    /// Whether its rings are among those that the node looks at by itself.
    pub(super) watched: bool,
}

impl Link {
    pub(super) fn new(socket: Socket, phase: Phase, extents: Extents) -> Link {
        Link {
            socket,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            phase,
            proof: Proof::None,
            deadline: None,
            unwritable: None,
            loss: Loss::default(),
            used: 0,
            consumed: 0,
            unacknowledged: 0,
            takes: false,
            heard: false,
            marked: false,
            unread: false,
            blocked: false,
            full: false,
            handing_waits: false,
            back: None,
            unfinished: None,
            much: false,
            streams: false,
            pace: None,
            question: Question::None,
            told_of_room: true,
            extents,
            watched: false,
        }
    }

    /// Whether what comes next may be carried out where it lies: nothing long is arriving, and there is credit for a request.
    pub(super) fn is_plain(&self) -> bool {
        self.inbox.is_idle() & (self.unacknowledged < HIWATER) & !self.outbox.was_full()
    }

    /// Notes that a request was consumed; acknowledges when enough have been, and says whether it has.
    pub(super) fn consume(&mut self) -> bool {
        self.consumed += 1;
        unlikely(self.consumed >= ACKMARK) && self.acknowledge_consumed()
    }

    /// Acknowledges what has been consumed, when the peer reads what it is sent, or goes on reading: one that only sends gets no more credit.
    #[inline(never)]
    fn acknowledge_consumed(&mut self) -> bool {
        // A long reply may be more than a backlog for minutes on a slow link, which is no reason to stop small calls as long as it goes on.
        let backlog = if self.takes { self.outbox.queued() as u64 } else { self.outbox.backlog() };
        if backlog > BACKLOG || self.outbox.replies() > REPLIES_MAX {
            return false;
        }
        self.takes = false;
        self.outbox.acknowledge(self.consumed);
        self.unacknowledged = self.unacknowledged.saturating_sub(self.consumed);
        self.consumed = 0;
        true
    }

    /// Notes once that it has something to write.
    #[inline(always)]
    pub(super) fn mark(&mut self, dirty: &mut Vec<LinkKey>, key: LinkKey) {
        if !self.marked {
            self.marked = true;
            dirty.push(key);
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

    /// Takes the next bytes of the link, and the descriptors that they speak of.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        host: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        match self.socket.ring_mut() {
            Some(socket) if socket.takes_descriptors() => {
                let beside = Beside { host, socket: RefCell::new(socket), extents: &self.extents };
                self.inbox.feed(bytes, &beside, events)
            }
            _ => self.inbox.feed(bytes, host, events),
        }
    }

    /// One read: of a segment that is passing to where it belongs, with a little behind it; else into the buffer. Returns also how much there was room for.
    pub(super) fn read_once(&mut self, buffer: &mut [u8]) -> (io::Result<usize>, usize) {
        match unlikely(self.inbox.is_passing()) {
            true => self.read_segment(buffer),
            false => (self.socket.read(buffer), buffer.len()),
        }
    }

    #[inline(never)]
    fn read_segment(&mut self, buffer: &mut [u8]) -> (io::Result<usize>, usize) {
        let Some(room) = self.inbox.room() else { return (self.socket.read(buffer), buffer.len()) };
        let behind = buffer.len().min(BEHIND);
        let whole = room.len() + behind;
        let mut parts = [IoSliceMut::new(room), IoSliceMut::new(&mut buffer[..behind])];
        (self.socket.read_vectored(&mut parts), whole)
    }

    /// Writes what is queued, if that is small frames alone on a link that is up, over a socket that takes them all: then there is nothing else to see to. If not, [`flush`](Self::flush) is for what is left. An error ends the connection.
    #[inline(always)]
    pub(super) fn flush_small(&mut self, much: &mut bool) -> io::Result<bool> {
        let stands = matches!(self.phase, Phase::Up(_)) & (self.consumed < ACK_BESIDE);
        let asks = self.question != Question::None;
        if unlikely(!stands | self.blocked | self.told_of_room | self.heard | asks) {
            return Ok(false);
        }
        let Some(bytes) = self.outbox.only_small() else { return Ok(false) };
        let written = match &mut self.socket {
            Socket::Tcp(socket) => send(socket, bytes),
            Socket::Unix(socket) => send(socket, bytes),
            Socket::Sealed(socket) => socket.write(bytes),
            Socket::Ring(_) => return Ok(false),
        };
        match written {
            Ok(count) => {
                *much |= count > MUCH;
                Ok(self.outbox.small_written(count) && !self.socket.is_holding())
            }
            Err(error) => again(error).map(|()| false),
        }
    }

    /// Queues a message.
    pub(super) fn push(&mut self, message: Message) {
        if let Message::Ping = message {
            return self.ask();
        }
        self.outbox.push(message);
    }

    /// Queues a heartbeat request, unless one has still to leave.
    #[cold]
    fn ask(&mut self) {
        if self.question == Question::None {
            self.outbox.push(Message::Ping);
            self.question = Question::Queued(self.outbox.queued());
        }
    }

    /// Says once that a heartbeat request has left.
    pub(super) fn question_left(&mut self) -> bool {
        self.question.take_left()
    }

    /// The system has room for more, which is news of the peer where bytes waited for it.
    pub(super) fn has_room(&mut self, now: Time) {
        if !self.rings() {
            self.heard |= std::mem::take(&mut self.blocked);
        }
        // What the socket itself holds comes first; an error is found by the next write.
        if self.socket.is_holding() && !matches!(self.write_held(), Ok(true)) {
            return;
        }
        self.question.room();
        self.set_pace(now);
    }

    /// Whether bytes go through rings: their reader makes room, and there is no wire.
    fn rings(&self) -> bool {
        self.socket.ring().is_some_and(RingSocket::has_rings)
    }

    /// There is room for the next long data.
    fn set_pace(&mut self, now: Time) {
        if let Some(pace) = &mut self.pace {
            if pace.room(now) {
                self.socket.prepare_for_bulk(pace.segment());
            }
            self.outbox.pace(pace.segment(), pace.allowance());
        }
    }

    /// Long data are about to be written.
    fn begin_bulk(&mut self, now: &impl Fn() -> Time) {
        if self.pace.is_none() && !self.rings() {
            let pace = Pace::new();
            self.socket.prepare_for_bulk(pace.segment());
            self.pace = Some(Box::new(pace));
        }
        if let Some(pace) = &mut self.pace
            && pace.begin(now)
        {
            self.outbox.pace(pace.segment(), pace.allowance());
        }
    }

    /// Nothing can be written now: whether that is all for this time, and long data do not wait for room that there is.
    fn waits(&mut self, now: &impl Fn() -> Time) -> bool {
        let held = self.outbox.is_held() && !self.blocked;
        if held && self.socket.has_room() {
            self.set_pace(now());
            return false;
        }
        self.blocked |= held;
        if !self.blocked {
            self.rest();
        }
        true
    }

    /// There is nothing to write.
    fn rest(&mut self) {
        self.pace.iter_mut().for_each(|pace| pace.rest());
    }

    /// Writes what is queued, as one gather write if the socket takes it. The time is asked for where long data are under way.
    pub(super) fn flush(&mut self, now: impl Fn() -> Time) -> Progress {
        if self.outbox.is_streaming() {
            self.begin_bulk(&now);
        }
        let mut handed = 0;
        for _ in 0..WRITE_BUDGET {
            if self.socket.is_holding() {
                match self.write_held() {
                    Ok(true) => {}
                    Ok(false) => {
                        return self.outbox.waits().map_or_else(Progress::Stuck, |()| Progress::Waiting);
                    }
                    Err(error) => return Progress::Closed(broken(&error)),
                }
            }
            match self.is_ready(&mut handed) {
                Ok(true) => {}
                Ok(false) if self.waits(&now) => return Progress::Waiting,
                Ok(false) => continue,
                Err(error) => return Progress::Closed(broken(&error)),
            }
            if self.consumed >= ACK_BESIDE {
                self.acknowledge_consumed();
            }
            match self.write_once() {
                Ok(0) => return Progress::Closed("the connection takes no more bytes".into()),
                Ok(count) => {
                    self.much |= count > MUCH;
                    self.written(count);
                    if self.is_through() {
                        self.rest();
                        return Progress::Waiting;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    (self.blocked, self.full) = (true, true);
                    return self.outbox.waits().map_or_else(Progress::Stuck, |()| Progress::Waiting);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Progress::Closed(broken(&error)),
            }
            if handed >= HANDED_BUDGET {
                break;
            }
        }
        Progress::More
    }

    /// The socket has taken so many bytes.
    fn written(&mut self, count: usize) {
        self.outbox.written(count);
        self.takes = true;
        self.pace.iter_mut().for_each(|pace| pace.written(count));
        if std::mem::take(&mut self.full) && self.rings() {
            // Of a stopped process a full ring takes nothing. A socket takes a few bytes also where nothing has left it, and says when something has.
            (self.blocked, self.heard) = (false, true);
        }
        if self.question != Question::None {
            self.question.written(count);
            self.await_question();
        }
    }

    /// A question may be in the socket now: the system is asked, or says later, whether it has left.
    #[cold]
    fn await_question(&mut self) {
        if self.question == Question::InSocket {
            match self.socket.has_room() {
                true => self.question.room(),
                false => self.blocked = true,
            }
        }
    }

    /// Whether there is anything to write. Data that leave by descriptor have left by then; `handed` counts their bytes.
    fn is_ready(&mut self, handed: &mut usize) -> io::Result<bool> {
        // Of small messages nothing leaves so, and nothing has to wait.
        let bulk = self.outbox.is_streaming() || self.blocked;
        let socket = self.socket.ring_mut().filter(|socket| bulk && socket.takes_descriptors());
        let Some(socket) = socket else { return Ok(self.outbox.is_ready()) };
        let before = *handed;
        let mut over = Over { socket, extents: &self.extents, handed, waits: false, broken: None };
        let ready = self.outbox.is_ready_beside(&mut over);
        let Over { socket, waits, broken, handed, .. } = over;
        // Small messages find room in the ring while descriptors wait: only when one of these leaves has the peer taken some.
        if *handed > before {
            self.heard |= std::mem::take(&mut self.handing_waits);
        }
        self.handing_waits |= waits;
        if let Some(error) = broken {
            return Err(error);
        }
        if !ready {
            self.blocked = waits;
            if !waits {
                socket.stop_waiting();
            }
        }
        Ok(ready)
    }

    /// Whether all that was queued is with the system.
    pub(super) fn is_through(&self) -> bool {
        self.outbox.is_idle() && !self.socket.is_holding()
    }

    /// Writes what the socket itself holds; false when the system does not take all of it now.
    #[cold]
    fn write_held(&mut self) -> io::Result<bool> {
        match self.socket.flush() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                (self.blocked, self.full) = (true, true);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn write_once(&mut self) -> io::Result<usize> {
        let mut parts = SmallVec::new();
        self.outbox.parts(&mut parts);
        self.socket.write_vectored(&parts)
    }
}

/// Why a connection has ended, for people.
pub(super) fn broken(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => {
            "the connection broke: the peer's host has acknowledged nothing for too long".into()
        }
        _ => format!("the connection broke: {error}"),
    }
}

/// What is no more than a reason to try again.
#[cold]
fn again(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

/// A link's surroundings, and the descriptors that come beside its bytes.
struct Beside<'a> {
    host: &'a dyn Context,
    socket: RefCell<&'a mut RingSocket>,
    extents: &'a Extents,
}

impl Context for Beside<'_> {
    fn tree(&self, id: u64) -> Option<Tree> {
        self.host.tree(id)
    }

    fn awaits(&self, call: CallId) -> bool {
        self.host.awaits(call)
    }

    fn reply_max(&self) -> u64 {
        self.host.reply_max()
    }

    fn streams(&self, func: u64) -> bool {
        self.host.streams(func)
    }

    fn merging(&self, callback: u64) -> Merging {
        self.host.merging(callback)
    }

    fn classes(&self, func: u64, callback: Option<u64>) -> Classes {
        self.host.classes(func, callback)
    }

    fn passes_on(&self, call: CallId) -> bool {
        self.host.passes_on(call)
    }

    fn extent(&self, length: usize) -> Result<Extent, FrameError> {
        let taken = self.socket.borrow_mut().take_descriptor(length, self.extents);
        taken.map_err(|error| FrameError::Extent(error.to_string()))
    }
}

/// The way over which long data leave by descriptor.
struct Over<'a> {
    socket: &'a mut RingSocket,
    extents: &'a Extents,
    handed: &'a mut usize,
    /// Whether some wait for the peer to take those before them.
    waits: bool,
    /// What is wrong with the link.
    broken: Option<io::Error>,
}

impl Handover for Over<'_> {
    fn room(&mut self) -> Room {
        match self.socket.has_room_for_descriptor() {
            Ok(true) => Room::Now,
            Ok(false) => {
                self.waits = true;
                Room::Later
            }
            Err(error) => {
                self.broken = Some(error);
                Room::Later
            }
        }
    }

    fn seal(&mut self, bytes: &Bytes) -> Option<Extent> {
        self.extents.seal(bytes)
    }

    fn hand_over(&mut self, extent: &Extent, queued: usize) -> bool {
        let given = self.socket.hand_over(extent, queued);
        if given {
            *self.handed += extent.length();
        }
        given
    }
}
