//! The connections of a node before they are links, and which of them are: the machine that runtime and simulator drive.
//!
//! Bytes and the time come in; [`Output`]s come out, all of which are carried out before the next input.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use gpc_trees::Id;

use super::PublicKey;
use super::greeting::{Greeting, Proof, Source, Stage, Way};
use super::half_open::HalfOpen;
use super::held::Held;
use super::output::Output;
use super::peer::{Forgotten, LinkKey, PeerEntry, State};
use super::proof::Crypto;
use crate::chain::Time;
use crate::wire::{CauseKind, Job};

/// How long a connection may take until both hellos are through: longer than any loaded machine needs, short enough to be told of.
pub const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// Who a node is to others.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Its id.
    pub me: Id,
    /// This run of it.
    pub incarnation: u64,
    /// Its job.
    pub job: Job,
    /// Requests that it takes without having acknowledged them.
    pub hiwater: u32,
}

/// How strict a node is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Strictness {
    /// Where both sides say so, links between hosts are proved and not encrypted.
    pub no_encryption: bool,
    /// Links over TCP on one host are encrypted, too.
    pub encrypt_loopback: bool,
    /// Without a secret the node links with whoever reaches it.
    pub insecure: bool,
}

impl Strictness {
    /// Whether this side asks for encryption, and does not link without.
    pub(super) fn encrypts(self, way: Way) -> bool {
        match way {
            Way::User => false,
            Way::Loopback => self.encrypt_loopback,
            Way::Network => !self.no_encryption,
        }
    }
}

/// Who the others are.
pub trait Book {
    /// Whether an id is a peer.
    fn contains(&self, id: Id) -> bool;

    /// The key that it is known by.
    fn key(&self, id: Id) -> Option<PublicKey>;
}

/// What the driver knows of a connection that something has come on.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// Whether the peer's memory for rings has come with it.
    pub rings: bool,
    /// Why there is no room for ids that are no peers, if there is none.
    pub full: Option<String>,
}

/// What a peer's link is when something is to go there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// It stands.
    Up(LinkKey),
    /// It is awaited.
    Coming,
    /// There is none: the driver connects, and says [`Peering::opened`] or [`Peering::not_opened`].
    Open,
    /// It is no peer.
    Unknown,
}

/// Whose time comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Due {
    /// A connection that is no link yet.
    Greeting(LinkKey),
    /// A peer whose connection is awaited.
    Expected(Id),
}

/// See the [module](super).
#[derive(Debug)]
pub struct Peering<B> {
    pub(super) me: Identity,
    pub(super) crypto: Option<Box<dyn Crypto>>,
    pub(super) strictness: Strictness,
    /// Who the others are.
    pub book: B,
    /// The peers that there are links with, and of those in the book the ones that there have been links with. Nobody else is remembered, however many say hello.
    pub(super) peers: BTreeMap<Id, PeerEntry>,
    pub(super) forgotten: Forgotten,
    pub(super) greetings: BTreeMap<LinkKey, Greeting>,
    pub(super) half_open: HalfOpen,
    pub(super) held: Held,
    due: BTreeSet<(Time, Due)>,
    pub(super) outputs: VecDeque<Output>,
    /// Handshakes that were answered: each costs some tenths of a millisecond.
    pub(super) proofs: u64,
}

impl<B: Book> Peering<B> {
    /// Whether this node has a secret.
    pub fn has_secret(&self) -> bool {
        self.crypto.is_some()
    }

    /// A node without links. Without `crypto` it has no secret.
    pub fn new(me: Identity, crypto: Option<Box<dyn Crypto>>, strictness: Strictness, book: B) -> Peering<B> {
        Peering {
            me,
            crypto,
            strictness,
            book,
            peers: BTreeMap::new(),
            forgotten: Forgotten::default(),
            greetings: BTreeMap::new(),
            half_open: HalfOpen::default(),
            held: Held::default(),
            due: BTreeSet::new(),
            outputs: VecDeque::new(),
            proofs: 0,
        }
    }

    /// What is to be done next; all of it before the next input.
    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The node itself.
    pub fn identity(&self) -> Identity {
        self.me
    }

    /// How far the link to a peer has come.
    pub fn state(&self, id: Id) -> State {
        self.peers.get(&id).map_or(State::Absent, |peer| peer.state)
    }

    /// The link to a peer, if it stands.
    #[inline]
    pub fn up(&self, id: Id) -> Option<LinkKey> {
        match self.peers.get(&id)?.state {
            State::Up(key) => Some(key),
            _ => None,
        }
    }

    /// The peers whose links stand, and which run of each it is.
    pub fn all_up(&self) -> impl Iterator<Item = (Id, u64)> {
        let up = |peer: &PeerEntry| matches!(peer.state, State::Up(_));
        self.peers.iter().filter(move |(_, peer)| up(peer)).map(|(id, peer)| (*id, peer.incarnation))
    }

    /// The run of a peer that was linked with last; 0 of one that is not known.
    pub fn incarnation(&self, id: Id) -> u64 {
        self.peers.get(&id).map_or(0, |peer| peer.incarnation)
    }

    /// Handshakes that were answered so far.
    pub fn proofs(&self) -> u64 {
        self.proofs
    }

    /// Connections that others have opened and that are no links yet, those that have waited longest first, and until when each may go on.
    pub fn half_open(&self) -> impl Iterator<Item = (LinkKey, Option<Time>)> {
        self.half_open.keys().map(|key| (key, self.greetings.get(&key).and_then(|greeting| greeting.until)))
    }

    /// Entries of connections that are no links, in all tables: none where there is no such connection.
    pub fn unfinished(&self) -> usize {
        self.greetings.len() + self.half_open.keys().count() + self.half_open.addresses()
    }

    /// When [`tick`](Self::tick) is due.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Something is to go to a peer.
    pub fn want(&self, id: Id) -> Wanted {
        match self.peers.get(&id).map(|peer| peer.state) {
            Some(State::Up(key)) => Wanted::Up(key),
            Some(State::Connecting(_) | State::Expecting(_)) => Wanted::Coming,
            Some(State::Absent) => Wanted::Open,
            None if self.book.contains(id) => Wanted::Open,
            None => Wanted::Unknown,
        }
    }

    /// Whether a connection by this way may be made or taken at all.
    ///
    /// # Errors
    /// When it leaves the host and there is no secret, in words.
    pub fn permits(&self, way: Way) -> Result<(), &'static str> {
        match way == Way::Network && self.crypto.is_none() && !self.strictness.insecure {
            true => Err(
                "other machines are linked with by a secret alone, which proves who takes part: give one to all nodes, or accept whoever comes as insecure",
            ),
            false => Ok(()),
        }
    }

    /// A connection to a peer has been begun. The driver says when it [stands](Self::connected), or has [ended](Self::ended).
    pub fn opened(&mut self, now: Time, key: LinkKey, to: Id) {
        self.entry(to);
        self.set_state(to, State::Connecting(key));
        self.greetings.insert(key, Greeting::to(to));
        self.give_until(key, Some(now.plus(GREETING_LIMIT)));
    }

    /// No connection to a peer could be begun.
    pub fn not_opened(&mut self, to: Id, kind: CauseKind, why: &str) {
        self.entry(to);
        self.fail_to_reach(to, kind, why.into());
    }

    /// Somebody has connected.
    pub fn accepted(&mut self, now: Time, key: LinkKey, way: Way, source: Option<Source>) {
        if let Some(oldest) = self.half_open.in_the_way(source) {
            self.refuse_unheard(oldest, "others have connected, and it has not said hello");
        }
        self.greetings.insert(key, Greeting::from(way, source));
        self.half_open.add(key, source);
        self.give_until(key, Some(now.plus(GREETING_LIMIT)));
        if let Err(why) = self.permits(way) {
            self.refuse_unheard(key, why);
        }
    }

    /// The connection that has waited longest for a hello makes room for others; false where none waits.
    pub fn close_oldest(&mut self) -> bool {
        let oldest = self.half_open.oldest();
        oldest.inspect(|key| self.refuse_unheard(*key, "others have connected, and it has not said hello"));
        oldest.is_some()
    }

    /// A connection has ended, by whatever side: one that was closed by an [`Output`] is not known here any more. `kind` is what kind of failure it is for the calls that go over it if it was a link.
    pub fn ended(&mut self, key: LinkKey, peer: Option<Id>, kind: CauseKind, why: &str) {
        if let Some(greeting) = self.end_greeting(key) {
            match (greeting.stage, greeting.peer) {
                (Stage::OnHold(_), Some(peer)) => self.held.remove(peer, key),
                (Stage::Opening | Stage::Second(_) | Stage::Answer, Some(peer))
                    if self.state(peer) == State::Connecting(key) =>
                {
                    self.fail_to_reach(peer, CauseKind::Unreachable, why.into());
                }
                // Another connection to the peer has taken its place.
                (Stage::Opening | Stage::Second(_) | Stage::Answer, _) => {}
                // Who only looks whether anybody listens is not refused anything.
                (Stage::Silent, _) if greeting.piece.is_empty() => {}
                _ => self.outputs.push_back(Output::Refused { key, why: why.into() }),
            }
        } else if let Some(peer) = peer
            && self.state(peer) == State::Up(key)
        {
            self.lose(peer, kind, why.into());
            self.take_place(peer);
        }
    }

    /// What is due by now happens.
    pub fn tick(&mut self, now: Time) {
        // Ends: what is due later than now stays.
        while let Some(&(at, due)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, due));
            match due {
                Due::Greeting(key) => self.took_too_long(key),
                Due::Expected(id) => {
                    let why = "the connection that it was opening did not come";
                    self.lose(id, CauseKind::Unreachable, why.into());
                }
            }
        }
    }

    fn took_too_long(&mut self, key: LinkKey) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        greeting.until = None;
        if let (Stage::OnHold(_), Some(peer)) = (&greeting.stage, greeting.peer) {
            return self.no_answer(peer);
        }
        let why = format!(
            "no hello came within {GREETING_LIMIT:?}: the process there is stopped, or out of file descriptors"
        );
        self.ended(key, None, CauseKind::Unreachable, &why);
        self.close(key);
    }

    /// From now on a peer is known by the book again: what was counted of its links goes on.
    pub fn learned(&mut self, id: Id) {
        if !self.peers.contains_key(&id)
            && let Some(entry) = self.forgotten.take(id)
        {
            self.peers.insert(id, entry);
        }
    }

    /// A key was listed for a peer: whether its link stands and was not proved by that key. Then the driver closes it, since a listed id never passes by the secret alone.
    pub fn contradicts(&self, id: Id) -> Option<LinkKey> {
        let (peer, listed) = (self.peers.get(&id)?, self.book.key(id)?);
        let proved = peer.proof == Proof::User || peer.pinned == Some(listed);
        self.up(id).filter(|_| !proved)
    }

    /// A key was listed for a peer: its link, if that has proved just this key before it was listed, and is known by it from now on.
    pub fn confirms(&mut self, id: Id) -> Option<LinkKey> {
        let (link, listed) = (self.up(id)?, self.book.key(id)?);
        let peer = self.peers.get_mut(&id)?;
        let proved = peer.proof == Proof::Secret && peer.pinned == Some(listed);
        proved.then(|| {
            peer.proof = Proof::Key;
            link
        })
    }

    /// An attempt to connect to a peer is given up for another one, elsewhere; false if there was none.
    pub fn give_up_attempt(&mut self, id: Id) -> bool {
        let State::Connecting(key) = self.state(id) else { return false };
        self.set_state(id, State::Absent);
        self.end_greeting(key);
        self.close(key);
        true
    }

    /// A peer is not in the book any more; the book has been told. Says how far its link had come: one that stood is the driver's to close.
    pub fn forget(&mut self, id: Id) -> State {
        let state = self.state(id);
        if let Some(entry) = self.peers.get(&id) {
            self.forgotten.keep(id, entry);
            self.give_up_attempt(id);
            let kind =
                if matches!(state, State::Up(_)) { CauseKind::LinkLost } else { CauseKind::Unreachable };
            self.lose(id, kind, "this node was told to forget it".into());
        }
        // Another run of it that has connected is a stranger as good as any.
        self.take_place(id);
        state
    }

    /// The driver has closed the link, or the attempt, of a peer that is silent; what waited for it knows already. Says how far it had come.
    pub fn abandon(&mut self, id: Id) -> State {
        let state = self.state(id);
        if !self.give_up_attempt(id) {
            self.set_state(id, State::Absent);
        }
        self.forget_stranger(id);
        self.take_place(id);
        state
    }

    /// There is no link to this peer any more: what waited for it is lost.
    pub(super) fn lose(&mut self, peer: Id, kind: CauseKind, why: String) {
        if self.peers.contains_key(&peer) {
            let stood = matches!(self.state(peer), State::Up(_));
            self.set_state(peer, State::Absent);
            self.outputs.push_back(Output::Lost { peer, kind, why, stood });
            self.forget_stranger(peer);
        }
    }

    /// Our attempt has failed, at whatever step.
    fn fail_to_reach(&mut self, peer: Id, kind: CauseKind, why: String) {
        self.set_state(peer, State::Absent);
        self.outputs.push_back(Output::Unreached { peer, kind, why });
        self.forget_stranger(peer);
    }

    /// What is known of a peer; what was counted before it was forgotten goes on.
    pub(super) fn entry(&mut self, id: Id) -> &mut PeerEntry {
        let forgotten = &mut self.forgotten;
        self.peers.entry(id).or_insert_with(|| forgotten.take(id).unwrap_or_else(PeerEntry::new))
    }

    /// Forgets a peer that there is no link with, unless this node may connect to it: then the links that there have been count. Anybody may say hello under a million names.
    pub(super) fn forget_stranger(&mut self, id: Id) {
        if self.state(id) == State::Absent
            && !self.book.contains(id)
            && let Some(entry) = self.peers.remove(&id)
            && entry.said > 0
        {
            self.forgotten.keep(id, &entry);
        }
    }

    pub(super) fn set_state(&mut self, id: Id, state: State) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let State::Expecting(until) = std::mem::replace(&mut peer.state, state) {
            self.due.remove(&(until, Due::Expected(id)));
        }
        if let State::Expecting(until) = state {
            self.due.insert((until, Due::Expected(id)));
        }
        if !matches!(state, State::Up(_)) {
            peer.pinned = None;
        }
    }

    /// Until when a connection may go on as it is.
    pub(super) fn give_until(&mut self, key: LinkKey, until: Option<Time>) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        if let Some(before) = std::mem::replace(&mut greeting.until, until) {
            self.due.remove(&(before, Due::Greeting(key)));
        }
        self.due.extend(until.map(|until| (until, Due::Greeting(key))));
    }

    /// A connection is no greeting any more.
    pub(super) fn end_greeting(&mut self, key: LinkKey) -> Option<Greeting> {
        self.give_until(key, None);
        let greeting = self.greetings.remove(&key)?;
        self.half_open.remove(key, greeting.source);
        Some(greeting)
    }

    /// Asks the driver to close a connection at once.
    pub(super) fn close(&mut self, key: LinkKey) {
        self.outputs.push_back(Output::Close { key });
    }

    fn refuse_unheard(&mut self, key: LinkKey, why: &str) {
        self.outputs.push_back(Output::Refused { key, why: why.into() });
        self.end_greeting(key);
        self.close(key);
    }
}
