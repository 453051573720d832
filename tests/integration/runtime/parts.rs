//! Replies of a flat tree at the root: the parts as they arrived, whether the application wants them aggregated or not.

use std::net::TcpListener;

use chained_gpc::Placement;
use chained_gpc::runtime::{IdReply, ReplyRef};
use chained_gpc::wire::Message;
use chained_gpc::wire::level::{Leaves, Limits};
use chained_gpc::wire::message::{Answer, Response, SubtreeReply};
use chained_gpc::{Call, FuncHandle, Functions, Id, LinkKind, Outcome};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::{IdList, Tree};

use super::common::{LINKS, limited, outcome_of};
use super::raw::{EARLY, RawPeer, listener, node};

/// An inline func: only its calls keep the parts as they arrived.
fn say(functions: &Functions) -> FuncHandle {
    let say = functions.at(Placement::Inline).func("say", |request, reply| {
        reply.header = vec![request.me() as u8; request.me() as usize];
        reply.data = said(request.me());
        Ok(())
    });
    say.expect("a name of its own")
}

/// Parts with lengths of one, two and three digits.
fn said(id: Id) -> Vec<u8> {
    format!("{id}").repeat([0, 3, 40, 120][id as usize % 4]).into_bytes()
}

/// Checks that the parts are those of these ids, in this order, in every form.
fn assert_said(outcome: &Outcome, ids: &[Id]) {
    let as_it_came = outcome.clone();
    let expected: Vec<(Id, Vec<u8>, Vec<u8>)> =
        ids.iter().map(|&id| (id, vec![id as u8; id as usize], said(id))).collect();
    let lent = outcome.replies_ref().expect("good parts");
    let lent = lent.iter().map(|ReplyRef { id, header, data }| (*id, header.to_vec(), data.to_vec()));
    assert!(lent.eq(expected.iter().cloned()), "{ids:?}");
    // From here on they are aggregated, too.
    let shared = outcome.replies().expect("good parts");
    let shared = shared.iter().map(|IdReply { id, header, data }| (*id, header.to_vec(), data.to_vec()));
    assert!(shared.eq(expected.iter().cloned()), "{ids:?}");
    let leaves: Vec<&[u8]> = Leaves::new(outcome.level(), outcome.data(), Limits::default())
        .map(|leaf| leaf.expect("good data"))
        .collect();
    let in_tree_order: Vec<Vec<u8>> = outcome.ids().iter().map(said).collect();
    assert_eq!(leaves, in_tree_order);
    assert_eq!(outcome.level(), 1);
    assert_eq!(*outcome, as_it_came, "aggregated or not");
    assert!(format!("{as_it_came:?}").len() < 2_000, "no line of a log has a thousand numbers");
}

#[test]
fn the_parts_are_those_of_their_ids_aggregated_or_not() {
    limited(|| {
        let functions = Functions::new();
        let say = say(&functions);
        for link in LINKS {
            let nodes = LocalNodes::start(12, link, &functions).unwrap();
            // The first call over a list of ids takes the general path.
            for _ in 0..3 {
                for listed in ["0-11", "5,0,3,11,1", "7,2,0", "0,9"] {
                    let list: IdList = listed.parse().unwrap();
                    let order: Vec<Id> = list.iter().collect();
                    let call = Call::new(say).ids(list).tree(Tree::Flat);
                    assert_said(&outcome_of(nodes.root().call(call).unwrap()), &order);
                }
                let call = Call::new(say).ids("4,1,8".parse::<IdList>().unwrap()).tree(Tree::Flat).watch();
                assert_said(&outcome_of(nodes.root().call(call).unwrap()), &[4, 1, 8]);
            }
        }
    });
}

/// A child that answers calls of the root with these bytes, `times` times.
fn answer_with(listener: &TcpListener, header: &'static [u8], data: &'static [u8], times: usize) {
    let mut child = RawPeer::answer(listener, EARLY);
    for _ in 0..times {
        let call = child.expect_request().call;
        let reply = SubtreeReply {
            level: 0,
            header: header.to_vec().into(),
            data: data.to_vec().into(),
            ..SubtreeReply::default()
        };
        child.send(Message::Response(Response { call, answer: Answer::Reply(reply) }));
    }
}

/// An invalid part is an error, as with aggregated replies: an excess byte does not become another id's part.
#[test]
fn a_part_that_is_none_is_an_error_and_nobody_elses() {
    limited(|| {
        for (header, data) in [(&b"0 "[..], &b"2 a"[..]), (b"0 ", b"1 ab"), (b"00 ", b"1 a"), (b"", b"1 a")] {
            let functions = Functions::new();
            let say = say(&functions);
            let (listener, address) = listener();
            let node = node(0, &functions, [(2, address)]);
            let child = std::thread::spawn(move || answer_with(&listener, header, data, 3));
            for _ in 0..3 {
                let call = Call::new(say).ids("0,2".parse::<IdList>().unwrap()).tree(Tree::Flat);
                let outcome = outcome_of(node.call(call).unwrap());
                let error = outcome.replies_ref().expect_err("a bad part");
                assert_eq!(outcome.replies(), Err(error), "{header:?} {data:?}");
            }
            child.join().unwrap();
        }
    });
}

/// The replies of a short call down a deeper tree arrive aggregated, with the same parts.
#[test]
fn deeper_trees_have_the_same_parts() {
    limited(|| {
        let functions = Functions::new();
        let say = say(&functions);
        let nodes = LocalNodes::start(7, LinkKind::Unix, &functions).unwrap();
        for tree in [Tree::Chain, Tree::Binomial, Tree::Binary] {
            for _ in 0..3 {
                let outcome =
                    outcome_of(nodes.root().call(Call::new(say).ids(0..7).tree(tree.clone())).unwrap());
                let said_so = outcome.replies_ref().unwrap();
                assert!(
                    said_so
                        .iter()
                        .map(|reply| (reply.id, reply.data.to_vec()))
                        .eq((0..7).map(|id| (id, said(id))))
                );
            }
        }
    });
}
