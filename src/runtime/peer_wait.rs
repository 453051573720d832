//! Waiting for other nodes: opens links to them, with retries and growing pauses, until all are up or the time has
//! passed.
//!
//! Nodes of a job start in any order. A call needs the nodes that it reaches, so its root waits for them first; calls
//! then use the links that were opened.

use std::time::Duration;

use gpc_trees::IdList;

use super::absent_peers::{Absent, AbsentPeers};
use super::command::Command;
use super::event_loop::EventLoop;
use super::mailbox::{CommandError, Mailbox};
use crate::channel::channel;

/// The first pause between two attempts: a process that is starting takes some milliseconds.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// The longest pause: too short to be noticed when the last node starts, and long enough that thousands of waiting
/// nodes cost little.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// A wait for other nodes.
pub(super) struct PeerWait {
    ids: IdList,
    limit: Duration,
    pause: Duration,
}

impl PeerWait {
    pub(super) fn new(ids: IdList, limit: Duration) -> PeerWait {
        PeerWait { ids, limit, pause: PAUSE_MIN }
    }

    /// Decides how to continue after an attempt: `None` if all nodes are up, otherwise the pause before the next
    /// attempt. `passed` is the time since the start.
    ///
    /// # Errors
    /// If the nodes can no longer come up, or the time has passed.
    pub(super) fn next_pause(
        &mut self,
        absent: Absent,
        passed: Duration,
    ) -> Result<Option<Duration>, AbsentPeers> {
        let mut absent = absent?;
        if absent.is_empty() {
            return Ok(None);
        }
        let left = self.limit.saturating_sub(passed);
        if left.is_zero() {
            let why = std::mem::take(&mut absent[0].1);
            let ids =
                IdList::from_ids(absent.into_iter().map(|(id, _)| id)).expect("a list has each id once");
            return Err(AbsentPeers::Late { ids, limit: self.limit, why });
        }
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(Some(pause))
    }

    /// Makes one attempt through the event loop of another thread: opens links to the ids that are not up.
    pub(super) fn try_remote(&self, mailbox: &Mailbox, passed: Duration) -> Absent {
        let (answer, answered) = channel();
        let command = Command::OpenLinks { ids: self.ids.clone(), answer };
        match mailbox.command(command, self.limit.saturating_sub(passed).max(PAUSE_MAX)) {
            // A loop that has ended drops the sender.
            Ok(()) => answered.recv().unwrap_or(Err(AbsentPeers::Ended)),
            Err(CommandError::Full) => Err(AbsentPeers::Late {
                ids: self.ids.clone(),
                limit: self.limit,
                why: "the command queue of this node is full".into(),
            }),
            Err(CommandError::Ended) => Err(AbsentPeers::Ended),
        }
    }

    /// Makes one attempt through an event loop of this thread.
    pub(super) fn try_local(&self, event_loop: &mut EventLoop) -> Absent {
        event_loop.open_links(&self.ids)
    }
}

impl EventLoop {
    /// Opens the missing links to some ids, and returns the ids whose links are not up.
    pub(super) fn open_links(&mut self, ids: &IdList) -> Absent {
        let now = self.clock.time();
        let mut absent = Vec::new();
        for id in ids {
            match self.connections.ensure_link(now, id) {
                Some(true) => drop(self.calls.reasons.0.remove(&id)),
                Some(false) => {
                    let why =
                        self.calls.reasons.0.entry(id).or_insert_with(|| "it has not answered yet".into());
                    absent.push((id, why.clone()));
                }
                // The list may be of any length: one unknown id is enough for the error.
                None => return Err(AbsentPeers::Unknown { ids: IdList::range(id..id + 1) }),
            }
        }
        Ok(absent)
    }
}

#[cfg(test)]
mod tests {
    use gpc_trees::Id;

    use super::*;
    use crate::runtime::{CallHandle, LinkKind, Listener, Node, Peer, PolledNode};

    /// The reason of an earlier absence was reported for a later one: a peer was forgotten, and learned again at
    /// another address.
    #[test]
    fn why_a_peer_is_absent_is_known_until_it_is_up_or_forgotten() {
        let address = LinkKind::Unix.fresh_address(1);
        let mut node = Node::builder(0).peers([(1, address.clone())].into_iter().collect()).polled().unwrap();
        let why = |node: &mut PolledNode| {
            let mut absent = node.event_loop_mut().open_links(&IdList::range(0..2)).unwrap();
            node.progress(Duration::ZERO).unwrap();
            absent.pop().map(|(_, why)| why)
        };
        assert_eq!(why(&mut node).as_deref(), Some("it has not answered yet"));
        for change in [PolledNode::forget, |node: &PolledNode, id| {
            node.withdraw(id).map(CallHandle::detach).map_err(|_| unreachable!())
        }] {
            let reason = why(&mut node).unwrap();
            assert!(reason.contains("cannot connect to"), "{reason}");
            assert_eq!(node.event_loop().calls.reasons.0.len(), 1);
            let mut other = Node::builder(1).listener(Listener::bind(&address).unwrap()).polled().unwrap();
            let up = (0..10_000).any(|_| {
                other.progress(Duration::ZERO).unwrap();
                why(&mut node).is_none()
            });
            assert!(up && node.event_loop().calls.reasons.0.is_empty(), "it is there");
            drop(other);
            node.progress(Duration::ZERO).unwrap();
            assert_eq!(
                why(&mut node).as_deref(),
                Some("it has not answered yet"),
                "of this absence nothing is known"
            );
            change(&node, 1).unwrap();
            // A withdrawal is a call of a function, which asks the loop.
            for _ in 0..10 {
                node.progress(Duration::ZERO).unwrap();
            }
            assert!(node.event_loop().calls.reasons.0.is_empty());
            node.learn(Peer::new(1, address.clone())).unwrap();
            node.progress(Duration::ZERO).unwrap();
            why(&mut node);
        }
    }

    fn absent(ids: &[Id]) -> Absent {
        Ok(ids.iter().map(|&id| (id, format!("cannot connect to {id}\n"))).collect())
    }

    #[test]
    fn pauses_grow_up_to_a_bound_and_end_with_the_time() {
        let limit = Duration::from_secs(2);
        let mut wait = PeerWait::new(IdList::range(0..9), limit);
        let mut passed = Duration::ZERO;
        let mut pauses = Vec::new();
        let error = loop {
            match wait.next_pause(absent(&[3, 7, 8]), passed) {
                Ok(pause) => pauses.push(pause.unwrap()),
                Err(error) => break error,
            }
            passed += *pauses.last().unwrap();
        };
        assert_eq!(passed, limit);
        assert!(pauses[0] == PAUSE_MIN && pauses.contains(&PAUSE_MAX) && pauses.len() < 20, "{pauses:?}");
        let expected = r"ids 3,7-8 did not come up within 2s; id 3: cannot connect to 3\n";
        assert_eq!(error.to_string(), expected);
        assert_eq!(wait.next_pause(absent(&[]), limit), Ok(None), "all are there at the last moment");
    }
}
