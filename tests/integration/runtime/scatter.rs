//! Scatter calls over real links: each id gets its own part of the data, whatever the tree, the link and the lengths.

use chained_gpc::runtime::FunctionResult;
use chained_gpc::{Call, CallError, Functions, Id, LinkKind, Outcome, Reply, Request, Status, Streaming};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::{Layout, Limits, Tree};

use super::common::{LINKS, checksum, limited, noise, outcome_of};

/// Empty, short, longer than a segment, and longer than a window.
fn part(id: Id) -> Vec<u8> {
    let len = [0, 40, 300_001, 5 << 20][id as usize % 4];
    noise(len, id.into())
}

fn assert_parts(outcome: &Outcome, ids: &[Id], part: impl Fn(Id) -> Vec<u8>) {
    for &id in ids {
        let reply = outcome.reply(id).expect("the id is done");
        assert_eq!(reply.data, checksum(&part(id)).to_le_bytes(), "id {id}");
    }
}

struct Sum(Vec<u8>);

impl Streaming for Sum {
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self, request: &Request<'_>, reply: &mut Reply) -> FunctionResult {
        assert_eq!(request.data_len(), self.0.len() as u64);
        reply.data = checksum(&self.0).to_le_bytes().to_vec();
        Ok(())
    }
}

#[test]
fn each_id_gets_its_part_over_every_link_and_tree() {
    // Each kind of link has a limit of its own: at a load of 13 all together took longer than one.
    for link in LINKS {
        limited(move || each_id_gets_its_part(link));
    }
}

fn each_id_gets_its_part(link: LinkKind) {
    let functions = Functions::new();
    let whole = functions.func("whole", |request, reply| {
        assert_eq!(request.data_len(), request.data().len() as u64);
        reply.data = checksum(request.data()).to_le_bytes().to_vec();
        Ok(())
    });
    let streamed = functions.streaming("streamed", |_| Ok(Sum(Vec::new()))).unwrap();
    let whole = whole.unwrap();
    let nodes = LocalNodes::start(8, link, &functions).unwrap();
    let order: [Id; 7] = [6, 2, 0, 7, 1, 3, 5];
    for func in [whole, streamed] {
        let call = |tree: Tree| Call::new(func).ids(order).scatter(order.map(part)).tree(tree);
        let kary = Tree::Kary(3.try_into().expect("not 0"));
        for tree in [Tree::Flat, Tree::Chain, Tree::Binomial, kary] {
            let call = call(tree);
            for call in [call.clone(), call.clone().forward_first(), call.partial()] {
                assert_parts(&outcome_of(nodes.root().call(call).unwrap()), &order, part);
            }
        }
        let auto = Call::new(func).ids(order).scatter(order.map(part));
        assert_parts(&outcome_of(nodes.root().call(auto).unwrap()), &order, part);
    }
}

#[test]
fn layouts_watchers_and_callers_that_are_not_listed_have_their_order() {
    limited(|| {
        let functions = Functions::new();
        let echo = functions.func("echo", |request, reply| {
            reply.data = request.data().to_vec();
            Ok(())
        });
        let echo = echo.unwrap();
        let nodes = LocalNodes::start(6, LinkKind::Unix, &functions).unwrap();
        let name = |id: Id| format!("part of {id}");
        let call = |list: &[Id]| Call::new(echo).ids(list).scatter(list.iter().map(|id| name(*id)));
        let holds = |call: Call, list: &[Id]| {
            let outcome = outcome_of(nodes.root().call(call).unwrap());
            list.iter()
                .for_each(|&id| assert_eq!(outcome.reply(id).expect("done").data, name(id).as_bytes()));
            outcome
        };
        let list = [4, 1, 5, 2];
        let unlisted = holds(call(&list), &list);
        assert!(unlisted.reply(0).expect("the caller takes part").data.is_empty());
        assert!(holds(call(&list).watch(), &list).reply(0).is_none());
        let parents = [None, Some(0), Some(0), Some(1), Some(1), Some(2)];
        let layout = Layout::from_parents(&parents, &Limits::default()).expect("a tree");
        let all = [0, 5, 4, 3, 2, 1];
        holds(call(&all).tree(layout), &all);
        let error = nodes.root().call(Call::new(echo).ids(0..6).scatter(["a", "b"])).unwrap_err();
        assert_eq!(error, CallError::Parts { parts: 2, ids: 6 });
        assert!(error.is_refusal());
        let replaced = Call::new(echo).ids(0..2).scatter(["a"]).data("for all");
        assert_eq!(outcome_of(nodes.root().call(replaced).unwrap()).reply(1).expect("done").data, b"for all");
    });
}

/// No process has id 9: its parent has retained the parts of the ids below.
#[test]
fn the_ids_below_a_lost_one_get_their_parts() {
    limited(|| {
        let functions = Functions::new();
        let echo = functions.func("echo", |request, reply| {
            reply.data = request.data().to_vec();
            Ok(())
        });
        let echo = echo.unwrap();
        let nodes = LocalNodes::start(6, LinkKind::Unix, &functions).unwrap();
        let list: [Id; 7] = [0, 9, 1, 2, 3, 4, 5];
        let part = |id: Id| noise(100_000 + id as usize, id.into());
        for tree in [Tree::Binary, Tree::Chain] {
            let call = Call::new(echo).ids(list).scatter(list.map(part)).tree(tree).partial();
            let outcome = outcome_of(nodes.root().call(call).unwrap());
            assert_eq!(outcome.status(9), Some(Status::Unreached));
            for id in 0..6 {
                assert!(outcome.reply(id).expect("it is done").data == part(id), "id {id}");
            }
        }
    });
}
