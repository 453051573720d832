//! Traced calls over real links: the times of all ids come back with the reply.
#![allow(clippy::disallowed_methods, reason = "functions sleep to be slow; no wait depends on how long")]

use std::thread::sleep;
use std::time::Duration;

use chained_gpc::{Call, FuncHandle, Functions, Id, LinkKind, Placement, Trace, Tree};
use gpc_test_support::nodes::LocalNodes;

use super::common::{LIMIT, LINKS, hold, limited, outcome_of};

/// How long the slow id takes: far longer than the others, on any machine that the tests run on.
const SLOW: Duration = Duration::from_millis(400);

/// A function that is slow at one id.
fn slow_at(functions: &Functions, slow: Id) -> FuncHandle {
    let func = functions.func("work", move |request, reply| {
        reply.data = request.me().to_string().into_bytes();
        if request.me() == slow {
            sleep(SLOW);
        }
        Ok(())
    });
    func.expect("a name of its own")
}

fn path(trace: &Trace) -> Vec<Id> {
    trace.path().iter().map(|one| one.id).collect()
}

/// Binary tree over 7 ids: 0 has the children 1 and 4, 4 has 5 and 6.
#[test]
fn the_slow_id_ends_the_critical_path() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let work = slow_at(&functions, 5);
            let nodes = LocalNodes::start(7, link, &functions).unwrap();
            for change in [Call::forward_first as fn(Call) -> Call, Call::partial, |call| call] {
                let call = Call::new(work).ids(0..7).tree(Tree::Binary).limit(LIMIT);
                let outcome = outcome_of(nodes.root().call(change(call.clone().trace())).unwrap());
                let trace = outcome.trace().expect("it was traced");
                assert_eq!(path(trace), [0, 4, 5], "{link}");
                assert_eq!((trace.stragglers(1)[0].id, trace.missing()), (5, vec![]));
                let slow = trace.get(5).expect("it is of the call");
                assert!(slow.func >= SLOW && slow.total >= slow.func && trace.total() >= slow.total);
                assert!(trace.ids().iter().all(|one| one.id == 5 || one.func < SLOW), "{trace:?}");
                assert_eq!(outcome.replies().unwrap().len(), 7);
                let plain = outcome_of(nodes.root().call(change(call)).unwrap());
                assert!(plain.trace().is_none() && plain.data() == outcome.data());
            }
        }
    });
}

/// Long replies, which otherwise stream, callbacks, and a root that only watches.
#[test]
fn every_form_of_a_call_is_traced() {
    limited(|| {
        let functions = Functions::new();
        let long = functions.at(Placement::Inline).func("long", |_, reply| {
            reply.data = vec![7; 1 << 20];
            Ok(())
        });
        let merge = functions.callback("merge", |_, _, _| {
            sleep(Duration::from_millis(20));
            Ok(())
        });
        let nodes = LocalNodes::start(7, LinkKind::Tcp, &functions).unwrap();
        let call = Call::new(long.unwrap()).ids(1..7).watch().tree(Tree::Binary).limit(LIMIT).trace();
        let outcome = outcome_of(nodes.root().call(call.clone()).unwrap());
        let trace = outcome.trace().expect("it was traced");
        assert_eq!(
            (trace.ids().len(), trace.missing(), trace.get(0).unwrap().func),
            (7, vec![], Duration::ZERO)
        );
        assert_eq!(outcome.replies().unwrap().len(), 6);
        let merged = outcome_of(nodes.root().call(call.callback(merge.unwrap())).unwrap());
        let trace = merged.trace().expect("it was traced");
        let merging = |id| trace.get(id).expect("it is of the call").callbacks;
        assert!(merging(4) >= Duration::from_millis(40) && merging(6) == Duration::ZERO, "{trace:?}");
    });
}

/// An id that fails has no part in the reply of a partial call, but its times are known; those of ids that are lost are
/// not. A call that waits in a queue says so.
#[test]
fn what_is_not_known_is_said_to_be_missing() {
    limited(|| {
        let functions = Functions::new();
        let work = slow_at(&functions, 99);
        let (func, held) = hold(&functions);
        let mut nodes = LocalNodes::start(4, LinkKind::Unix, &functions).unwrap();
        let call = Call::new(work).ids(0..4).tree(Tree::Chain).partial().limit(LIMIT).trace();
        outcome_of(nodes.root().call(call.clone()).unwrap());
        drop(nodes.take(2));
        let outcome = outcome_of(nodes.root().call(call).unwrap());
        let trace = outcome.trace().expect("it was traced");
        assert_eq!((trace.missing(), trace.get(3).unwrap().parent), (vec![2], Some(1)));
        drop((func, held));
    });
}

/// A subtree's reply that would be too long with the trace goes up without it.
#[test]
fn a_trace_has_no_room_beyond_the_limit_of_replies() {
    limited(|| {
        let functions = Functions::new();
        let work = slow_at(&functions, 99);
        let nodes =
            LocalNodes::start_with(3, LinkKind::Unix, &functions, |_, node| node.reply_max(40)).unwrap();
        let call = |n: u32| Call::new(work).ids(0..n).tree(Tree::Flat).limit(LIMIT).trace();
        assert!(outcome_of(nodes.root().call(call(1)).unwrap()).trace().is_some());
        let without = outcome_of(nodes.root().call(call(3)).unwrap());
        assert!(without.trace().is_none() && without.replies().unwrap().len() == 3);
    });
}
