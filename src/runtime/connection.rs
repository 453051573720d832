//! One connection: its socket, and the [`Link`] whose bytes it carries.

use std::cell::RefCell;
use std::io::{self, IoSliceMut, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use gpc_trees::Tree;
use smallvec::SmallVec;

use super::loop_metrics::LoopMetrics;
use crate::chain::Time;
use crate::hint::unlikely;
use crate::link::{Context, Event, Handover, HasLink, Link, Phase, Room};
use crate::transport::{ByteStream as _, Descriptors, Extents, SharedMemory as _, Socket};
use crate::wire::CallId;
use crate::wire::body::Extent;
use crate::wire::frame::{FrameError, WINDOW};
use crate::wire::message::{Classes, Merging};

/// Bytes read from one connection before the others get their turn.
pub(super) const READ_BUDGET: usize = 1 << 20;

/// Messages taken from one connection before the others get their turn, apart from those of the last read: some
/// milliseconds of work.
pub(super) const MESSAGES_MAX: usize = 1 << 12;

/// Bytes read or written at once that leave next to no room behind.
pub(super) const MUCH: usize = 4 << 10;

/// Bytes read behind a segment that is passing: the head of the next one, and small messages between the two. What it
/// reads of the next segment's bytes is copied.
const BEHIND: usize = 4 << 10;

/// Gather writes on one connection before the others get their turn.
const WRITE_BUDGET: usize = 16;

/// Bytes handed over by descriptor on one connection before the others get their turn: about a millisecond if they have
/// to be copied before.
const HANDED_BUDGET: usize = WINDOW as usize;

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

/// What has gone through all connections of a node.
#[derive(Default, Debug)]
pub(super) struct Traffic {
    /// Whether a link has had more to write than small frames, or still has.
    pub(super) flushed_long: bool,
    /// Whether more has gone through than leaves next to nothing behind.
    pub(super) much: bool,
    pub(super) metrics: Arc<LoopMetrics>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    pub(super) link: Link,
    /// Why nothing can be written any more. What the peer has sent before is still to be read.
    pub(super) unwritable: Option<String>,
    /// The node's turn in which something came last.
    pub(super) used: u64,
    /// Whether it is among the connections that have more to read than a turn allowed.
    pub(super) unread: bool,
    /// Whether bytes wait for the peer to take those before them.
    pub(super) blocked: bool,
    /// Of a connection through rings: whether the ring was full.
    full: bool,
    /// Of a connection that takes descriptors: whether some wait for the peer to take those before them.
    handing_waits: bool,
    /// Whether more has been written at once than leaves next to no room behind.
    pub(super) much: bool,
    /// Bytes that have been written and are not counted yet.
    pub(super) wrote: u64,
    /// Whether the system tells when the socket takes bytes again.
    pub(super) told_of_room: bool,
    /// The node's sealed memory.
    pub(super) extents: Extents,
    /// Whether its rings are among those that the node looks at by itself.
    pub(super) watched: bool,
}

impl HasLink for Connection {
    #[inline(always)]
    fn link(&self) -> &Link {
        &self.link
    }

    #[inline(always)]
    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Connection {
    pub(super) fn new(socket: Socket, phase: Phase, extents: Extents) -> Connection {
        Connection {
            socket,
            link: Link::new(phase),
            unwritable: None,
            used: 0,
            unread: false,
            blocked: false,
            full: false,
            handing_waits: false,
            much: false,
            wrote: 0,
            told_of_room: true,
            extents,
            watched: false,
        }
    }

    /// Takes the next bytes, and the descriptors that they announce.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        host: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        match self.socket.descriptors() {
            Some(descriptors) => {
                let beside = Beside { host, descriptors: RefCell::new(descriptors), extents: &self.extents };
                self.link.inbox.feed(bytes, &beside, events)
            }
            None => self.link.inbox.feed(bytes, host, events),
        }
    }

    /// Reads once: a segment that is passing goes to where it belongs, with a little behind it; everything else into
    /// the buffer. Also returns how much there was room for.
    pub(super) fn read_once(&mut self, buffer: &mut [u8]) -> (io::Result<usize>, usize) {
        match unlikely(self.link.inbox.is_passing()) {
            true => self.read_segment(buffer),
            false => (self.socket.read(buffer), buffer.len()),
        }
    }

    #[inline(never)]
    fn read_segment(&mut self, buffer: &mut [u8]) -> (io::Result<usize>, usize) {
        let Some(room) = self.link.inbox.room() else { return (self.socket.read(buffer), buffer.len()) };
        let behind = buffer.len().min(BEHIND);
        let whole = room.len() + behind;
        let mut parts = [IoSliceMut::new(room), IoSliceMut::new(&mut buffer[..behind])];
        (self.socket.read_vectored(&mut parts), whole)
    }

    /// Writes what is queued, if it is only small frames on a link that is up, over a socket that takes them all: then
    /// nothing else is to be done. Otherwise [`flush`](Self::flush) is for what is left. An error ends the connection.
    #[inline(always)]
    pub(super) fn flush_small(&mut self, traffic: &mut Traffic) -> io::Result<bool> {
        let link = &mut self.link;
        let stands = matches!(link.phase, Phase::Up(_)) & link.leaves_credit_out();
        if unlikely(
            !stands | self.blocked | self.told_of_room | link.heard | link.asks() | self.socket.is_polled(),
        ) {
            return Ok(false);
        }
        let Some(bytes) = link.outbox.only_small() else { return Ok(false) };
        match self.socket.write(bytes) {
            Ok(count) => {
                traffic.much |= count > MUCH;
                traffic.metrics.written.add(count as u64);
                Ok(link.outbox.small_written(count) && !self.socket.is_holding())
            }
            Err(error) => again(error).map(|()| false),
        }
    }

    /// The system has room for more bytes, which is a sign of life if bytes waited for it.
    pub(super) fn made_room(&mut self, now: Time) {
        if !self.socket.is_polled() {
            self.link.heard |= std::mem::take(&mut self.blocked);
        }
        // What the socket itself holds comes first. The next write finds an error.
        if self.socket.is_holding() && !matches!(self.write_held(), Ok(true)) {
            return;
        }
        self.link.question_has_left();
        self.continue_bulk(now);
    }

    /// There is room for the next long data.
    fn continue_bulk(&mut self, now: Time) {
        if let Some(segment) = self.link.continue_bulk(now) {
            self.socket.prepare_for_bulk(segment);
        }
    }

    /// Long data are about to be written.
    fn begin_bulk(&mut self, now: &impl Fn() -> Time) {
        let on_wire = !self.socket.is_polled();
        if let Some(segment) = self.link.begin_bulk(now, on_wire) {
            self.socket.prepare_for_bulk(segment);
        }
    }

    /// Nothing can be written now. Returns whether that is all for this time; false if long data need not wait, since
    /// there is room.
    fn waits(&mut self, now: &impl Fn() -> Time) -> bool {
        let held = self.link.outbox.is_held() && !self.blocked;
        if held && self.socket.has_room() {
            self.continue_bulk(now());
            return false;
        }
        self.blocked |= held;
        if !self.blocked {
            self.link.rest();
        }
        true
    }

    /// Writes what is queued, as one gather write if the socket takes it. The time is asked for if long data leave.
    pub(super) fn flush(&mut self, now: impl Fn() -> Time) -> Progress {
        if self.link.outbox.is_streaming() {
            self.begin_bulk(&now);
        }
        let mut handed = 0;
        for _ in 0..WRITE_BUDGET {
            if self.socket.is_holding() {
                match self.write_held() {
                    Ok(true) => {}
                    Ok(false) => {
                        return self.link.outbox.waits().map_or_else(Progress::Stuck, |()| Progress::Waiting);
                    }
                    Err(error) => return Progress::Closed(broken(&error)),
                }
            }
            match self.prepare(&mut handed) {
                Ok(true) => {}
                Ok(false) if self.waits(&now) => return Progress::Waiting,
                Ok(false) => continue,
                Err(error) => return Progress::Closed(broken(&error)),
            }
            self.link.acknowledge_beside();
            match self.write_once() {
                Ok(0) => return Progress::Closed("the connection takes no more bytes".into()),
                Ok(count) => {
                    self.much |= count > MUCH;
                    self.wrote += count as u64;
                    self.written(count);
                    if self.is_through() {
                        self.link.rest();
                        return Progress::Waiting;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    (self.blocked, self.full) = (true, true);
                    return self.link.outbox.waits().map_or_else(Progress::Stuck, |()| Progress::Waiting);
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

    /// The socket has taken this number of bytes.
    fn written(&mut self, count: usize) {
        self.link.written(count);
        if std::mem::take(&mut self.full) && self.socket.is_polled() {
            // A full ring of a stopped process takes nothing. A socket takes a few bytes even if nothing has left it,
            // and reports when something has.
            (self.blocked, self.link.heard) = (false, true);
        }
        if self.link.question_is_in_socket() {
            self.await_question();
        }
    }

    /// A heartbeat request may be in the socket now. The system knows, or tells later, whether it has left.
    #[cold]
    fn await_question(&mut self) {
        match self.socket.has_room() {
            true => self.link.question_has_left(),
            false => self.blocked = true,
        }
    }

    /// Prepares the next write; returns whether there is anything to write. Data that leave by descriptor have left by
    /// then; `handed` counts their bytes.
    fn prepare(&mut self, handed: &mut usize) -> io::Result<bool> {
        // No small message leaves by descriptor, and none has to wait.
        let bulk = self.link.outbox.is_streaming() || self.blocked;
        let descriptors = if bulk { self.socket.descriptors() } else { None };
        let Some(descriptors) = descriptors else { return Ok(self.link.outbox.is_ready()) };
        let before = *handed;
        let mut over = Over { descriptors, extents: &self.extents, handed, waits: false, broken: None };
        let ready = self.link.outbox.is_ready_beside(&mut over);
        let Over { descriptors, waits, broken, handed, .. } = over;
        // Small messages find room in the ring while descriptors wait. The peer has taken some only if one of these has
        // left.
        if *handed > before {
            self.link.heard |= std::mem::take(&mut self.handing_waits);
        }
        self.handing_waits |= waits;
        if let Some(error) = broken {
            return Err(error);
        }
        if !ready {
            self.blocked = waits;
            if !waits {
                descriptors.stop_waiting();
            }
        }
        Ok(ready)
    }

    /// Whether the system has all that was queued.
    pub(super) fn is_through(&self) -> bool {
        self.link.outbox.is_idle() && !self.socket.is_holding()
    }

    /// Writes what the socket itself holds; returns false if the system does not take all of it now.
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
        self.link.outbox.parts(&mut parts);
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
    descriptors: RefCell<&'a mut dyn Descriptors>,
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
        let taken = self.descriptors.borrow_mut().take(length, self.extents);
        taken.map_err(|error| FrameError::Extent(error.to_string()))
    }
}

/// The way over which long data leave by descriptor.
struct Over<'a> {
    descriptors: &'a mut dyn Descriptors,
    extents: &'a Extents,
    handed: &'a mut usize,
    /// Whether some wait for the peer to take those before them.
    waits: bool,
    /// What is wrong with the link.
    broken: Option<io::Error>,
}

impl Handover for Over<'_> {
    fn room(&mut self) -> Room {
        match self.descriptors.find_room() {
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
        let given = self.descriptors.hand_over(extent, queued);
        if given {
            *self.handed += extent.length();
        }
        given
    }
}
