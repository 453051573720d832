//! Changes of the membership that one node announces to all others: a call of a built-in function, by which every
//! member learns or forgets an id.
//!
//! Source: docs/wire.md, "The built-in functions". The event loop carries out the change, as for
//! [`Node::learn`](super::Node::learn), and the id replies afterwards.

use gpc_trees::Id;

use super::Peer;
use super::call::Call;
use super::change::Change;
use super::command::ChangeAnswer;
use super::connections::Connections;
use super::event_loop::EventLoop;
use super::handles::FuncHandle;
use super::membership_function::NAME;
use crate::chain::Time;

/// Maximum number of ids that a node learns by announcements, beside those that its own application lists: as many as
/// one bootstrap has. An address takes up to some 200 bytes.
pub const ANNOUNCED_MAX: usize = 65_536;

/// Creates the call by which `me` announces a change to itself and to these ids.
pub(super) fn announcement_call(me: Id, change: &Change, members: Vec<Id>) -> Call {
    let others = members.into_iter().filter(|member| ![me, change.id()].contains(member));
    let ids: Vec<Id> = std::iter::once(me).chain(others).collect();
    Call::new(FuncHandle::named(NAME)).ids(ids).header(change.text()).partial()
}

impl EventLoop {
    /// Carries out a change that a member has announced.
    pub(super) fn change(&mut self, change: Change, answer: ChangeAnswer) {
        let now = self.clock.time();
        let changed = match change {
            Change::Announce(peer) => self.connections.announced(now, peer),
            Change::Withdraw(id) => {
                self.connections.withdrawn(now, id);
                self.calls.reasons.0.remove(&id);
                Ok(())
            }
        };
        answer.send(changed);
        // The chain must process the losses before new messages go to the peer.
        self.deliver_arrivals();
    }
}

impl Connections {
    /// The ids whose addresses this node knows.
    pub(super) fn members(&self) -> Vec<Id> {
        self.links.peering.book.ids().collect()
    }

    /// Learns a peer that a member announces. It never replaces a listed key, or the key that a link has proved: a node
    /// that claims an id must still prove it.
    ///
    /// # Errors
    /// The reason of a rejection.
    fn announced(&mut self, now: Time, peer: Peer) -> Result<(), String> {
        let (me, id) = (self.links.me, peer.id);
        if id == me {
            return Ok(());
        }
        let is_announced = self.announced.contains(&id);
        let is_own = !is_announced
            && (self.links.peering.book.contains(id) || self.links.peering.book.key(id).is_some());
        if !is_own && !is_announced && self.announced.len() >= ANNOUNCED_MAX {
            return Err(format!(
                "id {me} has {ANNOUNCED_MAX} announced ids and takes no more: withdraw some, or let its application learn id {id}"
            ));
        }
        if let Some(key) = peer.key {
            let listed = self.links.peering.book.key(id);
            self.links.peering.book.set_key(id, key);
            let contradicts = listed.is_some_and(|listed| listed != key)
                || self.links.peering.contradicting_link(id).is_some();
            if contradicts {
                self.links.peering.book.restore_key(id, listed);
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
        if id == self.links.me {
            return;
        }
        let listed = self.links.peering.book.key(id).filter(|_| !self.announced.contains(&id));
        self.forget(now, id);
        self.links.peering.book.restore_key(id, listed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Node;

    /// A call over no ids is an error, so a node without peers could not announce its first one, and a node with one
    /// peer could not withdraw it.
    #[test]
    fn the_first_peer_can_be_announced_and_the_last_one_withdrawn() {
        let mut node = Node::builder(3).polled().unwrap();
        let peer = |id| Peer::new(id, "unix:@one".parse().unwrap());
        for (change, members) in [
            (Change::Announce(peer(3)), vec![]),
            (Change::Announce(peer(5)), vec![5]),
            (Change::Withdraw(5), vec![]),
            (Change::Withdraw(5), vec![]),
        ] {
            let handle = match change {
                Change::Announce(peer) => node.announce(peer),
                Change::Withdraw(id) => node.withdraw(id),
            };
            let outcome = node.wait(handle.unwrap()).unwrap();
            assert!(outcome.is_complete() && outcome.ids().iter().eq([3]), "{outcome:?}");
            assert_eq!(node.event_loop().connections.members(), members);
        }
    }

    /// A member could have filled the memory of every other one with addresses.
    #[test]
    fn announced_ids_have_a_bound_and_make_room_when_they_are_withdrawn() {
        let mut node = Node::builder(0).peers("1 unix:@one".parse().unwrap()).polled().unwrap();
        let links = &mut node.event_loop_mut().connections;
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
        // Its own id is the application's, wherever it is listed.
        links.learn(now, peer(0));
        links.withdrawn(now, 0);
        assert!(links.members().contains(&0));
    }
}
