//! One connection: its socket, and the [`Link`] whose bytes it carries.

use std::cell::RefCell;
use std::io::{self, IoSliceMut, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use gpc_trees::Tree;
use smallvec::SmallVec;

use super::loop_metrics::LoopMetrics;
use crate::branch_hint::unlikely;
use crate::chain::Time;
use crate::link::{Context, DescriptorRoom, DescriptorSender, Event, HasLink, Link, Phase};
use crate::transport::{ByteStream as _, Descriptors, Extents, SharedMemory as _, Socket};
use crate::wire::CallId;
use crate::wire::body::Extent;
use crate::wire::frame::{FrameError, WINDOW};
use crate::wire::message::{Classes, Merging};

/// Maximum number of bytes read from one connection before others are served.
pub(super) const READ_BUDGET: usize = 1 << 20;

/// Maximum number of messages taken from one connection before others are served, without those of the last read: some
/// milliseconds of work.
pub(super) const MESSAGES_MAX: usize = 1 << 12;

/// Size of a read or write from which on buffers grow that an idle node should release.
pub(super) const LARGE_IO: usize = 4 << 10;

/// Bytes read behind a segment of long data: the head of the next one, and small messages between them. Bytes of the
/// next segment that this includes are copied.
const READ_AHEAD: usize = 4 << 10;

/// Maximum number of gather writes on one connection before others are served.
const WRITE_BUDGET: usize = 16;

/// Maximum number of bytes passed by descriptor on one connection before others are served: about a millisecond if they
/// must be copied first.
const DESCRIPTOR_BUDGET: usize = WINDOW as usize;

/// Result of reading from or writing to a connection.
#[derive(Debug)]
pub(super) enum Progress {
    /// No more bytes can be read or written now.
    Waiting,
    /// There is more, but other connections are served first.
    More,
    /// The connection has ended.
    Closed(String),
    /// The peer does not read, and too many bytes wait for it.
    Stuck(String),
}

/// Traffic of all connections of a node.
#[derive(Default, Debug)]
pub(super) struct Traffic {
    /// Whether a link had more than small frames to write since the last flush, or sealed data are still retained.
    pub(super) has_flushed_long: bool,
    /// Whether buffers have grown that an idle node should release.
    pub(super) has_grown_buffers: bool,
    pub(super) metrics: Arc<LoopMetrics>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Socket,
    pub(super) link: Link,
    /// Why writing has failed. Bytes that the peer sent before are still read.
    pub(super) unwritable: Option<String>,
    /// The turn of the last received bytes.
    pub(super) used: u64,
    /// Whether it is queued because it has more bytes than one turn reads.
    pub(super) unread: bool,
    /// Whether queued bytes wait until the peer reads.
    pub(super) blocked: bool,
    /// Whether the ring was full, if the connection uses rings.
    full: bool,
    /// Whether descriptors wait until the peer takes earlier ones.
    is_passing_blocked: bool,
    /// Whether a write was so large that buffers have grown.
    pub(super) has_grown_buffers: bool,
    /// Written bytes that the metrics do not include yet.
    pub(super) uncounted_bytes: u64,
    /// Whether epoll reports when the socket is writable.
    pub(super) is_writable_watched: bool,
    /// The node's sealed memory.
    pub(super) extents: Extents,
    /// Whether the node polls its rings.
    pub(super) is_ring_polled: bool,
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
            is_passing_blocked: false,
            has_grown_buffers: false,
            uncounted_bytes: 0,
            is_writable_watched: true,
            extents,
            is_ring_polled: false,
        }
    }

    /// Decodes received bytes, and takes the descriptors that they announce.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        host: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        match self.socket.descriptors() {
            Some(descriptors) => {
                let beside = ContextWithDescriptors {
                    host,
                    descriptors: RefCell::new(descriptors),
                    extents: &self.extents,
                };
                self.link.inbox.feed(bytes, &beside, events)
            }
            None => self.link.inbox.feed(bytes, host, events),
        }
    }

    /// Reads once: the bytes of an open segment into their body, all others into the buffer. Also returns the number of
    /// bytes that there was memory for.
    pub(super) fn read_once(&mut self, buffer: &mut [u8]) -> (io::Result<usize>, usize) {
        match unlikely(self.link.inbox.is_in_segment()) {
            true => self.read_segment(buffer),
            false => (self.socket.read(buffer), buffer.len()),
        }
    }

    #[inline(never)]
    fn read_segment(&mut self, buffer: &mut [u8]) -> (io::Result<usize>, usize) {
        let Some(room) = self.link.inbox.read_buffer() else {
            return (self.socket.read(buffer), buffer.len());
        };
        let behind = buffer.len().min(READ_AHEAD);
        let whole = room.len() + behind;
        let mut parts = [IoSliceMut::new(room), IoSliceMut::new(&mut buffer[..behind])];
        (self.socket.read_vectored(&mut parts), whole)
    }

    /// Fast path of a write: only small frames are queued, the link is up, and the socket or a polled ring takes all
    /// bytes. Returns whether that is done; otherwise [`flush`](Self::flush) writes the rest. An error ends the
    /// connection.
    #[inline(always)]
    pub(super) fn flush_small(&mut self, traffic: &mut Traffic) -> io::Result<bool> {
        let link = &mut self.link;
        let is_up = matches!(link.phase, Phase::Up(_)) & link.defers_credit();
        if unlikely(
            !is_up
                | self.blocked
                | self.full
                | self.is_writable_watched
                | link.has_heartbeat
                | link.is_pinging()
                | (self.socket.is_polled() & !self.is_ring_polled),
        ) {
            return Ok(false);
        }
        let Some(bytes) = link.outbox.small_bytes() else { return Ok(false) };
        match self.socket.write(bytes) {
            Ok(count) => {
                traffic.has_grown_buffers |= count > LARGE_IO;
                traffic.metrics.written.add(count as u64);
                Ok(link.outbox.mark_small_written(count) && !self.socket.has_unsent_bytes())
            }
            Err(error) => again(error).map(|()| false),
        }
    }

    /// Handles room in the socket. If bytes waited for it, it counts as a heartbeat.
    pub(super) fn handle_room(&mut self, now: Time) {
        if !self.socket.is_polled() {
            self.link.has_heartbeat |= std::mem::take(&mut self.blocked);
        }
        // Bytes in the socket's own buffer are written first. The next write returns an error, if there is one.
        if self.socket.has_unsent_bytes() && !matches!(self.write_held(), Ok(true)) {
            return;
        }
        self.link.confirm_ping_sent();
        self.continue_bulk(now);
    }

    /// Continues with long data: there is room.
    fn continue_bulk(&mut self, now: Time) {
        if let Some(segment) = self.link.continue_bulk(now) {
            self.socket.prepare_for_bulk(segment);
        }
    }

    /// Prepares to write long data.
    fn begin_bulk(&mut self, now: &impl Fn() -> Time) {
        let on_wire = !self.socket.is_polled();
        if let Some(segment) = self.link.begin_bulk(now, on_wire) {
            self.socket.prepare_for_bulk(segment);
        }
    }

    /// Handles an outbox that has nothing to write now. Returns false if long data may continue, since there is room.
    fn finish_writing(&mut self, now: &impl Fn() -> Time) -> bool {
        let held = self.link.outbox.is_throttled() && !self.blocked;
        if held && self.socket.has_room() {
            self.continue_bulk(now());
            return false;
        }
        self.blocked |= held;
        if !self.blocked {
            self.link.end_bulk();
        }
        true
    }

    /// Writes queued frames, in one gather write if the socket takes them. Reads the clock only for long data.
    pub(super) fn flush(&mut self, now: impl Fn() -> Time) -> Progress {
        if self.link.outbox.is_streaming() {
            self.begin_bulk(&now);
        }
        let mut handed = 0;
        for _ in 0..WRITE_BUDGET {
            if self.socket.has_unsent_bytes() {
                match self.write_held() {
                    Ok(true) => {}
                    Ok(false) => {
                        return self
                            .link
                            .outbox
                            .charge_backlog()
                            .map_or_else(Progress::Stuck, |()| Progress::Waiting);
                    }
                    Err(error) => return Progress::Closed(broken(&error)),
                }
            }
            match self.prepare(&mut handed) {
                Ok(true) => {}
                Ok(false) if self.finish_writing(&now) => return Progress::Waiting,
                Ok(false) => continue,
                Err(error) => return Progress::Closed(broken(&error)),
            }
            self.link.piggyback_credit();
            match self.write_once() {
                Ok(0) => return Progress::Closed("the connection accepts no more bytes".into()),
                Ok(count) => {
                    self.has_grown_buffers |= count > LARGE_IO;
                    self.uncounted_bytes += count as u64;
                    self.written(count);
                    if self.is_flushed() {
                        self.link.end_bulk();
                        return Progress::Waiting;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    (self.blocked, self.full) = (true, true);
                    return self
                        .link
                        .outbox
                        .charge_backlog()
                        .map_or_else(Progress::Stuck, |()| Progress::Waiting);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Progress::Closed(broken(&error)),
            }
            if handed >= DESCRIPTOR_BUDGET {
                break;
            }
        }
        Progress::More
    }

    /// Records that the socket has taken this number of bytes.
    fn written(&mut self, count: usize) {
        self.link.mark_written(count);
        if std::mem::take(&mut self.full) && self.socket.is_polled() {
            // The ring of a stopped process stays full, so a write after the ring was full is a heartbeat. A socket may
            // take a few bytes although the peer has read none; epoll reports its room.
            (self.blocked, self.link.has_heartbeat) = (false, true);
        }
        if self.link.is_ping_in_socket() {
            self.check_ping_sent();
        }
    }

    /// Checks whether a heartbeat request has left the socket; if not, epoll reports it later.
    #[cold]
    fn check_ping_sent(&mut self) {
        match self.socket.has_room() {
            true => self.link.confirm_ping_sent(),
            false => self.blocked = true,
        }
    }

    /// Prepares the next write; returns whether there are bytes to write. Data by descriptor have left when it returns;
    /// `handed` counts their bytes.
    fn prepare(&mut self, handed: &mut usize) -> io::Result<bool> {
        // Small messages never travel by descriptor, and need not wait.
        let bulk = self.link.outbox.is_streaming() || self.blocked;
        let descriptors = if bulk { self.socket.descriptors() } else { None };
        let Some(descriptors) = descriptors else { return Ok(self.link.outbox.prepare()) };
        let before = *handed;
        let mut over =
            PassingSender { descriptors, extents: &self.extents, handed, waits: false, broken: None };
        let ready = self.link.outbox.prepare_with(&mut over);
        let PassingSender { descriptors, waits, broken, handed, .. } = over;
        // Small messages fit into the ring while descriptors wait. Only a passed descriptor shows that the peer has
        // taken some.
        if *handed > before {
            self.link.has_heartbeat |= std::mem::take(&mut self.is_passing_blocked);
        }
        self.is_passing_blocked |= waits;
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

    /// Whether all queued bytes have been written.
    pub(super) fn is_flushed(&self) -> bool {
        self.link.outbox.is_idle() && !self.socket.has_unsent_bytes()
    }

    /// Writes the bytes in the socket's own buffer; returns false if some are left.
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

/// Describes a connection error.
pub(super) fn broken(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => {
            "the connection broke: the peer's host has acknowledged nothing for too long".into()
        }
        _ => format!("the connection broke: {error}"),
    }
}

/// Ignores errors after which the write is repeated.
#[cold]
fn again(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

/// The context of a link, with the descriptors that arrive beside its bytes.
struct ContextWithDescriptors<'a> {
    host: &'a dyn Context,
    descriptors: RefCell<&'a mut dyn Descriptors>,
    extents: &'a Extents,
}

impl Context for ContextWithDescriptors<'_> {
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

/// Passes long data by descriptor.
struct PassingSender<'a> {
    descriptors: &'a mut dyn Descriptors,
    extents: &'a Extents,
    handed: &'a mut usize,
    /// Whether descriptors wait until the peer takes earlier ones.
    waits: bool,
    /// Error of the shared memory.
    broken: Option<io::Error>,
}

impl DescriptorSender for PassingSender<'_> {
    fn room(&mut self) -> DescriptorRoom {
        match self.descriptors.find_room() {
            Ok(true) => DescriptorRoom::Available,
            Ok(false) => {
                self.waits = true;
                DescriptorRoom::Full
            }
            Err(error) => {
                self.broken = Some(error);
                DescriptorRoom::Full
            }
        }
    }

    fn seal(&mut self, bytes: &Bytes) -> Option<Extent> {
        self.extents.seal(bytes)
    }

    fn send(&mut self, extent: &Extent, queued: usize) -> bool {
        let given = self.descriptors.hand_over(extent, queued);
        if given {
            *self.handed += extent.length();
        }
        given
    }
}
