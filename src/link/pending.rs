//! Messages for peers whose links are not up yet.
//!
//! Source: docs/wire.md, "One link per pair": links open on first use. Bounded: a few messages for each call in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gpc_trees::Id;

use super::outbox::UnsentRequests;
use crate::chain::Time;
use crate::wire::{CallId, Message};

/// What waits for the links to all peers.
#[derive(Debug, Default)]
pub struct Pending {
    peers: BTreeMap<Id, ForPeer>,
}

/// What waits for the link to a peer.
#[derive(Debug, Default)]
pub struct ForPeer {
    /// What the last link has not sent, before all else.
    pub unsent: Option<Box<UnsentRequests>>,
    /// Later messages, and when they came.
    messages: Vec<(Time, Message)>,
}

impl Pending {
    /// Keeps a message for the link to a peer.
    pub fn push(&mut self, now: Time, to: Id, message: Message) {
        self.peers.entry(to).or_default().messages.push((now, message));
    }

    /// Keeps what the last link to a peer has not sent.
    pub fn keep_unsent(&mut self, to: Id, unsent: Box<UnsentRequests>) {
        self.peers.entry(to).or_default().unsent = Some(unsent);
    }

    /// Takes out what waits for a peer.
    pub fn take(&mut self, peer: Id) -> ForPeer {
        self.peers.remove(&peer).unwrap_or_default()
    }

    /// Drops what waits for a peer.
    pub fn forget(&mut self, peer: Id) {
        self.peers.remove(&peer);
    }

    /// Whether anything waits for a peer.
    pub fn has(&self, peer: Id) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Number of peers for which something waits.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// The calls whose requests wait for a peer, besides those that the last link has not sent.
    pub fn calls(&self, peer: Id) -> BTreeSet<CallId> {
        let messages = self.peers.get(&peer).into_iter().flat_map(|waiting| &waiting.messages);
        let call = |(_, message): &(Time, Message)| match message {
            Message::Request(request) => Some(request.call),
            _ => None,
        };
        messages.filter_map(call).collect()
    }
}

impl ForPeer {
    /// Takes out the messages. The time that a request has waited for the link is subtracted from what its receiver
    /// has.
    pub fn take_messages(&mut self, now: Time) -> impl Iterator<Item = Message> {
        let messages = std::mem::take(&mut self.messages);
        messages.into_iter().map(move |(since, message)| after_waiting(message, now.since(since)))
    }
}

/// Returns a message that has waited for the link for this time.
fn after_waiting(mut message: Message, waited: Duration) -> Message {
    if let Message::Request(request) = &mut message {
        let request = Arc::make_mut(request);
        request.limit = request.limit.saturating_sub(waited);
        request.left = request.left.saturating_sub(waited);
        request.age = request.age.saturating_add(waited);
    }
    message
}

#[cfg(test)]
mod tests {
    use gpc_trees::IdList;

    use super::*;
    use crate::wire::Request;

    const CALL: CallId = CallId { root: 0, sequence: 1 };

    /// The first call of a program waits at each hop until the link is open. This time was not taken off the limits of
    /// the ids below: an id whose function outlasted the limit failed so late that its report came too late.
    #[test]
    fn a_request_that_waits_for_its_link_has_less_time() {
        let second = Duration::from_secs(1);
        let request = Request { limit: second, left: second, ..Request::new(CALL, IdList::range(1..3)) };
        let waits = |waited| match after_waiting(Message::Request(Arc::new(request.clone())), waited) {
            Message::Request(request) => (request.limit, request.left, request.age),
            other => panic!("it is a request, and not {other:?}"),
        };
        let waited = Duration::from_millis(30);
        assert_eq!(waits(waited), (second - waited, second - waited, waited));
        assert_eq!(waits(2 * second), (Duration::ZERO, Duration::ZERO, 2 * second));
        assert!(matches!(after_waiting(Message::Cancel(CALL), waited), Message::Cancel(_)));
    }

    #[test]
    fn each_peer_has_its_own_messages_in_order() {
        let (mut pending, now) = (Pending::default(), Time::default());
        let request = Message::Request(Arc::new(Request::new(CALL, IdList::range(1..3))));
        pending.push(now, 1, request);
        pending.push(now, 1, Message::Cancel(CALL));
        pending.push(now, 2, Message::Ping);
        assert_eq!((pending.calls(1), pending.calls(2)), ([CALL].into(), BTreeSet::new()));
        let taken: Vec<Message> = pending.take(1).take_messages(now).collect();
        assert!(matches!(&taken[..], [Message::Request(_), Message::Cancel(_)]), "{taken:?}");
        assert!((pending.has(1), pending.has(2), pending.len()) == (false, true, 1));
        pending.push(now, 1, Message::Ping);
        pending.forget(2);
        assert_eq!((pending.has(1), pending.has(2)), (true, false));
        assert!(pending.take(2).take_messages(now).next().is_none());
        pending.forget(1);
        assert!(pending.is_empty());
    }
}
