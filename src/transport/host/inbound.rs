//! State that a node shares with the network of its program: connections, and their events.
//!
//! The program delivers messages on its own threads. Only the event loop takes events, reads, and sends. No lock is
//! held while a message is sent, since the network may deliver to another node on the same thread.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use gpc_trees::Id;

use super::connection::{Connection, End, NO_CONNECTION, REASON_MAX, Readiness};
use super::network::{MESSAGE_MIN, Network, NotSent};
use super::port::{HostPort, NotDelivered, Receives};
use super::record::{HEADER, Kind, Record};

/// Maximum number of connections with one peer: the link, connections being opened or replaced, and a margin.
const CONNECTIONS_MAX: usize = 8;

/// Maximum number of end messages that wait for room in the network. A dropped one is sent again when the peer uses its
/// connection.
const END_MESSAGES_MAX: usize = 1024;

/// Identity of a connection.
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

/// An event of a connection, for the event loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionEvent {
    /// Token of the connection in the event loop.
    pub(crate) token: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) ended: bool,
}

/// A connection, and the events that the event loop has not taken.
#[derive(Debug)]
struct Entry {
    connection: Connection,
    /// `None` until the event loop has set it.
    token: Option<usize>,
    readiness: Readiness,
    /// Whether it is in the queue of changed connections.
    changed: bool,
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
    /// Connections of peers that the event loop has not accepted.
    unaccepted: VecDeque<Key>,
    /// Connections with events.
    changed: Vec<Key>,
    /// End messages to send, also for connections that this node does not have.
    end_messages: VecDeque<EndMessage>,
    /// Number of the next connection opened here.
    next: u64,
    /// Whether the node has ended.
    ended: bool,
}

/// An end message for the peer.
#[derive(Debug)]
struct EndMessage {
    key: Key,
    sequence: u32,
    /// The protocol error that this side found; empty after a regular end.
    why: String,
}

impl State {
    fn note_change(&mut self, key: Key, readiness: Readiness) {
        let Some(entry) = self.connections.get_mut(&key) else { return };
        entry.readiness.readable |= readiness.readable;
        entry.readiness.writable |= readiness.writable;
        if (entry.readiness.readable || entry.readiness.writable)
            && !std::mem::replace(&mut entry.changed, true)
        {
            self.changed.push(key);
        }
    }

    fn insert(&mut self, key: Key) -> &mut Entry {
        let (connection, readiness) = (Connection::new(), Readiness::default());
        self.connections.entry(key).or_insert(Entry { connection, token: None, readiness, changed: false })
    }

    /// Handles a message of an unknown connection: accepts the connection, or sends an end message.
    fn handle_unknown(&mut self, key: Key, record: Record) {
        let opens = record.kind == Kind::Bytes && record.sequence == 0 && !key.opened_here;
        if opens && self.keys_of(key.peer).len() < CONNECTIONS_MAX {
            self.insert(key);
            self.unaccepted.push_back(key);
        } else if record.kind != Kind::End {
            self.queue_end(EndMessage { key, sequence: NO_CONNECTION, why: String::new() });
        }
    }

    fn keys_of(&self, peer: Id) -> Vec<Key> {
        let first = Key { peer, opened_here: false, number: 0 };
        let last = Key { peer, opened_here: true, number: u64::MAX };
        self.connections.range(first..=last).map(|(key, _)| *key).collect()
    }

    fn queue_end(&mut self, end_message: EndMessage) {
        if self.end_messages.len() < END_MESSAGES_MAX {
            self.end_messages.push_back(end_message);
        }
    }
}

impl Inbound {
    /// Attaches a node to a network. Connections opened here are numbered from `first`, which differs for each run of
    /// the id.
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
            unaccepted: VecDeque::new(),
            changed: Vec::new(),
            end_messages: VecDeque::new(),
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
            state.handle_unknown(key, record);
        }
        if let Some(entry) = state.connections.get_mut(&key) {
            let readiness = entry.connection.receive(record, payload);
            state.note_change(key, readiness);
        }
        drop(state);
        (self.wake)();
        Ok(())
    }

    fn peer_lost(&self, peer: Id, why: &str) {
        let mut state = self.state();
        let shown: String = why.chars().take(REASON_MAX).collect();
        for key in state.keys_of(peer) {
            let Some(entry) = state.connections.get_mut(&key) else { continue };
            let why = format!("the program's network has lost the peer: {shown}");
            let readiness = entry.connection.end_with(End::Lost(why));
            state.note_change(key, readiness);
        }
        state.end_messages.retain(|end_message| end_message.key.peer != peer);
        drop(state);
        (self.wake)();
    }

    fn writable(&self, peer: Id) {
        let mut state = self.state();
        for key in state.keys_of(peer) {
            state.note_change(key, Readiness { readable: false, writable: true });
        }
        drop(state);
        (self.wake)();
    }
}

impl Inbound {
    /// Opens a connection to a peer.
    pub(super) fn open(&self, peer: Id) -> Key {
        let mut state = self.state();
        let key = Key { peer, opened_here: true, number: state.next };
        state.next = state.next.wrapping_add(1);
        state.insert(key);
        key
    }

    /// Accepts the next connection that a peer has opened.
    pub(super) fn accept(&self) -> Option<Key> {
        self.state().unaccepted.pop_front()
    }

    /// Takes the events since the last call.
    pub(crate) fn take_events(&self) -> Vec<ConnectionEvent> {
        let mut state = self.state();
        let mut events = Vec::with_capacity(state.changed.len());
        let State { connections, changed, .. } = &mut *state;
        changed.retain(|key| {
            let Some(entry) = connections.get_mut(key) else { return false };
            // A connection that is not accepted yet keeps its events.
            let Some(token) = entry.token else { return true };
            let Readiness { readable, writable } = std::mem::take(&mut entry.readiness);
            entry.changed = false;
            events.push(ConnectionEvent {
                token,
                readable,
                writable,
                ended: entry.connection.end().is_some(),
            });
            false
        });
        events
    }

    /// Sends waiting end messages, as far as the network takes them.
    pub(crate) fn send_ends(&self) {
        // Bounded by the number that waits now.
        let waiting = self.state().end_messages.len();
        for _ in 0..waiting {
            let Some(end_message) = self.state().end_messages.pop_front() else { return };
            let EndMessage { key, sequence, why } = &end_message;
            let header = key.record(Kind::End, *sequence).emit();
            let why = &why.as_bytes()[..why.len().min(self.network.0.message_max() - HEADER)];
            if self.send(key.peer, &[IoSlice::new(&header), IoSlice::new(why)]) == Err(NotSent::WouldBlock) {
                self.state().queue_end(end_message);
            }
        }
    }

    /// Sets the token of a connection in the event loop.
    pub(crate) fn set_token(&self, key: Key, token: usize) {
        if let Some(entry) = self.state().connections.get_mut(&key) {
            entry.token = Some(token);
        }
    }

    /// Calls a function with a connection.
    pub(crate) fn with<T>(&self, key: Key, answer: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        self.state().connections.get_mut(&key).map(|entry| answer(&mut entry.connection))
    }

    /// Removes a connection; sends an end message unless the peer knows the end.
    pub(crate) fn close(&self, key: Key) {
        let Some(mut entry) = self.state().connections.remove(&key) else { return };
        let why = match entry.connection.end() {
            None => String::new(),
            Some(End::Broken(why)) => why.clone(),
            Some(End::Closed | End::Lost(_)) => return,
        };
        self.state().queue_end(EndMessage { key, sequence: entry.connection.next_message(0), why });
        self.send_ends();
    }

    /// Ends the node: later messages are rejected.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.unaccepted.clear();
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
