//! Number of functions that run at once at a node.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chained_gpc::{Call, Functions, LinkKind};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::Tree;

use super::common::{limited, outcome_of};

/// Counts the functions that are inside, and records the largest number.
#[derive(Default)]
struct Room {
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Room {
    fn visit(&self, stay: impl FnOnce()) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        stay();
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn by_default_one_function_runs_at_a_time_callbacks_included() {
    limited(|| {
        let functions = Functions::new();
        let rooms: Arc<Vec<Room>> = Arc::new((0..4).map(|_| Room::default()).collect());
        let (of_func, of_callback) = (rooms.clone(), rooms.clone());
        let func = functions.func("visit", move |request, _| {
            of_func[request.me() as usize].visit(std::thread::yield_now);
            Ok(())
        });
        let callback = functions.callback("visit again", move |request, _, _| {
            of_callback[request.me() as usize].visit(std::thread::yield_now);
            Ok(())
        });
        let call = Call::new(func.unwrap()).callback(callback.unwrap()).ids(0..4);
        let nodes = LocalNodes::start(4, LinkKind::Unix, &functions).unwrap();
        let trees = [Tree::Binary, Tree::Flat, Tree::Chain];
        let handles: Vec<_> = (0..300)
            .map(|number| nodes.node(number % 4).call(call.clone().tree(trees[number as usize % 3].clone())))
            .collect();
        for handle in handles {
            outcome_of(handle.unwrap());
        }
        assert!(rooms.iter().all(|room| room.most.load(Ordering::SeqCst) == 1));
    });
}

#[cfg(not(feature = "rayon"))]
#[test]
fn more_than_one_worker_is_refused_with_the_feature_that_is_missing() {
    let refused = chained_gpc::Node::builder(0).workers(2).start().unwrap_err();
    assert!(refused.to_string().contains("feature `rayon`"), "{refused}");
}

#[cfg(feature = "rayon")]
mod pool {
    use std::collections::BTreeSet;
    use std::sync::{Condvar, Mutex};

    use super::super::common::LIMIT;
    use super::*;

    #[test]
    fn as_many_functions_run_at_once_as_there_are_workers_and_no_more() {
        limited(|| {
            let functions = Functions::new();
            let room = Arc::new(Room::default());
            let meeting = Arc::new((Mutex::new(0u32), Condvar::new()));
            let (of_func, met) = (room.clone(), meeting.clone());
            // The first four can leave only when all four are inside: fewer workers would never get that far.
            let meet = functions.func("meet", move |_, _| {
                of_func.visit(|| {
                    let (count, changed) = &*met;
                    let mut count = count.lock().expect("no panic inside");
                    *count += 1;
                    changed.notify_all();
                    let met = changed
                        .wait_timeout_while(count, LIMIT, |count| *count < 4)
                        .expect("no panic inside");
                    assert!(!met.1.timed_out(), "four workers never met");
                });
                Ok(())
            });
            let meet = meet.unwrap();
            let nodes =
                LocalNodes::start_with(1, LinkKind::Unix, &functions, |_, builder| builder.workers(4));
            let nodes = nodes.unwrap();
            let handles: Vec<_> =
                (0..64).map(|_| nodes.root().call(Call::new(meet).ids([0])).unwrap()).collect();
            handles.into_iter().for_each(|handle| drop(outcome_of(handle)));
            assert_eq!(room.most.load(Ordering::SeqCst), 4);
        });
    }

    #[test]
    fn many_workers_never_run_two_functions_of_one_call() {
        limited(|| {
            let functions = Functions::new();
            let inside: Arc<Mutex<BTreeSet<_>>> = Arc::default();
            let enter = |inside: Arc<Mutex<BTreeSet<_>>>| {
                move |request: &chained_gpc::Request<'_>| {
                    let key = (request.me(), request.call());
                    assert!(inside.lock().expect("no panic inside").insert(key), "two of one call at one id");
                    std::thread::yield_now();
                    inside.lock().expect("no panic inside").remove(&key);
                }
            };
            let (in_func, in_callback) = (enter(inside.clone()), enter(inside));
            let func = functions.func("visit", move |request, _| {
                in_func(request);
                Ok(())
            });
            let callback = functions.callback("visit again", move |request, _, _| {
                in_callback(request);
                Ok(())
            });
            let call = Call::new(func.unwrap()).callback(callback.unwrap()).ids(0..6).tree(Tree::Flat);
            let nodes =
                LocalNodes::start_with(6, LinkKind::Unix, &functions, |_, builder| builder.workers(4));
            let nodes = nodes.unwrap();
            let handles: Vec<_> = (0..100).map(|_| nodes.root().call(call.clone()).unwrap()).collect();
            handles.into_iter().for_each(|handle| drop(outcome_of(handle)));
        });
    }
}
