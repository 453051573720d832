//! All connections of a node, with their sockets: accepts and opens them, reads and writes their bytes. What goes on
//! which link, [`Links`] decides.
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
use super::refusals::Refusals;
use super::watched::Watched;
use crate::chain::{Time, ToChild};
use crate::hint::{likely, unlikely};
use crate::link::peering::{LinkKey, Peering};
use crate::link::{Event, Links, LinksOutput, Phase, UnsentRequests};
use crate::transport::{Accepting, ByteStream as _, Extents, Inbound, SharedMemory as _};
use crate::wire::Message;
use crate::wire::body::Spare;

/// The token of the listener; links have keys of their own, behind it.
pub(super) const LISTENER: Token = Token(1);

/// Bytes that one read asks for: a segment.
const READ_BUFFER: usize = crate::wire::frame::SEGMENT;

/// Where connections of peers come in.
pub(super) struct Listening {
    pub(super) listeners: Vec<Accepting>,
    /// The network of the program, if the node has one.
    pub(super) host: Option<Arc<Inbound>>,
    /// When connections are accepted that the system has reported already.
    pub(super) again: Option<Time>,
}

/// The connections of one node.
pub(super) struct Connections {
    /// The protocol on them.
    pub(super) links: Links<Peers, Connection>,
    pub(super) registry: Registry,
    pub(super) accepting: Listening,
    /// Proofs that were answered when the turn began.
    pub(super) proofs_before: u64,
    pub(super) refusals: Refusals,
    /// Ids that are known by announcements of members alone; at most [`ANNOUNCED_MAX`](super::ANNOUNCED_MAX).
    pub(super) announced: BTreeSet<Id>,
    /// Who hears of links that come and go; nearly always nobody.
    pub(super) listeners_of_events: Vec<events::Listener>,
    pub(super) traffic: Traffic,
    /// Whether anything has been read since this was last looked at: the system does not report what polling finds.
    pub(super) has_read: bool,
    /// Links that had more to read than one turn allows.
    pub(super) unread: Vec<LinkKey>,
    /// Links whose shared memory has been in use since the node last slept: it polls them.
    pub(super) watched: Watched,
    /// How many links there may be.
    pub(super) descriptors: Descriptors,
    /// Counts the node's turns.
    pub(super) turn: u64,
    /// What to use between nodes of this host.
    pub(super) local: ConnectOptions,
    pub(super) buffer: Box<[u8]>,
    /// The memory of the last long data, for the next.
    pub(super) spare: Spare,
    /// What that, and all else that peers send, may take.
    pub(super) memory: Memory,
    /// Sealed memory for data of links that hand it over.
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
            listeners_of_events: Vec::new(),
            traffic: Traffic::default(),
            has_read: false,
            unread: Vec::new(),
            watched: Watched::default(),
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

    /// Whether something is left to do without waiting.
    pub(super) fn is_busy(&self) -> bool {
        let queued =
            !self.unread.is_empty() || !self.links.dirty.is_empty() || !self.links.arrivals.is_empty();
        queued || self.links.stirred || self.is_short()
    }

    /// The only link, if a socket is all that it has: to read from it takes no longer than to ask the system which link
    /// has something.
    pub(super) fn lone_socket(&self) -> Option<LinkKey> {
        let (key, connection) = self.links.table.only()?;
        let plain = matches!(connection.link.phase, Phase::Up(_)) && !connection.socket.is_polled();
        plain.then_some(key)
    }

    /// Whether every queued frame has been written.
    pub(super) fn is_drained(&self) -> bool {
        self.links.table.values().all(Connection::is_through)
    }

    /// Sends a message, opening a link first if there is none.
    pub(super) fn send(&mut self, now: Time, to: Id, message: Message) {
        self.links.send(now, to, message);
        self.settle(now);
    }

    /// Sends a request on the fast path to a child, whose frame its plan holds; by the general path where there is no
    /// link, or no credit.
    #[inline(always)]
    pub(super) fn relay(&mut self, now: Time, child: &ToChild<'_>) {
        self.links.relay(now, child);
        self.settle(now);
    }

    /// Whether there is a link to a peer, or it is this node itself; where none is being opened either, one is. `None`
    /// where nobody knows its address.
    pub(super) fn meet(&mut self, now: Time, id: Id) -> Option<bool> {
        let met = self.links.meet(id);
        self.settle(now);
        met
    }

    /// Closes the link to a peer that sends no heartbeat. The chain knows already.
    pub(super) fn abandon(&mut self, now: Time, peer: Id) {
        debug!(id = self.links.me, peer, "no heartbeat: the link is closed");
        self.links.abandon(now, peer);
        self.settle(now);
    }

    /// Sends on the next link to a peer what the last one has not sent.
    pub(super) fn resend(&mut self, now: Time, peer: Id, unsent: Box<UnsentRequests>) {
        let calls = unsent.calls().len();
        debug!(id = self.links.me, peer, calls, "requests that have not left wait for another link");
        self.links.resend(peer, unsent);
        self.settle(now);
    }

    /// A connection has ended, by whatever side.
    pub(super) fn close(&mut self, now: Time, key: LinkKey, why: &str) {
        self.links.close(now, key, why);
        self.settle(now);
    }

    /// Carries out what the links ask for.
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
                LinksOutput::Refused { key, why } => self.log_refusal(now, key, &why),
                LinksOutput::Up { peer, incarnation } => self.tell_up(peer, incarnation),
                LinksOutput::Lost { peer, incarnation, loss, why } => {
                    self.tell_lost(peer, incarnation, loss, &why);
                }
                LinksOutput::Answered { key, peer } => self.confirm_old_run(now, key, peer),
                LinksOutput::Pause { key, length } => self.allow_pause(key, length),
            }
        }
    }

    /// Writes what is queued on any link, one gather write each.
    #[inline(always)]
    pub(super) fn flush(&mut self, clock: &Clock) {
        self.flush_dirty(clock);
        if unlikely(std::mem::take(&mut self.traffic.flushed_long) || !self.links.granting.is_empty()) {
            self.flush_further(clock);
        }
    }

    /// What is to be seen to when not only small frames have left.
    #[inline(never)]
    fn flush_further(&mut self, clock: &Clock) {
        // What has left may make room for what comes.
        if !self.links.granting.is_empty() && self.links.grant() {
            self.flush_dirty(clock);
        }
        // What a link has sent is remembered for the others, as long as any sends.
        if self.extents.is_held() {
            self.links.forget_streamed();
            match self.links.is_streaming() {
                false => self.extents.forget(),
                true => self.traffic.flushed_long = true,
            }
        }
    }

    #[inline(always)]
    fn flush_dirty(&mut self, clock: &Clock) {
        if unlikely(std::mem::take(&mut self.links.stirred)) {
            self.links.mark_streaming();
        }
        // What is marked meanwhile is for the next turn.
        let count = self.links.dirty.len();
        for place in 0..count {
            let key = self.links.dirty[place];
            let Some(connection) = self.links.table.get_mut(key) else { continue };
            connection.link.marked = false;
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

    /// Writes what is queued on a link, whatever it is, and sees to what comes of it.
    #[inline(never)]
    fn flush_link(&mut self, key: LinkKey, clock: &Clock) {
        self.traffic.flushed_long = true;
        let Some(connection) = self.links.table.get_mut(key) else { return };
        if let Phase::Connecting(_) = connection.link.phase {
            return;
        }
        let mut progress = connection.flush(|| clock.now());
        self.traffic.much |= std::mem::take(&mut connection.much);
        self.traffic.metrics.written.add(std::mem::take(&mut connection.wrote));
        let through = connection.is_through();
        self.watched.watch(key, connection);
        if let Err(error) = listen_for_room(&self.registry, key, connection) {
            progress = Progress::Closed(format!("the system does not say when it takes more bytes: {error}"));
        }
        let closing = connection.link.phase == Phase::Closing;
        self.links.wrote(key);
        match progress {
            Progress::Waiting if closing && through => drop(self.discard(key)),
            Progress::Waiting => {}
            Progress::More => self.links.note(key),
            Progress::Closed(why) => self.stop_writing(clock.time(), key, why),
            // It may go on sending for ever.
            Progress::Stuck(why) => self.close(clock.time(), key, &why),
        }
    }

    /// Nothing can be written on a link any more. What the peer said before it went counts, so that is read first.
    pub(super) fn stop_writing(&mut self, now: Time, key: LinkKey, why: String) {
        match self.links.table.get_mut(key) {
            Some(connection) if connection.link.phase != Phase::Closing => {
                connection.unwritable = Some(why);
                self.read_later(key);
            }
            _ => self.close(now, key, &why),
        }
    }

    /// Notes once that a link has more to read.
    pub(super) fn read_later(&mut self, key: LinkKey) {
        if let Some(connection) = self.links.table.get_mut(key)
            && !std::mem::replace(&mut connection.unread, true)
        {
            self.unread.push(key);
        }
    }

    /// A link that had more to read has its turn.
    pub(super) fn takes_up(&mut self, key: LinkKey) {
        if let Some(connection) = self.links.table.get_mut(key) {
            connection.unread = false;
        }
    }

    /// Takes a connection out of the loop.
    pub(super) fn discard(&mut self, key: LinkKey) -> Option<Connection> {
        let mut connection = self.links.remove(key)?;
        if connection.watched {
            self.watched.drop_link(key);
        }
        // Closing the socket takes it out of the poll all the same.
        if let Some(source) = connection.socket.source() {
            let _ = self.registry.deregister(source);
        }
        Some(connection)
    }
}

pub(super) fn interest(told_of_room: bool) -> Interest {
    if told_of_room { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE }
}

/// Has the system report when the peer has made room, as long as bytes wait for it, and no longer. A Unix socket
/// reports it for everything that the peer reads, which would wake this node once for each message that it sends. TCP
/// reports with everything that comes that there is room, too, so that who has read it already would learn of nothing
/// else.
fn listen_for_room(registry: &Registry, key: LinkKey, connection: &mut Connection) -> io::Result<()> {
    if connection.socket.is_polled() || connection.told_of_room == connection.blocked {
        return Ok(());
    }
    // Room that was made in between is said at once.
    if let Some(source) = connection.socket.source() {
        registry.reregister(source, Token(key.0), interest(connection.blocked))?;
    }
    connection.told_of_room = connection.blocked;
    Ok(())
}
