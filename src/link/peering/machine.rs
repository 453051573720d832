//! The peering machine: the connections of a node before they are links, and the choice of links among them. Runtime
//! and simulator drive it.
//!
//! Bytes and the time come in. All [`Output`]s are carried out before the next input.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use gpc_trees::Id;

use super::PublicKey;
use super::greeting::{Greeting, Proof, Source, Stage, Transport};
use super::half_open::HalfOpen;
use super::output::Output;
use super::peer::{ForgottenPeers, LinkKey, PeerEntry, State};
use super::proof::Crypto;
use super::waiting_runs::WaitingRuns;
use crate::chain::Time;
use crate::wire::{CauseKind, Job};

/// Time limit for both hellos of a connection: longer than any loaded machine needs, short enough to be reported.
pub const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// Identity of a node, as others see it.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Id of the node.
    pub me: Id,
    /// Incarnation of the node.
    pub incarnation: u64,
    /// Job of the node.
    pub job: Job,
    /// Number of unacknowledged requests that the node accepts.
    pub hiwater: u32,
}

/// Security settings of a node.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Strictness {
    /// If both sides set it, links between hosts are proved but not encrypted.
    pub no_encryption: bool,
    /// Links over TCP within one host are encrypted too.
    pub encrypt_loopback: bool,
    /// Without a secret, the node links with any process that reaches it.
    pub insecure: bool,
}

impl Strictness {
    /// Whether this side requires encryption.
    pub(super) fn encrypts(self, transport: Transport) -> bool {
        match transport {
            Transport::User | Transport::Host(_) => false,
            Transport::Loopback => self.encrypt_loopback,
            Transport::Network => !self.no_encryption,
        }
    }
}

/// The known peers.
pub trait Book {
    /// Whether an id is a peer.
    fn contains(&self, id: Id) -> bool;

    /// The key that is listed for an id.
    fn key(&self, id: Id) -> Option<PublicKey>;

    /// The address of a peer, for people; `None` if it has none.
    fn shown_address(&self, _id: Id) -> Option<String> {
        None
    }
}

/// The driver's facts about a connection with new bytes.
#[derive(Clone, Debug, Default)]
pub struct FeedContext {
    /// Whether the peer's memory for rings has arrived on it.
    pub rings: bool,
    /// Why ids that are not peers are rejected for lack of room; `None` if there is room.
    pub full: Option<String>,
}

/// State of the link to a peer, for a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkStatus {
    /// The link is up.
    Up(LinkKey),
    /// The link is being opened.
    Opening,
    /// No link: the driver connects, and calls [`Peering::add_outgoing`] or [`Peering::fail_outgoing`].
    Open,
    /// The id is not a peer.
    Unknown,
}

/// Subject of a timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TimerSubject {
    /// A connection that is not a link yet.
    Greeting(LinkKey),
    /// A peer whose connection is awaited.
    Expected(Id),
}

/// The peering machine, see the [module](super).
#[derive(Debug)]
pub struct Peering<B> {
    pub(super) me: Identity,
    pub(super) crypto: Option<Box<dyn Crypto>>,
    pub(super) strictness: Strictness,
    /// The known peers.
    pub book: B,
    /// The peers with links, and the peers in the book that have had links. Other ids get no entry, however many of
    /// them send hellos.
    pub(super) peers: BTreeMap<Id, PeerEntry>,
    pub(super) forgotten: ForgottenPeers,
    pub(super) greetings: BTreeMap<LinkKey, Greeting>,
    pub(super) half_open: HalfOpen,
    pub(super) waiting_runs: WaitingRuns,
    due: BTreeSet<(Time, TimerSubject)>,
    pub(super) outputs: VecDeque<Output>,
    /// Number of handshakes answered: each costs some tenths of a millisecond.
    pub(super) proofs: u64,
}

impl<B: Book> Peering<B> {
    /// Whether this node has a secret.
    pub fn has_secret(&self) -> bool {
        self.crypto.is_some()
    }

    /// Returns a node without links. Without `crypto` it has no secret.
    pub fn new(me: Identity, crypto: Option<Box<dyn Crypto>>, strictness: Strictness, book: B) -> Peering<B> {
        Peering {
            me,
            crypto,
            strictness,
            book,
            peers: BTreeMap::new(),
            forgotten: ForgottenPeers::default(),
            greetings: BTreeMap::new(),
            half_open: HalfOpen::default(),
            waiting_runs: WaitingRuns::default(),
            due: BTreeSet::new(),
            outputs: VecDeque::new(),
            proofs: 0,
        }
    }

    /// Returns the next output; the driver takes all of them before the next input.
    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Identity of this node.
    pub fn identity(&self) -> Identity {
        self.me
    }

    /// State of the link to a peer.
    pub fn state(&self, id: Id) -> State {
        self.peers.get(&id).map_or(State::Absent, |peer| peer.state)
    }

    /// The link to a peer, if it is up.
    #[inline]
    pub fn up(&self, id: Id) -> Option<LinkKey> {
        match self.peers.get(&id)?.state {
            State::Up(key) => Some(key),
            _ => None,
        }
    }

    /// The peers whose links are up, each with its incarnation.
    pub fn all_up(&self) -> impl Iterator<Item = (Id, u64)> {
        let up = |peer: &PeerEntry| matches!(peer.state, State::Up(_));
        self.peers.iter().filter(move |(_, peer)| up(peer)).map(|(id, peer)| (*id, peer.incarnation))
    }

    /// Incarnation of the peer's last link; 0 for an unknown peer.
    pub fn incarnation(&self, id: Id) -> u64 {
        self.peers.get(&id).map_or(0, |peer| peer.incarnation)
    }

    /// Number of handshakes answered so far.
    pub fn proofs(&self) -> u64 {
        self.proofs
    }

    /// Accepted connections that are not links yet, oldest first, each with its time limit.
    pub fn half_open(&self) -> impl Iterator<Item = (LinkKey, Option<Time>)> {
        self.half_open.keys().map(|key| (key, self.greetings.get(&key).and_then(|greeting| greeting.until)))
    }

    /// Number of entries in all tables for connections that are not links; 0 if there is no such connection.
    pub fn entry_count(&self) -> usize {
        self.greetings.len() + self.half_open.keys().count() + self.half_open.addresses()
    }

    /// When the next [`tick`](Self::tick) is due.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns the state of the link to a peer, for a sender.
    pub fn link_status(&self, id: Id) -> LinkStatus {
        match self.peers.get(&id).map(|peer| peer.state) {
            Some(State::Up(key)) => LinkStatus::Up(key),
            Some(State::Connecting(_) | State::Expecting(_)) => LinkStatus::Opening,
            Some(State::Absent) => LinkStatus::Open,
            None if self.book.contains(id) => LinkStatus::Open,
            None => LinkStatus::Unknown,
        }
    }

    /// Checks whether a connection over this transport is allowed.
    ///
    /// # Errors
    /// If it leaves the host and there is no secret; the text is for people.
    pub fn permits(&self, transport: Transport) -> Result<(), &'static str> {
        match transport == Transport::Network && self.crypto.is_none() && !self.strictness.insecure {
            true => Err(
                "links to other machines need a secret, which authenticates the nodes: give one to all nodes, or accept any process as insecure",
            ),
            false => Ok(()),
        }
    }

    /// Registers a connection to a peer that the driver is opening. The driver reports that it is
    /// [open](Self::complete_outgoing) or has [ended](Self::ended).
    pub fn add_outgoing(&mut self, now: Time, key: LinkKey, to: Id) {
        self.entry(to);
        self.set_state(to, State::Connecting(key));
        self.greetings.insert(key, Greeting::to(to));
        self.set_deadline(key, Some(now.plus(GREETING_LIMIT)));
    }

    /// Reports that no connection to a peer could be started.
    pub fn fail_outgoing(&mut self, to: Id, kind: CauseKind, why: &str) {
        self.entry(to);
        self.fail_to_reach(to, kind, why.into());
    }

    /// Registers an accepted connection.
    pub fn add_incoming(&mut self, now: Time, key: LinkKey, transport: Transport, source: Option<Source>) {
        if let Some(oldest) = self.half_open.eviction(source) {
            self.reject_silent(oldest, "it has sent no hello, and others need its place");
        }
        self.greetings.insert(key, Greeting::from(transport, source));
        self.half_open.add(key, source);
        self.set_deadline(key, Some(now.plus(GREETING_LIMIT)));
        if let Err(why) = self.permits(transport) {
            self.reject_silent(key, why);
        }
    }

    /// Closes the connection that has waited longest for a hello, to make room; returns false if none waits.
    pub fn close_oldest(&mut self) -> bool {
        let oldest = self.half_open.oldest();
        oldest.inspect(|key| self.reject_silent(*key, "it has sent no hello, and others need its place"));
        oldest.is_some()
    }

    /// Reports that a connection has ended, on either side. A connection closed by an [`Output`] is already unknown
    /// here. `kind` is the kind of failure for the calls over it, if it was a link.
    pub fn ended(&mut self, key: LinkKey, peer: Option<Id>, kind: CauseKind, why: &str) {
        if let Some(greeting) = self.end_greeting(key) {
            match (greeting.stage, greeting.peer) {
                (Stage::OnHold(_), Some(peer)) => self.waiting_runs.remove(peer, key),
                (Stage::Opening | Stage::Second(_) | Stage::Answer, Some(peer))
                    if self.state(peer) == State::Connecting(key) =>
                {
                    self.fail_to_reach(peer, CauseKind::Unreachable, why.into());
                }
                // Another connection to the peer has replaced it.
                (Stage::Opening | Stage::Second(_) | Stage::Answer, _) => {}
                // A process that only tests whether the port is open is not reported as rejected.
                (Stage::Silent, _) if greeting.piece.is_empty() => {}
                _ => self.outputs.push_back(Output::Rejected { key, why: why.into() }),
            }
        } else if let Some(peer) = peer
            && self.state(peer) == State::Up(key)
        {
            self.lose_peer(peer, kind, why.into());
            self.promote_waiting_run(peer);
        }
    }

    /// Handles all timers that are due.
    pub fn tick(&mut self, now: Time) {
        // Ends: each iteration removes a timer, and later timers stay.
        while let Some(&(at, due)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, due));
            match due {
                TimerSubject::Greeting(key) => self.expire_greeting(key),
                TimerSubject::Expected(id) => {
                    let why = "the connection that it was opening did not come";
                    self.lose_peer(id, CauseKind::Unreachable, why.into());
                }
            }
        }
    }

    fn expire_greeting(&mut self, key: LinkKey) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        greeting.until = None;
        if let (Stage::OnHold(_), Some(peer)) = (&greeting.stage, greeting.peer) {
            return self.handle_missing_answer(peer);
        }
        let why = format!(
            "no hello came within {GREETING_LIMIT:?}: the process there is stopped, or out of file descriptors"
        );
        self.ended(key, None, CauseKind::Unreachable, &why);
        self.close(key);
    }

    /// Reports that a peer is in the book again: the counts of its hellos continue.
    pub fn restore_counts(&mut self, id: Id) {
        if !self.peers.contains_key(&id)
            && let Some(entry) = self.forgotten.take(id)
        {
            self.peers.insert(id, entry);
        }
    }

    /// Returns the link of a peer for whom a key was listed, if the link was not proved by that key. The driver closes
    /// it, because the secret alone does not prove a listed id.
    pub fn contradicting_link(&self, id: Id) -> Option<LinkKey> {
        let (peer, listed) = (self.peers.get(&id)?, self.book.key(id)?);
        let proved = peer.proof == Proof::User || peer.pinned == Some(listed);
        self.up(id).filter(|_| !proved)
    }

    /// Marks the link of a peer as proved by the key that was listed, if it has proved this key; returns the link then.
    pub fn confirm_key(&mut self, id: Id) -> Option<LinkKey> {
        let (link, listed) = (self.up(id)?, self.book.key(id)?);
        let peer = self.peers.get_mut(&id)?;
        let proved = peer.proof == Proof::Secret && peer.pinned == Some(listed);
        proved.then(|| {
            peer.proof = Proof::Key;
            link
        })
    }

    /// Gives up an attempt to connect to a peer in favour of one to another address; returns false if there was none.
    pub fn give_up_attempt(&mut self, id: Id) -> bool {
        let State::Connecting(key) = self.state(id) else { return false };
        self.set_state(id, State::Absent);
        self.end_greeting(key);
        self.close(key);
        true
    }

    /// Reports that a peer is no longer in the book. Returns the state of its link; the driver closes one that was up.
    pub fn forget(&mut self, id: Id) -> State {
        let state = self.state(id);
        if let Some(entry) = self.peers.get(&id) {
            self.forgotten.keep(id, entry);
            self.give_up_attempt(id);
            let kind =
                if matches!(state, State::Up(_)) { CauseKind::LinkLost } else { CauseKind::Unreachable };
            self.lose_peer(id, kind, "this node was told to forget it".into());
        }
        // Another run of the id that has connected is now a stranger.
        self.promote_waiting_run(id);
        state
    }

    /// Reports that the driver has closed the link or the attempt of a silent peer, and has failed what waited for it.
    /// Returns the state before.
    pub fn abandon(&mut self, id: Id) -> State {
        let state = self.state(id);
        if !self.give_up_attempt(id) {
            self.set_state(id, State::Absent);
        }
        self.forget_stranger(id);
        self.promote_waiting_run(id);
        state
    }

    /// Fails everything that waits for the link to this peer.
    pub(super) fn lose_peer(&mut self, peer: Id, kind: CauseKind, why: String) {
        if self.peers.contains_key(&peer) {
            let was_up = matches!(self.state(peer), State::Up(_));
            self.set_state(peer, State::Absent);
            self.outputs.push_back(Output::Lost { peer, kind, why, was_up });
            self.forget_stranger(peer);
        }
    }

    /// Fails this node's attempt to connect, at any stage.
    fn fail_to_reach(&mut self, peer: Id, kind: CauseKind, why: String) {
        self.set_state(peer, State::Absent);
        self.outputs.push_back(Output::Unreached { peer, kind, why });
        self.forget_stranger(peer);
    }

    /// Returns the entry of a peer; the counts from before it was forgotten continue.
    pub(super) fn entry(&mut self, id: Id) -> &mut PeerEntry {
        let forgotten = &mut self.forgotten;
        self.peers.entry(id).or_insert_with(|| forgotten.take(id).unwrap_or_else(PeerEntry::new))
    }

    /// Drops the entry of a peer without a link, unless this node may connect to it: then its counts are kept. A
    /// process can send hellos under a million ids.
    pub(super) fn forget_stranger(&mut self, id: Id) {
        if self.state(id) == State::Absent
            && !self.book.contains(id)
            && let Some(entry) = self.peers.remove(&id)
            && entry.sent_generation > 0
        {
            self.forgotten.keep(id, &entry);
        }
    }

    pub(super) fn set_state(&mut self, id: Id, state: State) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let State::Expecting(until) = std::mem::replace(&mut peer.state, state) {
            self.due.remove(&(until, TimerSubject::Expected(id)));
        }
        if let State::Expecting(until) = state {
            self.due.insert((until, TimerSubject::Expected(id)));
        }
        if !matches!(state, State::Up(_)) {
            peer.pinned = None;
        }
    }

    /// Sets the time limit of a connection's stage.
    pub(super) fn set_deadline(&mut self, key: LinkKey, until: Option<Time>) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        if let Some(before) = std::mem::replace(&mut greeting.until, until) {
            self.due.remove(&(before, TimerSubject::Greeting(key)));
        }
        self.due.extend(until.map(|until| (until, TimerSubject::Greeting(key))));
    }

    /// Removes a connection from the tables.
    pub(super) fn end_greeting(&mut self, key: LinkKey) -> Option<Greeting> {
        self.set_deadline(key, None);
        let greeting = self.greetings.remove(&key)?;
        self.half_open.remove(key, greeting.source);
        Some(greeting)
    }

    /// Outputs that a connection is to be closed at once.
    pub(super) fn close(&mut self, key: LinkKey) {
        self.outputs.push_back(Output::Close { key });
    }

    fn reject_silent(&mut self, key: LinkKey, why: &str) {
        self.outputs.push_back(Output::Rejected { key, why: why.into() });
        self.end_greeting(key);
        self.close(key);
    }
}
