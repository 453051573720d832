//! All connections of a node: accepts and opens them, exchanges hellos, carries messages, says what was lost.
//!
//! Source: docs/wire.md, "HELLO" and "One link per pair". Links open on first use; messages for a peer wait until its link is up.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gpc_trees::Id;
use mio::{Interest, Registry, Token};
use tracing::{debug, warn};

use super::link::{Event, Link, Phase, Progress, broken};
use super::link_table::LinkTable;
use super::peer::{LinkKey, Peer, State};
use super::shm::{Extents, RingSocket};
use super::socket::{Accepting, Socket};
use super::watched::Watched;
use super::{Address, LinkKind, Peers, near};
use crate::chain::{Time, ToChild};
use crate::hint::{likely, unlikely};
use crate::wire::body::Spare;
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::{CallId, Message};

/// The token of the listener; links have keys of their own, behind it.
pub(super) const LISTENER: Token = Token(1);

/// How long a connection may take until both hellos are through: longer than any loaded machine needs, short enough to be told of.
pub(super) const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// How long the last frame of a link may take to be written.
pub(super) const CLOSING_LIMIT: Duration = Duration::from_secs(1);

/// Connections accepted in one turn, before the links there are get theirs.
const ACCEPT_BUDGET: usize = 64;

/// Connections that have not said hello yet: more than all nodes of a large machine at once, few enough not to use up the descriptors.
const GREETINGS_MAX: usize = 16_384;

/// Wait before accepting again when the system refused: it is out of descriptors, and some may be freed meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes that one read asks for: a segment.
const READ_BUFFER: usize = crate::wire::frame::SEGMENT;

/// Peers whose links are found at once: the children of an id of most trees, and as many roots.
const LAST_UP: usize = 64;

/// What came in for the chain.
#[derive(Debug)]
pub(super) enum Arrival {
    Message {
        from: Id,
        message: Message,
    },
    DataArrived(CallId),
    /// The data of a child's reply, which is passed on as it comes.
    ReplyArrived {
        from: Id,
        call: CallId,
    },
    /// Bytes that are no message yet.
    Heard(Id),
    /// `unreached` when no link ever came up: nothing that was sent can have arrived.
    Lost {
        peer: Id,
        why: String,
        unreached: bool,
    },
}

/// What a node talks over with those of its own host.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) kind: LinkKind,
    /// Where the node itself listens.
    pub(super) mine: Option<Address>,
}

impl Local {
    fn connect(&self, to: &Address) -> io::Result<Socket> {
        let rings = self.kind == LinkKind::Shm;
        let near = (self.kind != LinkKind::Tcp).then(|| near::connect(to, self.mine.as_ref(), rings));
        near.flatten().map_or_else(|| Socket::connect(to, rings), Ok)
    }
}

/// The connections of one node.
pub(super) struct Links {
    pub(super) me: Id,
    pub(super) incarnation: u64,
    registry: Registry,
    listeners: Vec<Accepting>,
    accept_again: Option<Time>,
    addresses: Peers,
    pub(super) links: LinkTable,
    /// Of some peers the link that was up when it was last used.
    last_up: [LinkKey; LAST_UP],
    pub(super) peers: BTreeMap<Id, Peer>,
    /// Whether bytes have come for long messages that links pass on.
    pub(super) stirred: bool,
    /// Links with something to write, in the order in which they had it; each once.
    pub(super) dirty: Vec<LinkKey>,
    /// Whether a link has had more to write than small frames, or still has.
    flushed_long: bool,
    /// Links whose peers are to be told how far the data of some request may come; few entries for each.
    pub(super) granting: Vec<LinkKey>,
    /// Whether anything has been read since this was last looked at: of what the node finds by looking the system says nothing.
    pub(super) has_read: bool,
    /// Links that had more to read than one turn allows.
    pub(super) unread: Vec<LinkKey>,
    /// Links whose rings have been in use since the node last slept: it looks at them by itself.
    pub(super) watched: Watched,
    /// What to talk over with nodes of this host.
    local: Local,
    /// Links and expected links with a deadline; few, since a link that is up has none.
    pub(super) timed: usize,
    pub(super) buffer: Box<[u8]>,
    /// The memory of the last long data, for the next.
    pub(super) spare: Spare,
    /// Sealed memory for data of links that hand it over.
    extents: Extents,
    pub(super) events: Vec<Event>,
    pub(super) arrivals: VecDeque<Arrival>,
}

impl Links {
    pub(super) fn new(
        me: Id,
        incarnation: u64,
        registry: Registry,
        mut listeners: Vec<Accepting>,
        addresses: Peers,
        local: Local,
    ) -> io::Result<Links> {
        for listener in &mut listeners {
            listener.register(&registry, LISTENER)?;
        }
        Ok(Links {
            me,
            incarnation,
            registry,
            listeners,
            accept_again: None,
            addresses,
            links: LinkTable::default(),
            last_up: [LinkKey(0); LAST_UP],
            peers: BTreeMap::new(),
            stirred: false,
            dirty: Vec::new(),
            flushed_long: false,
            granting: Vec::new(),
            has_read: false,
            unread: Vec::new(),
            watched: Watched::default(),
            local,
            timed: 0,
            buffer: vec![0; READ_BUFFER].into_boxed_slice(),
            spare: Spare::default(),
            extents: Extents::default(),
            events: Vec::new(),
            arrivals: VecDeque::new(),
        })
    }

    /// Whether something is left to do without waiting.
    pub(super) fn is_busy(&self) -> bool {
        !self.unread.is_empty() || !self.dirty.is_empty() || !self.arrivals.is_empty() || self.stirred
    }

    /// The only link, if a socket is all that it has: to read from it takes no longer than to ask the system which link has something.
    pub(super) fn lone_socket(&self) -> Option<LinkKey> {
        let (key, link) = self.links.only()?;
        let plain = matches!(link.phase, Phase::Up(_)) && link.socket.ring().is_none();
        plain.then_some(key)
    }

    /// Whether every queued frame has been written.
    pub(super) fn is_drained(&self) -> bool {
        self.links.values().all(|link| link.outbox.is_idle())
    }

    /// When [`check_deadlines`](Self::check_deadlines) is due.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        if self.timed == 0 { self.accept_again } else { self.soonest() }
    }

    #[cold]
    fn soonest(&self) -> Option<Time> {
        let links = self.links.values().filter_map(|link| link.deadline);
        let expected = self.peers.values().filter_map(|peer| match peer.state {
            State::Expecting(until) => Some(until),
            _ => None,
        });
        links.chain(expected).chain(self.accept_again).min()
    }

    /// Sends a message, opening a link first if there is none.
    pub(super) fn send(&mut self, now: Time, to: Id, message: Message) {
        match self.up(to) {
            Some(key) => {
                if let Some(link) = self.links.get_mut(key) {
                    if let Message::Cancel(call) = &message {
                        link.inbox.drop_response(*call);
                    }
                    link.outbox.push(message);
                    link.mark(&mut self.dirty, key);
                }
            }
            None => self.send_when_up(now, to, message),
        }
    }

    /// Sends a request on the spot to a child, whose frame its plan holds; the long way where there is no link, or no credit.
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

    /// Keeps a message until there is a link, if it needs one, and opens that.
    fn send_when_up(&mut self, now: Time, to: Id, message: Message) {
        let is_request = matches!(message, Message::Request(_));
        // A request may name any id there is: only those that can be reached are remembered.
        if !self.peers.contains_key(&to) && !self.addresses.contains(to) {
            if is_request {
                let why = "no address is known for it: add it to the peers".into();
                self.arrivals.push_back(Arrival::Lost { peer: to, why, unreached: true });
            }
            return;
        }
        let peer = self.peers.entry(to).or_insert_with(Peer::new);
        let absent = peer.state == State::Absent;
        // A cancel or a response is for calls of a link that is gone.
        if !absent || is_request {
            peer.pending.push(message);
        }
        if absent && is_request {
            self.connect(now, to);
        }
    }

    /// Closes the link to a peer that gives no sign of life. The chain knows already.
    pub(super) fn abandon(&mut self, peer: Id) {
        debug!(id = self.me, peer, "no sign of life: the link is closed");
        self.expected(peer);
        let Some(entry) = self.peers.get_mut(&peer) else { return };
        entry.pending.clear();
        if let State::Up(key) | State::Connecting(key) = entry.state {
            entry.state = State::Absent;
            self.discard(key);
        }
    }

    /// The chain is about to hear that this link is lost, and takes all that it has sent there for lost: what it sent since then goes too.
    /// Returns whether surely nothing of it arrives.
    pub(super) fn forget_since(&mut self, peer: Id) -> bool {
        let Some(entry) = self.peers.get_mut(&peer) else { return true };
        entry.pending.clear();
        !matches!(entry.state, State::Up(_))
    }

    /// A request of this peer has been consumed.
    pub(super) fn consumed(&mut self, from: Id) {
        if let Some(key) = self.up(from)
            && let Some(link) = self.links.get_mut(key)
            && link.consume()
        {
            link.mark(&mut self.dirty, key);
        }
    }

    /// The answer to a parent is given: what still arrives of the request is of no use.
    pub(super) fn request_ended(&mut self, parent: Id, call: CallId) {
        if let Some(key) = self.up(parent)
            && let Some(link) = self.links.get_mut(key)
        {
            link.inbox.drop_request(call);
        }
    }

    /// The peer at the other end of every link that is up.
    pub(super) fn peers_up(&self) -> Vec<Id> {
        let up = |(id, peer): (&Id, &Peer)| matches!(peer.state, State::Up(_)).then_some(*id);
        self.peers.iter().filter_map(up).collect()
    }

    /// Says goodbye on every link.
    pub(super) fn goodbye(&mut self, text: &str) {
        for peer in self.peers_up() {
            if let Some(key) = self.up(peer)
                && let Some(link) = self.links.get_mut(key)
            {
                link.outbox.goodbye(&Goodbye { reason: GoodbyeReason::Shutdown, text: text.into() });
                link.mark(&mut self.dirty, key);
            }
        }
    }

    /// Accepts connections that wait.
    pub(super) fn accept(&mut self, now: Time) {
        for listener in 0..self.listeners.len() {
            self.accept_at(now, listener);
        }
    }

    fn accept_at(&mut self, now: Time, listener: usize) {
        for _ in 0..ACCEPT_BUDGET {
            match self.listeners[listener].accept(self.local.kind == LinkKind::Shm) {
                Ok(_) if self.timed >= GREETINGS_MAX => {
                    warn!(
                        id = self.me,
                        "a connection is dropped: {GREETINGS_MAX} others have not said hello yet"
                    );
                }
                Ok(socket) => {
                    if let Err(error) = self.add(now, socket, Phase::Accepted) {
                        warn!(id = self.me, %error, "cannot serve a connection");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    warn!(id = self.me, %error, "cannot accept connections for the moment");
                    self.accept_again = Some(now.plus(ACCEPT_PAUSE));
                    return;
                }
            }
        }
        // More may wait, and the system says so only once.
        self.accept_again = Some(now);
    }

    /// Notes that a link has something to write, or may have.
    pub(super) fn note(&mut self, key: LinkKey) {
        if let Some(link) = self.links.get_mut(key) {
            link.mark(&mut self.dirty, key);
        }
    }

    /// Writes what is queued on any link, one gather write each.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        self.flush_dirty();
        if unlikely(std::mem::take(&mut self.flushed_long) || !self.granting.is_empty()) {
            self.flush_further();
        }
    }

    /// What is to be seen to when not only small frames have left.
    #[inline(never)]
    fn flush_further(&mut self) {
        // What has left may make room for what comes.
        if !self.granting.is_empty() && self.grant() {
            self.flush_dirty();
        }
        // What a link has sent is remembered for the others, as long as any sends.
        if self.extents.is_held() {
            match self.links.values().any(|link| link.outbox.is_streaming()) {
                true => self.flushed_long = true,
                false => self.extents.forget(),
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
            let Some(link) = self.links.get_mut(*key) else { return false };
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
    fn flush_dirty(&mut self) {
        if unlikely(std::mem::take(&mut self.stirred)) {
            self.mark_streaming();
        }
        // What is marked meanwhile is for the next turn.
        let count = self.dirty.len();
        for place in 0..count {
            let key = self.dirty[place];
            let Some(link) = self.links.get_mut(key) else { continue };
            link.marked = false;
            match link.flush_small() {
                Ok(true) => {}
                Ok(false) => self.flush_link(key),
                Err(error) => self.stop_writing(key, broken(&error)),
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
        let streaming = self.links.iter().filter(|(_, link)| link.outbox.is_streaming() && !link.marked);
        self.dirty.extend(streaming.map(|(key, _)| key));
    }

    /// Writes what is queued on a link, whatever it is, and sees to what comes of it.
    #[inline(never)]
    fn flush_link(&mut self, key: LinkKey) {
        self.flushed_long = true;
        let Some(link) = self.links.get_mut(key) else { return };
        if let Phase::Connecting(_) = link.phase {
            return;
        }
        let mut progress = link.flush();
        self.watched.watch(key, link);
        if let Err(error) = listen_for_room(&self.registry, key, link) {
            progress = Progress::Closed(format!("the system does not say when it takes more bytes: {error}"));
        }
        if let (Phase::Up(peer), true) = (link.phase, std::mem::take(&mut link.heard)) {
            self.arrivals.push_back(Arrival::Heard(peer));
        }
        match progress {
            Progress::Waiting if link.phase == Phase::Closing && link.outbox.is_idle() => {
                self.close(key, "closed")
            }
            Progress::Waiting => {}
            Progress::More => link.mark(&mut self.dirty, key),
            Progress::Closed(why) => self.stop_writing(key, why),
        }
    }

    /// Nothing can be written on a link any more. What the peer said before it went counts, so that is read first.
    pub(super) fn stop_writing(&mut self, key: LinkKey, why: String) {
        match self.links.get_mut(key) {
            Some(link) if link.phase != Phase::Closing => {
                link.unwritable = Some(why);
                self.unread.push(key);
            }
            _ => self.close(key, &why),
        }
    }

    /// Gives up what has taken too long.
    pub(super) fn check_deadlines(&mut self, now: Time) {
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_again = None;
            self.accept(now);
        }
        if self.timed > 0 {
            self.close_late(now);
        }
    }

    #[cold]
    fn close_late(&mut self, now: Time) {
        let late = |link: &Link| link.deadline.is_some_and(|at| at <= now);
        let keys: Vec<LinkKey> =
            self.links.iter().filter(|(_, link)| late(link)).map(|(key, _)| key).collect();
        for key in keys {
            self.close(key, &format!("no hello came within {GREETING_LIMIT:?}"));
        }
        let late = |peer: &Peer| matches!(peer.state, State::Expecting(until) if until <= now);
        let ids: Vec<Id> = self.peers.iter().filter(|(_, peer)| late(peer)).map(|(id, _)| *id).collect();
        for id in ids {
            self.lose(id, "the connection that it was opening did not come");
        }
    }

    pub(super) fn up(&self, peer: Id) -> Option<LinkKey> {
        match self.peers.get(&peer)?.state {
            State::Up(key) => Some(key),
            _ => None,
        }
    }

    /// The link to a peer that is up, and what it is noted in when it has something to write.
    pub(super) fn link_up(&mut self, peer: Id) -> Option<(&mut Link, &mut Vec<LinkKey>, LinkKey)> {
        let place = peer as usize % LAST_UP;
        let mut key = self.last_up[place];
        // A key is never used twice, so that of a link that is gone finds none.
        let stands = |link: &Link| matches!(link.phase, Phase::Up(up) if up == peer);
        if unlikely(!self.links.get(key).is_some_and(stands)) {
            key = self.up(peer)?;
            self.last_up[place] = key;
        }
        Some((self.links.get_mut(key)?, &mut self.dirty, key))
    }

    fn connect(&mut self, now: Time, to: Id) {
        let Some(address) = self.addresses.address(to) else {
            return self.lose(to, "no address is known for it: add it to the peers");
        };
        let socket = self.local.connect(&address);
        // A Unix socket is connected at once, and no event may come to say so.
        let at_once = !matches!(socket, Ok(Socket::Tcp(_)));
        let link = socket.and_then(|socket| self.add(now, socket, Phase::Connecting(to)));
        match link {
            Ok(key) => {
                if let Some(peer) = self.peers.get_mut(&to) {
                    peer.state = State::Connecting(key);
                }
                if at_once {
                    self.greet(key, to);
                }
            }
            Err(error) => self.fail_to_connect(to, &error.to_string()),
        }
    }

    /// Our attempt has failed, at whatever step: the address belongs into the reason, since that may be what is wrong.
    fn fail_to_connect(&mut self, to: Id, why: &str) {
        let why = match self.addresses.address(to) {
            Some(address) => format!("cannot connect to {address}: {why}"),
            None => why.into(),
        };
        self.lose(to, &why);
    }

    fn add(&mut self, now: Time, mut socket: Socket, phase: Phase) -> io::Result<LinkKey> {
        let key = self.links.next_key();
        let told_of_room = !socket.tells_of_each_read();
        self.registry.register(&mut socket, Token(key.0), interest(told_of_room))?;
        let mut link = Link::new(socket, phase, now.plus(GREETING_LIMIT), self.extents.clone());
        link.told_of_room = told_of_room;
        link.inbox.use_memory(self.spare.clone());
        self.links.put(link);
        self.timed += 1;
        Ok(key)
    }

    /// A connection has ended, by whatever side.
    pub(super) fn close(&mut self, key: LinkKey, why: &str) {
        let Some(link) = self.discard(key) else { return };
        let state = |peer| self.peers.get(&peer).map(|entry: &Peer| entry.state);
        match link.phase {
            Phase::Up(peer) if state(peer) == Some(State::Up(key)) => self.lose(peer, why),
            Phase::Connecting(peer) | Phase::Greeting(peer)
                if state(peer) == Some(State::Connecting(key)) =>
            {
                self.fail_to_connect(peer, why);
            }
            // Another connection to the peer has taken its place.
            Phase::Up(_) | Phase::Connecting(_) | Phase::Greeting(_) => {}
            Phase::Accepted => warn!(id = self.me, why, "a connection ended before its hello"),
            Phase::Closing => {}
        }
    }

    /// Takes a connection out of the loop.
    pub(super) fn discard(&mut self, key: LinkKey) -> Option<Link> {
        let mut link = self.links.remove(key)?;
        if link.watched {
            self.watched.drop_link(key);
        }
        if link.deadline.is_some() {
            self.timed -= 1;
        }
        // Closing the socket takes it out of the poll all the same.
        let _ = self.registry.deregister(&mut link.socket);
        Some(link)
    }

    /// There is no link to this peer any more: what waited for it is lost.
    pub(super) fn lose(&mut self, id: Id, why: &str) {
        self.expected(id);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let unreached = !matches!(peer.state, State::Up(_));
        peer.state = State::Absent;
        peer.pending.clear();
        debug!(id = self.me, peer = id, why, "link lost");
        self.arrivals.push_back(Arrival::Lost { peer: id, why: why.into(), unreached });
    }
}

fn interest(told_of_room: bool) -> Interest {
    if told_of_room { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE }
}

/// Has the system say when the peer has made room, as long as bytes wait for it, and no longer: a Unix socket says it for everything that the peer reads, which would wake this node once
/// for each message that it sends; and TCP says with everything that comes that there is room, too, so that who has read it already would be told of nothing else.
fn listen_for_room(registry: &Registry, key: LinkKey, link: &mut Link) -> io::Result<()> {
    let rings = link.socket.ring().is_some_and(RingSocket::has_rings);
    if rings || link.told_of_room == link.blocked {
        return Ok(());
    }
    // Room that was made in between is said at once.
    registry.reregister(&mut link.socket, Token(key.0), interest(link.blocked))?;
    link.told_of_room = link.blocked;
    Ok(())
}
