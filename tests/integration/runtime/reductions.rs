//! Ready callbacks over real nodes.

use chained_gpc::reduce::{Reduction, bytes_of, located, located_bytes, numbers};
use chained_gpc::{Call, CauseKind, Functions, FunctionsError, LinkKind, Stage};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::Tree;

use super::common::{LIMIT, LINKS, limited, outcome_of};

const TREES: [Tree; 4] = [Tree::Binary, Tree::Binomial, Tree::Chain, Tree::Flat];

/// Sums of numbers whose rounding depends on the order: in list order they are the same, to the last bit, however late
/// each child replies.
#[test]
fn a_floating_point_sum_is_the_same_in_each_call_with_one_list_and_one_tree() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let numbers_of = functions.func("numbers", |request, reply| {
                let me = f64::from(request.me());
                reply.data = bytes_of(&[1e16 / (me + 1.0), 0.1 * me, -1e16 / (me + 3.0)]);
                Ok(())
            });
            let call = Call::new(numbers_of.unwrap())
                .callback(functions.reduction(Reduction::sum::<f64>()).unwrap())
                .ids(0..16);
            let nodes = LocalNodes::start(16, link, &functions).unwrap();
            for tree in TREES {
                let sum = || {
                    let outcome = outcome_of(nodes.root().call(call.clone().tree(tree.clone())).unwrap());
                    assert_eq!(numbers::<f64>(outcome.data()).unwrap().len(), 3);
                    outcome.data().to_vec()
                };
                let first = sum();
                (0..20).for_each(|_| assert_eq!(sum(), first, "{tree}"));
            }
        }
    });
}

#[test]
fn the_greatest_are_found_with_their_ids_and_a_root_that_watches_adds_nothing() {
    limited(|| {
        let functions = Functions::new();
        let load = functions.func("load", |request, reply| {
            reply.data = located_bytes(&[u64::from(request.me() * 7 % 10)], request.me());
            Ok(())
        });
        let load = load.unwrap();
        let top = functions.reduction(Reduction::top::<u64>(3)).unwrap();
        let least = functions.reduction(Reduction::min_with_id::<u64>()).unwrap();
        let nodes = LocalNodes::start(10, LinkKind::Unix, &functions).unwrap();
        for tree in TREES {
            let found = |callback| {
                let call = Call::new(load).callback(callback).ids(1..10).watch().tree(tree.clone());
                let outcome = outcome_of(nodes.root().call(call).unwrap());
                let found = located::<u64>(outcome.data()).unwrap().into_iter();
                found.map(|found| (found.number, found.id)).collect::<Vec<_>>()
            };
            assert_eq!(found(top), [(9, 7), (8, 4), (7, 1)], "{tree}");
            assert_eq!(found(least), [(1, 3)], "{tree}");
        }
    });
}

#[test]
fn a_reply_of_another_length_fails_where_it_is_merged_and_is_named() {
    limited(|| {
        let functions = Functions::new();
        let uneven = functions.func("uneven", |request, reply| {
            reply.data = vec![0; if request.me() == 2 { 12 } else { 8 }];
            Ok(())
        });
        let sum = functions.reduction(Reduction::sum::<u32>()).unwrap();
        let nodes = LocalNodes::start(4, LinkKind::Unix, &functions).unwrap();
        let call = Call::new(uneven.unwrap()).callback(sum).ids(0..4).tree(Tree::Chain).limit(LIMIT);
        let error = nodes.root().call(call).unwrap().wait().unwrap_err();
        let cause = error.cause().unwrap();
        assert_eq!((cause.stage, cause.kind), (Stage::Callback, CauseKind::Failed));
        assert_eq!(cause.id, 2);
        assert_eq!(
            cause.message,
            "the reply of id 3: a reply of 8 bytes cannot be merged into one of 12 bytes: each id must reply with the same number of elements, or with none"
        );
    });
}

#[test]
fn a_reduction_has_one_callback_however_often_it_is_registered() {
    let functions = Functions::new();
    let sum = functions.reduction(Reduction::sum::<f32>()).unwrap();
    assert_eq!(functions.reduction(Reduction::sum::<f32>()), Ok(sum));
    assert_eq!(functions.named_callback("reduce:sum:f32"), Ok(sum));
    assert_ne!(functions.reduction(Reduction::sum::<f64>()), Ok(sum));
    assert!(functions.names().is_empty());
    functions.func("reduce:xor", |_, _| Ok(())).unwrap();
    let taken = functions.reduction(Reduction::xor());
    assert!(matches!(taken, Err(FunctionsError::OtherKind { .. })), "{taken:?}");
}
