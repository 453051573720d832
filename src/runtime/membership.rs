//! Peers that a node learns and forgets while it runs.
//!
//! Both are asked for through the queue of commands, in their order with calls. The table of addresses is as long as the application makes it.

use std::collections::VecDeque;
use std::time::Duration;

use gpc_trees::Id;
use tracing::debug;

use super::Address;
use super::events::Loss;
use super::link::Phase;
use super::links::{CLOSING_LIMIT, Links};
use super::mailbox::Unsent;
use super::peer::{PeerEntry, State};
use crate::chain::Time;
use crate::peering::PublicKey;
use crate::wire::head::{Goodbye, GoodbyeReason};

/// How long a change waits for room in the queue of commands: a busy loop makes room in milliseconds.
pub(super) const CHANGE_LIMIT: Duration = Duration::from_secs(5);

/// Forgotten ids whose links are still counted on: when so many others have been forgotten since, the other side has seen its link's end long ago.
const FORGOTTEN_MAX: usize = 1024;

/// Another node, as an application says who it is and where it listens; see [`Node::learn`](crate::Node::learn).
///
/// More may be said of a peer in later versions: so it is made with [`new`](Self::new).
///
/// ```
/// use chained_gpc::Peer;
///
/// let peer = Peer::new(7, "127.0.0.1:7007".parse()?);
/// assert_eq!((peer.id, peer.address.to_string()), (7, "127.0.0.1:7007".to_string()));
/// # Ok::<(), chained_gpc::runtime::AddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// Its id.
    pub id: Id,
    /// Where it listens.
    pub address: Address,
    /// The key that it is known by; none by default. See [`Peers::set_key`](super::Peers::set_key).
    pub key: Option<PublicKey>,
}

impl Peer {
    /// The node of this id, which listens there.
    pub fn new(id: Id, address: Address) -> Peer {
        Peer { id, address, key: None }
    }

    /// The node that is known by this key.
    pub fn known_by(self, key: PublicKey) -> Peer {
        Peer { key: Some(key), ..self }
    }
}

/// Why a node takes no change of its peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// It is about the node itself.
    #[error("id {0} is the node itself: a node neither learns nor forgets where it listens itself")]
    Own(Id),
    /// The queue to the event loop stayed full.
    #[error("the node is busy: its queue of commands is full. Try again, or start fewer calls at once")]
    Busy,
    /// The node has ended.
    #[error("the node has been shut down")]
    Ended,
}

impl From<Unsent> for MembershipError {
    fn from(unsent: Unsent) -> MembershipError {
        match unsent {
            Unsent::Full => MembershipError::Busy,
            Unsent::Ended => MembershipError::Ended,
        }
    }
}

/// The links that there have been with ids that were forgotten: one that is learned again goes on counting, or the other side, which may not have seen the last one's end, would take the next one for it.
#[derive(Debug, Default)]
pub(super) struct Forgotten(VecDeque<(Id, u64, u32)>);

impl Forgotten {
    fn keep(&mut self, id: Id, entry: &PeerEntry) {
        self.0.retain(|(kept, ..)| *kept != id);
        if self.0.len() >= FORGOTTEN_MAX {
            self.0.pop_front();
        }
        self.0.push_back((id, entry.incarnation, entry.generation));
    }

    fn take(&mut self, id: Id) -> Option<PeerEntry> {
        let place = self.0.iter().position(|(kept, ..)| *kept == id)?;
        let (_, incarnation, generation) = self.0.remove(place)?;
        Some(PeerEntry { incarnation, generation, ..PeerEntry::new() })
    }
}

impl Links {
    /// From now on a peer is looked for at this address. A link that stands stays; an attempt to connect elsewhere begins anew, with all that waits for it.
    pub(super) fn learn(&mut self, now: Time, peer: Peer) {
        let Peer { id, address, key } = peer;
        let before = self.addresses.insert(id, address.clone());
        key.into_iter().for_each(|key| self.addresses.set_key(id, key));
        if before.as_ref() == Some(&address) {
            return;
        }
        debug!(id = self.me, peer = id, %address, "a peer is learned");
        if !self.peers.contains_key(&id)
            && let Some(entry) = self.forgotten.take(id)
        {
            self.peers.insert(id, entry);
        }
        if let Some(entry) = self.peers.get_mut(&id)
            && let State::Connecting(key) = entry.state
        {
            // Nothing has gone there but a hello.
            entry.state = State::Absent;
            self.discard(key);
            self.connect(now, id);
        }
    }

    /// From now on a peer is a stranger. Its link is closed in order: what waits for it goes out, if it takes it soon, and a goodbye behind it. Whatever is under way through it is lost.
    pub(super) fn forget(&mut self, now: Time, id: Id) {
        self.addresses.remove(id);
        let Some(entry) = self.peers.get(&id) else { return };
        debug!(id = self.me, peer = id, "a peer is forgotten");
        self.forgotten.keep(id, entry);
        let why = "this node was told to forget it";
        match entry.state {
            State::Up(key) => {
                self.tell_lost(id, Loss::Forgotten, why);
                let text = format!("id {} was told to forget id {id}", self.me);
                self.say_goodbye(now, key, GoodbyeReason::LinkClosed, text);
            }
            State::Connecting(key) => drop(self.discard(key)),
            State::Absent | State::Expecting(_) => {}
        }
        self.lose(id, why);
        // Another run of it that has connected is a stranger as good as any.
        self.take_place(id);
    }

    /// Nothing but what waits, and a goodbye, goes out on a link any more; then it is closed.
    pub(super) fn say_goodbye(
        &mut self,
        now: Time,
        key: super::peer::LinkKey,
        reason: GoodbyeReason,
        text: String,
    ) {
        if let Some(link) = self.links.get_mut(key) {
            link.outbox.goodbye(&Goodbye { reason, text });
            link.phase = Phase::Closing;
            link.mark(&mut self.dirty, key);
            self.give_until(key, Some(now.plus(CLOSING_LIMIT)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_forgotten_ids_are_counted_on_up_to_a_bound() {
        let mut forgotten = Forgotten::default();
        let entry = |generation| PeerEntry { incarnation: 9, generation, ..PeerEntry::new() };
        for id in 0..2 * FORGOTTEN_MAX as Id {
            forgotten.keep(7_000_000, &entry(id));
            forgotten.keep(id, &entry(id));
            assert!(forgotten.0.len() <= FORGOTTEN_MAX);
        }
        let last = 2 * FORGOTTEN_MAX as Id - 1;
        let kept = |entry: Option<PeerEntry>| entry.map(|entry| (entry.incarnation, entry.generation));
        assert_eq!(kept(forgotten.take(7_000_000)), Some((9, last)));
        assert_eq!(kept(forgotten.take(last)), Some((9, last)));
        assert_eq!((kept(forgotten.take(last)), kept(forgotten.take(3))), (None, None));
    }
}
