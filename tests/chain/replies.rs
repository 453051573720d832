//! The replies of a root's children as they arrive: what a followed call reports, and when.

use chained_gpc::chain::{Input, Start};
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::{Coverage, Report, Status};
use gpc_trees::Tree;

use super::one::{One, leveled, start};

fn flat(list: &str) -> Start {
    Start { follow: true, tree: Tree::Flat, ..start(list) }
}

fn done(data: &str, ids: u32) -> Answer {
    let header = "0 ".as_bytes().to_vec().into();
    let reply =
        SubtreeReply { level: 0, header, data: data.as_bytes().to_vec().into(), ..SubtreeReply::default() };
    let report = Report { causes: Vec::new(), coverage: Coverage::all(Status::Done, ids) };
    Answer::Partial(Box::new(Partial { reply, report }))
}

#[test]
fn each_child_is_reported_when_it_answers() {
    let mut one = One::new(0);
    one.start(flat("0-3"));
    one.replied("a");
    assert_eq!(one.response(2, leveled(0, "0 ", "1 c")), ["child 2..3 [1 c]"]);
    assert_eq!(one.response(1, leveled(0, "0 ", "1 b")), ["child 1..2 [1 b]"]);
    let last = one.response(3, leveled(0, "0 ", "1 d"));
    assert_eq!(last, ["child 3..4 [1 d]", "end 1: level 1 [4 0 0 0 0 ] [4 1 a1 b1 c1 d]"]);
}

#[test]
fn who_follows_late_gets_what_has_arrived() {
    let mut one = One::new(0);
    one.start(Start { follow: false, ..flat("0-3") });
    one.replied("a");
    assert!(
        one.response(3, leveled(0, "0 ", "1 d")).is_empty()
            && one.response(1, leveled(0, "0 ", "1 b")).is_empty()
    );
    assert_eq!(one.feed(Input::Follow { ticket: 1 }), ["child 1..2 [1 b]", "child 3..4 [1 d]"]);
    assert_eq!(one.feed(Input::Follow { ticket: 1 }), [""; 0], "once");
    assert_eq!(one.feed(Input::Follow { ticket: 2 }), [""; 0], "no such call");
    assert_eq!(one.response(2, leveled(0, "0 ", "1 c")).len(), 2);
}

#[test]
fn a_lost_child_is_reported_as_lost_and_its_orphans_when_they_answer() {
    let mut one = One::new(0);
    one.start(Start { partial: true, follow: true, tree: Tree::Binary, ..start("0-4") });
    one.replied("a");
    // Id 1 has id 2 below it.
    assert_eq!(one.lost(1), ["child 1..2 [] [?]", "to 2: request 2 skipped 1, sent before"]);
    assert_eq!(one.response(2, done("1 c", 1)), ["child 2..3 [1 c] [d]"]);
}

#[test]
fn a_watching_root_has_no_place() {
    let mut one = One::new(0);
    one.start(Start { watch: true, ..flat("0-2") });
    assert_eq!(one.response(1, leveled(0, "0 ", "1 b")), ["child 0..1 [1 b]"]);
}

#[test]
fn a_callback_merges_and_reports_nothing() {
    let mut one = One::new(0);
    one.start(Start { callback: Some(9), ..flat("0-2") });
    one.replied("a");
    assert_eq!(one.response(2, super::one::merged("c")), [""; 0]);
    assert_eq!(one.response(1, super::one::merged("b")), ["run callback 1 a+b"]);
}
