//! All connections of a node: accepts and opens them, exchanges hellos, carries messages, says what was lost.
//!
//! Source: docs/wire.md, "HELLO" and "One link per pair". Links open on first use; messages for a peer wait until its link is up.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gpc_trees::Id;
use mio::{Interest, Registry, Token};
use tracing::debug;

use super::Peers;
use super::clock::Clock;
use super::connect_options::ConnectOptions;
use super::connection::{Connection, Progress, broken};
use super::deadline_queue::{DeadlineOwner, DeadlineQueue};
use super::descriptors::Descriptors;
use super::events;
use super::memory::Memory;
use super::refusals::Refusals;
use super::watched::Watched;
use crate::chain::{Input, Time, ToChild};
use crate::hint::{likely, unlikely};
use crate::link::peering::{LinkKey, LinkStatus, Peering, State};
use crate::link::{Event, Link, Loss, Pending, Phase, Table, UnsentRequests};
use crate::transport::{Accepting, ByteStream as _, Extents, SharedMemory as _};
use crate::wire::body::Spare;
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::{CallId, CauseKind, Message};

/// The token of the listener; links have keys of their own, behind it.
pub(super) const LISTENER: Token = Token(1);

/// How long the last frame of a link may take to be written.
pub(super) const CLOSING_LIMIT: Duration = Duration::from_secs(1);

/// Bytes that one read asks for: a segment.
const READ_BUFFER: usize = crate::wire::frame::SEGMENT;

/// Peers whose links are found at once: the children of an id of most trees, and as many roots.
const LAST_UP: usize = 64;

/// What came in for the chain.
#[derive(Debug)]
pub(super) enum Arrival {
    /// An input as it is.
    Input(Input),
    /// A link or an attempt to open one is lost.
    Lost(Lost),
}

/// A link, or an attempt to open one, that is lost.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) peer: Id,
    pub(super) kind: CauseKind,
    pub(super) why: String,
    /// Whether no link ever came up: nothing that was sent can have arrived.
    pub(super) unreached: bool,
    /// All that the link still had to send, if that is requests of which no byte has left.
    pub(super) unsent: Option<Box<UnsentRequests>>,
}

/// The connections of one node.
pub(super) struct Links {
    pub(super) me: Id,
    pub(super) registry: Registry,
    pub(super) listeners: Vec<Accepting>,
    pub(super) accept_again: Option<Time>,
    /// Who the others are, which connections are links, and what becomes of those that are not.
    pub(super) peering: Peering<Peers>,
    /// Proofs that were answered when the turn began.
    pub(super) proofs_before: u64,
    pub(super) refusals: Refusals,
    pub(super) links: Table<Connection>,
    /// Of some peers the link that was up when it was last used.
    last_up: [LinkKey; LAST_UP],
    /// What is for peers whose links are not up yet.
    pub(super) pending: Pending,
    /// Ids that are known by announcements of members alone; at most [`ANNOUNCED_MAX`](super::ANNOUNCED_MAX).
    pub(super) announced: BTreeSet<Id>,
    /// Of the link that is being closed.
    pub(super) unsent: Option<Box<UnsentRequests>>,
    /// Who hears of links that come and go; nearly always nobody.
    pub(super) listeners_of_events: Vec<events::Listener>,
    /// Whether bytes have come for long messages that links pass on.
    pub(super) stirred: bool,
    /// Links with something to write, in the order in which they had it; each once.
    pub(super) dirty: Vec<LinkKey>,
    /// Whether a link has had more to write than small frames, or still has.
    flushed_long: bool,
    /// Links that long messages leave on, each once.
    streaming: Vec<LinkKey>,
    /// Links whose peers are to be told how far the data of some request may come; few entries for each.
    pub(super) granting: Vec<LinkKey>,
    /// Whether more has gone through than leaves next to nothing behind.
    pub(super) much: bool,
    /// Whether anything has been read since this was last looked at: of what the node finds by looking the system says nothing.
    pub(super) has_read: bool,
    /// Links that had more to read than one turn allows.
    pub(super) unread: Vec<LinkKey>,
    /// Links whose rings have been in use since the node last slept: it looks at them by itself.
    pub(super) watched: Watched,
    /// How many links there may be.
    pub(super) descriptors: Descriptors,
    /// Counts the node's turns.
    pub(super) turn: u64,
    /// What to talk over with nodes of this host.
    pub(super) local: ConnectOptions,
    /// What has a deadline: few, since a link that is up has none.
    pub(super) due: DeadlineQueue,
    pub(super) buffer: Box<[u8]>,
    /// The memory of the last long data, for the next.
    pub(super) spare: Spare,
    /// What that, and all else that peers send, may take.
    pub(super) memory: Memory,
    /// Sealed memory for data of links that hand it over.
    pub(super) extents: Extents,
    pub(super) events: Vec<Event>,
    pub(super) arrivals: VecDeque<Arrival>,
}

impl Links {
    pub(super) fn new(
        peering: Peering<Peers>,
        registry: Registry,
        mut listeners: Vec<Accepting>,
        local: ConnectOptions,
        memory: Memory,
    ) -> io::Result<Links> {
        for listener in &mut listeners {
            listener.register(&registry, LISTENER)?;
        }
        Ok(Links {
            me: peering.identity().me,
            registry,
            listeners,
            accept_again: None,
            peering,
            proofs_before: 0,
            refusals: Refusals::default(),
            links: Table::default(),
            last_up: [LinkKey(0); LAST_UP],
            pending: Pending::default(),
            announced: BTreeSet::new(),
            unsent: None,
            listeners_of_events: Vec::new(),
            stirred: false,
            dirty: Vec::new(),
            flushed_long: false,
            streaming: Vec::new(),
            granting: Vec::new(),
            much: false,
            has_read: false,
            unread: Vec::new(),
            watched: Watched::default(),
            descriptors: Descriptors::new(),
            turn: 0,
            local,
            due: DeadlineQueue::default(),
            buffer: vec![0; READ_BUFFER].into_boxed_slice(),
            spare: Spare::default(),
            memory,
            extents: Extents::default(),
            events: Vec::new(),
            arrivals: VecDeque::new(),
        })
    }

    /// Whether something is left to do without waiting.
    pub(super) fn is_busy(&self) -> bool {
        let queued = !self.unread.is_empty() || !self.dirty.is_empty() || !self.arrivals.is_empty();
        queued || self.stirred || self.is_short()
    }

    /// The only link, if a socket is all that it has: to read from it takes no longer than to ask the system which link has something.
    pub(super) fn lone_socket(&self) -> Option<LinkKey> {
        let (key, connection) = self.links.only()?;
        let plain = matches!(connection.link.phase, Phase::Up(_)) && !connection.socket.is_polled();
        plain.then_some(key)
    }

    /// Whether every queued frame has been written.
    pub(super) fn is_drained(&self) -> bool {
        self.links.values().all(Connection::is_through)
    }

    /// Sends a message, opening a link first if there is none.
    pub(super) fn send(&mut self, now: Time, to: Id, message: Message) {
        match self.up(to) {
            Some(key) => {
                if let Some(link) = self.links.link_mut(key) {
                    if let Message::Cancel(call) = &message {
                        link.inbox.drop_response(*call);
                    }
                    link.push(message);
                    link.mark(&mut self.dirty, key);
                }
            }
            None => self.send_when_up(now, to, message),
        }
    }

    /// Sends a request on the fast path to a child, whose frame its plan holds; by the general path where there is no link, or no credit.
    #[inline(always)]
    pub(super) fn relay(&mut self, now: Time, child: &ToChild<'_>) {
        if let Some((link, dirty, key)) = self.link_up(child.to)
            && link.outbox.relay(child)
        {
            link.mark(dirty, key);
        } else if let Some(request) = child.request() {
            self.send(now, child.to, Message::Request(Arc::new(request)));
        }
    }

    /// Whether there is a link to a peer, or it is this node itself; where none is being opened either, one is. `None` where nobody knows its address.
    pub(super) fn meet(&mut self, now: Time, id: Id) -> Option<bool> {
        if id == self.me {
            return Some(true);
        }
        match self.peering.want(id) {
            LinkStatus::Up(_) => Some(true),
            _ if !self.peering.book.contains(id) => None,
            LinkStatus::Open => {
                self.connect(now, id);
                Some(false)
            }
            LinkStatus::Coming | LinkStatus::Unknown => Some(false),
        }
    }

    /// Keeps a message until there is a link, if it needs one, and opens that.
    fn send_when_up(&mut self, now: Time, to: Id, message: Message) {
        let call = match &message {
            Message::Request(request) => Some(request.call),
            _ => None,
        };
        // Of those below a silent child nothing else may have been asked before.
        let opens = call.is_some() || matches!(message, Message::Ping);
        match self.peering.want(to) {
            // A request may name any id there is: only those that can be reached are remembered.
            LinkStatus::Unknown => {
                let why = || "no address is known for it: add it to the peers".into();
                let unreachable = |call| Arrival::Input(Input::Unreachable { peer: to, call, why: why() });
                self.arrivals.extend(call.map(unreachable));
            }
            LinkStatus::Open if opens => {
                self.pending.push(now, to, message);
                self.connect(now, to);
            }
            LinkStatus::Coming | LinkStatus::Up(_) => {
                self.pending.push(now, to, message);
            }
            // A cancel or a response is for calls of a link that is gone.
            LinkStatus::Open => {}
        }
    }

    /// Closes the link to a peer that sends no heartbeat. The chain knows already.
    pub(super) fn abandon(&mut self, now: Time, peer: Id) {
        debug!(id = self.me, peer, "no heartbeat: the link is closed");
        self.pending.forget(peer);
        if let State::Up(key) = self.peering.state(peer) {
            self.tell_lost(peer, Loss::Silent, "it was silent for too long");
            self.discard(key);
        }
        self.peering.abandon(peer);
        self.settle_peering(now);
    }

    /// The chain is about to hear that this link is lost, and takes all that it has sent there for lost: what it sent since then goes too.
    /// Returns whether surely nothing of it arrives.
    pub(super) fn forget_since(&mut self, peer: Id) -> bool {
        self.pending.forget(peer);
        self.up(peer).is_none()
    }

    /// The calls whose requests a link that is lost has not sent, or that were queued since.
    pub(super) fn calls_unsent(&self, peer: Id, unsent: &UnsentRequests) -> BTreeSet<CallId> {
        unsent.calls() | &self.pending.calls(peer)
    }

    /// Whether the next link to a peer is under way, or may be opened.
    pub(super) fn may_open(&self, peer: Id) -> bool {
        matches!(self.peering.want(peer), LinkStatus::Coming | LinkStatus::Open)
    }

    /// Sends on the next link to a peer what the last one has not sent.
    pub(super) fn resend(&mut self, now: Time, peer: Id, unsent: Box<UnsentRequests>) {
        debug!(
            id = self.me,
            peer,
            calls = unsent.calls().len(),
            "requests that have not left wait for another link"
        );
        self.pending.keep_unsent(peer, unsent);
        if self.peering.want(peer) == LinkStatus::Open {
            self.connect(now, peer);
        }
    }

    /// A request of this peer has been consumed.
    pub(super) fn consumed(&mut self, from: Id) {
        if let Some(key) = self.up(from)
            && let Some(link) = self.links.link_mut(key)
            && link.consume()
        {
            link.mark(&mut self.dirty, key);
        }
    }

    /// The answer to a parent is given: what still arrives of the request is of no use.
    pub(super) fn request_ended(&mut self, parent: Id, call: CallId) {
        if let Some(key) = self.up(parent)
            && let Some(link) = self.links.link_mut(key)
        {
            link.inbox.drop_request(call);
        }
    }

    /// The peer at the other end of every link that is up.
    pub(super) fn peers_up(&self) -> Vec<Id> {
        self.peering.all_up().map(|(id, _)| id).collect()
    }

    /// Says goodbye on every link.
    pub(super) fn goodbye(&mut self, text: &str) {
        for peer in self.peers_up() {
            if let Some(key) = self.up(peer)
                && let Some(link) = self.links.link_mut(key)
            {
                link.outbox.goodbye(&Goodbye { reason: GoodbyeReason::Shutdown, text: text.into() });
                link.mark(&mut self.dirty, key);
            }
        }
    }

    /// Notes that a link has something to write, or may have.
    pub(super) fn note(&mut self, key: LinkKey) {
        if let Some(link) = self.links.link_mut(key) {
            link.mark(&mut self.dirty, key);
        }
    }

    /// Writes what is queued on any link, one gather write each.
    #[inline(always)]
    pub(super) fn flush(&mut self, clock: &Clock) {
        self.flush_dirty(clock);
        if unlikely(std::mem::take(&mut self.flushed_long) || !self.granting.is_empty()) {
            self.flush_further(clock);
        }
    }

    /// What is to be seen to when not only small frames have left.
    #[inline(never)]
    fn flush_further(&mut self, clock: &Clock) {
        // What has left may make room for what comes.
        if !self.granting.is_empty() && self.grant() {
            self.flush_dirty(clock);
        }
        // What a link has sent is remembered for the others, as long as any sends.
        if self.extents.is_held() {
            self.forget_streamed();
            match self.streaming.is_empty() {
                true => self.extents.forget(),
                false => self.flushed_long = true,
            }
        }
    }

    /// Tells the senders of long data how far they may go on; says whether there is any news.
    fn grant(&mut self) -> bool {
        let mut granting = std::mem::take(&mut self.granting);
        granting.sort_unstable();
        granting.dedup();
        let mut news = false;
        granting.retain(|key| {
            let Some(link) = self.links.link_mut(*key) else { return false };
            if link.grant_windows() {
                link.mark(&mut self.dirty, *key);
                news = true;
            }
            link.inbox.will_grant()
        });
        self.granting = granting;
        news
    }

    #[inline(always)]
    fn flush_dirty(&mut self, clock: &Clock) {
        if unlikely(std::mem::take(&mut self.stirred)) {
            self.mark_streaming();
        }
        // What is marked meanwhile is for the next turn.
        let count = self.dirty.len();
        for place in 0..count {
            let key = self.dirty[place];
            let Some(connection) = self.links.get_mut(key) else { continue };
            connection.link.marked = false;
            match connection.flush_small(&mut self.much) {
                Ok(true) => {}
                Ok(false) => self.flush_link(key, clock),
                Err(error) => self.stop_writing(clock.time(), key, broken(&error)),
            }
        }
        match likely(self.dirty.len() == count) {
            true => self.dirty.clear(),
            false => drop(self.dirty.drain(..count)),
        }
    }

    /// Bytes have come for long messages that links pass on.
    #[inline(never)]
    fn mark_streaming(&mut self) {
        self.forget_streamed();
        for key in &self.streaming {
            if let Some(link) = self.links.link_mut(*key) {
                link.mark(&mut self.dirty, *key);
            }
        }
    }

    /// Forgets the links on which nothing long leaves any more.
    fn forget_streamed(&mut self) {
        let links = &mut self.links;
        self.streaming.retain(|key| {
            let link = links.link_mut(*key);
            link.is_some_and(|link| {
                link.streams = link.outbox.is_streaming();
                link.streams
            })
        });
    }

    /// Writes what is queued on a link, whatever it is, and sees to what comes of it.
    #[inline(never)]
    fn flush_link(&mut self, key: LinkKey, clock: &Clock) {
        self.flushed_long = true;
        let Some(connection) = self.links.get_mut(key) else { return };
        if let Phase::Connecting(_) = connection.link.phase {
            return;
        }
        let mut progress = connection.flush(|| clock.now());
        self.much |= std::mem::take(&mut connection.much);
        let through = connection.is_through();
        self.watched.watch(key, connection);
        if let Err(error) = listen_for_room(&self.registry, key, connection) {
            progress = Progress::Closed(format!("the system does not say when it takes more bytes: {error}"));
        }
        let link = &mut connection.link;
        if link.outbox.is_streaming() && !link.streams {
            link.streams = true;
            self.streaming.push(key);
        }
        if let Phase::Up(peer) = link.phase {
            let left = link.take_question_left().then_some(Input::PingLeft(peer));
            let heard = std::mem::take(&mut link.heard).then_some(Input::Heard(peer));
            self.arrivals.extend(left.into_iter().chain(heard).map(Arrival::Input));
        }
        match progress {
            Progress::Waiting if link.phase == Phase::Closing && through => drop(self.discard(key)),
            Progress::Waiting => {}
            Progress::More => link.mark(&mut self.dirty, key),
            Progress::Closed(why) => self.stop_writing(clock.time(), key, why),
            // It may go on sending for ever.
            Progress::Stuck(why) => self.close(clock.time(), key, &why),
        }
    }

    /// Nothing can be written on a link any more. What the peer said before it went counts, so that is read first.
    pub(super) fn stop_writing(&mut self, now: Time, key: LinkKey, why: String) {
        match self.links.get_mut(key) {
            Some(connection) if connection.link.phase != Phase::Closing => {
                connection.unwritable = Some(why);
                self.read_later(key);
            }
            _ => self.close(now, key, &why),
        }
    }

    /// Notes once that a link has more to read.
    pub(super) fn read_later(&mut self, key: LinkKey) {
        if let Some(connection) = self.links.get_mut(key)
            && !std::mem::replace(&mut connection.unread, true)
        {
            self.unread.push(key);
        }
    }

    /// A link that had more to read has its turn.
    pub(super) fn takes_up(&mut self, key: LinkKey) {
        if let Some(connection) = self.links.get_mut(key) {
            connection.unread = false;
        }
    }

    #[inline]
    pub(super) fn up(&self, peer: Id) -> Option<LinkKey> {
        self.peering.up(peer)
    }

    /// The link to a peer that is up, and what it is noted in when it has something to write.
    pub(super) fn link_up(&mut self, peer: Id) -> Option<(&mut Link, &mut Vec<LinkKey>, LinkKey)> {
        let place = peer as usize % LAST_UP;
        let mut key = self.last_up[place];
        // A key is never used twice, so that of a link that is gone finds none.
        let stands = |link: &Link| matches!(link.phase, Phase::Up(up) if up == peer);
        if unlikely(!self.links.link(key).is_some_and(stands)) {
            key = self.up(peer)?;
            self.last_up[place] = key;
        }
        Some((self.links.link_mut(key)?, &mut self.dirty, key))
    }

    /// A connection has ended, by whatever side.
    pub(super) fn close(&mut self, now: Time, key: LinkKey, why: &str) {
        self.close_for(now, key, CauseKind::LinkLost, why);
    }

    /// The same; `kind` is what kind of failure it is for the calls that go over a link that was up.
    fn close_for(&mut self, now: Time, key: LinkKey, kind: CauseKind, why: &str) {
        let Some(link) = self.links.link(key) else { return };
        let (phase, loss) = (link.phase, link.loss);
        let peer = match phase {
            Phase::Up(peer) if self.up(peer) == Some(key) => Some(peer),
            // Another connection to the peer has taken its place, or it was refused.
            Phase::Up(_) | Phase::Closing => return drop(self.discard(key)),
            Phase::Connecting(_) | Phase::Greeting => None,
        };
        if let Some(peer) = peer {
            // A peer that has left in order is not asked again.
            let link = self.links.link_mut(key).filter(|_| loss != Loss::Left);
            self.unsent = link.and_then(|link| link.outbox.take_unsent()).map(Box::new);
            self.tell_lost(peer, loss, why);
        }
        self.peering.ended(key, peer, kind, why);
        self.settle_peering(now);
        self.unsent = None;
        self.discard(key);
    }

    /// Takes a connection out of the loop.
    pub(super) fn discard(&mut self, key: LinkKey) -> Option<Connection> {
        let mut connection = self.links.remove(key)?;
        if connection.watched {
            self.watched.drop_link(key);
        }
        if let Some(until) = connection.link.deadline {
            self.due.remove(until, DeadlineOwner::Link(key));
        }
        if let Some(at) = connection.link.unfinished {
            self.due.remove(at, DeadlineOwner::Request(key));
        }
        // Closing the socket takes it out of the poll all the same.
        let _ = self.registry.deregister(connection.socket.source());
        Some(connection)
    }
}

pub(super) fn interest(told_of_room: bool) -> Interest {
    if told_of_room { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE }
}

/// Has the system say when the peer has made room, as long as bytes wait for it, and no longer: a Unix socket says it for everything that the peer reads, which would wake this node once
/// for each message that it sends; and TCP says with everything that comes that there is room, too, so that who has read it already would be told of nothing else.
fn listen_for_room(registry: &Registry, key: LinkKey, connection: &mut Connection) -> io::Result<()> {
    if connection.socket.is_polled() || connection.told_of_room == connection.blocked {
        return Ok(());
    }
    // Room that was made in between is said at once.
    registry.reregister(connection.socket.source(), Token(key.0), interest(connection.blocked))?;
    connection.told_of_room = connection.blocked;
    Ok(())
}

#[cfg(test)]
mod tests;
