//! Checks a call before anything is sent, and makes the start for the chain and the caller's record.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList, Ids, IdsError, Tree};

use super::call::{Call, CallTree};
use super::call_error::CallError;
use super::handles::CallbackHandle;
use super::plan::Plan;
use super::shared_state::SharedState;
use super::trace::Traced;
use crate::chain::Start;
use crate::wire::frame::HEADER_MAX;
use crate::wire::{Body, Parts};

/// The part of an id that has none.
static NOTHING: Bytes = Bytes::new();

/// Default time limit of a call: long enough for work, short enough that no user takes it for a hang.
const LIMIT: Duration = Duration::from_secs(60);

impl SharedState {
    /// Checks a call; `left` is its time limit if it sets none.
    pub(super) fn prepare(
        &self,
        call: Call,
        left: Option<Duration>,
    ) -> Result<(Box<Start>, Plan), CallError> {
        let me = self.id;
        let class = |placement: &_| self.executors.class(placement).unwrap_or_default();
        let (classes, merging) = self.functions.of_call(call.func, call.callback, call.watch, class)?;
        let classes = self.executors.recorder_class(call.func.number()).unwrap_or(classes);
        if call.header.len() > HEADER_MAX {
            return Err(CallError::Header(call.header.len()));
        }
        let Lists { ids, asked, is_root_added } = lists(call.watch, call.ids, me)?;
        let (tree, ids) = match call.tree {
            CallTree::Auto => {
                let bytes = call.parts.as_deref().map_or(call.data.len(), mean_len);
                self.auto_tree.choose(ids, bytes, call.forward_first, &self.limits)
            }
            CallTree::Split(tree) => (tree, ids),
            CallTree::Layout(layout) => (layout.tree(), layout.apply(&ids)?),
        };
        tree.check(ids.len(), &self.limits)?;
        let phased = call.func.is_phased().then_some(call.func.number());
        let callback = call.callback.map(CallbackHandle::number).or(phased);
        let executing = if call.watch { ids.slice(rest(&ids)) } else { ids.clone() };
        let (data, parts) = match call.parts {
            None => (call.data, None),
            Some(parts) => scattered(parts, &ids, &asked, is_root_added)?,
        };
        let merged = callback.is_some() && call.replies;
        let (func, replies) = (call.func.number(), call.replies);
        let (forward_first, trace) = (call.forward_first, call.trace && replies);
        let traced = trace.then(|| traced(&ids, &tree, forward_first));
        let start = Box::write(
            Box::new_uninit(),
            Start {
                func,
                callback,
                merging,
                classes,
                reply_wanted: replies,
                reply_limits: call.reply_limits,
                forward_first,
                partial: call.partial,
                trace,
                watch: call.watch,
                limit: call.limit.or(left).unwrap_or(LIMIT),
                tree,
                ids,
                header: call.header,
                data: Body::whole(data),
                parts,
                follow: false,
            },
        );
        let workers = workers(&start);
        let plan = Plan { root: me, ids: executing, asked, merged, func, replies, workers, traced };
        Ok((start, plan))
    }
}

/// The ids of a call.
struct Lists {
    /// The root first.
    ids: IdList,
    /// Those that execute, in the caller's order.
    asked: IdList,
    /// Whether the root executes, though the caller's list lacks it.
    is_root_added: bool,
}

fn lists(watch: bool, asked: Ids, me: Id) -> Result<Lists, CallError> {
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
    let is_root_added = !watch && !listed;
    let asked = if is_root_added { ids.clone() } else { asked };
    Ok(Lists { ids, asked, is_root_added })
}

#[cold]
fn traced(ids: &IdList, tree: &Tree, forward_first: bool) -> Box<Traced> {
    Box::new(Traced { ids: ids.clone(), tree: tree.clone(), forward_first })
}

/// Length of an average part, for the choice of a tree.
#[cold]
fn mean_len(parts: &[Bytes]) -> usize {
    parts.iter().map(Bytes::len).sum::<usize>() / parts.len().max(1)
}

/// Puts the parts of a scatter call, which are in the caller's order, into the order of the tree: returns the data and
/// the length of each part. `is_root_added` is whether the first of `asked` has no part.
#[cold]
fn scattered(
    parts: Vec<Bytes>,
    ids: &IdList,
    asked: &IdList,
    is_root_added: bool,
) -> Result<(Bytes, Option<Box<Parts>>), CallError> {
    let expected = asked.len() - u32::from(is_root_added);
    if parts.len() != expected as usize {
        return Err(CallError::Parts { parts: parts.len(), ids: expected });
    }
    let added = is_root_added.then(Bytes::new);
    let of_asked = || added.iter().chain(&parts);
    let in_order: Vec<&Bytes> = if ids == asked {
        of_asked().collect()
    } else {
        let of_ids: HashMap<Id, &Bytes> = asked.iter().zip(of_asked()).collect();
        // A root that only watches has no part.
        ids.iter().map(|id| of_ids.get(&id).copied().unwrap_or(&NOTHING)).collect()
    };
    let mut data = Vec::with_capacity(in_order.iter().map(|part| part.len()).sum());
    in_order.iter().for_each(|part| data.extend_from_slice(part));
    let lengths = Parts::of_lengths(in_order.iter().map(|part| part.len() as u64));
    // Never `None`: the sum of the lengths of byte strings in memory fits a u64.
    Ok((data.into(), lengths.map(Box::new)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{CallError, FuncHandle, Functions, Node, Placement, PolledNode};
    use crate::wire::message::Classes;

    /// A function waits on its worker for a call: the classes that count are those which the call needs here.
    #[test]
    fn a_call_needs_the_workers_of_its_functions_at_this_node() {
        let needs = |ids: u32, callback, watch| {
            let classes = Classes { func: 3, callback: 5 };
            let ids = IdList::range(0..ids);
            workers(&Start { callback, classes, watch, ids, ..Start::new(1) })
        };
        assert_eq!([needs(2, None, false), needs(2, Some(9), false)], [1 << 3, 1 << 3 | 1 << 5]);
        assert_eq!([needs(1, Some(9), false), needs(2, Some(9), true)], [1 << 3, 1 << 5]);
        assert_eq!([needs(1, Some(9), true), needs(2, None, true)], [0, 0]);
    }

    fn node() -> (PolledNode, FuncHandle) {
        let functions = Functions::new();
        let func = functions.func("func", |_, _| Ok(())).unwrap();
        (Node::builder(0).functions(&functions).executor("io", 1).polled().unwrap(), func)
    }

    #[test]
    fn a_call_has_its_own_limit_or_the_rest_of_its_functions_or_a_minute() {
        let (node, func) = node();
        let seconds = Duration::from_secs;
        let limit = |call: Call, left| node.event_loop().shared.prepare(call, left).unwrap().0.limit;
        let call = || Call::new(func).ids([0]);
        assert_eq!(limit(call(), None), LIMIT);
        assert_eq!(limit(call(), Some(seconds(7))), seconds(7));
        assert_eq!(limit(call().limit(seconds(9)), Some(seconds(7))), seconds(9));
        assert_eq!(limit(call().limit(seconds(3)), Some(seconds(7))), seconds(3));
    }

    #[test]
    fn a_header_has_a_limit_and_a_watching_caller_is_not_listed() {
        let (node, func) = node();
        let prepared = |call| node.event_loop().shared.prepare(call, None);
        let header = |bytes: usize| prepared(Call::new(func).ids([0]).header(vec![0; bytes])).map(drop);
        assert_eq!(
            (header(HEADER_MAX), header(HEADER_MAX + 1)),
            (Ok(()), Err(CallError::Header(HEADER_MAX + 1)))
        );
        assert_eq!(prepared(Call::new(func).ids([1, 0]).watch()).unwrap_err(), CallError::WatcherListed);
        let (start, plan) = prepared(Call::new(func).ids([2, 1]).watch()).unwrap();
        assert!(start.ids.iter().eq([0, 2, 1]) && plan.ids.iter().eq([2, 1]) && plan.asked.iter().eq([2, 1]));
        // A root that is not listed is put first, one that is goes first in the tree alone.
        let (start, plan) = prepared(Call::new(func).ids([2, 1])).unwrap();
        assert!(start.ids.iter().eq([0, 2, 1]) && plan.ids == start.ids && plan.asked == start.ids);
        let (start, plan) = prepared(Call::new(func).ids([2, 0, 1])).unwrap();
        assert!(start.ids.iter().eq([0, 2, 1]) && plan.asked.iter().eq([2, 0, 1]));
    }

    #[test]
    fn a_call_knows_the_workers_of_its_functions() {
        let (node, func) = node();
        let io = node.functions_at("io");
        assert_eq!(node.event_loop().shared.prepare(Call::new(func).ids([0]), None).unwrap().1.workers, 1);
        assert_eq!(node.event_loop().shared.prepare(Call::new(io).ids([0]), None).unwrap().1.workers, 2);
    }

    impl PolledNode {
        /// Registers a func that is placed on an executor.
        fn functions_at(&self, name: &'static str) -> FuncHandle {
            let functions = self.event_loop().shared.functions.at(Placement::Executor(name.into()));
            functions.func(name, |_, _| Ok(())).unwrap()
        }
    }
}
