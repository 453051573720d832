//! What a node and its program share: the connections over the program's network, and what has happened on them.
//!
//! The program delivers on threads of its own; the node's event loop takes the news, reads, and alone sends. No lock is
//! held while a message is sent, since the network may deliver to another node on the same thread.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use gpc_trees::Id;

use super::connection::{Connection, End, NOT_HERE, News, REASON_MAX};
use super::network::{MESSAGE_MIN, Network, NotSent};
use super::port::{HostPort, NotDelivered, Receives};
use super::record::{HEADER, Kind, Record};

/// Maximum number of connections with one peer: one that stands, those that are being opened or replaced, and spare
/// ones.
const CONNECTIONS_MAX: usize = 8;

/// Maximum number of ends that wait for room in the network. An end that is dropped is sent again when the peer uses
/// its connection.
const FAREWELLS_MAX: usize = 1024;

/// Name of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    pub(crate) peer: Id,
    /// Whether this side has opened it.
    pub(crate) opened_here: bool,
    pub(crate) number: u64,
}

impl Key {
    /// The header of a message on this connection.
    pub(crate) fn record(self, kind: Kind, sequence: u32) -> Record {
        Record { kind, opened_by_receiver: !self.opened_here, sequence, connection: self.number }
    }
}

/// News of a connection for the event loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The number by which the event loop knows the connection.
    pub(crate) token: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) ended: bool,
}

/// A connection, and what the event loop has not heard about it.
#[derive(Debug)]
struct Entry {
    connection: Connection,
    /// `None` until the event loop has named it.
    token: Option<usize>,
    news: News,
    /// Whether it is among those with news.
    noted: bool,
}

/// See the [module](self).
pub(crate) struct Inbound {
    pub(crate) me: Id,
    pub(crate) network: Network,
    /// Wakes the event loop.
    wake: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    connections: BTreeMap<Key, Entry>,
    /// Connections that peers have opened, and the event loop has not accepted.
    fresh: VecDeque<Key>,
    /// Connections with news.
    noted: Vec<Key>,
    /// Ends of connections that this node does not have, or has closed.
    farewells: VecDeque<Farewell>,
    /// The number of the next connection that is opened here.
    next: u64,
    /// Whether the node has ended.
    ended: bool,
}

/// The end of a connection, for the peer.
#[derive(Debug)]
struct Farewell {
    key: Key,
    sequence: u32,
    /// What this side has found wrong.
    why: String,
}

impl State {
    fn note(&mut self, key: Key, news: News) {
        let Some(entry) = self.connections.get_mut(&key) else { return };
        entry.news.readable |= news.readable;
        entry.news.writable |= news.writable;
        if (entry.news.readable || entry.news.writable) && !std::mem::replace(&mut entry.noted, true) {
            self.noted.push(key);
        }
    }

    fn insert(&mut self, key: Key) -> &mut Entry {
        let (connection, news) = (Connection::new(), News::default());
        self.connections.entry(key).or_insert(Entry { connection, token: None, news, noted: false })
    }

    /// A message has come on a connection that this node does not have: it opens one, or the peer is told that there is
    /// none.
    fn meet(&mut self, key: Key, record: Record) {
        let opens = record.kind == Kind::Bytes && record.sequence == 0 && !key.opened_here;
        if opens && self.all_of(key.peer).len() < CONNECTIONS_MAX {
            self.insert(key);
            self.fresh.push_back(key);
        } else if record.kind != Kind::End {
            self.say_farewell(Farewell { key, sequence: NOT_HERE, why: String::new() });
        }
    }

    fn all_of(&self, peer: Id) -> Vec<Key> {
        let first = Key { peer, opened_here: false, number: 0 };
        let last = Key { peer, opened_here: true, number: u64::MAX };
        self.connections.range(first..=last).map(|(key, _)| *key).collect()
    }

    fn say_farewell(&mut self, farewell: Farewell) {
        if self.farewells.len() < FAREWELLS_MAX {
            self.farewells.push_back(farewell);
        }
    }
}

impl Inbound {
    /// Begins to use a network. `first` is the number of the first connection that is opened here; another run of the
    /// id begins elsewhere.
    ///
    /// # Errors
    /// If the messages of the network are too short.
    pub(crate) fn start(
        me: Id,
        network: Network,
        first: u64,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> io::Result<Arc<Inbound>> {
        let message_max = network.0.message_max();
        if message_max < MESSAGE_MIN {
            let why = format!(
                "messages of {message_max} bytes are too short: a network takes {MESSAGE_MIN} or more"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let state = State {
            connections: BTreeMap::new(),
            fresh: VecDeque::new(),
            noted: Vec::new(),
            farewells: VecDeque::new(),
            next: first,
            ended: false,
        };
        let inbound = Arc::new(Inbound { me, network, wake, state: Mutex::new(state) });
        let port: Weak<dyn Receives> = Arc::<Inbound>::downgrade(&inbound);
        inbound.network.0.starts(HostPort::new(me, port));
        Ok(inbound)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Receives for Inbound {
    fn deliver(&self, from: Id, message: &[u8]) -> Result<(), NotDelivered> {
        let (record, payload) = Record::parse(message)
            .map_err(|error| NotDelivered::NoMessage { from, why: error.to_string() })?;
        let key = Key { peer: from, opened_here: record.opened_by_receiver, number: record.connection };
        let mut state = self.state();
        if state.ended {
            return Err(NotDelivered::Ended);
        }
        if !state.connections.contains_key(&key) {
            state.meet(key, record);
        }
        if let Some(entry) = state.connections.get_mut(&key) {
            let news = entry.connection.came(record, payload);
            state.note(key, news);
        }
        drop(state);
        (self.wake)();
        Ok(())
    }

    fn peer_lost(&self, peer: Id, why: &str) {
        let mut state = self.state();
        let shown: String = why.chars().take(REASON_MAX).collect();
        for key in state.all_of(peer) {
            let Some(entry) = state.connections.get_mut(&key) else { continue };
            let why = format!("the program's network has lost the peer: {shown}");
            let news = entry.connection.end_with(End::Lost(why));
            state.note(key, news);
        }
        state.farewells.retain(|farewell| farewell.key.peer != peer);
        drop(state);
        (self.wake)();
    }

    fn writable(&self, peer: Id) {
        let mut state = self.state();
        for key in state.all_of(peer) {
            state.note(key, News { readable: false, writable: true });
        }
        drop(state);
        (self.wake)();
    }
}

impl Inbound {
    /// Begins a connection to a peer.
    pub(super) fn open(&self, peer: Id) -> Key {
        let mut state = self.state();
        let key = Key { peer, opened_here: true, number: state.next };
        state.next = state.next.wrapping_add(1);
        state.insert(key);
        key
    }

    /// The next connection that a peer has opened.
    pub(super) fn accept(&self) -> Option<Key> {
        self.state().fresh.pop_front()
    }

    /// What has happened since this was last asked.
    pub(crate) fn news(&self) -> Vec<Told> {
        let mut state = self.state();
        let mut told = Vec::with_capacity(state.noted.len());
        let State { connections, noted, .. } = &mut *state;
        noted.retain(|key| {
            let Some(entry) = connections.get_mut(key) else { return false };
            // One that is not accepted yet keeps its news.
            let Some(token) = entry.token else { return true };
            let News { readable, writable } = std::mem::take(&mut entry.news);
            entry.noted = false;
            told.push(Told { token, readable, writable, ended: entry.connection.end().is_some() });
            false
        });
        told
    }

    /// Sends the ends that wait, as far as the network takes them.
    pub(crate) fn say_farewells(&self) {
        // Bounded by those that wait now.
        let waiting = self.state().farewells.len();
        for _ in 0..waiting {
            let Some(farewell) = self.state().farewells.pop_front() else { return };
            let Farewell { key, sequence, why } = &farewell;
            let header = key.record(Kind::End, *sequence).emit();
            let why = &why.as_bytes()[..why.len().min(self.network.0.message_max() - HEADER)];
            if self.send(key.peer, &[IoSlice::new(&header), IoSlice::new(why)]) == Err(NotSent::WouldBlock) {
                self.state().say_farewell(farewell);
            }
        }
    }

    /// Names a connection, as the event loop knows it from now on.
    pub(crate) fn name(&self, key: Key, token: usize) {
        if let Some(entry) = self.state().connections.get_mut(&key) {
            entry.token = Some(token);
        }
    }

    /// Calls a function with a connection.
    pub(crate) fn with<T>(&self, key: Key, answer: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        self.state().connections.get_mut(&key).map(|entry| answer(&mut entry.connection))
    }

    /// Takes a connection out, and tells the peer unless it knows.
    pub(crate) fn close(&self, key: Key) {
        let Some(mut entry) = self.state().connections.remove(&key) else { return };
        let why = match entry.connection.end() {
            None => String::new(),
            Some(End::Broken(why)) => why.clone(),
            Some(End::Closed | End::Lost(_)) => return,
        };
        self.state().say_farewell(Farewell { key, sequence: entry.connection.sends(0), why });
        self.say_farewells();
    }

    /// The node has ended: nothing is delivered any more.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.fresh.clear();
        let left: Vec<Key> = state.connections.keys().copied().collect();
        drop(state);
        left.into_iter().for_each(|key| self.close(key));
    }

    pub(crate) fn send(&self, to: Id, parts: &[IoSlice<'_>]) -> Result<(), NotSent> {
        debug_assert!(parts.iter().map(|part| part.len()).sum::<usize>() >= HEADER);
        self.network.0.send(to, parts)
    }
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbound").field("me", &self.me).finish_non_exhaustive()
    }
}
