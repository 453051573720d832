//! Checks a call before anything is sent, and makes the start for the chain and the caller's record.

use std::time::Duration;

use gpc_trees::{Id, IdList, Ids, IdsError};

use super::call::{Call, CallTree};
use super::call_error::CallError;
use super::handles::CallbackHandle;
use super::plan::Plan;
use super::side::Side;
use crate::chain::Start;
use crate::wire::Body;
use crate::wire::frame::HEADER_MAX;

/// Default time limit of a call: long enough for work, short enough that no user takes it for a hang.
const LIMIT: Duration = Duration::from_secs(60);

impl Side {
    /// Checks a call; `left` is its time limit if it sets none.
    pub(super) fn prepare(&self, call: Call, left: Option<Duration>) -> Result<(Start, Plan), CallError> {
        let (start, mut plan) = self.start(call, left)?;
        plan.workers = workers(&start);
        Ok((start, plan))
    }

    /// Returns the start and the record of a call, without its classes of workers.
    fn start(&self, call: Call, left: Option<Duration>) -> Result<(Start, Plan), CallError> {
        let me = self.id;
        let class = |placement: &_| self.executors.class(placement).unwrap_or_default();
        let (classes, merging) = self.functions.of_call(call.func, call.callback, call.watch, class)?;
        if call.header.len() > HEADER_MAX {
            return Err(CallError::Header(call.header.len()));
        }
        let (ids, asked) = lists(call.watch, call.ids, me)?;
        let (tree, ids) = match call.tree {
            CallTree::Split(tree) => (tree, ids),
            CallTree::Layout(layout) => (layout.tree(), layout.apply(&ids)?),
        };
        tree.check(ids.len(), &self.limits)?;
        let phased = call.func.is_phased().then_some(call.func.number());
        let callback = call.callback.map(CallbackHandle::number).or(phased);
        let executing = if call.watch { ids.slice(rest(&ids)) } else { ids.clone() };
        let merged = callback.is_some() && call.replies;
        let (func, replies) = (call.func.number(), call.replies);
        let plan = Plan { root: me, ids: executing, asked, merged, func, replies, workers: 0 };
        let start = Start {
            callback,
            merging,
            classes,
            reply_wanted: call.replies,
            forward_first: call.forward_first,
            partial: call.partial,
            watch: call.watch,
            limit: call.limit.or(left).unwrap_or(LIMIT),
            tree,
            ids,
            header: call.header,
            data: Body::whole(call.data),
            ..Start::new(call.func.number())
        };
        Ok((start, plan))
    }
}

/// Returns the list with the root first, and the list in the caller's order.
fn lists(watch: bool, asked: Ids, me: Id) -> Result<(IdList, IdList), CallError> {
    let asked = asked.list()?;
    if asked.is_empty() {
        return Err(IdsError::Empty.into());
    }
    let listed = asked.contains(me);
    if watch && listed {
        return Err(CallError::WatcherListed);
    }
    // With the caller, the missing id, the list would have 2^32 ids.
    if !listed && asked.len() == u32::MAX {
        return Err(IdsError::TooMany.into());
    }
    let ids = asked.with_first(me);
    let asked = if watch || listed { asked } else { ids.clone() };
    Ok((ids, asked))
}

/// All ids but the first.
fn rest(ids: &IdList) -> gpc_trees::Group {
    gpc_trees::Group { start: 1, len: ids.len() - 1 }
}

/// The classes of workers that a call needs here, one bit for each.
fn workers(start: &Start) -> u64 {
    let func = if start.watch { 0 } else { 1 << start.classes.func };
    // Without children there is nothing to merge.
    let merges = start.callback.is_some() && start.ids.len() > 1;
    let callback = if merges { 1 << start.classes.callback } else { 0 };
    func | callback
}
