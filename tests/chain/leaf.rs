//! A call on the spot is answered as one that goes the long way, and leaves the same behind.

use chained_gpc::chain::{Config, JobResult, Leaf, Output, Reply, Time};
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{CallId, Message, Request, Response};
use gpc_trees::{Shape, Tree};
use proptest::prelude::*;

use super::one::{CALL, One, request, show};

/// The answer on the spot, if the call may run there.
fn on_the_spot(one: &mut One, request: &Request, result: Result<Reply, String>) -> Option<Vec<String>> {
    let (leaf, now) = (Leaf::of(one.node.config().me, request)?, Time::default().plus(one.now));
    one.node.leaf_begins(now, 0, &leaf).then(|| {
        let answer = one.node.leaf_ends(&leaf, result);
        let message = Message::Response(Response { call: leaf.call, answer });
        vec!["run func".into(), "consumed 0".into(), show(Output::Send { to: 0, message })]
    })
}

proptest! {
    #[test]
    fn it_is_answered_as_one_that_goes_the_long_way(
        callback in prop::option::of(Just(9u32)), reply_wanted: bool, forward_first: bool, fails: bool,
        header in prop::collection::vec(b'a'..=b'z', 0..40), data in prop::collection::vec(b'a'..=b'z', 0..5000),
    ) {
        let asked = Request { callback, reply_wanted, forward_first, ..request("1") };
        let config = || Config { reply_max: 4000, ..Config::new(1, 5) };
        let reply = || if fails { Err("bad luck".to_string()) } else { Ok(Reply { header: header.clone(), data: data.clone() }) };
        let mut long = One::with(config());
        let mut said = long.request(0, asked.clone());
        said.extend(long.ran(reply().map_or_else(JobResult::Failed, JobResult::Replied)));
        let mut short = One::with(config());
        prop_assert_eq!(on_the_spot(&mut short, &asked, reply()), Some(said));
        prop_assert!(long.is_quiet() && short.is_quiet());
        // Once more it is refused by both, and does not run.
        prop_assert_eq!(on_the_spot(&mut short, &asked, reply()), None);
        prop_assert_eq!(short.request(0, asked.clone()), long.request(0, asked));
    }
}

#[test]
fn what_is_unusual_goes_the_long_way() {
    let config = || Config { data_max: 3, calls_max: 1, ..Config::new(1, 5) };
    let may = |one: &mut One, request: &Request| on_the_spot(one, request, Ok(Reply::default())).is_some();
    let fresh = |request: Request| may(&mut One::with(config()), &request);
    assert!(fresh(request("1")));
    let shape = Shape::from_sizes(vec![1]).unwrap();
    for (what, unusual) in [
        ("has children", request("1-2")),
        ("is another's", request("2")),
        ("is partial", Request { partial: true, ..request("1") }),
        ("may have been sent before", Request { adopted: true, ..request("1") }),
        ("comes from an adopter", Request { skipped: 1, ..request("1") }),
        ("has a tree that is not known here", Request { tree: Err(77), ..request("1") }),
        ("has a shape", Request { tree: Ok(Tree::Explicit(shape)), ..request("1") }),
        ("has no time left", Request { limit: std::time::Duration::ZERO, ..request("1") }),
        ("has too much data", Request { data: chained_gpc::wire::Body::whole("1234"), ..request("1") }),
        (
            "has data that are still to come",
            Request { data: chained_gpc::wire::Body::arriving(2).0, ..request("1") },
        ),
        ("has this id's own name", Request { call: CallId { root: 1, sequence: 9 }, ..request("1") }),
    ] {
        assert!(!fresh(unusual), "one that {what}");
    }
    // While a function runs, others wait for their turn.
    let mut one = One::with(Config { calls_max: 9, ..config() });
    one.request(0, request("1"));
    let other = Request { call: CallId { root: 0, sequence: 6 }, ..request("1") };
    assert!(!may(&mut one, &request("1")) && !may(&mut one, &other));
    one.replied("");
    assert!(!may(&mut one, &request("1")) && may(&mut one, &other));
    one.node.close();
    assert!(!may(&mut one, &Request { call: CallId { root: 0, sequence: 7 }, ..request("1") }));
    // As many as there may be are in flight.
    let mut full = One::with(config());
    full.request(0, Request { call: CallId { root: 0, sequence: 6 }, ..request("1-2") });
    full.ran(JobResult::Deferred);
    assert_eq!(CALL.sequence, 5);
    assert!(!may(&mut full, &request("1")));
}

#[test]
fn a_reply_over_the_limit_fails_and_says_so() {
    let mut one = One::with(Config { reply_max: 10, ..Config::new(1, 5) });
    let leaf = Leaf::of(1, &request("1")).unwrap();
    assert!(one.node.leaf_begins(Time::default(), 0, &leaf));
    let reply = Reply { header: Vec::new(), data: vec![0; 20] };
    let Answer::Failed(failure) = one.node.leaf_ends(&leaf, Ok(reply)) else { panic!("it is too long") };
    assert_eq!(failure.cause.message, "the subtree's reply of 25 bytes is over the limit of 10");
}
