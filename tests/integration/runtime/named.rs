//! What functions learn from their request: the names and handles of func and callback, tree, ids and limits.

use chained_gpc::{Call, Functions, Phase, Placement, ReplyLimits, Request};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::Tree;

use super::common::{LINKS, limited, outcome_of};

/// All of it, as text.
fn told(request: &Request<'_>) -> String {
    let (func, callback) = (request.func_name(), request.callback_name());
    let handles = (request.func(), request.callback());
    let place = (request.ids().to_string(), request.position(), request.total(), request.tree());
    format!("{func:?} {callback:?} {handles:?} {place:?} {:?} {}", request.reply_limits(), request.call())
}

#[test]
fn func_and_callback_learn_the_same_of_their_call() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let first = functions.func("first", |request, reply| {
                request.set_context(told(request));
                let names = (request.func_name(), request.callback_name());
                let limits = request.reply_limits();
                reply.data =
                    format!("{names:?} {} {} {limits:?}", request.tree(), request.ids()).into_bytes();
                Ok(())
            });
            let second = functions.callback("second", |request, _, _| {
                let same = request.with_context(|before: &mut String| *before == told(request));
                if same == Some(true) { Ok(()) } else { Err(format!("{same:?}: {}", told(request)).into()) }
            });
            let (first, second) = (first.unwrap(), second.unwrap());
            let nodes = LocalNodes::start(3, link, &functions).unwrap();
            let call = Call::new(first).callback(second).ids(0..3).tree(Tree::Flat).reply_limits(7, 1 << 40);
            let outcome = outcome_of(nodes.root().call(call).unwrap());
            let limits = ReplyLimits { header_max: 7, data_max: 1 << 40 };
            let expected = format!("(Some(\"first\"), Some(\"second\")) flat 0-2 {limits:?}");
            assert_eq!(outcome.data(), expected.as_bytes());
        }
    });
}

/// The first calls take the general path, the later ones the fast path.
#[test]
fn a_request_on_the_fast_path_tells_the_same() {
    limited(|| {
        let functions = Functions::new();
        let inline = functions.at(Placement::Inline);
        let plain = inline.func("plain", |request, reply| {
            let handles = (request.func(), request.callback());
            let limits = request.reply_limits().is_unlimited();
            request.set_context(request.me());
            let context = request.with_context(|me: &mut u32| *me);
            let (func, callback) = (request.func_name(), request.callback_name());
            reply.data = format!("{handles:?} {func:?} {callback:?} {limits} {context:?}").into_bytes();
            Ok(())
        });
        let phased = inline.phased("phased", |phase, request, reply| {
            if let Phase::Init = phase {
                let callback = (request.callback(), request.callback_name());
                reply.data =
                    format!("{:?} {callback:?} {:?}", request.func(), request.func_name()).into_bytes();
            }
            Ok(())
        });
        let (plain, phased) = (plain.unwrap(), phased.unwrap());
        let nodes = LocalNodes::start(3, LINKS[1], &functions).unwrap();
        for _ in 0..5 {
            let outcome = outcome_of(nodes.root().call(Call::new(plain).ids(0..3)).unwrap());
            for reply in outcome.replies().unwrap() {
                let me = Some(reply.id);
                let expected = format!("({plain:?}, None) Some(\"plain\") None true {me:?}");
                assert_eq!(reply.data, expected);
            }
            let outcome = outcome_of(nodes.root().call(Call::new(phased).ids(0..3)).unwrap());
            let expected = format!("{phased:?} (None, None) Some(\"phased\")");
            assert_eq!(outcome.data(), expected.as_bytes());
        }
    });
}
