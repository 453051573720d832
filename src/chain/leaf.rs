//! Calls that end where they come in: a request to one id alone, whose function runs on the spot.
//!
//! Half the ids of most trees have nobody below them, and of a flat one all but the first. What `setup`, `steps` and `gather` do for such a call, with two inputs and a place in every
//! table, is done here at once where nothing stands in its way; whatever is unusual goes the long way. Source: chained-gpc.md, "A chained GPC's propagation works in the following steps", where
//! the list has one id.

use std::time::Duration;

use gpc_trees::Id;

use super::{Node, Reply, Time, gather};
use crate::wire::message::Answer;
use crate::wire::{CallId, Cause, Coverage, Failure, Request, Stage, Status};

/// A request to one id alone, with its data whole, which no other parent may have sent before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// Which call.
    pub call: CallId,
    /// Handle of the function that merges replies, if one does.
    pub callback: Option<u32>,
    /// Whether a reply is wanted.
    pub reply_wanted: bool,
    /// What is left of the call's time limit.
    pub limit: Duration,
    /// Bytes of data.
    pub data_len: u64,
}

impl Leaf {
    /// What there is to know of a request, if it is one to `me` alone.
    pub fn of(me: Id, request: &Request) -> Option<Leaf> {
        let alone = request.ids.len() == 1 && request.ids.first() == Some(me) && request.tree.is_ok();
        let usual = !request.partial && !request.adopted && request.skipped == 0;
        let shaped = matches!(request.tree, Ok(gpc_trees::Tree::Explicit(_)));
        (alone && usual && !shaped && request.data.is_whole()).then(|| Leaf {
            call: request.call,
            callback: request.callback,
            reply_wanted: request.reply_wanted,
            limit: request.limit,
            data_len: request.data.len(),
        })
    }
}

impl Node {
    /// Whether a call may run on the spot. If so, the driver runs func now, and gives what comes of it to [`leaf_ends`](Self::leaf_ends) before any other input; the request is consumed
    /// and the answer is the peer's. If not, the request is an input like any other.
    ///
    /// A function that may block, that answers later, or that waits for its turn behind others does not run on the spot.
    pub fn leaf_begins(&mut self, now: Time, from: Id, leaf: &Leaf) -> bool {
        self.now = self.now.max(now);
        self.liveness.heard(from, self.now);
        let config = &self.config;
        let taken = !self.closed && self.runs.is_idle() && self.calls.len() < config.calls_max;
        let admissible = leaf.data_len <= config.data_max && !leaf.limit.is_zero();
        let only = leaf.call.root != config.me
            && self.calls.find(leaf.call).is_none()
            && !self.recent.contains(leaf.call);
        taken && admissible && only
    }

    /// The function of a call on the spot has ended: its answer.
    pub fn leaf_ends(&mut self, leaf: &Leaf, result: Result<Reply, String>) -> Answer {
        self.recent.add(leaf.call);
        let me = self.config.me;
        let answer = result
            .map_err(|message| Cause::new(me, Stage::Func, message))
            .and_then(|own| gather::leaf(me, leaf, own, self.config.reply_max));
        answer.unwrap_or_else(|cause| {
            Answer::Failed(Box::new(Failure { cause, coverage: Coverage::all(Status::Failed, 1) }))
        })
    }
}
