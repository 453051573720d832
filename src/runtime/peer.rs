//! What a node knows of another one, and which of two connections between them stands.
//!
//! Pure: the rules of docs/wire.md, "One link per pair", without sockets.

use gpc_trees::Id;

use crate::chain::Time;
use crate::wire::{Hello, Message};

/// Names a link in its node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct LinkKey(pub(super) usize);

/// How far the link to a peer has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// There is none.
    Absent,
    /// Ours is under way.
    Connecting(LinkKey),
    /// Ours was refused because theirs stands: it is awaited until this time.
    Expecting(Time),
    /// There is one.
    Up(LinkKey),
}

/// Another node.
#[derive(Debug)]
pub(super) struct PeerEntry {
    pub(super) state: State,
    /// The run of it that was linked with last.
    pub(super) incarnation: u64,
    /// Links that there have been.
    pub(super) generation: u32,
    /// Messages for it until a link is up: a few for each call in flight.
    pub(super) pending: Vec<Message>,
}

/// What to do with someone's hello on a connection that they opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It becomes the link; this one, if any, goes, and what waited on it is lost.
    Replace(Option<LinkKey>),
    /// It becomes the link; our own attempt is dropped, nothing is lost.
    Prefer(LinkKey),
    /// The other connection stands.
    Duplicate,
    /// It is of another run of the id than this link, which stands if it still answers.
    Hold(LinkKey),
}

impl PeerEntry {
    pub(super) fn new() -> PeerEntry {
        PeerEntry { state: State::Absent, incarnation: 0, generation: 0, pending: Vec::new() }
    }

    /// Judges the hello of a connection that the peer opened to `me`.
    pub(super) fn judge(&self, me: Id, hello: &Hello) -> Verdict {
        match self.state {
            State::Absent | State::Expecting(_) => Verdict::Replace(None),
            State::Up(key) if hello.incarnation != self.incarnation => Verdict::Hold(key),
            State::Up(key) if hello.generation > self.generation => Verdict::Replace(Some(key)),
            State::Up(_) => Verdict::Duplicate,
            State::Connecting(_) if me < hello.from => Verdict::Duplicate,
            State::Connecting(key) => Verdict::Prefer(key),
        }
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
        PeerEntry { state, incarnation: 10, generation: 3, pending: Vec::new() }
    }

    #[test]
    fn of_two_attempts_that_cross_the_lower_ids_stands_on_both_sides() {
        let connecting = peer(State::Connecting(LinkKey(1)));
        assert_eq!(connecting.judge(5, &hello(9, 10, 4)), Verdict::Duplicate);
        assert_eq!(connecting.judge(5, &hello(2, 10, 4)), Verdict::Prefer(LinkKey(1)));
    }

    #[test]
    fn a_link_is_replaced_by_a_later_one_only() {
        let up = peer(State::Up(LinkKey(1)));
        assert_eq!(up.judge(5, &hello(9, 10, 3)), Verdict::Duplicate);
        assert_eq!(up.judge(5, &hello(9, 10, 4)), Verdict::Replace(Some(LinkKey(1))));
        assert_eq!(peer(State::Absent).judge(5, &hello(9, 10, 1)), Verdict::Replace(None));
    }

    /// Whose clock had once been ahead was refused until it had caught up, and so was everybody whose id had once been claimed from the end of time.
    #[test]
    fn which_run_of_an_id_says_that_it_is_the_later_one_decides_nothing() {
        for incarnation in [0, 9, 11, u64::MAX] {
            for generation in [1, 3, 9] {
                let hello = hello(9, incarnation, generation);
                assert_eq!(peer(State::Up(LinkKey(1))).judge(5, &hello), Verdict::Hold(LinkKey(1)));
                assert_eq!(peer(State::Absent).judge(5, &hello), Verdict::Replace(None));
            }
        }
    }
}
