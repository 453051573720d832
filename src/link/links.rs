//! The links of one node: routes messages to links, opens links on first use, and queues messages until a link is up.
//!
//! Source: docs/wire.md, "One link per pair". [`Links`] stores the driver's connections in a [`Table`]. The driver
//! reads and writes their bytes, and carries out each [`LinksOutput`].

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use gpc_trees::Id;

use super::deadline_queue::DeadlineQueue;
use super::outbox::unsent::UnsentRequests;
use super::output::{Arrival, LinksOutput};
use super::peering::{Book, LinkKey, LinkStatus, Peering};
use super::pending::Pending;
use super::state::{Link, Phase};
use super::table::{HasLink, Table};
use crate::branch_hint::unlikely;
use crate::chain::{ChildRequest, Input, Time};
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::{CallId, Message};

/// Entries of the cache of links: the children of an id in most trees, and as many roots.
const LAST_UP: usize = 64;

/// The links of one node, with the driver's connections `T`, among peers of the book `B`.
#[derive(Debug)]
pub struct Links<B: Book, T: HasLink> {
    /// The id of the node.
    pub me: Id,
    /// Peers, and connections that are not links yet.
    pub peering: Peering<B>,
    /// The connections.
    pub table: Table<T>,
    /// Cache of links: for some peers, the link that was up at its last use.
    last_up: [LinkKey; LAST_UP],
    /// Messages for peers whose links are not up.
    pub pending: Pending,
    /// Requests that the closing link has not sent.
    pub(super) unsent: Option<Box<UnsentRequests>>,
    /// Deadlines of connections. They are few: a link that is up has one only while a request on it is incomplete.
    pub deadlines: DeadlineQueue,
    /// Links with queued bytes, oldest first; each once.
    pub dirty: Vec<LinkKey>,
    /// Whether bytes of forwarded data have arrived.
    pub has_stream_data: bool,
    /// Links that send a long message; each once.
    pub(super) streaming: Vec<LinkKey>,
    /// Links whose peers need a WINDOW for long data, with few duplicates.
    pub window_grants: Vec<LinkKey>,
    /// Inputs for the chain.
    pub arrivals: VecDeque<Arrival>,
    pub(super) outputs: VecDeque<LinksOutput>,
}

impl<B: Book, T: HasLink> Links<B, T> {
    /// Returns a node without links.
    pub fn new(peering: Peering<B>) -> Links<B, T> {
        Links {
            me: peering.identity().me,
            peering,
            table: Table::default(),
            last_up: [LinkKey(0); LAST_UP],
            pending: Pending::default(),
            unsent: None,
            deadlines: DeadlineQueue::default(),
            dirty: Vec::new(),
            has_stream_data: false,
            streaming: Vec::new(),
            window_grants: Vec::new(),
            arrivals: VecDeque::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Option<LinksOutput> {
        self.outputs.pop_front()
    }

    /// Whether there is an output.
    #[inline(always)]
    pub fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// The link to a peer that is up.
    #[inline]
    pub fn up(&self, peer: Id) -> Option<LinkKey> {
        self.peering.up(peer)
    }

    /// The peers whose links are up.
    pub fn peers_up(&self) -> Vec<Id> {
        self.peering.all_up().map(|(id, _)| id).collect()
    }

    /// The link to a peer if it is up, with the list and the key for [`Link::mark`].
    pub fn link_up(&mut self, peer: Id) -> Option<(&mut Link, &mut Vec<LinkKey>, LinkKey)> {
        let place = peer as usize % LAST_UP;
        let mut key = self.last_up[place];
        // Keys are never reused, so the key of a closed link matches no other link.
        let is_current = |link: &Link| matches!(link.phase, Phase::Up(up) if up == peer);
        if unlikely(!self.table.link(key).is_some_and(is_current)) {
            key = self.up(peer)?;
            self.last_up[place] = key;
        }
        Some((self.table.link_mut(key)?, &mut self.dirty, key))
    }

    /// Registers a link that may have queued bytes.
    pub fn mark_dirty(&mut self, key: LinkKey) {
        if let Some(link) = self.table.link_mut(key) {
            link.mark(&mut self.dirty, key);
        }
    }

    /// Sends a message; opens a link first if none is up.
    pub fn send(&mut self, now: Time, to: Id, message: Message) {
        match self.up(to) {
            Some(key) => {
                if let Some(link) = self.table.link_mut(key) {
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

    /// Sends a request on the fast path to a child; `child` has its serialized frame. Without a link or credit, the
    /// request takes the general path.
    #[inline(always)]
    pub fn relay(&mut self, now: Time, child: &ChildRequest<'_>) {
        if let Some((link, dirty, key)) = self.link_up(child.to)
            && link.outbox.relay(child)
        {
            link.mark(dirty, key);
        } else if let Some(request) = child.request() {
            self.send(now, child.to, Message::Request(Arc::new(request)));
        }
    }

    /// Opens a link to a peer unless one is up or being opened. Returns whether it is up, or the id is this node;
    /// `None` if the id is not a peer.
    pub fn ensure_link(&mut self, id: Id) -> Option<bool> {
        if id == self.me {
            return Some(true);
        }
        match self.peering.link_status(id) {
            LinkStatus::Up(_) => Some(true),
            _ if !self.peering.book.contains(id) => None,
            LinkStatus::Open => {
                self.open(id);
                Some(false)
            }
            LinkStatus::Opening | LinkStatus::Unknown => Some(false),
        }
    }

    pub(super) fn open(&mut self, peer: Id) {
        self.outputs.push_back(LinksOutput::Open { peer });
    }

    /// Queues a message until the link is up, and opens a link if the message needs one.
    fn send_when_up(&mut self, now: Time, to: Id, message: Message) {
        let call = match &message {
            Message::Request(request) => Some(request.call),
            _ => None,
        };
        // A PING opens a link: the node may never have sent a message to the ids below a silent child.
        let opens = call.is_some() || matches!(message, Message::Ping);
        match self.peering.link_status(to) {
            // A request may name any id: only peers that can be reached get a queue.
            LinkStatus::Unknown => {
                let why = || "no address is known for it: add it to the peers".into();
                let unreachable = |call| Arrival::Input(Input::Unreachable { peer: to, call, why: why() });
                self.arrivals.extend(call.map(unreachable));
            }
            LinkStatus::Open if opens => {
                self.pending.push(now, to, message);
                self.open(to);
            }
            LinkStatus::Opening | LinkStatus::Up(_) => self.pending.push(now, to, message),
            // A cancel or a response belongs to calls of a closed link.
            LinkStatus::Open => {}
        }
    }

    /// Drops the messages that were queued after a link was lost: the chain counts everything that it sent on the link
    /// as lost. Returns false if a newer link is up: it may have sent some of these messages.
    pub fn drop_pending(&mut self, peer: Id) -> bool {
        self.pending.remove(peer);
        self.up(peer).is_none()
    }

    /// The calls whose requests a lost link has not sent, or that were queued since.
    pub fn unsent_calls(&self, peer: Id, unsent: &UnsentRequests) -> BTreeSet<CallId> {
        unsent.calls() | &self.pending.calls(peer)
    }

    /// Whether a link to the peer is being opened or may be opened.
    pub fn may_open(&self, peer: Id) -> bool {
        matches!(self.peering.link_status(peer), LinkStatus::Opening | LinkStatus::Open)
    }

    /// Sends on the next link to a peer the requests that the last link has not sent.
    pub fn resend(&mut self, peer: Id, unsent: Box<UnsentRequests>) {
        self.pending.keep_unsent(peer, unsent);
        if self.peering.link_status(peer) == LinkStatus::Open {
            self.open(peer);
        }
    }

    /// Counts a request of this peer as consumed, and returns its credit.
    pub fn consume_request(&mut self, from: Id) {
        if let Some(key) = self.up(from)
            && let Some(link) = self.table.link_mut(key)
            && link.consume()
        {
            link.mark(&mut self.dirty, key);
        }
    }

    /// Drops the rest of a request: its call has been answered.
    pub fn end_request(&mut self, parent: Id, call: CallId) {
        if let Some(key) = self.up(parent)
            && let Some(link) = self.table.link_mut(key)
        {
            link.inbox.drop_request(call);
        }
    }

    /// Sends a goodbye on every link.
    pub fn send_goodbyes(&mut self, text: &str) {
        for peer in self.peers_up() {
            if let Some(key) = self.up(peer)
                && let Some(link) = self.table.link_mut(key)
            {
                link.outbox.push_goodbye(&Goodbye { reason: GoodbyeReason::Shutdown, text: text.into() });
                link.mark(&mut self.dirty, key);
            }
        }
    }

    /// Queues a message for every peer whose link is up; returns the links.
    pub fn send_to_all(&mut self, message: impl Fn() -> Message) -> Vec<LinkKey> {
        let keys: Vec<LinkKey> = self.peers_up().into_iter().filter_map(|peer| self.up(peer)).collect();
        for key in &keys {
            if let Some(link) = self.table.link_mut(*key) {
                link.push(message());
                link.mark(&mut self.dirty, *key);
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests;
