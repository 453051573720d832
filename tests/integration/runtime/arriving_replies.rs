//! Replies that are taken as they arrive at the root.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use chained_gpc::runtime::{NoReply, Replies};
use chained_gpc::{Call, CallError, CauseKind, Functions, Id, IdReply, LinkKind, Placement, Reply, Status};
use gpc_test_support::nodes::{LocalNodes, polled};
use gpc_trees::Tree;

use super::common::{LIMIT, LINKS, hold, limited, nodes_of_who, who};

fn id_of(reply: Result<IdReply, NoReply>) -> Id {
    reply.map(|reply| reply.id).expect("no id is lost")
}

fn sorted(replies: impl Iterator<Item = Result<IdReply, NoReply>>) -> Vec<Id> {
    let mut ids: Vec<Id> = replies.map(id_of).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn each_id_arrives_once_over_every_link_and_tree() {
    limited(|| {
        for link in LINKS {
            let (nodes, who) = nodes_of_who(7, link);
            for tree in [Tree::Flat, Tree::Chain, Tree::Binary] {
                let call = || Call::new(who).ids(0..7).tree(tree.clone());
                for call in [call(), call().partial(), call().forward_first(), call().header(vec![7; 30_000])]
                {
                    let mut replies = nodes.root().call(call).unwrap().replies();
                    assert_eq!(sorted(&mut replies), [0, 1, 2, 3, 4, 5, 6]);
                    let outcome = replies.into_handle().wait().expect("it ended well");
                    assert_eq!(outcome.replies().unwrap().len(), 7);
                }
                let watched = nodes.root().call(call().ids([5, 1, 3]).watch()).unwrap();
                assert_eq!(sorted(watched.replies()), [1, 3, 5]);
                // It has ended: everything arrives at the end.
                let mut ended = nodes.root().call(call()).unwrap();
                while ended.wait_for(Duration::ZERO).is_none() {
                    std::thread::yield_now();
                }
                assert_eq!(ended.replies().count(), 0, "the outcome was taken");
            }
        }
    });
}

/// A call that takes the fast path is followed after it has begun: all replies but one have arrived by then.
#[test]
fn replies_arrive_while_others_are_awaited() {
    limited(|| {
        for begins_late in [false, true] {
            let functions = Functions::new();
            let held = functions.at(Placement::Executor("held".into()));
            let (token, tokens) = std::sync::mpsc::channel();
            let func = held.deferring("late", move |request, deferred| match request.me() {
                3 => token.send(deferred).expect("the test takes it"),
                _ => deferred.reply(Reply::default()),
            });
            let func = func.unwrap();
            let nodes =
                LocalNodes::start_with(5, LinkKind::Unix, &functions, |_, node| node.executor("held", 1));
            let nodes = nodes.unwrap();
            let handle = nodes.root().call(Call::new(func).ids(0..5).tree(Tree::Flat)).unwrap();
            let late = begins_late.then(|| tokens.recv_timeout(LIMIT).expect("id 3 runs"));
            let mut replies = handle.replies();
            let mut first: Vec<Id> = (0..3).map(|_| id_of(replies.next().expect("a reply"))).collect();
            first.sort_unstable();
            assert_eq!(first, [1, 2, 4]);
            let late = late.unwrap_or_else(|| tokens.recv_timeout(LIMIT).expect("id 3 runs"));
            late.reply(Reply::default());
            assert_eq!([replies.next(), replies.next()].map(|reply| id_of(reply.expect("a reply"))), [3, 0]);
            assert!(replies.next().is_none() && replies.next().is_none());
        }
    });
}

/// If the call had ended before its replies were asked for, they had the caller's order, and the root's came first.
#[test]
fn the_roots_reply_is_the_last_one_of_a_call_that_has_ended() {
    for link in LINKS {
        let functions = Functions::new();
        let empty = functions.at(Placement::Inline).func("empty", |_, _| Ok(())).unwrap();
        let mut nodes = polled(4, link, &functions);
        for tree in [Tree::Flat, Tree::Binary] {
            let handle = nodes[0].call(Call::new(empty).ids(0..4).tree(tree)).unwrap();
            // Enough that it ends; if it did not, its replies would arrive in this order as well.
            (0..200).for_each(|_| gpc_test_support::nodes::turn(&mut nodes));
            let (mut replies, mut ids) = (handle.replies(), Vec::new());
            let mut task = Context::from_waker(Waker::noop());
            // Ends: the call has a time limit.
            loop {
                match replies.poll_next(&mut task) {
                    Poll::Ready(Some(reply)) => ids.push(id_of(reply)),
                    Poll::Ready(None) => break,
                    Poll::Pending => gpc_test_support::nodes::turn(&mut nodes),
                }
            }
            assert_eq!((ids.len(), ids.last()), (4, Some(&0)), "{link:?} {ids:?}");
        }
    }
}

#[test]
fn lost_ids_are_named_and_a_failed_call_has_no_more_replies() {
    limited(|| {
        let functions = Functions::new();
        let func = functions.func("odd", |request, _| match request.me() % 2 {
            0 => Ok(()),
            _ => Err("odd".into()),
        });
        let func = func.unwrap();
        let nodes = LocalNodes::start(5, LinkKind::Unix, &functions).unwrap();
        let call = || Call::new(func).ids(0..5).tree(Tree::Flat);
        let mut lost: Vec<NoReply> = Vec::new();
        let mut replies = nodes.root().call(call().partial()).unwrap().replies();
        lost.extend((&mut replies).filter_map(Result::err));
        lost.sort_unstable_by_key(|lost| lost.id);
        assert_eq!(
            lost.iter().map(|lost| (lost.id, lost.status)).collect::<Vec<_>>(),
            [1, 3].map(|id| (id, Status::Failed))
        );
        assert!(
            lost[0].to_string().contains("id 1 has no reply: id 1 failed at stage func: odd"),
            "{}",
            lost[0]
        );
        assert!(!replies.into_handle().wait().expect("a partial call").is_complete());
        let mut replies = nodes.root().call(call()).unwrap().replies();
        assert!(replies.by_ref().all(|reply| reply.is_ok_and(|reply| reply.id % 2 == 0)));
        let error = replies.into_handle().wait().unwrap_err();
        assert_eq!(error.kind(), Some(CauseKind::Failed));
    });
}

#[test]
fn a_cancel_ends_the_rest() {
    limited(|| {
        let functions = Functions::new();
        let (hold, tokens) = hold(&functions);
        let nodes = LocalNodes::start(3, LinkKind::Unix, &functions).unwrap();
        let mut replies = nodes.root().call(Call::new(hold).ids(0..3).tree(Tree::Flat)).unwrap().replies();
        let _held: Vec<_> = (0..3).map(|_| tokens.recv_timeout(LIMIT).expect("each runs")).collect();
        replies.cancel();
        assert!(replies.next().is_none());
        assert_eq!(replies.into_handle().wait().unwrap_err().kind(), Some(CauseKind::Cancelled));
        // Dropped, they cancel the call.
        let replies = nodes.root().call(Call::new(hold).ids(0..3)).unwrap().replies();
        let held = tokens.recv_timeout(LIMIT).expect("it runs");
        drop(replies);
        while !held.is_cancelled() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_merged_call_has_one_reply() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let join = functions.callback("join", |_, child, own| {
            own.data.extend_from_slice(child.data);
            Ok(())
        });
        let nodes = LocalNodes::start(4, LinkKind::Unix, &functions).unwrap();
        let call = Call::new(who).callback(join.unwrap()).ids(0..4);
        assert_eq!(sorted(nodes.root().call(call).unwrap().replies()), [0]);
        assert_eq!(nodes.root().call(Call::new(who).ids(0..4).no_reply()).unwrap().replies().count(), 0);
    });
}

#[test]
fn tasks_and_polled_nodes_poll_for_replies() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let mut nodes = polled(3, LinkKind::Unix, &functions);
        let call = || Call::new(who).ids(0..3).tree(Tree::Flat);
        let mut replies = nodes[0].call(call()).unwrap().replies();
        let mut context = Context::from_waker(Waker::noop());
        let (mut next, mut ids) = (|replies: &mut Replies| replies.poll_next(&mut context), Vec::new());
        loop {
            match next(&mut replies) {
                Poll::Ready(Some(reply)) => ids.push(id_of(reply)),
                Poll::Ready(None) => break,
                Poll::Pending => gpc_test_support::nodes::turn(&mut nodes),
            }
        }
        assert_eq!((ids.len(), ids.last()), (3, Some(&0)));
        // Nothing drives the node while it blocks.
        let mut replies = nodes[0].call(call()).unwrap().replies();
        assert!(replies.next().is_none());
        assert_eq!(replies.into_handle().wait(), Err(CallError::NotDriven));
    });
}
