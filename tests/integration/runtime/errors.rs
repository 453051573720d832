//! Errors that a program matches on: kinds and codes of causes through whole trees, and the status of each id.

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::runtime::{Builder, FunctionResult};
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{Message, Request, Response};
use chained_gpc::{
    Call, CallError, Cause, CauseKind, Coverage, Failure, Functions, IdList, LinkKind, PeerEvent,
    PeerEventKind, Reply, Stage, Status, Streaming, WithCode,
};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::Tree;

use super::common::{LIMIT, cause_of, end_of, hold, ids, limited, outcome_of, who};
use super::raw::{EARLY, RawPeer, SHORT, call, listener, node, request};

/// A streaming function that takes nothing.
struct Full;

impl Streaming for Full {
    fn segment(&mut self, _: &[u8]) -> FunctionResult {
        Err(WithCode::new(28, "the disk is full").into())
    }

    fn finish(&mut self, _: &chained_gpc::Request<'_>, _: &mut Reply) -> FunctionResult {
        Ok(())
    }
}

/// The cause of a call at the last of four ids in a chain, passed on by three ids.
fn deepest(nodes: &LocalNodes, call: Call) -> Cause {
    let cause = cause_of(nodes.root().call(call.ids(0..4).tree(Tree::Chain)).expect("a good call"));
    assert_eq!(cause.id, 3, "{cause}");
    cause
}

fn at_three(request: &chained_gpc::Request<'_>, failure: impl FnOnce() -> FunctionResult) -> FunctionResult {
    if request.me() == 3 { failure() } else { Ok(()) }
}

#[test]
fn what_a_function_says_reaches_the_caller_with_its_kind_and_code() {
    limited(|| {
        let functions = Functions::new();
        let plain = functions.func("plain", |request, _| at_three(request, || Err("no".into()))).unwrap();
        let io = functions.func("io", |request, _| {
            at_three(request, || {
                std::fs::read("/nowhere/at all").map_err(|error| WithCode::new(-2, error))?;
                Ok(())
            })
        });
        let inline = functions
            .at(chained_gpc::Placement::Inline)
            .func("inline", |request, _| at_three(request, || Err(WithCode::new(i64::MAX, "inline").into())));
        let panics = functions.func("panics", |request, _| at_three(request, || panic!("three"))).unwrap();
        let drops = functions.deferring("drops", |request, token| match request.me() {
            3 => drop(token),
            _ => token.reply(Reply::default()),
        });
        let defers = functions.deferring("defers", |request, token| match request.me() {
            3 => token.fail(WithCode::new(5, "later")),
            _ => token.reply(Reply::default()),
        });
        let phased = functions
            .phased("phased", |_, request, _| at_three(request, || Err(WithCode::new(6, "phased").into())));
        let full = functions.streaming("full", |_| Ok(Full)).unwrap();
        let nodes = LocalNodes::start(4, LinkKind::Unix, &functions).unwrap();
        let told = |func, kind, code, message: &str| {
            // Twice, since the second call over a list may take the fast path.
            for _ in 0..2 {
                let cause = deepest(&nodes, Call::new(func));
                assert_eq!((cause.stage, cause.kind, cause.code), (Stage::Func, kind, code), "{cause}");
                assert!(cause.message.contains(message), "{cause}");
            }
        };
        told(plain, CauseKind::Failed, 0, "no");
        told(io.unwrap(), CauseKind::Failed, -2, "No such file");
        told(inline.unwrap(), CauseKind::Failed, i64::MAX, "inline");
        told(panics, CauseKind::Panicked, 0, "it panicked: three");
        told(drops.unwrap(), CauseKind::NoAnswer, 0, "dropped");
        told(defers.unwrap(), CauseKind::Failed, 5, "later");
        told(phased.unwrap(), CauseKind::Failed, 6, "phased");
        let call = Call::new(full).ids(0..1).data("some");
        let cause = cause_of(nodes.root().call(call).unwrap());
        assert_eq!((cause.kind, cause.code), (CauseKind::Failed, 28), "{cause}");
    });
}

#[test]
fn a_callback_that_fails_has_a_code_too() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let merge = functions.callback("merge", |request, _, _| match request.me() {
            2 => Err(WithCode::new(9, "these two do not fit").into()),
            _ => Ok(()),
        });
        let nodes = LocalNodes::start(4, LinkKind::Tcp, &functions).unwrap();
        let call = Call::new(who).ids(0..4).tree(Tree::Chain).callback(merge.unwrap());
        let cause = cause_of(nodes.root().call(call).unwrap());
        let said = (cause.id, cause.stage, cause.kind, cause.code);
        assert_eq!(said, (2, Stage::Callback, CauseKind::Failed, 9), "{cause}");
    });
}

/// Each refusal has its kind, so that a program need not parse its message.
#[test]
fn refusals_have_their_kinds() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (hold, held) = hold(&functions);
        let bounded = |id, builder: Builder| if id == 1 { builder.data_max(1000) } else { builder };
        let mut nodes = LocalNodes::start_with(2, LinkKind::Tcp, &functions, bounded).unwrap();
        let cause = |nodes: &LocalNodes, call: Call| cause_of(nodes.root().call(call).unwrap());

        let long = cause(&nodes, Call::new(who).ids(0..2).data(vec![0; 1001]));
        assert_eq!((long.id, long.stage, long.kind), (1, Stage::Setup, CauseKind::OverLimit), "{long}");

        let late = cause(&nodes, Call::new(hold).ids(1..2).watch().limit(SHORT));
        // On a busy machine its parent may report it first.
        assert_eq!((late.id, late.kind), (1, CauseKind::TimeLimit), "{late}");
        assert!(matches!(late.stage, Stage::Func | Stage::Reply), "{late}");
        let _late = held.recv_timeout(LIMIT).expect("it has begun");

        let handle = nodes.root().call(Call::new(hold).ids(1..2).watch()).unwrap();
        let _token = held.recv_timeout(LIMIT).expect("it has begun");
        handle.cancel();
        let given_up = cause_of(handle);
        assert_eq!((given_up.stage, given_up.kind), (Stage::Cancelled, CauseKind::Cancelled), "{given_up}");

        nodes.take(1).shutdown(LIMIT);
        // It has sent its goodbye before anything is sent to it.
        let gone = cause(&nodes, Call::new(who).ids(0..2));
        assert_eq!((gone.id, gone.stage), (1, Stage::Link), "{gone}");
        let gone = cause(&nodes, Call::new(who).ids(0..2));
        assert_eq!((gone.id, gone.kind), (1, CauseKind::Unreachable), "{gone}");
        let nobody = cause(&nodes, Call::new(who).ids(ids("0,77")));
        assert_eq!((nobody.id, nobody.kind), (77, CauseKind::Unreachable), "{nobody}");
    });
}

/// A failure of a kind that a relay did not know was changed to another kind, or closed its link. A program above that
/// knew the kind could not use it.
#[test]
fn a_kind_that_nobody_on_the_way_knows_reaches_the_caller_as_it_is() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let relay = node(1, &functions, [(2, address)]);
        let root = node(0, &functions, [(1, relay.address().expect("it listens").clone())]);
        let kind = CauseKind::from_number(60_000);
        let events = relay.events().unwrap();
        for partial in [false, true] {
            let call = Call::new(who).ids(0..3).tree(Tree::Chain);
            let handle = root.call(if partial { call.partial() } else { call }).unwrap();
            let mut peer = match partial {
                false => RawPeer::answer(&listener, EARLY),
                true => RawPeer::answer(&listener, EARLY + 1),
            };
            let call = peer.expect_request().call;
            let cause = Cause::new(2, Stage::Func, kind, "from the future").with_code(i64::MIN);
            let failure = Failure { cause: cause.clone(), coverage: Coverage::all(Status::Failed, 1) };
            let answer = Answer::Failed(Box::new(failure));
            peer.send(Message::Response(Response { call, answer }));
            match end_of(handle) {
                Ok(outcome) => assert_eq!((partial, outcome.cause(2)), (true, Some(&cause))),
                Err(error) => assert_eq!((partial, error.cause()), (false, Some(&cause))),
            }
            assert!(matches!(cause.kind, CauseKind::Other(other) if other.number() == 60_000));
            drop(peer);
            // The next request is not to go out on a link of which the relay does not know that it has ended.
            let lost = |event: PeerEvent| event.id == 2 && matches!(event.kind, PeerEventKind::Lost { .. });
            while !lost(events.recv_within(LIMIT).unwrap()) {}
        }
    });
}

/// A request may name a callback where a func must run: the id has the name, but for another kind of function.
#[test]
fn a_callback_that_is_called_as_a_func_is_refused_and_not_unknown() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let merge = functions.callback("merge", |_, _, _| Ok(())).unwrap();
        let node = node(1, &functions, []);
        let mut parent = RawPeer::greet(&node, 7, EARLY, 1);
        let named = |sequence, func, callback| {
            let request = request(LIMIT, call(7, sequence), who, &ids("1"));
            Message::Request(Arc::new(Request { func, callback, ..request }))
        };
        parent.send(named(1, merge.number(), None));
        parent.send(named(2, who.number() ^ 1, None));
        for (sequence, kind) in [(1, CauseKind::WrongFunction), (2, CauseKind::UnknownFunction)] {
            let Answer::Failed(failure) = parent.expect_response(call(7, sequence)) else {
                panic!("a failure")
            };
            let cause = failure.cause;
            assert_eq!((cause.id, cause.stage, cause.kind), (1, Stage::Setup, kind), "{cause}");
        }
    });
}

/// The caller of a failed call knew how many ids had received the request, but not which.
#[test]
fn a_failed_call_tells_of_each_id_in_the_callers_order() {
    limited(|| {
        let functions = Functions::new();
        let fails = functions.func("fails", |request, _| match request.me() {
            5 => Err("not here".into()),
            _ => Ok(()),
        });
        let nodes = LocalNodes::start(8, LinkKind::Unix, &functions).unwrap();
        let asked = ids("0,7,5,3-4,1");
        let call = Call::new(fails.unwrap()).ids(asked.clone()).tree(Tree::Chain);
        let error = end_of(nodes.root().call(call).unwrap()).expect_err("id 5 fails");
        let failed = error.failed_call().expect("it got under way");
        assert_eq!(failed.ids(), &asked);
        assert_eq!((error.status(0), error.status(5)), (Some(Status::Done), Some(Status::Failed)));
        assert_eq!((error.status(4), error.status(6)), (Some(Status::Unreached), None));
        assert_eq!(error.never_reached(), Some(ids("3-4,1")), "behind the one that failed");
        assert_eq!(error.failed(), Some(ids("5")));
        assert_eq!((failed.done(), error.unknown()), (ids("0,7"), Some(IdList::default())));
        assert!(error.kind() == Some(CauseKind::Failed) && !error.is_refusal());

        // For a call that was refused here none of that is known.
        let refused = nodes.root().call(Call::new(who(&Functions::new())).ids(asked)).unwrap_err();
        assert!(refused.is_refusal() && matches!(refused, CallError::Function(_)));
        assert_eq!((refused.never_reached(), refused.status(0), refused.cause()), (None, None, None));
    });
}

/// With a list in the caller's own order, a tree laid out otherwise, and nodes that are gone.
#[test]
fn an_outcome_answers_by_id_what_it_lists() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let mut nodes = LocalNodes::start(9, LinkKind::Unix, &functions).unwrap();
        for lost in [None, Some(4), Some(2)] {
            lost.into_iter().for_each(|id| nodes.take(id).shutdown(LIMIT));
            for list in ["0-8", "8,6,4,2,0,1,3,5,7", "3-8,0-2"] {
                let handle = nodes.root().call(Call::new(who).ids(ids(list)).partial()).unwrap();
                let outcome = outcome_of(handle);
                let replies = outcome.replies().unwrap();
                for id in 0..9 {
                    let listed = replies.iter().find(|reply| reply.id == id);
                    let by_id = outcome.reply(id);
                    assert_eq!(by_id.map(|reply| reply.data), listed.map(|reply| &reply.data[..]), "{list}");
                    assert_eq!(by_id.map(|reply| reply.header), listed.map(|reply| &reply.header[..]));
                    assert_eq!(outcome.status(id) == Some(Status::Done), listed.is_some());
                    assert_eq!(outcome.cause(id), outcome.causes().iter().find(|cause| cause.id == id));
                }
                assert_eq!((outcome.reply(99), outcome.status(99), outcome.cause(99)), (None, None, None));
                let done = IdList::from_ids(replies.iter().map(|reply| reply.id)).unwrap();
                assert_eq!(outcome.done(), done, "the caller's order");
                let gone = outcome.never_reached().len() + outcome.unknown().len();
                assert_eq!(gone + done.len() + outcome.failed().len(), 9);
                let order = ids(list);
                let places: Vec<_> = outcome.never_reached().iter().map(|id| order.position(id)).collect();
                assert!(places.is_sorted() && places.iter().all(Option::is_some));
            }
        }
    });
}

/// A call that exceeded its time has a kind of its own, whichever id it waited for.
#[test]
fn a_time_limit_is_told_from_a_failure() {
    limited(|| {
        let functions = Functions::new();
        let never = functions.deferring("never", |_, token| std::mem::forget(token)).unwrap();
        let nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
        let call = Call::new(never).ids(0..2).limit(Duration::from_millis(50));
        let cause = cause_of(nodes.root().call(call).unwrap());
        assert_eq!((cause.stage, cause.kind, cause.code), (Stage::Func, CauseKind::TimeLimit, 0), "{cause}");
    });
}
