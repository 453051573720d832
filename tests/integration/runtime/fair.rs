//! Many calls in flight: no caller waits for others that call more, and no link is idle for want of credit.
//!
//! One thread drives all nodes in turn, so that the counts do not depend on the system's scheduler.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chained_gpc::Placement;
use chained_gpc::link::HIWATER;
use chained_gpc::{Call, CallHandle, FuncHandle, Functions, Id, IdList, LinkKind, PolledNode};
use gpc_test_support::nodes;
use gpc_trees::Tree;

use super::common::{LINKS, limited};

/// Far more turns than anything takes here.
const TURNS_MAX: u32 = 1_000_000;

/// Nodes, and the number of executions of the function at each.
struct Nodes {
    nodes: Vec<PolledNode>,
    func: FuncHandle,
    executed: Vec<Arc<AtomicU64>>,
}

impl Nodes {
    fn new(n: Id, link: LinkKind) -> Nodes {
        let functions = Functions::new();
        let executed: Vec<Arc<AtomicU64>> = (0..n).map(|_| Arc::default()).collect();
        let counts = executed.clone();
        let func = functions.at(Placement::Inline).func("count", move |request, reply| {
            counts[request.me() as usize].fetch_add(1, Ordering::Relaxed);
            reply.data.extend_from_slice(request.data());
            Ok(())
        });
        Nodes { nodes: nodes::polled(n, link, &functions), func: func.expect("a name of its own"), executed }
    }

    fn call(&self, root: Id, ids: &IdList, tree: Tree) -> CallHandle {
        let call = Call::new(self.func).ids(ids.clone()).tree(tree).data(vec![7; 64]);
        self.nodes[root as usize].call(call).expect("a good call")
    }

    /// Drives each node once.
    fn turn(&mut self) {
        nodes::turn(&mut self.nodes);
    }

    fn executed(&self, id: Id) -> u64 {
        self.executed[id as usize].load(Ordering::Relaxed)
    }
}

/// A root that keeps a number of calls in flight, and counts those that have ended.
struct Caller {
    root: Id,
    ids: IdList,
    tree: Tree,
    in_flight: usize,
    flying: VecDeque<CallHandle>,
    ended: u64,
}

impl Caller {
    fn new(root: Id, ids: IdList, tree: Tree, in_flight: usize) -> Caller {
        Caller { root, ids, tree, in_flight, flying: VecDeque::new(), ended: 0 }
    }

    /// Takes the outcomes, and makes new calls.
    fn go_on(&mut self, nodes: &Nodes) {
        let before = self.flying.len();
        self.flying.retain_mut(|handle| match handle.test() {
            None => true,
            Some(outcome) => {
                assert_eq!(
                    outcome.expect("it ends well").replies().expect("good replies").len(),
                    self.ids.len() as usize
                );
                false
            }
        });
        self.ended += (before - self.flying.len()) as u64;
        while self.flying.len() < self.in_flight {
            self.flying.push_back(nodes.call(self.root, &self.ids, self.tree.clone()));
        }
    }
}

#[test]
fn no_root_falls_far_behind_when_all_call_at_once() {
    const NODES: u32 = 6;
    limited(|| {
        for (link, tree) in
            [(LinkKind::Tcp, Tree::Flat), (LinkKind::Unix, Tree::Flat), (LinkKind::Unix, Tree::Chain)]
        {
            let mut nodes = Nodes::new(NODES, link);
            let caller = |root| Caller::new(root, IdList::range(0..NODES).with_first(root), tree.clone(), 64);
            let mut callers: Vec<Caller> = (0..NODES).map(caller).collect();
            // This loop ends: the first root has made its calls.
            for turn in 0.. {
                assert!(turn < TURNS_MAX, "the calls hang");
                callers.iter_mut().for_each(|caller| caller.go_on(&nodes));
                if callers.iter().any(|caller| caller.ended >= 500) {
                    break;
                }
                nodes.turn();
            }
            let ended: Vec<u64> = callers.iter().map(|caller| caller.ended).collect();
            let (least, most) = (ended.iter().min().unwrap(), ended.iter().max().unwrap());
            assert!(2 * least >= *most, "{link:?} {tree:?}: {ended:?}");
        }
    });
}

#[test]
fn one_who_calls_without_end_does_not_keep_others_waiting() {
    /// More than a link has credit for.
    const FLOOD: usize = 2 * HIWATER as usize + 100;
    limited(|| {
        for link in LINKS {
            for floods in [1, 3] {
                let mut nodes = Nodes::new(5, link);
                let flood = |root| Caller::new(root, IdList::from_ids([root, 4]).unwrap(), Tree::Flat, FLOOD);
                let mut floods: Vec<Caller> = (1..=floods).map(flood).collect();
                let (mut other, mut waited) = (None::<(CallHandle, u64)>, Vec::new());
                // This loop ends: the other root's calls end.
                for turn in 0.. {
                    assert!(turn < TURNS_MAX, "the calls hang");
                    floods.iter_mut().for_each(|flood| flood.go_on(&nodes));
                    // The links are up, and the flood has begun.
                    if turn >= 10 && other.is_none() {
                        let call = nodes.call(0, &IdList::from_ids([0, 4]).unwrap(), Tree::Flat);
                        other = Some((call, nodes.executed(4)));
                    }
                    nodes.turn();
                    if let Some((call, before)) = &mut other
                        && let Some(ended) = call.test()
                    {
                        ended.unwrap();
                        waited.push(nodes.executed(4) - *before);
                        other = None;
                    }
                    if waited.len() == 9 {
                        break;
                    }
                }
                // The first call opens the link. A flooding root has at most its credit of requests at the node: those
                // before the call, and those that arrived during it.
                let most = *waited[1..].iter().max().unwrap();
                let bound = 3 * floods.len() as u64 * u64::from(HIWATER);
                assert!(most <= bound, "{link:?}, {} floods: up to {most} calls before one", floods.len());
            }
        }
    });
}

#[test]
fn credit_comes_back_before_it_runs_out() {
    limited(|| {
        for link in LINKS {
            let mut nodes = Nodes::new(2, link);
            let mut caller = Caller::new(0, IdList::range(0..2), Tree::Flat, 4 * HIWATER as usize);
            let (mut before, mut least, mut idle) = (0, u64::MAX, 0);
            for turn in 0..50 {
                caller.go_on(&nodes);
                nodes.turn();
                let executed = nodes.executed(1) - std::mem::replace(&mut before, nodes.executed(1));
                if turn >= 10 {
                    least = least.min(executed);
                    idle += u32::from(executed == 0);
                }
            }
            assert_eq!(idle, 0, "{link:?}: the link stood idle with calls waiting");
            assert!(least >= u64::from(HIWATER / 2), "{link:?}: {least} requests in a turn");
        }
    });
}
