//! Scatter calls at one node: each child gets its parts, also after a loss, and nothing else.

use std::sync::Arc;

use chained_gpc::chain::{Config, Input, Output, Start};
use chained_gpc::wire::{Body, Budget, Message, Parts, Request};
use gpc_trees::{Id, Tree};

use super::one::{One, request, start};

fn parts(list: &[&str]) -> Option<Box<Parts>> {
    Parts::of_lengths(list.iter().map(|part| part.len() as u64)).map(Box::new)
}

fn scatter(list: &str, of: &[&str]) -> Request {
    Request { parts: parts(of), ..request(list) }.with_body(Body::whole(of.concat()))
}

/// The requests among the outputs of an input: receiver, own data, all data and lengths.
fn requests(one: &mut One, input: Input) -> Vec<(Id, String, String, Vec<u64>)> {
    let text =
        |body: &Body| String::from_utf8(body.bytes().expect("all have arrived").to_vec()).expect("text");
    let sent = |output: Output| match output {
        Output::Send { to, message: Message::Request(request) } => {
            let lengths = request.parts.as_ref().map(|parts| parts.lengths().collect());
            Some((to, text(&request.data), text(request.body()), lengths.unwrap_or_default()))
        }
        _ => None,
    };
    one.outputs(input).into_iter().filter_map(sent).collect()
}

fn message(from: Id, request: Request) -> Input {
    Input::Message { from, message: Message::Request(Arc::new(request)) }
}

const FIVE: [&str; 5] = ["a", "bb", "", "dd", "e"];

#[test]
fn a_subtree_gets_its_own_parts() {
    for tree in [Tree::Binary, Tree::Flat, Tree::Chain, Tree::Binomial] {
        let mut one = One::new(1);
        let first = Request { forward_first: true, tree: Ok(tree.clone()), ..scatter("1-5", &FIVE) };
        let sent = requests(&mut one, message(0, first));
        let groups = tree.split(5).expect("a tree");
        assert_eq!(sent.len(), groups.len());
        for (to, own, all, lengths) in sent {
            let group = groups.iter().find(|group| group.start + 1 == to).expect("the head of a group");
            let below = &FIVE[group.start as usize..(group.start + group.len) as usize];
            assert_eq!((own.as_str(), all), (below[0], below.concat()), "{tree} {to}");
            assert!(lengths.iter().copied().eq(below.iter().map(|part| part.len() as u64)));
        }
    }
}

#[test]
fn the_children_of_a_lost_one_get_their_parts() {
    let mut one = One::new(1);
    one.now = std::time::Duration::from_secs(10);
    one.request(0, Request { partial: true, tree: Ok(Tree::Chain), ..scatter("1-5", &FIVE) });
    one.replied("x");
    let lost = Input::LinkLost {
        peer: 2,
        kind: chained_gpc::wire::CauseKind::LinkLost,
        why: "gone".into(),
        unreached: false,
    };
    let adopted = requests(&mut one, lost);
    assert_eq!(adopted, [(3, "".into(), "dde".into(), vec![0, 2, 1])]);
}

#[test]
fn data_that_are_still_arriving_are_forwarded_in_parts() {
    let (body, mut writer) = Body::arriving(6);
    let mut one = One::new(1);
    let request =
        Request { forward_first: true, tree: Ok(Tree::Flat), ..scatter("1-3", &["ab", "cd", "ef"]) };
    let outputs = one.outputs(message(0, request.with_body(body)));
    let sent: Vec<Arc<Request>> = outputs
        .into_iter()
        .filter_map(|output| match output {
            Output::Send { message: Message::Request(request), .. } => Some(request),
            Output::Run(_) => panic!("func has no data yet"),
            _ => None,
        })
        .collect();
    writer.push(b"abc");
    let of = |to: Id| sent.iter().find(|request| request.ids.first() == Some(to)).expect("a request");
    assert_eq!((&of(2).body().read(0, 9)[..], of(3).body().arrived()), (&b"c"[..], 0));
    writer.push(b"def");
    assert_eq!(of(3).data.bytes().expect("all have arrived"), "ef");
    assert_eq!(one.feed(Input::DataArrived(super::one::CALL)), ["run func"]);
}

#[test]
fn parts_are_as_many_as_ids() {
    for (of, bytes) in [(&FIVE[..4], 5), (&FIVE[..], 5), (&FIVE[..], 7)] {
        let mut one = One::new(0);
        let data = Body::whole(vec![0; bytes]);
        let outputs = one.start(Start { parts: parts(of), data, ..start("0-4") });
        assert!(
            outputs[0].contains("(bad-request): ") && outputs[0].contains("for 5 ids and"),
            "{outputs:?}"
        );
    }
    let mut one = One::new(0);
    let data = Body::whole(FIVE.concat());
    assert_eq!(one.start(Start { parts: parts(&FIVE), data, ..start("0-4") }), ["run func"]);
}

#[test]
fn the_lengths_and_the_parts_are_counted() {
    let memory = Budget::new(2_000, "a test's memory");
    let mut one = One::with(Config { memory: memory.clone(), ..Config::new(1, 5) });
    let of: Vec<&str> = std::iter::repeat_n("abcd", 50).collect();
    let refused = one.request(0, scatter("1-50", &of));
    assert!(refused.is_empty() || refused == ["run func"], "{refused:?}");
    // A call, a run, 50 lengths and 200 bytes.
    assert_eq!(memory.used(), (1 << 10) + 16 + 50 * 8 + 200);
}
