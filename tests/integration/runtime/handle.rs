//! The application's handle, and the errors that a caller sees.
#![allow(clippy::disallowed_methods, reason = "every wait has a limit")]

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use chained_gpc::Placement;
use chained_gpc::runtime::Peers;
use chained_gpc::{
    Call, CallError, CauseKind, Functions, FunctionsError, IdList, Ids, IdsError, LinkKind, Node, Stage,
};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::{Layout, Limits, Tree, TreeError};

use super::common::{
    LIMIT, assert_cause, assert_who, cause_of, end_of, ids, limited, nodes_of_who, outcome_of, who,
};

/// A func that reports that it runs, and then waits until the test lets it end.
struct Gate {
    open: mpsc::Sender<()>,
    running: mpsc::Receiver<u32>,
}

fn gate(functions: &Functions, at: u32) -> (chained_gpc::FuncHandle, Gate) {
    let (open, opened) = mpsc::channel::<()>();
    let (runs, running) = mpsc::channel();
    let opened = std::sync::Mutex::new(opened);
    let func = functions.func("gate", move |request, _| {
        if request.me() == at {
            runs.send(at)?;
            // It also ends with the test.
            let _ = opened.lock().expect("one at a time").recv_timeout(LIMIT);
        }
        Ok(())
    });
    (func.expect("a name of its own"), Gate { open, running })
}

#[test]
fn a_handle_waits_within_a_limit_and_gives_its_outcome_once() {
    limited(|| {
        let functions = Functions::new();
        let (func, gate) = gate(&functions, 2);
        let nodes = LocalNodes::start(3, LinkKind::Unix, &functions).unwrap();
        let mut handle = nodes.root().call(Call::new(func).ids(0..3)).unwrap();
        assert_eq!(gate.running.recv_timeout(LIMIT), Ok(2));
        assert_eq!(handle.wait_for(Duration::from_millis(1)), None);
        assert_eq!(handle.wait_for(Duration::ZERO), None);
        assert_eq!(handle.test(), None);
        gate.open.send(()).unwrap();
        let outcome = handle.wait_for(Duration::MAX).expect("it has ended").expect("and well");
        assert_eq!(outcome.replies().unwrap().len(), 3);
        assert_eq!(handle.test(), Some(Err(CallError::Taken)));
        assert_eq!(handle.wait_for(LIMIT), Some(Err(CallError::Taken)));
        assert_eq!(block_on(&mut handle), Err(CallError::Taken));
    });
}

/// Waiting on a handle whose outcome `test` had taken waited for a second end, which never happened.
#[test]
fn waiting_for_an_outcome_that_was_taken_says_so() {
    limited(|| {
        let (nodes, who) = nodes_of_who(1, LinkKind::Unix);
        let mut handle = nodes.root().call(Call::new(who).ids([0])).unwrap();
        assert!(handle.wait_for(LIMIT).is_some());
        assert_eq!(handle.wait(), Err(CallError::Taken));
    });
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    let until = Instant::now() + LIMIT;
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => {
                let left = until.saturating_duration_since(Instant::now());
                assert!(!left.is_zero(), "the future hangs");
                thread::park_timeout(left);
            }
        }
    }
}

#[test]
fn a_handle_is_a_future_for_any_executor() {
    limited(|| {
        let functions = Functions::new();
        let (func, gate) = gate(&functions, 1);
        let who = who(&functions);
        let nodes = LocalNodes::start(4, LinkKind::Unix, &functions).unwrap();
        let pending = nodes.root().call(Call::new(func).ids(0..4)).unwrap();
        assert_eq!(gate.running.recv_timeout(LIMIT), Ok(1));
        let opener = thread::spawn(move || gate.open.send(()));
        assert!(block_on(pending).is_ok());
        opener.join().unwrap().unwrap();
        let ready = nodes.root().call(Call::new(who).ids(0..4)).unwrap();
        assert_who(&block_on(ready).unwrap().replies().unwrap(), &[0, 1, 2, 3], "");
    });
}

#[test]
fn a_cancelled_call_ends_at_once_and_leaves_the_nodes_working() {
    limited(|| {
        let functions = Functions::new();
        let (func, gate) = gate(&functions, 3);
        let who = who(&functions);
        let nodes = LocalNodes::start(4, LinkKind::Unix, &functions).unwrap();
        let mut handle = nodes.root().call(Call::new(func).ids(0..4).tree(Tree::Chain)).unwrap();
        assert_eq!(gate.running.recv_timeout(LIMIT), Ok(3));
        handle.cancel();
        handle.cancel();
        let end = handle.wait_for(LIMIT).expect("it ends though the func does not");
        let failure = end.unwrap_err().failure().expect("it got under way").clone();
        assert_cause(&failure.cause, 0, Stage::Cancelled, "gave the call up");
        assert_eq!(failure.coverage.len(), 4);
        gate.open.send(()).unwrap();
        handle.cancel();
        let again = outcome_of(nodes.root().call(Call::new(who).ids(0..4)).unwrap());
        assert_who(&again.replies().unwrap(), &[0, 1, 2, 3], "");
    });
}

/// A call over no ids went to its root alone, and so did one over `8..0`; one over `0..=u32::MAX` left out the last id.
#[test]
fn ids_that_are_no_list_are_refused_by_the_caller_and_any_list_is_taken() {
    limited(|| {
        let (nodes, who) = nodes_of_who(4, LinkKind::Unix);
        let refused = |ids: Ids| match nodes.root().call(Call::new(who).ids(ids)) {
            Err(CallError::Ids(error)) => error,
            other => panic!("{other:?}"),
        };
        let (start, end) = (8, 0);
        assert_eq!(refused((start..end).into()), IdsError::Backward { start: 8, end: 0 });
        assert_eq!(refused((0..=u32::MAX).into()), IdsError::TooMany);
        // With the caller they would be all ids.
        assert_eq!(refused((1..=u32::MAX).into()), IdsError::TooMany);
        for empty in [Ids::from([]), (3..3).into(), Vec::new().into(), IdList::default().into()] {
            assert_eq!(refused(empty), IdsError::Empty);
        }
        let twice = refused(vec![2, 1, 2].into());
        assert_eq!(twice.to_string(), "id 2 is listed twice, at positions 0 and 2");
        let error = nodes.root().call(Call::new(who)).unwrap_err();
        assert_eq!(error.to_string(), "the list of ids is refused: it names no id");
        assert!(error.is_refusal());

        let replied = |call: Call| -> Vec<u32> {
            let outcome = outcome_of(nodes.root().call(call).unwrap());
            outcome.replies().unwrap().iter().map(|reply| reply.id).collect()
        };
        let call = || Call::new(who);
        assert_eq!(replied(call().ids(vec![3, 1, 2])), [0, 3, 1, 2]);
        assert_eq!(replied(call().ids(&[3, 0][..])), [3, 0]);
        assert_eq!(replied(call().ids([2, 0])), [2, 0]);
        assert_eq!(replied(call().ids(1..=3)), [0, 1, 2, 3]);
        assert_eq!(replied(call().ids((0..4).rev().collect::<Ids>())), [3, 2, 1, 0]);
    });
}

#[test]
fn what_is_wrong_with_a_call_is_said_before_anything_is_sent() {
    limited(|| {
        let (nodes, who) = nodes_of_who(2, LinkKind::Unix);
        let refusal = |call: Call| nodes.root().call(call).expect_err("it is refused");
        let other = Functions::new();
        let unknown = other.func("unknown here", |_, _| Ok(())).unwrap();
        let merge = other.callback("merge unknown here", |_, _, _| Ok(())).unwrap();
        let errors = [
            refusal(Call::new(unknown).ids(0..2)),
            refusal(Call::new(who).callback(merge).ids(0..2)),
            refusal(Call::new(who).ids(0..2).header(vec![0; 65_537])),
            refusal(Call::new(who).watch()),
            refusal(Call::new(who).watch().ids(0..2)),
            refusal(Call::new(who).ids(0..2).tree(Layout::parse("0: 1 2", &Limits::default()).unwrap())),
        ];
        assert!(matches!(errors[0], CallError::Function(FunctionsError::Unknown(_))), "{}", errors[0]);
        assert!(matches!(errors[1], CallError::Function(FunctionsError::Unknown(_))), "{}", errors[1]);
        assert_eq!(errors[2], CallError::Header(65_537));
        assert!(errors[2].to_string().contains("send it as data"));
        assert_eq!((&errors[3], &errors[4]), (&CallError::Ids(IdsError::Empty), &CallError::WatcherListed));
        assert_eq!(errors[5], CallError::Tree(TreeError::SizeMismatch { tree: 3, list: 2 }));
        assert!(errors.iter().all(CallError::is_refusal));
        let duplicate = nodes.root().functions().func("who", |_, _| Ok(())).unwrap_err();
        assert_eq!(duplicate, FunctionsError::Duplicate("who".into()));
    });
}

#[test]
fn only_what_sent_nothing_is_called_a_refusal() {
    limited(|| {
        assert!(CallError::Busy.is_refusal() && CallError::Header(70_000).is_refusal());
        assert!(!CallError::Ended.is_refusal());
        assert!(!CallError::Taken.is_refusal() && !CallError::NotDriven.is_refusal());
    });
}

#[test]
fn a_tree_over_the_nodes_limits_is_refused() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let narrow = Limits { depth: 3, fan_out: 2 };
        let nodes =
            LocalNodes::start_with(8, LinkKind::Unix, &functions, |_, builder| builder.tree_limits(narrow));
        let nodes = nodes.unwrap();
        let refusal = |tree: Tree| nodes.root().call(Call::new(who).ids(0..8).tree(tree)).unwrap_err();
        assert!(matches!(refusal(Tree::Flat), CallError::Tree(TreeError::FanOut { .. })));
        assert!(matches!(refusal(Tree::Chain), CallError::Tree(TreeError::Depth { .. })));
        outcome_of(nodes.root().call(Call::new(who).ids(0..8)).unwrap());
    });
}

/// Nodes of which one has its own functions, so that it may lack some.
fn with_stranger(stranger: u32, here: &Functions, there: &Functions) -> LocalNodes {
    LocalNodes::start_with(4, LinkKind::Unix, here, |id, builder| {
        if id == stranger { builder.functions(there) } else { builder }
    })
    .expect("nodes start")
}

#[test]
fn an_id_that_lacks_the_function_is_named() {
    limited(|| {
        let (here, there) = (Functions::new(), Functions::new());
        let who = who(&here);
        let merge = here.callback("merge", |_, _, _| Ok(())).unwrap();
        super::common::who(&there);
        let nodes = with_stranger(1, &here, &there);
        let chain = |call: Call| nodes.root().call(call.ids(0..4).tree(Tree::Chain)).unwrap();
        assert_eq!(outcome_of(chain(Call::new(who))).replies().unwrap().len(), 4);
        assert_cause(&cause_of(chain(Call::new(who).callback(merge))), 1, Stage::Setup, "no function");
        let lone = here.func("lone", |_, _| Ok(())).unwrap();
        let lacks = cause_of(chain(Call::new(lone)));
        assert_cause(&lacks, 1, Stage::Setup, "register it");
        assert_eq!(lacks.kind, CauseKind::UnknownFunction);
        let vine = gpc_trees::Registered::new("vine", |n, groups| {
            groups.push(gpc_trees::Group { start: 1, len: n - 1 });
        });
        here.tree(vine.unwrap()).unwrap();
        let tree = here.named_tree(&"vine".parse().unwrap()).unwrap();
        let call = Call::new(who).ids(0..4).tree(tree);
        let lacks = cause_of(nodes.root().call(call).unwrap());
        assert_cause(&lacks, 1, Stage::Setup, "register it");
        assert_eq!(lacks.kind, CauseKind::UnknownTree);
    });
}

#[test]
fn a_function_that_fails_or_panics_is_named_with_its_words() {
    limited(|| {
        let functions = Functions::new();
        let fails = functions.func("fails", |request, _| match request.me() {
            5 => Err("the disk of five is full".into()),
            _ => Ok(()),
        });
        let panics = functions.func("panics", |request, _| {
            assert_ne!(request.me(), 6, "six is not to run");
            Ok(())
        });
        let drops = functions.deferring("drops", |request, token| match request.me() {
            7 => drop(token),
            _ => token.reply(chained_gpc::Reply::default()),
        });
        let refuses = functions.deferring("refuses", |_, token| token.fail("not today"));
        let merge = functions.callback("merge", |request, child, _| match (request.me(), child.from) {
            (0, 1) => Err("one cannot be merged".into()),
            _ => Ok(()),
        });
        let ok = functions.func("ok", |_, _| Ok(())).unwrap();
        let nodes = LocalNodes::start(8, LinkKind::Tcp, &functions).unwrap();
        let cause = |call: Call| cause_of(nodes.root().call(call.ids(0..8)).unwrap());
        assert_cause(&cause(Call::new(fails.unwrap())), 5, Stage::Func, "the disk of five is full");
        assert_cause(&cause(Call::new(panics.unwrap())), 6, Stage::Func, "six is not to run");
        assert_cause(&cause(Call::new(drops.unwrap())), 7, Stage::Func, "dropped without an answer");
        assert_cause(&cause(Call::new(refuses.unwrap())), 0, Stage::Func, "not today");
        assert_cause(
            &cause(Call::new(ok).callback(merge.unwrap())),
            0,
            Stage::Callback,
            "one cannot be merged",
        );
        assert_eq!(
            outcome_of(nodes.root().call(Call::new(ok).ids(0..8)).unwrap()).replies().unwrap().len(),
            8
        );
    });
}

#[test]
fn a_reply_over_the_limit_and_data_over_the_limit_fail_the_call_and_not_the_node() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let long = functions.func("long", |_, reply| {
            reply.data = vec![0; 200_000];
            Ok(())
        });
        let nodes = LocalNodes::start_with(3, LinkKind::Tcp, &functions, |_, builder| {
            builder.data_max(1000).reply_max(100_000)
        });
        let nodes = nodes.unwrap();
        let call = Call::new(long.unwrap()).ids(ids("0,2,1")).tree(Tree::Chain);
        let cause = cause_of(nodes.root().call(call).unwrap());
        assert_cause(&cause, 1, Stage::Reply, "over the limit");
        let call = Call::new(who).ids(0..3).data(vec![0; 1001]);
        assert_cause(&cause_of(nodes.root().call(call).unwrap()), 0, Stage::Setup, "over the limit");
        let again = outcome_of(nodes.root().call(Call::new(who).ids(0..3)).unwrap());
        assert_who(&again.replies().unwrap(), &[0, 1, 2], "");
    });
}

#[test]
fn an_id_without_an_address_is_named_and_the_error_says_what_to_do() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = Node::builder(0).functions(&functions).peers(Peers::new()).start().unwrap();
        let cause = cause_of(node.call(Call::new(who).ids(0..3)).unwrap());
        assert_cause(&cause, 1, Stage::Link, "add it to the peers");
        let alone = end_of(node.call(Call::new(who).ids([0])).unwrap()).unwrap();
        assert_who(&alone.replies().unwrap(), &[0], "");
    });
}

/// The queue of calls is bounded: a call without room within its time limit is refused.
#[test]
fn a_caller_waits_for_room_in_the_queue_for_its_time_limit_at_most() {
    limited(|| {
        let functions = Functions::new();
        let (release, released) = mpsc::channel::<()>();
        let (runs, running) = mpsc::channel();
        let released = std::sync::Mutex::new(released);
        // This inline function blocks the event loop, against the rules, so that the queue is not emptied.
        let block = functions.at(Placement::Inline).func("block", move |_, _| {
            runs.send(())?;
            let _ = released.lock().expect("one at a time").recv_timeout(LIMIT);
            Ok(())
        });
        let who = who(&functions);
        let node = Node::builder(0).functions(&functions).start().unwrap();
        let blocked = node.call(Call::new(block.unwrap()).ids([0])).unwrap();
        running.recv_timeout(LIMIT).expect("the event loop is blocked");
        let mut queued = Vec::new();
        let refused = loop {
            match node.call(Call::new(who).ids([0]).limit(Duration::from_millis(50))) {
                Ok(handle) => queued.push(handle),
                Err(error) => break error,
            }
            assert!(queued.len() < 100_000, "the queue has no bound");
        };
        assert_eq!(refused, CallError::Busy);
        release.send(()).unwrap();
        outcome_of(blocked);
        for handle in queued {
            // Calls that waited too long have failed, but each has ended.
            let _ = end_of(handle);
        }
        outcome_of(node.call(Call::new(who).ids([0])).unwrap());
    });
}
