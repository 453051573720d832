//! A node that no call is in flight at, in little room: what it must not forget, without what calls need. A world of a million ids has one for each id that waits for nothing.

use super::kept::KeptAnswers;
use super::liveness::Liveness;
use super::recent::Recent;
use super::{Config, Node, Time};

/// What an idle [`Node`] goes on with.
#[derive(Debug)]
pub struct Rested {
    now: Time,
    next_sequence: u64,
    closed: bool,
    recent: Recent,
    liveness: Liveness,
    kept: KeptAnswers,
}

impl Rested {
    /// Answers that are kept for an adopter.
    pub fn answers_kept(&self) -> usize {
        self.kept.len()
    }
}

impl Node {
    /// Whether no call is in flight here. When [something is due](Self::next_deadline), its driver is to have it go on then.
    pub fn is_idle(&self) -> bool {
        self.calls() == 0 && self.jobs_running() == 0 && self.tickets.is_empty()
    }

    /// What a node that [is idle](Self::is_idle) goes on with; of others the calls in flight are lost.
    pub fn rest(self) -> Rested {
        let Node { now, next_sequence, closed, mut recent, liveness, kept, .. } = self;
        recent.release_room();
        Rested { now, next_sequence, closed, recent, liveness, kept }
    }

    /// The node that rested, built as it was before.
    pub fn rested(config: Config, rested: Rested) -> Node {
        let Rested { now, next_sequence, closed, recent, liveness, kept } = rested;
        let mut node = Node::new(config);
        (node.now, node.next_sequence, node.closed) = (now, next_sequence, closed);
        (node.recent, node.liveness, node.kept) = (recent, liveness, kept);
        node
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use gpc_trees::IdList;

    use super::*;
    use crate::chain::{Input, JobResult, Output, Outputs, Reply};
    use crate::wire::{CallId, Message, Request};

    fn config() -> Config {
        Config::new(7, 100)
    }

    /// What a node does about a request of this call.
    fn asked(node: &mut Node, call: CallId, partial: bool) -> Vec<Output> {
        let second = Duration::from_secs(1);
        let ids = IdList::range(7..8);
        let request = Request { partial, limit: second, left: second, ..Request::new(call, ids) };
        let mut outputs = Outputs::new();
        let message = Message::Request(Arc::new(request));
        node.input(Time::from_nanos(5), Input::Message { from: 3, message }, &mut outputs);
        outputs.drain(..).collect()
    }

    #[test]
    fn what_has_ended_here_is_known_after_a_rest() {
        for partial in [false, true] {
            let call = CallId { root: 0, sequence: 9 };
            let mut node = Node::new(config());
            assert!(asked(&mut node, call, partial).iter().any(|output| matches!(output, Output::Run(_))));
            assert!(!node.is_idle(), "a function runs");
            let mut outputs = Outputs::new();
            let result = JobResult::Replied(Reply::default());
            node.input(Time::from_nanos(6), Input::Ran { call, result }, &mut outputs);
            assert!(node.is_idle());
            let (due, rested) = (node.next_deadline(), node.rest());
            assert_eq!(rested.answers_kept(), usize::from(partial));
            let mut node = Node::rested(config(), rested);
            assert_eq!((node.next_deadline(), due.is_some()), (due, partial));
            if partial {
                let message = Message::Release(call);
                outputs.clear();
                node.input(Time::from_nanos(7), Input::Message { from: 3, message }, &mut outputs);
                assert_eq!((node.answers_kept(), node.next_deadline()), (0, None));
                node = Node::rested(config(), node.rest());
            }
            let again = asked(&mut node, call, partial);
            assert!(!again.iter().any(|output| matches!(output, Output::Run(_))), "{again:?}");
            let next = CallId { root: 0, sequence: 10 };
            assert!(asked(&mut node, next, partial).iter().any(|output| matches!(output, Output::Run(_))));
        }
    }
}
