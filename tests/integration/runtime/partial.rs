//! Partial calls over real sockets: nodes that end in the middle, and peers that fall silent.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use chained_gpc::link::Outbox;
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::{Coverage, Message, Report, Request, Response, Status};
use chained_gpc::{Call, Functions, Heartbeat, Id, Node, Outcome, Stage};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::Tree;
use smallvec::SmallVec;

use super::common::{
    LIMIT, LINKS, assert_cause, assert_who, end_of, ids, ids_of, limited, nodes_of_who, outcome_of, who,
};
use super::raw::{EARLY, RawPeer, level_0, listener, request};

/// Nodes that count as older than any call: the tests begin their calls at once.
fn ageless(_: Id, builder: chained_gpc::runtime::Builder) -> chained_gpc::runtime::Builder {
    builder.restart_margin(Duration::ZERO)
}

fn letters(outcome: &Outcome) -> String {
    let letter = |status| match status {
        Status::Done => 'd',
        Status::Failed => 'f',
        Status::Unreached => '-',
        Status::Unknown => '?',
    };
    outcome.coverage().statuses().map(letter).collect()
}

#[test]
fn a_whole_call_is_complete() {
    limited(|| {
        for link in LINKS {
            let (nodes, who) = nodes_of_who(7, link);
            let outcome =
                outcome_of(nodes.root().call(Call::new(who).ids(0..7).partial().header("x")).unwrap());
            assert!(outcome.is_complete() && outcome.causes().is_empty());
            assert_who(&outcome.replies().unwrap(), &[0, 1, 2, 3, 4, 5, 6], "x");
        }
    });
}

#[test]
fn nodes_that_are_not_there_are_left_out() {
    limited(|| {
        for link in LINKS {
            let (mut nodes, who) = nodes_of_who(7, link);
            // An interior one and, below it, a leaf.
            nodes.take(1).shutdown(LIMIT);
            nodes.take(3).shutdown(LIMIT);
            let outcome =
                outcome_of(nodes.root().call(Call::new(who).ids(0..7).partial().header("x")).unwrap());
            assert_eq!((letters(&outcome), outcome.is_complete()), ("d-d-ddd".into(), false));
            assert_who(&outcome.replies().unwrap(), &[0, 2, 4, 5, 6], "x");
            assert_eq!(
                outcome.causes().iter().map(|cause| (cause.id, cause.stage)).collect::<Vec<_>>(),
                [(1, Stage::Link), (3, Stage::Link)]
            );
            // A call that is not partial fails.
            assert!(end_of(nodes.root().call(Call::new(who).ids(0..7)).unwrap()).is_err());
        }
    });
}

#[test]
fn a_func_that_fails_is_left_out_and_the_others_reply() {
    limited(|| {
        let functions = Functions::new();
        let picky = functions.func("picky", |request, reply| {
            reply.data = request.me().to_string().into_bytes();
            if request.me() == 1 { Err("not me".into()) } else { Ok(()) }
        });
        let nodes = LocalNodes::start(5, LINKS[0], &functions).unwrap();
        let outcome = outcome_of(nodes.root().call(Call::new(picky.unwrap()).ids(0..5).partial()).unwrap());
        assert_eq!(letters(&outcome), "dfddd");
        assert_eq!(ids_of(&outcome.replies().unwrap()), [0, 2, 3, 4]);
        assert_cause(&outcome.causes()[0], 1, Stage::Func, "not me");
    });
}

/// An interior node ends when all below it are done and it still executes: their results count, and are not computed
/// again.
#[test]
fn a_node_that_ends_in_the_middle_is_left_out_alone() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let (ran, runs) = mpsc::channel();
            let (tokens, held) = mpsc::channel();
            let work = functions.deferring("work", move |request, token| {
                // The test receives each in turn, or has ended.
                let _ = ran.send(request.me());
                match request.me() {
                    1 => drop(tokens.send(token)),
                    me => {
                        token.reply(chained_gpc::Reply { data: vec![b'0' + me as u8], ..Default::default() })
                    }
                }
            });
            let mut nodes = LocalNodes::start_with(7, link, &functions, ageless).unwrap();
            let call = Call::new(work.unwrap()).ids(0..7).partial().forward_first().limit(2 * LIMIT);
            let handle = nodes.root().call(call).unwrap();
            let mut executed: Vec<Id> = (0..7).map(|_| runs.recv_timeout(LIMIT).expect("all run")).collect();
            executed.sort_unstable();
            assert_eq!(executed, [0, 1, 2, 3, 4, 5, 6]);
            let token = held.recv_timeout(LIMIT).expect("it is 1 that waits");
            nodes.take(1).shutdown(Duration::ZERO);
            let outcome = outcome_of(handle);
            assert_eq!(letters(&outcome), "d?ddddd", "{:?}", outcome.causes());
            assert_eq!(ids_of(&outcome.replies().unwrap()), [0, 2, 3, 4, 5, 6]);
            assert!(runs.try_recv().is_err(), "nobody has run again");
            drop(token);
        }
    });
}

/// The data arrive half way from a parent that is then lost; an adopter sends them again.
#[test]
fn data_that_stop_in_the_middle_come_from_the_adopter() {
    limited(|| {
        let functions = Functions::new();
        let len = functions
            .func("len", |request, reply| {
                reply.data = request.data().len().to_string().into_bytes();
                Ok(())
            })
            .unwrap();
        let node = Node::builder(4).functions(&functions).restart_margin(Duration::ZERO);
        let node = super::raw::listening(node);
        let data = vec![7; 3 << 20];
        let call = super::raw::call(0, 1);
        let asked = Request { partial: true, ..request(LIMIT, call, len, &ids("4")) };
        let (half, mut writer) = chained_gpc::wire::Body::arriving(data.len() as u64);
        writer.push(&data[..1 << 20]);
        let mut parent = RawPeer::greet(&node, 1, EARLY, 1);
        parent.send(Message::Request(Arc::new(Request { data: half, ..asked.clone() })));
        let mut adopter = RawPeer::greet(&node, 0, EARLY, 1);
        let data = chained_gpc::wire::Body::whole(data);
        let again = Request { data, skipped: 1, adopted: true, ..asked };
        adopter.send(Message::Request(Arc::new(again)));
        let Answer::Partial(partial) = adopter.expect_response(call) else { panic!("a partial answer") };
        assert_eq!(partial.reply.data.to_bytes(), "7 3145728");
        assert!(matches!(parent.next(), Some(chained_gpc::link::Event::Moved(moved)) if moved == call));
        drop(parent);
    });
}

/// A silent peer on a connection that is up, and one that only answers PINGs.
#[test]
fn a_silent_peer_is_given_up_and_a_slow_one_is_not() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let [(slow, slow_address), (silent, silent_address)] = [listener(), listener()];
        let heartbeat =
            Heartbeat { every: Duration::from_millis(50), dead_after: Duration::from_millis(1500) };
        let builder = Node::builder(0).functions(&functions).heartbeat(Some(heartbeat));
        let node =
            builder.peers([(5, slow_address), (6, silent_address)].into_iter().collect()).start().unwrap();
        let call = Call::new(who).ids(ids("0,5,6")).tree(Tree::Flat).partial().limit(2 * LIMIT);
        let handle = node.call(call).unwrap();
        let mut slow = RawPeer::answer(&slow, EARLY);
        let mut silent = RawPeer::answer(&silent, EARLY);
        let call = slow.expect_request().call;
        assert_eq!(silent.expect_request().call, call);
        // It reads and answers each PING until the other one's connection is closed.
        slow.answer_pings(60);
        silent.expect_closed();
        let reply = SubtreeReply {
            level: 0,
            header: level_0(b"").into(),
            data: level_0(b"late").into(),
            ..SubtreeReply::default()
        };
        let report = Report { causes: Vec::new(), coverage: Coverage::all(Status::Done, 1) };
        let answer = Answer::Partial(Box::new(Partial { reply, report }));
        slow.send(Message::Response(Response { call, answer }));
        let outcome = outcome_of(handle);
        assert_eq!(letters(&outcome), "dd?");
        assert_cause(&outcome.causes()[0], 6, Stage::Link, "no heartbeat");
        assert!(outcome.replies().unwrap()[1].data == "late");
    });
}

/// A reply arrives byte by byte, and never a PONG: arriving bytes show that the sender is alive.
#[test]
fn a_slow_reply_is_a_sign_of_life() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let heartbeat =
            Heartbeat { every: Duration::from_millis(50), dead_after: Duration::from_millis(1500) };
        let builder = Node::builder(0).functions(&functions).heartbeat(Some(heartbeat));
        let node = builder.peers([(5, address)].into_iter().collect()).start().unwrap();
        let handle = node.call(Call::new(who).ids(ids("0,5")).limit(2 * LIMIT)).unwrap();
        let mut slow = RawPeer::answer(&listener, EARLY);
        let call = slow.expect_request().call;
        let reply = SubtreeReply {
            level: 0,
            header: level_0(b"").into(),
            data: level_0(b"late").into(),
            ..SubtreeReply::default()
        };
        let mut outbox = Outbox::new();
        outbox.push(Message::Response(Response { call, answer: Answer::Reply(reply) }));
        assert!(outbox.prepare());
        let mut parts = SmallVec::new();
        outbox.parts(&mut parts);
        // A byte for each PING: twice as long as the time of silence until death.
        for byte in parts.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>() {
            slow.expect_ping();
            slow.bytes(&[byte]);
        }
        assert_eq!(outcome_of(handle).replies().unwrap()[1].data, "late");
    });
}
