//! Many calls at once: from one root, from all, and against the credit of a link.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use chained_gpc::link::HIWATER;
use chained_gpc::{Call, Functions, LinkKind};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::Tree;

use super::common::{LIMIT, LINKS, assert_who, hold, limited, nodes_of_who, outcome_of, replies_of};

#[test]
fn calls_of_many_threads_at_one_root_keep_apart() {
    limited(|| {
        let (nodes, who) = nodes_of_who(8, LinkKind::Tcp);
        thread::scope(|scope| {
            for caller in 0..64 {
                let (root, trees) = (nodes.root(), [Tree::Binary, Tree::Binomial, Tree::Flat]);
                scope.spawn(move || {
                    let call = |number: usize| {
                        let header = format!("{caller} {number}");
                        let call = Call::new(who).ids(0..8).tree(trees[number % 3].clone());
                        (header.clone(), root.call(call.header(header)).unwrap())
                    };
                    for (header, handle) in (0..12).map(call).collect::<Vec<_>>() {
                        assert_who(&replies_of(handle), &[0, 1, 2, 3, 4, 5, 6, 7], &header);
                    }
                });
            }
        });
    });
}

/// Every node opens a link to every other at the same time, so most pairs connect from both sides at once.
#[test]
fn all_nodes_call_all_others_at_the_same_moment() {
    const NODES: u32 = 10;
    limited(|| {
        for round in 0..12 {
            let (nodes, who) = nodes_of_who(NODES, LINKS[round % LINKS.len()]);
            let start = Arc::new(Barrier::new(NODES as usize));
            thread::scope(|scope| {
                for node in (0..NODES).map(|id| nodes.node(id)) {
                    let start = start.clone();
                    scope.spawn(move || {
                        let mut others: Vec<u32> = (0..NODES).collect();
                        start.wait();
                        let flat = node.call(Call::new(who).ids(0..NODES).tree(Tree::Flat)).unwrap();
                        let binary = node.call(Call::new(who).ids(0..NODES)).unwrap();
                        assert_who(&replies_of(flat), &others, "");
                        assert_who(&replies_of(binary), &others, "");
                        others.retain(|&id| id != node.id());
                        let watched =
                            Call::new(who).ids(gpc_trees::IdList::from_ids(others.clone()).unwrap());
                        assert_who(&replies_of(node.call(watched.watch()).unwrap()), &others, "");
                    });
                }
            });
        }
    });
}

#[test]
fn more_requests_than_a_link_has_credit_for_wait_their_turn() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let (release, released) = mpsc::channel::<()>();
            let (runs, running) = mpsc::channel();
            let first = Mutex::new(Some(released));
            let slow = functions.func("slow", move |request, reply| {
                let wait = if request.me() == 1 { first.lock().expect("one at a time").take() } else { None };
                if let Some(released) = wait {
                    runs.send(())?;
                    released.recv_timeout(LIMIT)?;
                }
                reply.data = request.header().to_vec();
                Ok(())
            });
            let slow = slow.unwrap();
            let nodes = LocalNodes::start(2, link, &functions).unwrap();
            let count = 4 * HIWATER;
            let call = |number: u32| nodes.root().call(Call::new(slow).ids(0..2).header(number.to_string()));
            let handles: Vec<_> = (0..count).map(|number| call(number).unwrap()).collect();
            running.recv_timeout(LIMIT).expect("the first one runs");
            release.send(()).unwrap();
            for (number, handle) in handles.into_iter().enumerate() {
                let replies = replies_of(handle);
                assert!(replies.len() == 2 && replies.iter().all(|reply| reply.data == number.to_string()));
            }
        }
    });
}

#[test]
fn calls_over_the_nodes_limit_are_refused_and_the_others_are_not() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = hold(&functions);
        let nodes =
            LocalNodes::start_with(1, LinkKind::Unix, &functions, |_, builder| builder.calls_max(4)).unwrap();
        let mut taken: Vec<_> =
            (0..6).map(|_| nodes.root().call(Call::new(hold).ids([0])).unwrap()).collect();
        let tokens: Vec<_> = (0..4).map(|_| held.recv_timeout(LIMIT).expect("four are taken")).collect();
        for handle in taken.split_off(4) {
            let cause = super::common::cause_of(handle);
            super::common::assert_cause(&cause, 0, chained_gpc::Stage::Setup, "the most this node takes");
        }
        tokens.into_iter().for_each(|token| token.reply(chained_gpc::Reply::default()));
        taken.into_iter().for_each(|handle| drop(outcome_of(handle)));
    });
}
