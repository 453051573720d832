//! Streaming replies: the head and the data of a reply of more than a frame are separate messages, and faults may
//! strike between them.
//!
//! As in the runtime, an id sends the head of its reply at once. The data leave in one piece when they are complete, at
//! their usual cost. So a reply is in flight for longer than with consecutive segments, and faults meet the same
//! states. Of windows only one effect is simulated: sometimes an ancestor takes no data for a while.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::ranges::{NAMES, forget, forget_keys};
use chained_gpc::wire::message::{Answer, Message, Response};
use chained_gpc::wire::streaming_reply::StreamingReply;
use chained_gpc::wire::{BodyWriter, CallId};

/// The streaming replies of a world, bounded by the calls in flight at its ids.
#[derive(Default)]
pub(super) struct StreamingReplies {
    /// Key: sender. Receiver and reply, for replies whose head was sent and whose data were not.
    pub(super) outgoing: BTreeMap<(Id, CallId), (Id, StreamingReply)>,
    /// Key: receiver and sender. Replies whose head has arrived, with the writer of their data, or `None` if the reply
    /// is needed whole.
    pub(super) incoming: BTreeMap<(Id, Id, CallId), Option<BodyWriter>>,
    /// Replies whose data are held because an ancestor takes none.
    pub(super) held: BTreeSet<(Id, CallId)>,
    /// Ids that wait for data that have stalled.
    stalled: BTreeSet<(Id, CallId)>,
}

impl StreamingReplies {
    /// Handles a message that ends a long reply at its sender or cancels it at its receiver.
    pub(super) fn ends(&mut self, from: Id, to: Id, message: &Message) {
        match message {
            // A failure may also go to another id that wrongly asked this one.
            Message::Response(Response { call, answer: Answer::Failed(_) })
                if self.outgoing.get(&(from, *call)).is_some_and(|(receiver, _)| *receiver == to) =>
            {
                self.outgoing.remove(&(from, *call));
            }
            Message::Cancel(call) => drop(self.incoming.remove(&(from, to, *call))),
            _ => {}
        }
    }

    /// Handles a received message that ends a long reply.
    pub(super) fn hears(&mut self, at: Id, from: Id, message: &Message) {
        match message {
            Message::Response(Response { call, answer: Answer::Failed(_) }) => {
                self.incoming.remove(&(at, from, *call));
            }
            Message::Cancel(call) if self.outgoing.get(&(at, *call)).is_some_and(|(to, _)| *to == from) => {
                self.outgoing.remove(&(at, *call));
            }
            _ => {}
        }
    }

    /// Whether the receiver's own data are held, or it already waits for others.
    pub(super) fn is_waited_for(&self, to: Id, message: &Message) -> bool {
        let waits = |call| self.held.contains(&(to, call)) || self.stalled.contains(&(to, call));
        matches!(message, Message::Response(Response { call, .. }) if waits(*call))
    }

    /// Records that the data of this message stall.
    pub(super) fn stall(&mut self, to: Id, message: &Message) {
        if let Message::Response(Response { call, .. }) = message {
            self.stalled.insert((to, *call));
        }
    }

    /// Drops the replies of a link whose loss this end learns of.
    pub(super) fn lost(&mut self, at: Id, peer: Id) {
        let of_at = self.outgoing.range((at, NAMES[0])..=(at, NAMES[1]));
        let lost = of_at.filter(|(_, (to, _))| *to == peer).map(|(key, _)| *key);
        for key in lost.collect::<Vec<_>>() {
            self.outgoing.remove(&key);
        }
        forget(&mut self.incoming, (at, peer, NAMES[0])..=(at, peer, NAMES[1]));
    }

    /// Drops the replies of a process that ends.
    pub(super) fn ended(&mut self, id: Id) {
        forget(&mut self.outgoing, (id, NAMES[0])..=(id, NAMES[1]));
        for waits in [&mut self.held, &mut self.stalled] {
            forget_keys(waits, (id, NAMES[0])..=(id, NAMES[1]));
        }
        forget(&mut self.incoming, (id, 0, NAMES[0])..=(id, Id::MAX, NAMES[1]));
    }
}
