//! Long replies over real sockets: complete in every mode, and calls that fail while replies are in flight.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use chained_gpc::Placement;
use chained_gpc::link::Event;
use chained_gpc::wire::frame::WINDOW;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::streaming_reply::StreamingReply;
use chained_gpc::wire::{Body, BodyWriter, CallId, Message, Payload, Status};
use chained_gpc::{
    Call, Cause, CauseKind, Coverage, Deferred, Failure, Functions, Id, LinkKind, Node, Reply, Stage,
};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::Tree;

use super::common::{LIMIT, LINKS, assert_cause, cause_of, ids, limited, noise, outcome_of, replies_of, who};
use super::raw::{EARLY, RawPeer, call, level_0, listener, node};

/// Every third reply is longer than a window, every third longer than a segment, and the others are short.
fn own(id: Id) -> Vec<u8> {
    let len = [WINDOW as usize + 300_001, 100, 400_003][id as usize % 3];
    noise(len + id as usize, id.into())
}

#[test]
fn long_replies_are_whole_in_every_mode() {
    // Each kind of link has a limit of its own: at a load of 13 all together took longer than one.
    for link in LINKS {
        limited(move || long_replies_are_whole(link));
    }
}

fn long_replies_are_whole(link: LinkKind) {
    let functions = Functions::new();
    let long = functions.func("long", |request, reply| {
        reply.data = own(request.me());
        reply.header = vec![request.me() as u8; 30_000 * request.me() as usize];
        Ok(())
    });
    let long = long.unwrap();
    let append = functions.callback("append", |_, child, own| {
        own.data.extend_from_slice(child.data);
        Ok(())
    });
    let append = append.unwrap();
    let nodes = LocalNodes::start(7, link, &functions).unwrap();
    for tree in [Tree::Chain, Tree::Binomial] {
        let plain = Call::new(long).ids(0..7).tree(tree);
        let modes = [
            plain.clone(),
            plain.clone().forward_first(),
            plain.clone().partial(),
            plain.clone().ids(1..7).watch(),
        ];
        for call in modes {
            for reply in replies_of(nodes.root().call(call).unwrap()) {
                assert!(reply.data == own(reply.id), "id {} over {link:?}", reply.id);
                assert_eq!(reply.header, vec![reply.id as u8; 30_000 * reply.id as usize]);
            }
        }
        let merged = outcome_of(nodes.root().call(plain.callback(append)).unwrap());
        let all: usize = (0..7).map(|id| own(id).len()).sum();
        assert_eq!(merged.data().len(), all);
    }
}

/// Each call exceeds the limit at the id that would have to forward it.
#[test]
fn a_reply_over_the_limit_of_an_id_in_between_fails_there() {
    limited(|| {
        let functions = Functions::new();
        let long = functions.func("long", |_, reply| {
            reply.data = vec![1; 3 << 20];
            Ok(())
        });
        let nodes =
            LocalNodes::start_with(4, LinkKind::Tcp, &functions, |_, node| node.reply_max(5 << 20)).unwrap();
        let call = Call::new(long.unwrap()).ids(0..4).tree(Tree::Chain);
        let cause = cause_of(nodes.root().call(call).unwrap());
        assert_cause(&cause, 2, Stage::Reply, "the subtree's reply of 6291");
    });
}

/// The answer to `call`, skipping other frames.
fn answer_to(peer: &mut RawPeer, call: CallId) -> Answer {
    loop {
        match peer.next() {
            Some(Event::Response(response)) if response.call == call => return response.answer,
            Some(Event::Credit(_) | Event::ReplyStarted) => {}
            other => panic!("an answer to {call} is to come, but: {other:?}"),
        }
    }
}

/// A parent takes no more than a window of a reply: other calls pass it, and credit is returned for more of them than
/// there is.
#[test]
fn a_reply_that_nobody_takes_holds_up_no_other_call() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let long = functions.at(Placement::Inline).func("long", |_, reply| {
            reply.data = vec![1; 5 * WINDOW as usize];
            Ok(())
        });
        let node = node(1, &functions, []);
        let mut parent = RawPeer::greet(&node, 7, EARLY, 1);
        let long = long.unwrap();
        (0..3).for_each(|sequence| parent.request(call(7, sequence), long, &ids("1")));
        for sequence in 10..1000 {
            parent.request(call(7, sequence), who, &ids("1"));
            assert!(matches!(answer_to(&mut parent, call(7, sequence)), Answer::Reply(_)));
        }
    });
}

/// A parent and a child made by hand, and node 1 between them, whose answer has begun to go up.
struct Between {
    parent: RawPeer,
    child: RawPeer,
    writer: BodyWriter,
    _node: Node,
}

const CALL: CallId = CallId { root: 7, sequence: 1 };

fn between(limit: Duration) -> Between {
    let functions = Functions::new();
    let who = who(&functions);
    let (listener, address) = listener();
    let node = node(1, &functions, [(5, address)]);
    let mut parent = RawPeer::greet(&node, 7, EARLY, 1);
    parent.request_within(limit, CALL, who, &ids("1,5"));
    let mut child = RawPeer::answer(&listener, EARLY);
    assert_eq!(child.expect_request().call, CALL);
    let (body, mut writer) = Body::arriving(4 * WINDOW);
    let header = Payload::from(level_0(b"from 5"));
    let reply = StreamingReply { level: 0, header, data: body.into() };
    child.send(Message::Response(Response { call: CALL, answer: Answer::Arriving(Box::new(reply)) }));
    writer.push(&vec![1; 500_000]);
    child.go_on();
    assert!(
        matches!(parent.next(), Some(Event::ReplyStarted)),
        "the answer goes up before its data are there"
    );
    Between { parent, child, writer, _node: node }
}

fn failure(answer: Answer) -> Failure {
    match answer {
        Answer::Failed(failure) => *failure,
        other => panic!("a failure is to come, but: {other:?}"),
    }
}

fn cause(parent: &mut RawPeer) -> Cause {
    let failure = failure(answer_to(parent, CALL));
    assert_eq!(failure.coverage.counts().done, 2, "both had said that they are done");
    failure.cause
}

#[test]
fn a_child_that_ends_its_link_behind_its_head_is_the_cause() {
    limited(|| {
        let Between { mut parent, child, _node, .. } = between(LIMIT);
        drop(child);
        assert_cause(&cause(&mut parent), 5, Stage::Link, "");
        let Between { mut parent, mut child, _node, .. } = between(LIMIT);
        child.goodbye();
        assert_cause(&cause(&mut parent), 5, Stage::Link, "it said goodbye: enough");
    });
}

#[test]
fn a_child_that_fails_behind_its_head_says_why() {
    limited(|| {
        let Between { mut parent, mut child, _node, .. } = between(LIMIT);
        let failure = Failure {
            cause: Cause::new(5, Stage::Reply, CauseKind::TimeLimit, "no more"),
            coverage: Coverage::all(Status::Done, 1),
        };
        child.send(Message::Response(Response { call: CALL, answer: Answer::Failed(Box::new(failure)) }));
        assert_cause(&cause(&mut parent), 5, Stage::Reply, "no more");
    });
}

#[test]
fn a_child_that_lies_about_its_reply_loses_its_link() {
    limited(|| {
        // The parent takes only a window, and the node in between another one; bytes beyond both exceed the window.
        let Between { mut parent, mut child, writer: mut rest, _node, .. } = between(LIMIT);
        rest.push(&vec![1; WINDOW as usize]);
        child.go_on();
        let segment =
            [&[4, 1, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..], &[1; 1 << 19]].concat();
        let frame = [&(segment.len() as u32 - 4).to_le_bytes()[..], &segment].concat();
        (0..=WINDOW >> 19).for_each(|_| child.bytes(&frame));
        assert_cause(&cause(&mut parent), 5, Stage::Link, "beyond the window of its body");

        let Between { mut parent, mut child, _node, .. } = between(LIMIT);
        child.reply(CALL, b"another");
        assert_cause(&cause(&mut parent), 5, Stage::Link, "whose response is still arriving");
    });
}

#[test]
fn the_time_limit_ends_a_reply_that_does_not_come() {
    limited(|| {
        let Between { mut parent, mut child, _node, .. } = between(Duration::from_secs(2));
        let cause = cause(&mut parent);
        assert_cause(&cause, 5, Stage::Reply, "500000 had come and 500000 had gone up");
        child.expect_cancel(CALL);
    });
}

#[test]
fn a_cancel_goes_down_to_a_child_whose_reply_is_under_way() {
    limited(|| {
        let Between { mut parent, mut child, _node, .. } = between(LIMIT);
        parent.send(Message::Cancel(CALL));
        expect_cancel(&mut child);
        let Between { parent, mut child, _node, .. } = between(LIMIT);
        drop(parent);
        expect_cancel(&mut child);
    });
}

/// Expects a cancel, perhaps after windows.
fn expect_cancel(child: &mut RawPeer) {
    loop {
        match child.next() {
            Some(Event::Cancel(cancelled)) => return assert_eq!(cancelled, CALL),
            Some(Event::Window(_)) => {}
            other => panic!("a cancel is to come, but: {other:?}"),
        }
    }
}

/// A reply that begins when it is no longer awaited would wait for a window forever.
#[test]
fn a_long_reply_that_comes_too_late_is_cancelled() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let node = node(0, &functions, [(5, address)]);
        let short = Duration::from_millis(300);
        let late = node.call(Call::new(who).ids(ids("0,5")).limit(short)).unwrap();
        let mut peer = RawPeer::answer(&listener, EARLY);
        let call = peer.expect_request().call;
        assert_cause(&cause_of(late), 5, Stage::Reply, "no reply came");
        peer.expect_cancel(call);
        peer.reply(call, &vec![1; 2 * WINDOW as usize]);
        peer.expect_cancel(call);
    });
}

/// While the data of the first child do not arrive, those of the second wait in the second child, except for a window.
#[test]
fn a_tardy_child_holds_back_the_other_and_nothing_else() {
    limited(|| {
        let (tokens, held): (_, Receiver<Deferred>) = channel();
        let functions = Functions::new();
        let long = functions.deferring("long", move |request, token| match request.me() {
            2 => tokens.send(token).unwrap(),
            me => token.reply(Reply { data: noise(9 << 20, me.into()), ..Default::default() }),
        });
        let long = long.unwrap();
        let who = who(&functions);
        for link in LINKS {
            let nodes = LocalNodes::start(4, link, &functions).unwrap();
            // 1 is above 2 and 3.
            let shape = gpc_trees::Shape::from_sizes(vec![4, 3, 1, 1]).unwrap();
            let call = Call::new(long).ids(0..4).tree(Tree::Explicit(shape));
            let handle = nodes.root().call(call).unwrap();
            let token = held.recv_timeout(LIMIT).unwrap();
            // More than there is credit for.
            for _ in 0..300 {
                assert_eq!(
                    replies_of(nodes.root().call(Call::new(who).ids(0..4).tree(Tree::Chain)).unwrap()).len(),
                    4
                );
            }
            token.reply(Reply { data: noise(9 << 20, 2), ..Default::default() });
            let replies = replies_of(handle);
            assert!((0..).zip(&replies).all(|(id, reply)| reply.data == noise(9 << 20, id)), "{link:?}");
            assert_eq!(replies.len(), 4);
        }
    });
}
