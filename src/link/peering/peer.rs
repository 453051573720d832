//! State of a peer at a node, and the choice between two connections of a pair.
//!
//! Source: docs/wire.md, "One link per pair".

use std::collections::VecDeque;

use gpc_trees::Id;

use super::PublicKey;
use super::greeting::Proof;
use crate::chain::Time;
use crate::wire::Hello;

/// Identifier of a connection within its node; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkKey(pub usize);

/// State of the link to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No link.
    Absent,
    /// This node is connecting.
    Connecting(LinkKey),
    /// This node's connection was rejected in favour of the peer's, which it awaits until this time.
    Expecting(Time),
    /// The link is up.
    Up(LinkKey),
}

/// State of a peer, as this node knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerEntry {
    pub(super) state: State,
    /// The run of the peer that was linked last.
    pub(super) incarnation: u64,
    /// The generation of this node's last hello to the peer.
    pub(super) sent_generation: u32,
    /// The highest generation received from this run of the peer; a hello with no higher one is a repetition.
    pub(super) received_generation: u32,
    /// The key that the peer has proved, for a link that is up.
    pub(super) pinned: Option<PublicKey>,
    /// How the peer has proved its membership, for a link that is up.
    pub(super) proof: Proof,
}

/// Decision on a hello on an accepted connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It becomes the link and replaces this one, if any; whatever waited on the old link is lost.
    Replace(Option<LinkKey>),
    /// It becomes the link; this node's own attempt is dropped, and nothing is lost.
    Prefer(LinkKey),
    /// The other connection is kept.
    Duplicate,
    /// It is from another run of the id than this link, which is kept if it still answers.
    Hold(LinkKey),
    /// It claims to be the run of the link but has another key.
    Impostor,
}

impl PeerEntry {
    pub(super) fn new() -> PeerEntry {
        PeerEntry {
            state: State::Absent,
            incarnation: 0,
            sent_generation: 0,
            received_generation: 0,
            pinned: None,
            proof: Proof::None,
        }
    }

    /// Returns the generation of this node's next hello: higher than any that either side has sent, whatever their
    /// result. The other side may have accepted one as a link without this node knowing.
    pub(super) fn advance_generation(&mut self) -> u32 {
        self.sent_generation = self.sent_generation.max(self.received_generation).saturating_add(1);
        self.sent_generation
    }

    /// Decides on the hello of a connection that the peer opened to `me`, with the key that it proved, if any.
    /// `has_sent_hello` is whether this node's own attempt, if any, has sent its hello.
    pub(super) fn judge(
        &self,
        me: Id,
        hello: &Hello,
        key: Option<PublicKey>,
        has_sent_hello: bool,
    ) -> Verdict {
        match self.state {
            State::Absent | State::Expecting(_) => Verdict::Replace(None),
            State::Up(up) if hello.incarnation != self.incarnation => Verdict::Hold(up),
            State::Up(_) if self.pinned.is_some() && key.is_some() && self.pinned != key => Verdict::Impostor,
            // One of the two is a Unix socket, which proves no key. A connection with a key may come from another
            // member that learned the incarnation from a hello. One over a Unix socket may come from the same process.
            State::Up(up) if self.pinned != key => Verdict::Hold(up),
            State::Up(up) if hello.generation > self.received_generation => Verdict::Replace(Some(up)),
            State::Up(_) => Verdict::Duplicate,
            State::Connecting(_) if has_sent_hello && me < hello.from => Verdict::Duplicate,
            State::Connecting(ours) => Verdict::Prefer(ours),
        }
    }
}

/// Maximum number of forgotten ids whose hellos are still counted. Once so many others have been forgotten, the other
/// side has long noticed the end of its link.
const FORGOTTEN_MAX: usize = 1024;

/// Hello counts of ids that were forgotten. If an id is added again, its counts continue. Otherwise the other side
/// might take the next hello for one of the last link, whose end it has not noticed.
#[derive(Debug, Default)]
pub(super) struct ForgottenPeers(VecDeque<(Id, u64, [u32; 2])>);

impl ForgottenPeers {
    pub(super) fn keep(&mut self, id: Id, entry: &PeerEntry) {
        self.0.retain(|(kept, ..)| *kept != id);
        if self.0.len() >= FORGOTTEN_MAX {
            self.0.pop_front();
        }
        self.0.push_back((id, entry.incarnation, [entry.sent_generation, entry.received_generation]));
    }

    pub(super) fn take(&mut self, id: Id) -> Option<PeerEntry> {
        let place = self.0.iter().position(|(kept, ..)| *kept == id)?;
        let (_, incarnation, [sent_generation, received_generation]) = self.0.remove(place)?;
        Some(PeerEntry { incarnation, sent_generation, received_generation, ..PeerEntry::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(from: Id, incarnation: u64, generation: u32) -> Hello {
        Hello {
            from,
            to: 5,
            incarnation,
            generation,
            hiwater: 1,
            job: Default::default(),
            rings: false,
            extents: false,
        }
    }

    fn peer(state: State) -> PeerEntry {
        PeerEntry { state, incarnation: 10, received_generation: 3, ..PeerEntry::new() }
    }

    #[test]
    fn the_attempt_of_the_lower_id_wins_on_both_sides() {
        let connecting = peer(State::Connecting(LinkKey(1)));
        assert_eq!(connecting.judge(5, &hello(9, 10, 4), None, true), Verdict::Duplicate);
        assert_eq!(connecting.judge(5, &hello(2, 10, 4), None, true), Verdict::Prefer(LinkKey(1)));
        assert_eq!(
            connecting.judge(5, &hello(9, 10, 4), None, false),
            Verdict::Prefer(LinkKey(1)),
            "silent yet"
        );
    }

    #[test]
    fn a_link_is_replaced_by_a_later_one_only() {
        let up = peer(State::Up(LinkKey(1)));
        assert_eq!(up.judge(5, &hello(9, 10, 3), None, true), Verdict::Duplicate);
        assert_eq!(up.judge(5, &hello(9, 10, 4), None, true), Verdict::Replace(Some(LinkKey(1))));
        assert_eq!(peer(State::Absent).judge(5, &hello(9, 10, 1), None, true), Verdict::Replace(None));
    }

    /// A node whose clock had once been ahead was rejected until it had caught up. So was an id that had once been
    /// claimed with the highest incarnation.
    #[test]
    fn the_order_of_incarnations_decides_nothing() {
        for incarnation in [0, 9, 11, u64::MAX] {
            for generation in [1, 3, 9] {
                let hello = hello(9, incarnation, generation);
                assert_eq!(
                    peer(State::Up(LinkKey(1))).judge(5, &hello, None, true),
                    Verdict::Hold(LinkKey(1))
                );
                assert_eq!(peer(State::Absent).judge(5, &hello, None, true), Verdict::Replace(None));
            }
        }
    }

    #[test]
    fn a_link_is_bound_to_the_proved_key_of_its_peer() {
        let [mine, other] = [1, 2].map(|byte| PublicKey([byte; 32]));
        let up = PeerEntry { pinned: Some(mine), ..peer(State::Up(LinkKey(1))) };
        assert_eq!(up.judge(5, &hello(9, 10, 4), Some(mine), true), Verdict::Replace(Some(LinkKey(1))));
        assert_eq!(up.judge(5, &hello(9, 10, 4), Some(other), true), Verdict::Impostor);
        assert_eq!(up.judge(5, &hello(9, 10, 4), None, true), Verdict::Hold(LinkKey(1)), "of a user");
        for key in [Some(other), None] {
            let verdict = up.judge(5, &hello(9, 11, 1), key, true);
            assert_eq!(verdict, Verdict::Hold(LinkKey(1)), "it may have died");
        }
    }

    /// A member that had the secret and had learned the incarnation of an id from its hello connected from another
    /// host. It replaced that id's link over a Unix socket without a check.
    #[test]
    fn a_link_without_a_key_is_pinged_before_one_with_a_key_replaces_it() {
        let up = peer(State::Up(LinkKey(1)));
        assert_eq!(up.judge(5, &hello(9, 10, 4), Some(PublicKey([1; 32])), true), Verdict::Hold(LinkKey(1)));
        assert_eq!(up.judge(5, &hello(9, 10, 4), None, true), Verdict::Replace(Some(LinkKey(1))));
    }

    #[test]
    fn hello_counts_of_forgotten_ids_are_kept_up_to_a_bound() {
        let mut forgotten = ForgottenPeers::default();
        let entry = |sent_generation| PeerEntry { incarnation: 9, sent_generation, ..PeerEntry::new() };
        for id in 0..2 * FORGOTTEN_MAX as Id {
            forgotten.keep(7_000_000, &entry(id));
            forgotten.keep(id, &entry(id));
        }
        assert_eq!(forgotten.0.len(), FORGOTTEN_MAX);
        let again = forgotten.take(7_000_000).unwrap();
        assert_eq!((again.sent_generation, again.incarnation), (2 * FORGOTTEN_MAX as u32 - 1, 9));
        assert!(forgotten.take(7_000_000).is_none() && forgotten.take(3).is_none());
    }
}
