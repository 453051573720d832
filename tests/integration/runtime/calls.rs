//! The forms of a call: reductions, phases, inline functions, deferred replies, calls without replies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use chained_gpc::Placement;
use chained_gpc::{Call, CauseKind, ChildReply, Deferred, FuncHandle, Functions, LinkKind, Phase, Reply};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::Tree;

use super::common::{LIMIT, LINKS, assert_who, ids_of, limited, outcome_of, replies_of, who};

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn add(child: &ChildReply<'_>, reply: &mut Reply) {
    reply.data = (number(&reply.data) + number(child.data)).to_le_bytes().to_vec();
    reply.header.extend_from_slice(child.header);
}

/// Three ways of adding up a number for each id: callback, inline callback, phases.
fn sums(functions: &Functions) -> [Call; 3] {
    let own = |me: u32, reply: &mut Reply| {
        reply.data = u64::from(me + 1).to_le_bytes().to_vec();
        reply.header = vec![me as u8];
    };
    let func = functions.func("own", move |request, reply| {
        own(request.me(), reply);
        Ok(())
    });
    let inline = functions.at(Placement::Inline).func("own at once", move |request, reply| {
        own(request.me(), reply);
        Ok(())
    });
    let merge = functions.callback("add", |_, child, reply| {
        add(child, reply);
        Ok(())
    });
    let merge_inline = functions.at(Placement::Inline).callback("add at once", |_, child, reply| {
        add(child, reply);
        Ok(())
    });
    let phased = functions.phased("both", move |phase, request, reply| {
        match phase {
            Phase::Init => own(request.me(), reply),
            Phase::Wait(child) => add(child, reply),
        }
        Ok(())
    });
    [
        Call::new(func.expect("a name of its own")).callback(merge.expect("a name of its own")),
        Call::new(inline.expect("a name of its own")).callback(merge_inline.expect("a name of its own")),
        Call::new(phased.expect("a name of its own")),
    ]
}

#[test]
fn every_form_of_a_reduction_adds_each_id_once() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let calls = sums(&functions);
            let nodes = LocalNodes::start(16, link, &functions).unwrap();
            for call in calls {
                for tree in [Tree::Binary, Tree::Binomial, Tree::Chain, Tree::Flat] {
                    let handle = nodes.node(3).call(call.clone().ids(0..16).tree(tree)).unwrap();
                    let outcome = outcome_of(handle);
                    assert_eq!((number(outcome.data()), outcome.level()), (16 * 17 / 2, 0));
                    let mut merged = outcome.header().to_vec();
                    merged.sort_unstable();
                    assert_eq!(merged, (0..16).collect::<Vec<u8>>());
                    let replies = outcome.replies().unwrap();
                    assert_eq!((ids_of(&replies), number(&replies[0].data)), (vec![3], 136));
                }
            }
        }
    });
}

/// A concatenation over five ids of a flat tree gave 0 4 3 2 1, or any other order in which the replies arrived.
#[test]
fn callback_concatenates_in_list_order_though_the_last_answer_first() {
    limited(|| {
        let functions = Functions::new();
        let (tokens, held) = mpsc::channel();
        let func = functions.deferring("held", move |request, token| {
            let _ = tokens.send((request.me(), token));
        });
        let concatenate = functions.callback("concatenate", |_, child, own| {
            own.data.extend_from_slice(child.data);
            Ok(())
        });
        for link in LINKS {
            let nodes = LocalNodes::start(5, link, &functions).unwrap();
            let call =
                Call::new(func.clone().unwrap()).ids(0..5).tree(Tree::Flat).limit(LIMIT).forward_first();
            let handle = nodes.root().call(call.callback(concatenate.clone().unwrap())).unwrap();
            let tokens: BTreeMap<u32, Deferred> = (0..5).map(|_| held.recv_timeout(LIMIT).unwrap()).collect();
            for (id, token) in tokens.into_iter().rev() {
                token.reply(Reply { data: id.to_string().into(), ..Default::default() });
            }
            assert_eq!(outcome_of(handle).data(), "01234");
        }
    });
}

#[test]
fn headers_and_data_go_both_ways() {
    limited(|| {
        let functions = Functions::new();
        let swap = functions.func("swap", |request, reply| {
            (reply.header, reply.data) = (request.data().to_vec(), request.header().to_vec());
            Ok(())
        });
        let nodes = LocalNodes::start(4, LinkKind::Tcp, &functions).unwrap();
        let (header, data) = (vec![7u8; 65_535], b"small".to_vec());
        let call = Call::new(swap.unwrap()).ids(0..4).header(header.clone()).data(data.clone());
        for reply in replies_of(nodes.root().call(call).unwrap()) {
            assert_eq!((&reply.header[..], &reply.data[..]), (&data[..], &header[..]), "id {}", reply.id);
        }
    });
}

#[test]
fn a_call_without_replies_executes_everywhere_and_brings_nothing() {
    limited(|| {
        let functions = Functions::new();
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        let note = functions.func("note", move |_, reply| {
            reply.data = b"nobody asked for this".to_vec();
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let nodes = LocalNodes::start(8, LinkKind::Unix, &functions).unwrap();
        let call = Call::new(note.unwrap()).ids(0..8).no_reply();
        let outcome = outcome_of(nodes.root().call(call).unwrap());
        assert_eq!(count.load(Ordering::SeqCst), 8);
        assert_eq!((outcome.level(), outcome.data().len(), outcome.header().len()), (0, 0, 0));
        assert_eq!(outcome.replies(), Ok(vec![]));
    });
}

#[test]
fn an_empty_reply_is_a_reply_all_the_same() {
    limited(|| {
        let functions = Functions::new();
        let nothing = functions.func("nothing", |_, _| Ok(())).unwrap();
        let header = functions.func("header only", |_, reply| {
            reply.header = b"h".to_vec();
            Ok(())
        });
        let nodes = LocalNodes::start(3, LinkKind::Unix, &functions).unwrap();
        let replies =
            |func: FuncHandle, n: u32| replies_of(nodes.root().call(Call::new(func).ids(0..n)).unwrap());
        assert_eq!(ids_of(&replies(nothing, 3)), [0, 1, 2]);
        assert_eq!(ids_of(&replies(nothing, 1)), [0]);
        let reply = replies(header.unwrap(), 1);
        assert_eq!((&reply[0].header[..], &reply[0].data[..]), (&b"h"[..], &b""[..]));
    });
}

#[test]
fn a_deferred_reply_may_come_from_any_thread_at_any_time() {
    limited(|| {
        let functions = Functions::new();
        let (tokens, waiting) = mpsc::channel();
        let later =
            functions.deferring("later", move |_, token| tokens.send(token).expect("the test listens"));
        let at_once = functions.deferring("at once", |request, token| {
            token.reply(Reply { data: request.me().to_string().into_bytes(), ..Default::default() });
        });
        let elsewhere = functions.deferring("elsewhere", |request, token| {
            let data = request.me().to_string().into_bytes();
            thread::spawn(move || token.reply(Reply { data, ..Default::default() }));
        });
        let nodes = LocalNodes::start(8, LinkKind::Unix, &functions).unwrap();
        for func in [at_once.unwrap(), elsewhere.unwrap()] {
            for reply in replies_of(nodes.root().call(Call::new(func).ids(0..8)).unwrap()) {
                assert_eq!(reply.data, reply.id.to_string());
            }
        }
        // Meanwhile the node's only worker is free: a second call completes while the first waits for its tokens.
        let handle = nodes.root().call(Call::new(later.unwrap()).ids(0..8).tree(Tree::Flat)).unwrap();
        let held: Vec<_> = (0..8).map(|_| waiting.recv_timeout(LIMIT).expect("every id defers")).collect();
        let passing = Call::new(functions.named("at once").unwrap()).ids(0..8);
        assert_eq!(replies_of(nodes.root().call(passing).unwrap()).len(), 8);
        for (place, token) in held.into_iter().enumerate() {
            token.reply(Reply { data: vec![place as u8], ..Default::default() });
        }
        let mut data: Vec<u8> = replies_of(handle).iter().map(|reply| reply.data[0]).collect();
        data.sort_unstable();
        assert_eq!(data, [0, 1, 2, 3, 4, 5, 6, 7]);
    });
}

#[test]
fn a_function_may_be_registered_while_the_nodes_run() {
    limited(|| {
        let functions = Functions::new();
        let nodes = LocalNodes::start(4, LinkKind::Unix, &functions).unwrap();
        let who = who(nodes.node(2).functions());
        assert_who(&replies_of(nodes.root().call(Call::new(who).ids(0..4)).unwrap()), &[0, 1, 2, 3], "");
    });
}

/// An inline function took longer than the limit of its call, at an id without children and at the root. The call ended
/// well, since the time was not checked when the function ended.
#[test]
#[allow(clippy::disallowed_methods, reason = "that it takes longer than the limit is what is tested")]
fn a_call_whose_inline_function_outlasts_its_limit_is_not_done() {
    let functions = Functions::new();
    let inline = functions.at(Placement::Inline);
    let slow = inline.func("slow", |_, _| {
        thread::sleep(Duration::from_millis(30));
        Ok(())
    });
    let call = Call::new(slow.expect("a name of its own")).limit(Duration::from_millis(20));
    let mut nodes = LocalNodes::start(2, LinkKind::Unix, &functions).expect("two nodes start");
    let root = nodes.root();
    for ids in [0..1, 0..2] {
        // The first call over a list of ids takes the general path.
        for _ in 0..3 {
            let error = root.call(call.clone().ids(ids.clone())).unwrap().wait().unwrap_err();
            assert_eq!(error.cause().map(|cause| cause.kind), Some(CauseKind::TimeLimit), "{error}");
        }
        let partial = root.call(call.clone().ids(ids).partial()).unwrap().wait().unwrap();
        assert!(!partial.is_complete());
        assert_eq!(partial.causes()[0].kind, CauseKind::TimeLimit);
    }
    drop(nodes.take(1));
}
