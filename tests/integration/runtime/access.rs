//! Restricted functions: from which peers a node accepts requests for them, on every path of a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chained_gpc::link::{Event, HIWATER};
use chained_gpc::runtime::{Builder, Listener, Peers};
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{CallId, Failure, Message};
use chained_gpc::{
    Access, Call, CauseKind, FuncHandle, Functions, Id, IdList, LinkKind, Node, Placement, PrivateKey,
    Secret, Stage, Status, Tree,
};
use gpc_test_support::nodes::LocalNodes;

use super::common::{LIMIT, cause_of, ids, limited, replies_of};
use super::raw::{EARLY, RawPeer, call, node, request};

/// Registers a function with this name that counts its runs.
fn counting(functions: &Functions, name: &str) -> (FuncHandle, Arc<AtomicUsize>) {
    let runs = Arc::<AtomicUsize>::default();
    let counts = runs.clone();
    let func = functions.func(name, move |_, _| {
        counts.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    (func.unwrap(), runs)
}

fn only(list: &str) -> Access {
    Access::Ids(ids(list))
}

/// The answer to a call, after any credit.
fn answer(peer: &mut RawPeer, call: CallId) -> Answer {
    loop {
        match peer.next() {
            Some(Event::Credit(_)) => {}
            Some(Event::Response(response)) if response.call == call => return response.answer,
            other => panic!("an answer is to come, but: {other:?}"),
        }
    }
}

fn failure(answer: Answer) -> Failure {
    match answer {
        Answer::Failed(failure) => *failure,
        other => panic!("it is refused, but: {other:?}"),
    }
}

const ACCESSES: [fn() -> Access; 3] = [|| Access::Proved, || Access::Listed, || only("7")];

/// Over TCP without a secret links are not authenticated. Inline functions would run where the request is read.
#[test]
fn who_proves_nothing_is_told_what_to_do_and_nothing_runs() {
    limited(|| {
        for placement in [Placement::Inline, Placement::Default] {
            for access in ACCESSES {
                let functions = Functions::new();
                let (open, _) = counting(&functions, "open");
                let restricted = functions.at(placement.clone()).access(access());
                let (closed, runs) = counting(&restricted, "closed");
                let node = node(1, &functions, []);
                let mut peer = RawPeer::greet(&node, 7, EARLY, 1);
                // Each refusal gives its credit back, and none delays the open function.
                for sequence in 0..u64::from(2 * HIWATER) {
                    let (closed_call, open_call) = (call(7, 2 * sequence), call(7, 2 * sequence + 1));
                    peer.request(closed_call, closed, &ids("1,2"));
                    let Failure { cause, coverage } = failure(answer(&mut peer, closed_call));
                    assert_eq!(
                        (cause.id, cause.kind, cause.stage),
                        (1, CauseKind::NotAuthorised, Stage::Setup)
                    );
                    assert!(cause.message.contains("`closed` is restricted"), "{cause}");
                    assert!(cause.message.contains("Builder::secret"), "it says what to do: {cause}");
                    assert_eq!(coverage.runs(), [(Status::Failed, 1), (Status::Unreached, 1)]);
                    peer.request(open_call, open, &ids("1"));
                    assert!(matches!(answer(&mut peer, open_call), Answer::Reply(_)));
                }
                assert_eq!(runs.load(Ordering::SeqCst), 0);
            }
        }
    });
}

/// The root named in a request is the parent's claim: a request in the name of a permitted id is judged by its sender.
#[test]
fn the_root_that_a_request_names_counts_for_nothing() {
    limited(|| {
        let functions = Functions::new();
        let (closed, runs) = counting(&functions.access(only("0")), "closed");
        let node = node(1, &functions, []);
        let mut peer = RawPeer::greet(&node, 7, EARLY, 1);
        peer.request(call(0, 1), closed, &ids("1"));
        let cause = failure(answer(&mut peer, call(0, 1))).cause;
        assert!(cause.kind == CauseKind::NotAuthorised && cause.message.contains("id 7"), "{cause}");
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    });
}

/// An adopter is judged like a parent, even if an answer may exist.
#[test]
fn an_adopter_is_judged_as_well() {
    limited(|| {
        let functions = Functions::new();
        let (closed, runs) = counting(&functions.access(Access::Proved), "closed");
        let node = node(1, &functions, []);
        let mut peer = RawPeer::greet(&node, 7, EARLY, 1);
        let adopted = request(LIMIT, call(7, 1), closed, &ids("1"));
        let adopted = chained_gpc::wire::Request { partial: true, adopted: true, ..adopted };
        peer.send(Message::Request(Arc::new(adopted)));
        let cause = failure(answer(&mut peer, call(7, 1))).cause;
        assert_eq!((cause.kind, runs.load(Ordering::SeqCst)), (CauseKind::NotAuthorised, 0));
    });
}

/// In a chain of three nodes, id 1 sends the request to the last one, whatever the root of the call.
#[test]
fn over_unix_sockets_a_user_is_proof_and_the_parent_is_judged() {
    limited(|| {
        for link in [LinkKind::Unix, LinkKind::Shm] {
            for placement in [Placement::Inline, Placement::Default] {
                let functions = Functions::new();
                let at = functions.at(placement);
                let (proved, _) = counting(&at.access(Access::Proved), "proved");
                let (listed, _) = counting(&at.access(Access::Listed), "listed");
                let (both, _) = counting(&at.access(only("0-1")), "both");
                let (root, _) = counting(&at.access(only("0")), "root");
                let nodes = LocalNodes::start(3, link, &functions).unwrap();
                let chain = |func| Call::new(func).ids(0..3).tree(Tree::Chain);
                for func in [proved, listed, both] {
                    assert_eq!(replies_of(nodes.root().call(chain(func)).unwrap()).len(), 3);
                }
                let flat = Call::new(root).ids(0..3).tree(Tree::Flat);
                assert_eq!(replies_of(nodes.root().call(flat).unwrap()).len(), 3);
                let cause = cause_of(nodes.root().call(chain(root)).unwrap());
                assert_eq!((cause.id, cause.kind), (2, CauseKind::NotAuthorised), "{cause}");
                assert!(cause.message.contains("id 1 is of none of them"), "{cause}");
                // A refusal is one id's failure, and the others continue.
                let partial = nodes.root().call(chain(root).partial()).unwrap().wait().unwrap();
                assert_eq!(partial.status(2), Some(Status::Failed));
                assert_eq!(partial.cause(2).map(|cause| cause.kind), Some(CauseKind::NotAuthorised));
                assert_eq!(partial.done().to_string(), "0-1");
            }
        }
    });
}

/// Calls that a node starts itself are not restricted.
#[test]
fn a_node_may_call_what_it_has_restricted() {
    limited(|| {
        for placement in [Placement::Inline, Placement::Default] {
            let functions = Functions::new();
            let nobody = Access::Ids(IdList::default());
            let (closed, runs) = counting(&functions.at(placement).access(nobody), "closed");
            let node = Node::builder(5).functions(&functions).start().unwrap();
            replies_of(node.call(Call::new(closed).ids([5])).unwrap());
            let mut polled = Node::builder(6).functions(&functions).polled().unwrap();
            let handle = polled.call(Call::new(closed).ids([6])).unwrap();
            assert!(polled.wait(handle).unwrap().is_complete());
            assert_eq!(runs.load(Ordering::SeqCst), 2);
        }
    });
}

/// Without children a callback does not run at an id; with children it does.
#[test]
fn a_callback_is_restricted_where_it_would_run() {
    limited(|| {
        let functions = Functions::new();
        let (open, _) = counting(&functions, "open");
        let merge = functions.access(only("9")).callback("merge", |_, _, _| Ok(())).unwrap();
        let nodes = LocalNodes::start(3, LinkKind::Unix, &functions).unwrap();
        let call = |count: Id| Call::new(open).callback(merge).ids(0..count).tree(Tree::Chain);
        assert!(nodes.root().call(call(2)).unwrap().wait().unwrap().is_complete());
        let cause = cause_of(nodes.root().call(call(3)).unwrap());
        assert_eq!((cause.id, cause.kind), (1, CauseKind::NotAuthorised), "{cause}");
        assert!(cause.message.contains("`merge` is restricted"), "{cause}");
    });
}

/// Functions with phases, deferring functions and streaming functions can be restricted like any other.
#[test]
fn every_kind_of_function_can_be_restricted() {
    limited(|| {
        let functions = Functions::new();
        let closed = functions.access(Access::Proved);
        let all = [
            closed.phased("phased", |_, _, _| Ok(())).unwrap(),
            closed.deferring("deferring", |_, deferred| deferred.reply(Default::default())).unwrap(),
            closed.func("func", |_, _| Ok(())).unwrap(),
        ];
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let node = Node::builder(1).functions(&functions).listener(listener).start().unwrap();
        let mut peer = RawPeer::greet(&node, 7, EARLY, 1);
        for (sequence, func) in (1..).zip(all) {
            peer.request(call(7, sequence), func, &ids("1"));
            let cause = failure(answer(&mut peer, call(7, sequence))).cause;
            assert_eq!(cause.kind, CauseKind::NotAuthorised, "{cause}");
        }
    });
}

/// Data that are still arriving when their request is refused do not block later data.
#[test]
fn long_data_of_a_refused_request_leave_the_link_as_it_was() {
    limited(|| {
        let functions = Functions::new();
        let (open, opened) = counting(&functions, "open");
        let (closed, runs) = counting(&functions.access(Access::Proved), "closed");
        let nodes = LocalNodes::start(3, LinkKind::Tcp, &functions).unwrap();
        let data = vec![7; 12 << 20];
        let call = |func| Call::new(func).ids(0..3).tree(Tree::Chain).data(data.clone());
        for _ in 0..3 {
            let cause = cause_of(nodes.root().call(call(closed).forward_first()).unwrap());
            assert_eq!((cause.id, cause.kind), (1, CauseKind::NotAuthorised), "{cause}");
            assert_eq!(replies_of(nodes.root().call(call(open)).unwrap()).len(), 3);
        }
        assert_eq!(opened.load(Ordering::SeqCst), 9);
        // The root's own call is permitted at the root.
        assert!(runs.load(Ordering::SeqCst) <= 3);
    });
}

/// What the secret proves over TCP, and what requires a listed key.
#[test]
fn over_tcp_a_secret_proves_a_member_and_a_key_an_id() {
    limited(|| {
        let functions = Functions::new();
        let (proved, _) = counting(&functions.access(Access::Proved), "proved");
        let (listed, _) = counting(&functions.access(Access::Listed), "listed");
        let (root, _) = counting(&functions.access(only("0")), "root");
        let (other, _) = counting(&functions.access(only("5")), "other");
        let secret = Secret::random().unwrap();
        let keys = [0; 3].map(|_| PrivateKey::random().unwrap());
        // The keys of ids 0 and 1 are listed, that of id 2 is not.
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let mut peers: Peers = [(1, listener.address().unwrap())].into_iter().collect();
        for id in [0, 1] {
            peers.set_key(id, keys[id as usize].public());
        }
        let start = |id: Id, listener: Option<Listener>| {
            let builder = Node::builder(id).functions(&functions).peers(peers.clone()).link(LinkKind::Tcp);
            let builder = builder.secret(secret.clone()).key(keys[id as usize].clone());
            listener.into_iter().fold(builder, Builder::listener).start().unwrap()
        };
        let _callee = start(1, Some(listener));
        let known = start(0, None);
        let member = start(2, None);
        let call = |caller: &Node, func| {
            let me = caller.id();
            match caller.call(Call::new(func).ids([me, 1]).tree(Tree::Flat)).unwrap().wait() {
                Ok(outcome) => {
                    assert!(outcome.is_complete());
                    None
                }
                Err(error) => {
                    let cause = error.cause().unwrap().clone();
                    assert_eq!((cause.id, cause.kind), (1, CauseKind::NotAuthorised), "{cause}");
                    Some(cause.message)
                }
            }
        };
        for func in [proved, listed, root] {
            assert_eq!(call(&known, func), None);
        }
        assert!(call(&known, other).unwrap().contains("is of none of them"));
        assert_eq!(call(&member, proved), None);
        for func in [listed, root, other] {
            let said = call(&member, func).unwrap();
            assert!(said.contains("the secret of the job alone") && said.contains("--key-file"), "{said}");
        }
    });
}
