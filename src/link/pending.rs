//! Messages for peers whose links are not up yet.
//!
//! Source: docs/wire.md, "One link per pair": links open on first use. Bounded: a few messages for each call in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gpc_trees::Id;
use gpc_trees::sorting::collected;

use super::outbox::unsent::UnsentRequests;
use crate::chain::Time;
use crate::wire::{CallId, Message};

/// The queued messages of all peers.
#[derive(Debug, Default)]
pub struct Pending {
    peers: BTreeMap<Id, PendingForPeer>,
}

/// The queued messages of one peer.
#[derive(Debug, Default)]
pub struct PendingForPeer {
    /// Requests that the last link has not sent; they precede the messages.
    pub unsent: Option<Box<UnsentRequests>>,
    /// Messages, each with the time at which it was queued.
    messages: Vec<(Time, Message)>,
}

impl Pending {
    /// Queues a message for a peer.
    pub fn push(&mut self, now: Time, to: Id, message: Message) {
        self.peers.entry(to).or_default().messages.push((now, message));
    }

    /// Stores the requests that the last link to a peer has not sent.
    pub fn keep_unsent(&mut self, to: Id, unsent: Box<UnsentRequests>) {
        self.peers.entry(to).or_default().unsent = Some(unsent);
    }

    /// Takes the queue of a peer.
    pub fn take(&mut self, peer: Id) -> PendingForPeer {
        self.peers.remove(&peer).unwrap_or_default()
    }

    /// Drops the queue of a peer.
    pub fn remove(&mut self, peer: Id) {
        self.peers.remove(&peer);
    }

    /// Whether a peer has a queue.
    pub fn contains(&self, peer: Id) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Number of peers with a queue.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether no peer has a queue.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// The calls whose requests are queued for a peer, without those that the last link has not sent.
    pub fn calls(&self, peer: Id) -> BTreeSet<CallId> {
        let messages = self.peers.get(&peer).into_iter().flat_map(|waiting| &waiting.messages);
        let call = |(_, message): &(Time, Message)| match message {
            Message::Request(request) => Some(request.call),
            _ => None,
        };
        collected(messages.filter_map(call))
    }
}

impl PendingForPeer {
    /// Takes the messages. Subtracts the time that a request was queued from its limits.
    pub fn take_messages(&mut self, now: Time) -> impl Iterator<Item = Message> {
        let messages = std::mem::take(&mut self.messages);
        messages.into_iter().map(move |(since, message)| after_waiting(message, now.since(since)))
    }
}

/// Returns a message that was queued for this time.
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

    /// The first call of a program waits at each hop until the link is open. This time was not subtracted from the
    /// limits of the ids below. An id whose function exceeded the limit failed so late that its report was too late.
    #[test]
    fn queueing_time_is_subtracted_from_the_limits_of_a_request() {
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
        assert!((pending.contains(1), pending.contains(2), pending.len()) == (false, true, 1));
        pending.push(now, 1, Message::Ping);
        pending.remove(2);
        assert_eq!((pending.contains(1), pending.contains(2)), (true, false));
        assert!(pending.take(2).take_messages(now).next().is_none());
        pending.remove(1);
        assert!(pending.is_empty());
    }
}
