//! Changes of the membership that one node announces to all others: a call of a built-in function, by which every
//! member learns or forgets an id.
//!
//! Source: docs/wire.md, "The built-in function". The event loop carries out the change, as for
//! [`Node::learn`](super::Node::learn), and the id replies afterwards.

use gpc_trees::Id;

use super::Peers;
use super::call::Call;
use super::event_loop::EventLoop;
use super::handles::FuncHandle;
use super::links::Links;
use super::membership::Peer;
use super::request::{Deferred, Request};
use crate::chain::{Reply, Time};
use crate::wire::Shown;

/// The name of the function; applications cannot register this name.
pub(super) const NAME: &str = "gpc:membership";

/// Maximum number of ids that a node learns by announcements, beside those that its own application lists: as many as
/// one bootstrap has. An address takes up to some 200 bytes.
pub const ANNOUNCED_MAX: usize = 65_536;

/// A change of the membership.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Announce(Peer),
    Withdraw(Id),
}

impl Change {
    /// The id to announce or withdraw.
    fn id(&self) -> Id {
        match self {
            Change::Announce(peer) => peer.id,
            Change::Withdraw(id) => *id,
        }
    }

    /// Creates the call that announces the change to these ids.
    pub(super) fn call(&self, members: Vec<Id>) -> Call {
        let id = self.id();
        let members = members.into_iter().filter(|member| *member != id);
        Call::new(FuncHandle::named(NAME)).ids(members.collect::<Vec<Id>>()).header(self.text()).partial()
    }

    /// The header of the call.
    fn text(&self) -> String {
        match self {
            Change::Announce(Peer { id, address, key: None }) => format!("+{id} {address}"),
            Change::Announce(Peer { id, address, key: Some(key) }) => format!("+{id} {address} {key}"),
            Change::Withdraw(id) => format!("-{id}"),
        }
    }

    /// Parses a header.
    fn parse(header: &[u8]) -> Option<Change> {
        let text = str::from_utf8(header).ok()?;
        if let Some(id) = text.strip_prefix('-') {
            return Some(Change::Withdraw(id.parse().ok()?));
        }
        let peers: Peers = text.strip_prefix('+')?.parse().ok()?;
        let (id, address) = peers.iter().next()?;
        let peer = Peer { id, address, key: peers.key(id) };
        // Exactly one line of a peers file.
        Some(Change::Announce(peer)).filter(|change| change.text() == text)
    }
}

/// The built-in function: passes the change to the event loop, which replies.
pub(super) fn change(request: &Request<'_>, answer: Deferred) {
    match Change::parse(request.header()) {
        Some(change) => request.change(change, answer),
        None => {
            let header = String::from_utf8_lossy(request.header());
            answer.fail(format!(
                "`{}` is not a change of the membership: `+ID ADDRESS`, `+ID ADDRESS KEY` or `-ID`",
                Shown(&header)
            ));
        }
    }
}

impl EventLoop {
    /// Carries out a change that a member has announced.
    pub(super) fn change(&mut self, change: Change, answer: Deferred) {
        let now = self.clock.time();
        let changed = match change {
            Change::Announce(peer) => self.links.announced(now, peer),
            Change::Withdraw(id) => {
                self.links.withdrawn(now, id);
                Ok(())
            }
        };
        match changed {
            Ok(()) => answer.reply(Reply::default()),
            Err(why) => answer.fail(why),
        }
        // The chain must process the losses before new messages go to the peer.
        self.take_in();
    }
}

impl Links {
    /// The ids whose addresses this node knows.
    pub(super) fn members(&self) -> Vec<Id> {
        self.peering.book.ids().collect()
    }

    /// Learns a peer that a member announces. It never replaces a listed key, or the key that a link has proved: a node
    /// that claims an id must still prove it.
    ///
    /// # Errors
    /// The reason of a rejection.
    fn announced(&mut self, now: Time, peer: Peer) -> Result<(), String> {
        let (me, id) = (self.me, peer.id);
        if id == me {
            return Ok(());
        }
        let is_announced = self.announced.contains(&id);
        let is_own = !is_announced && (self.peering.book.contains(id) || self.peering.book.key(id).is_some());
        if !is_own && !is_announced && self.announced.len() >= ANNOUNCED_MAX {
            return Err(format!(
                "id {me} has {ANNOUNCED_MAX} announced ids and takes no more: withdraw some, or let its application learn id {id}"
            ));
        }
        if let Some(key) = peer.key {
            let listed = self.peering.book.key(id);
            self.peering.book.set_key(id, key);
            let contradicts =
                listed.is_some_and(|listed| listed != key) || self.peering.contradicts(id).is_some();
            if contradicts {
                self.peering.book.restore_key(id, listed);
                let remedy = match is_announced {
                    true => "withdraw the id, and announce it again",
                    false => "its application must forget the id, and learn it with the new key",
                };
                return Err(format!("id {id} is known at id {me} by another key: {remedy}"));
            }
        }
        self.learn(now, peer);
        if !is_own {
            self.announced.insert(id);
        }
        Ok(())
    }

    /// Forgets a peer that a member withdraws. The key that the application has listed for it stays, so that no node
    /// can return under that id with another key.
    fn withdrawn(&mut self, now: Time, id: Id) {
        if id == self.me {
            return;
        }
        let listed = self.peering.book.key(id).filter(|_| !self.announced.contains(&id));
        self.forget(now, id);
        self.peering.book.restore_key(id, listed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peering::PublicKey;
    use crate::runtime::Node;

    #[test]
    fn a_change_reads_as_it_is_written() {
        let peer = |address: &str| Peer::new(5, address.parse().unwrap());
        for change in [
            Change::Announce(peer("127.0.0.1:7005")),
            Change::Announce(peer("unix:@five")),
            Change::Announce(peer("[::1]:7").known_by(PublicKey([7; 32]))),
            Change::Withdraw(Id::MAX),
        ] {
            assert_eq!(Change::parse(change.text().as_bytes()), Some(change));
        }
    }

    /// A member could have filled the memory of every other one with addresses.
    #[test]
    fn announced_ids_have_a_bound_and_make_room_when_they_are_withdrawn() {
        let mut node = Node::builder(0).peers("1 unix:@one".parse().unwrap()).polled().unwrap();
        let links = &mut node.event_loop_mut().links;
        let (now, peer) = (Time::default(), |id| Peer::new(id, "unix:@one".parse().unwrap()));
        let first = 2;
        let last = first + ANNOUNCED_MAX as Id;
        assert!((first..last).all(|id| links.announced(now, peer(id)).is_ok()));
        let why = links.announced(now, peer(last)).unwrap_err();
        assert!(why.starts_with("id 0 has 65536 announced ids and takes no more"), "{why}");
        // Ids that are known already, or that the application lists, do not count.
        assert!([first, 1, 0].into_iter().all(|id| links.announced(now, peer(id)).is_ok()));
        links.withdrawn(now, first);
        links.withdrawn(now, 0);
        assert!(links.announced(now, peer(last)).is_ok() && links.announced(now, peer(first)).is_err());
        links.learn(now, peer(last));
        assert!(links.announced(now, peer(first)).is_ok(), "the application's own ids do not count");
    }

    #[test]
    fn nothing_else_is_a_change() {
        let line = "5 127.0.0.1:7005";
        for text in ["", "+", "-", "5", "-x", "-4294967296", line, "+5", "+5 nowhere", "+x 127.0.0.1:1"] {
            assert_eq!(Change::parse(text.as_bytes()), None, "{text}");
        }
        for text in [
            format!("+{line}\n6 unix:@six"),
            format!("+{line} # five"),
            format!("+job x\n{line}"),
            format!("+ {line}"),
        ] {
            assert_eq!(Change::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Change::parse(&[b'-', 0xff]), None);
    }
}
