//! The links of one node: which messages go on which link, and what waits for one.
//!
//! Source: docs/wire.md, "One link per pair". Links open on first use; messages for a peer wait until its link is up.
//! [`Links`] keeps the driver's connections in a [`Table`]. The driver reads and writes their bytes, and carries out
//! each [`LinksOutput`].

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use gpc_trees::Id;

use super::deadline_queue::DeadlineQueue;
use super::outbox::UnsentRequests;
use super::output::{Arrival, LinksOutput};
use super::peering::{Book, LinkKey, LinkStatus, Peering};
use super::pending::Pending;
use super::state::{Link, Phase};
use super::table::{HasLink, Table};
use crate::chain::{Input, Time, ToChild};
use crate::hint::unlikely;
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::{CallId, Message};

/// Peers whose links are found at once: the children of an id of most trees, and as many roots.
const LAST_UP: usize = 64;

/// The links of one node, with the driver's connections `T`, among peers of the book `B`.
#[derive(Debug)]
pub struct Links<B: Book, T: HasLink> {
    /// The id of the node.
    pub me: Id,
    /// Who the others are, which connections are links, and what becomes of those that are not.
    pub peering: Peering<B>,
    /// The connections.
    pub table: Table<T>,
    /// Of some peers the link that was up when it was last used.
    last_up: [LinkKey; LAST_UP],
    /// What is for peers whose links are not up yet.
    pub pending: Pending,
    /// What the link that is being closed has not sent.
    pub(super) unsent: Option<Box<UnsentRequests>>,
    /// What has a deadline: few connections, since a link that is up has none.
    pub due: DeadlineQueue,
    /// Links with something to write, in the order in which they had it; each once.
    pub dirty: Vec<LinkKey>,
    /// Whether bytes have come for long messages that links pass on.
    pub stirred: bool,
    /// Links that long messages leave on, each once.
    pub(super) streaming: Vec<LinkKey>,
    /// Links whose peers are to be told how far the data of some request may come; few entries for each.
    pub granting: Vec<LinkKey>,
    /// What has come in for the chain.
    pub arrivals: VecDeque<Arrival>,
    pub(super) outputs: VecDeque<LinksOutput>,
}

impl<B: Book, T: HasLink> Links<B, T> {
    /// A node without links.
    pub fn new(peering: Peering<B>) -> Links<B, T> {
        Links {
            me: peering.identity().me,
            peering,
            table: Table::default(),
            last_up: [LinkKey(0); LAST_UP],
            pending: Pending::default(),
            unsent: None,
            due: DeadlineQueue::default(),
            dirty: Vec::new(),
            stirred: false,
            streaming: Vec::new(),
            granting: Vec::new(),
            arrivals: VecDeque::new(),
            outputs: VecDeque::new(),
        }
    }

    /// The next output.
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

    /// The peer at the other end of every link that is up.
    pub fn peers_up(&self) -> Vec<Id> {
        self.peering.all_up().map(|(id, _)| id).collect()
    }

    /// The link to a peer that is up, and what it is noted in when it has something to write.
    pub fn link_up(&mut self, peer: Id) -> Option<(&mut Link, &mut Vec<LinkKey>, LinkKey)> {
        let place = peer as usize % LAST_UP;
        let mut key = self.last_up[place];
        // A key is never used twice, so that of a link that is gone finds none.
        let stands = |link: &Link| matches!(link.phase, Phase::Up(up) if up == peer);
        if unlikely(!self.table.link(key).is_some_and(stands)) {
            key = self.up(peer)?;
            self.last_up[place] = key;
        }
        Some((self.table.link_mut(key)?, &mut self.dirty, key))
    }

    /// Records that a link has something to write, or may have.
    pub fn note(&mut self, key: LinkKey) {
        if let Some(link) = self.table.link_mut(key) {
            link.mark(&mut self.dirty, key);
        }
    }

    /// Sends a message, opening a link first if there is none.
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

    /// Sends a request on the fast path to a child, whose frame its plan holds; by the general path where there is no
    /// link, or no credit.
    #[inline(always)]
    pub fn relay(&mut self, now: Time, child: &ToChild<'_>) {
        if let Some((link, dirty, key)) = self.link_up(child.to)
            && link.outbox.relay(child)
        {
            link.mark(dirty, key);
        } else if let Some(request) = child.request() {
            self.send(now, child.to, Message::Request(Arc::new(request)));
        }
    }

    /// Whether there is a link to a peer, or it is this node itself; where none is being opened either, one is. `None`
    /// if it is not among the peers.
    pub fn meet(&mut self, id: Id) -> Option<bool> {
        if id == self.me {
            return Some(true);
        }
        match self.peering.want(id) {
            LinkStatus::Up(_) => Some(true),
            _ if !self.peering.book.contains(id) => None,
            LinkStatus::Open => {
                self.open(id);
                Some(false)
            }
            LinkStatus::Coming | LinkStatus::Unknown => Some(false),
        }
    }

    pub(super) fn open(&mut self, peer: Id) {
        self.outputs.push_back(LinksOutput::Open { peer });
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
                self.open(to);
            }
            LinkStatus::Coming | LinkStatus::Up(_) => self.pending.push(now, to, message),
            // A cancel or a response is for calls of a link that is gone.
            LinkStatus::Open => {}
        }
    }

    /// The chain is about to hear that this link is lost, and takes all that it has sent there for lost: what it sent
    /// since then goes too. Returns whether surely nothing of it arrives.
    pub fn forget_since(&mut self, peer: Id) -> bool {
        self.pending.forget(peer);
        self.up(peer).is_none()
    }

    /// The calls whose requests a link that is lost has not sent, or that were queued since.
    pub fn calls_unsent(&self, peer: Id, unsent: &UnsentRequests) -> BTreeSet<CallId> {
        unsent.calls() | &self.pending.calls(peer)
    }

    /// Whether the next link to a peer is under way, or may be opened.
    pub fn may_open(&self, peer: Id) -> bool {
        matches!(self.peering.want(peer), LinkStatus::Coming | LinkStatus::Open)
    }

    /// Sends on the next link to a peer what the last one has not sent.
    pub fn resend(&mut self, peer: Id, unsent: Box<UnsentRequests>) {
        self.pending.keep_unsent(peer, unsent);
        if self.peering.want(peer) == LinkStatus::Open {
            self.open(peer);
        }
    }

    /// A request of this peer has been consumed.
    pub fn consumed(&mut self, from: Id) {
        if let Some(key) = self.up(from)
            && let Some(link) = self.table.link_mut(key)
            && link.consume()
        {
            link.mark(&mut self.dirty, key);
        }
    }

    /// The answer to a parent is given: what still arrives of the request is of no use.
    pub fn request_ended(&mut self, parent: Id, call: CallId) {
        if let Some(key) = self.up(parent)
            && let Some(link) = self.table.link_mut(key)
        {
            link.inbox.drop_request(call);
        }
    }

    /// Says goodbye on every link.
    pub fn goodbye(&mut self, text: &str) {
        for peer in self.peers_up() {
            if let Some(key) = self.up(peer)
                && let Some(link) = self.table.link_mut(key)
            {
                link.outbox.goodbye(&Goodbye { reason: GoodbyeReason::Shutdown, text: text.into() });
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
