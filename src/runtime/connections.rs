//! All connections of a node, with their sockets: accepts, opens, reads and writes them. [`Links`] decides which bytes
//! each link carries.
//!
//! Source: docs/wire.md, "HELLO" and "One link per pair".

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use gpc_trees::Id;
use mio::{Interest, Registry, Token};
use tracing::debug;

use super::Peers;
use super::clock::Clock;
use super::connect_options::ConnectOptions;
use super::connection::{Connection, Progress, Traffic, broken};
use super::descriptors::Descriptors;
use super::events;
use super::memory::Memory;
use super::polled_rings::PolledRings;
use super::refusals::Refusals;
use crate::branch_hint::{likely, unlikely};
use crate::chain::{ChildRequest, Time};
use crate::link::peering::{LinkKey, Peering};
use crate::link::{Event, Links, LinksOutput, Phase, UnsentRequests};
use crate::transport::{Accepting, ByteStream as _, Extents, Inbound, SharedMemory as _};
use crate::wire::Message;
use crate::wire::body::Spare;

/// Token of the listener. It precedes the tokens of links.
pub(super) const LISTENER: Token = Token(1);

/// Size of a read, in bytes: a segment.
const READ_BUFFER: usize = crate::wire::frame::SEGMENT;

/// The listeners of a node.
pub(super) struct Listening {
    pub(super) listeners: Vec<Accepting>,
    /// The network of the program, if the node has one.
    pub(super) host: Option<Arc<Inbound>>,
    /// When to accept connections that epoll has already reported.
    pub(super) again: Option<Time>,
}

/// The connections of one node.
pub(super) struct Connections {
    /// The protocol state of all links.
    pub(super) links: Links<Peers, Connection>,
    pub(super) registry: Registry,
    pub(super) accepting: Listening,
    /// Number of answered proofs at the beginning of the turn.
    pub(super) proofs_before: u64,
    pub(super) refusals: Refusals,
    /// Ids that are known only by announcements of members; at most [`ANNOUNCED_MAX`](super::ANNOUNCED_MAX).
    pub(super) announced: BTreeSet<Id>,
    /// Subscribers to events of links; usually none.
    pub(super) event_listeners: Vec<events::Listener>,
    pub(super) traffic: Traffic,
    /// Whether bytes were read since the last check. epoll does not report bytes that polling finds.
    pub(super) has_read: bool,
    /// Links with more bytes than one turn reads.
    pub(super) unread: Vec<LinkKey>,
    /// The rings that this node polls.
    pub(super) polled_rings: PolledRings,
    /// The limits of file descriptors.
    pub(super) descriptors: Descriptors,
    /// Counts the node's turns.
    pub(super) turn: u64,
    /// Options of connections to peers.
    pub(super) local: ConnectOptions,
    pub(super) buffer: Box<[u8]>,
    /// Memory of the last long data, reused for the next.
    pub(super) spare: Spare,
    /// Memory budgets for data of peers.
    pub(super) memory: Memory,
    /// Sealed memory for data passed by descriptor.
    pub(super) extents: Extents,
    pub(super) events: Vec<Event>,
}

impl Connections {
    pub(super) fn new(
        peering: Peering<Peers>,
        registry: Registry,
        mut listeners: Vec<Accepting>,
        local: ConnectOptions,
        memory: Memory,
    ) -> io::Result<Connections> {
        for listener in &mut listeners {
            listener.register(&registry, LISTENER)?;
        }
        Ok(Connections {
            links: Links::new(peering),
            registry,
            accepting: Listening { listeners, host: None, again: None },
            proofs_before: 0,
            refusals: Refusals::default(),
            announced: BTreeSet::new(),
            event_listeners: Vec::new(),
            traffic: Traffic::default(),
            has_read: false,
            unread: Vec::new(),
            polled_rings: PolledRings::default(),
            descriptors: Descriptors::new(),
            turn: 0,
            local,
            buffer: vec![0; READ_BUFFER].into_boxed_slice(),
            spare: Spare::default(),
            memory,
            extents: Extents::default(),
            events: Vec::new(),
        })
    }

    /// Whether there is work without waiting.
    pub(super) fn is_busy(&self) -> bool {
        let queued =
            !self.unread.is_empty() || !self.links.dirty.is_empty() || !self.links.arrivals.is_empty();
        queued || self.links.has_stream_data || self.is_short()
    }

    /// The only link of the node, if it uses a socket. Reading it takes no longer than a call of epoll.
    pub(super) fn lone_socket(&self) -> Option<LinkKey> {
        let (key, connection) = self.links.table.only()?;
        let plain = matches!(connection.link.phase, Phase::Up(_)) && !connection.socket.is_polled();
        plain.then_some(key)
    }

    /// Whether every queued frame has been written.
    pub(super) fn is_drained(&self) -> bool {
        self.links.table.values().all(Connection::is_flushed)
    }

    /// Sends a message, opening a link first if there is none.
    pub(super) fn send(&mut self, now: Time, to: Id, message: Message) {
        self.links.send(now, to, message);
        self.settle(now);
    }

    /// Sends a request on the fast path to a child. The plan of the call holds its frame. Without a link or credit, the
    /// request takes the general path.
    #[inline(always)]
    pub(super) fn relay(&mut self, now: Time, child: &ChildRequest<'_>) {
        self.links.relay(now, child);
        self.settle(now);
    }

    /// Whether the link to a peer is up, or the peer is this node; opens the link if it is missing. `None` if no
    /// address is known.
    pub(super) fn ensure_link(&mut self, now: Time, id: Id) -> Option<bool> {
        let is_up = self.links.ensure_link(id);
        self.settle(now);
        is_up
    }

    /// Closes the link to a peer that sends no heartbeat. The chain has already given the peer up.
    pub(super) fn abandon(&mut self, now: Time, peer: Id) {
        debug!(id = self.links.me, peer, "no heartbeat: the link is closed");
        self.links.abandon(now, peer);
        self.settle(now);
    }

    /// Sends the unsent requests of a lost link on the next link to the peer.
    pub(super) fn resend(&mut self, now: Time, peer: Id, unsent: Box<UnsentRequests>) {
        let calls = unsent.calls().len();
        debug!(id = self.links.me, peer, calls, "requests that have not left wait for another link");
        self.links.resend(peer, unsent);
        self.settle(now);
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, now: Time, key: LinkKey, why: &str) {
        self.links.close(now, key, why);
        self.settle(now);
    }

    /// Carries out the outputs of the links.
    #[inline(always)]
    pub(super) fn settle(&mut self, now: Time) {
        if unlikely(self.links.has_outputs()) {
            self.carry_out(now);
        }
    }

    #[cold]
    fn carry_out(&mut self, now: Time) {
        // Terminates: each output causes a finite number of others, since every connection ends once.
        while let Some(output) = self.links.poll() {
            match output {
                LinksOutput::Open { peer } => self.connect(now, peer),
                LinksOutput::Close { key } => drop(self.discard(key)),
                LinksOutput::CloseAfterWriting { key } => {
                    // Bytes that cannot be sent at once are lost.
                    let _ = self.links.table.get_mut(key).map(|connection| connection.flush(Time::default));
                    self.discard(key);
                }
                LinksOutput::Prepare(new_link) => self.establish(now, *new_link),
                LinksOutput::Rejected { key, why } => self.log_refusal(now, key, &why),
                LinksOutput::Up { peer, incarnation } => self.report_up(peer, incarnation),
                LinksOutput::Lost { peer, incarnation, loss, why } => {
                    self.report_lost(peer, incarnation, loss, &why);
                }
                LinksOutput::PongReceived { key, peer } => self.confirm_old_run(now, key, peer),
                LinksOutput::Pause { key, length } => self.allow_pause(key, length),
            }
        }
    }

    /// Writes the queued frames of all links, in one gather write each.
    #[inline(always)]
    pub(super) fn flush(&mut self, clock: &Clock) {
        self.flush_dirty(clock);
        if unlikely(
            std::mem::take(&mut self.traffic.has_flushed_long) || !self.links.window_grants.is_empty(),
        ) {
            self.flush_further(clock);
        }
    }

    /// Follows a flush that wrote long data: sends windows to senders of long data, and releases sealed memory.
    #[inline(never)]
    fn flush_further(&mut self, clock: &Clock) {
        // Written data free memory, so waiting senders may get a window.
        if !self.links.window_grants.is_empty() && self.links.send_windows() {
            self.flush_dirty(clock);
        }
        // Sealed data are retained for other links while any link sends long data.
        if self.extents.has_recent() {
            self.links.prune_streaming();
            match self.links.is_streaming() {
                false => self.extents.release_recent(),
                true => self.traffic.has_flushed_long = true,
            }
        }
    }

    #[inline(always)]
    fn flush_dirty(&mut self, clock: &Clock) {
        if unlikely(std::mem::take(&mut self.links.has_stream_data)) {
            self.links.mark_streaming();
        }
        // Links that become dirty meanwhile are flushed in the next turn.
        let count = self.links.dirty.len();
        for place in 0..count {
            let key = self.links.dirty[place];
            let Some(connection) = self.links.table.get_mut(key) else { continue };
            connection.link.is_dirty = false;
            match connection.flush_small(&mut self.traffic) {
                Ok(true) => {}
                Ok(false) => self.flush_link(key, clock),
                Err(error) => self.stop_writing(clock.time(), key, broken(&error)),
            }
        }
        match likely(self.links.dirty.len() == count) {
            true => self.links.dirty.clear(),
            false => drop(self.links.dirty.drain(..count)),
        }
    }

    /// Writes the queued frames of a link, and handles the result.
    #[inline(never)]
    fn flush_link(&mut self, key: LinkKey, clock: &Clock) {
        self.traffic.has_flushed_long = true;
        let Some(connection) = self.links.table.get_mut(key) else { return };
        if let Phase::Connecting(_) = connection.link.phase {
            return;
        }
        let mut progress = connection.flush(|| clock.now());
        self.traffic.has_grown_buffers |= std::mem::take(&mut connection.has_grown_buffers);
        self.traffic.metrics.written.add(std::mem::take(&mut connection.uncounted_bytes));
        let through = connection.is_flushed();
        self.polled_rings.add(key, connection);
        if let Err(error) = watch_writable(&self.registry, key, connection) {
            progress = Progress::Closed(format!("the system does not say when it takes more bytes: {error}"));
        }
        let closing = connection.link.phase == Phase::Closing;
        self.links.finish_write(key);
        match progress {
            Progress::Waiting if closing && through => drop(self.discard(key)),
            Progress::Waiting => {}
            Progress::More => self.links.mark_dirty(key),
            Progress::Closed(why) => self.stop_writing(clock.time(), key, why),
            // A peer that does not read may still send without end, so reading first is not safe.
            Progress::Stuck(why) => self.close(clock.time(), key, &why),
        }
    }

    /// Handles a failed write: bytes that the peer sent before are read first, then the link is closed.
    pub(super) fn stop_writing(&mut self, now: Time, key: LinkKey, why: String) {
        match self.links.table.get_mut(key) {
            Some(connection) if connection.link.phase != Phase::Closing => {
                connection.unwritable = Some(why);
                self.read_later(key);
            }
            _ => self.close(now, key, &why),
        }
    }

    /// Queues a link that has more bytes to read.
    pub(super) fn read_later(&mut self, key: LinkKey) {
        if let Some(connection) = self.links.table.get_mut(key)
            && !std::mem::replace(&mut connection.unread, true)
        {
            self.unread.push(key);
        }
    }

    /// Records that a queued link is being read.
    pub(super) fn clear_unread(&mut self, key: LinkKey) {
        if let Some(connection) = self.links.table.get_mut(key) {
            connection.unread = false;
        }
    }

    /// Removes a connection.
    pub(super) fn discard(&mut self, key: LinkKey) -> Option<Connection> {
        let mut connection = self.links.remove(key)?;
        if connection.is_ring_polled {
            self.polled_rings.drop_link(key);
        }
        // Closing the socket deregisters it even if this fails.
        if let Some(source) = connection.socket.source() {
            let _ = self.registry.deregister(source);
        }
        Some(connection)
    }
}

pub(super) fn interest(is_writable_watched: bool) -> Interest {
    if is_writable_watched { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE }
}

/// Makes epoll report room in the socket only while bytes wait for it. A Unix socket reports each read of the peer,
/// which would wake this node for every message that it sends. A TCP socket reports room with each arrival, even if the
/// arrived bytes have already been read.
fn watch_writable(registry: &Registry, key: LinkKey, connection: &mut Connection) -> io::Result<()> {
    if connection.socket.is_polled() || connection.is_writable_watched == connection.blocked {
        return Ok(());
    }
    // Registering reports existing room at once.
    if let Some(source) = connection.socket.source() {
        registry.reregister(source, Token(key.0), interest(connection.blocked))?;
    }
    connection.is_writable_watched = connection.blocked;
    Ok(())
}
