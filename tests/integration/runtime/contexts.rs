//! The context of a call: functions of one id find what an earlier one has left, and it is dropped however a call ends.

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use chained_gpc::link::Event;
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::{Coverage, Message, Report, Request, Response, Status};
use chained_gpc::{
    Call, CallbackHandle, Deferred, FuncHandle, FunctionResult, Functions, Id, LinkKind, Node, Phase,
    Placement, Stage,
};
use gpc_test_support::nodes::{LocalNodes, drive, polled};
use gpc_trees::Tree;

use super::common::{LIMIT, LINKS, cause_of, end_of, ids, limited, outcome_of};
use super::raw::{EARLY, RawPeer, SHORT, call, listener, listening, request};

/// The values that exist.
#[derive(Clone, Default)]
struct Ledger(Arc<(Mutex<usize>, Condvar)>);

/// A value that an id leaves; the ledger counts it until it is dropped.
struct Left {
    by: Id,
    merged: u32,
    ledger: Ledger,
}

impl Ledger {
    fn value(&self, by: Id) -> Left {
        self.change(|count| *count += 1);
        Left { by, merged: 0, ledger: self.clone() }
    }

    fn change(&self, change: impl FnOnce(&mut usize)) {
        change(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    /// Waits until this many values exist.
    #[track_caller]
    fn wait_for(&self, count: usize) {
        let (held, changed) = &*self.0;
        let (held, _) =
            changed.wait_timeout_while(held.lock().unwrap(), LIMIT, |held| *held != count).unwrap();
        assert_eq!(*held, count, "values that exist");
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.ledger.change(|count| *count = count.checked_sub(1).expect("each value is dropped once"));
    }
}

/// Leaves a value; then fails, or panics, where the header says so.
fn leave(functions: &Functions, ledger: &Ledger) -> FuncHandle {
    let ledger = ledger.clone();
    let leave = functions.func("leave", move |request, reply| {
        request.set_context(ledger.value(request.me()));
        reply.data = vec![1];
        ill(request.header(), "func", request.me())
    });
    leave.unwrap()
}

/// Counts the merged replies in the value that func has left, and adds up the data.
fn count(functions: &Functions) -> CallbackHandle {
    let count = functions.callback("count", |request, child, own| {
        let me = request.me();
        let merged = request.with_context(|left: &mut Left| {
            assert_eq!(left.by, me, "each id has a value of its own");
            left.merged += 1;
            left.merged
        });
        // The first callback of an id may be its last one.
        assert!(merged.is_some_and(|merged| merged <= 6), "{merged:?}");
        own.data[0] += child.data[0];
        ill(request.header(), "callback", me)
    });
    count.unwrap()
}

/// The failure that a header such as `func 3` or `callback 1 panics` asks of a stage at an id.
fn ill(header: &[u8], stage: &str, me: Id) -> FunctionResult {
    let header = String::from_utf8_lossy(header);
    match header.strip_prefix(&format!("{stage} {me}")) {
        Some("") => Err("as it is told".into()),
        Some(" panics") => panic!("as it is told"),
        _ => Ok(()),
    }
}

/// A func that leaves a value and keeps its token for the test.
fn hold(functions: &Functions, ledger: &Ledger) -> (FuncHandle, mpsc::Receiver<Deferred>) {
    let ((tokens, held), ledger) = (mpsc::channel(), ledger.clone());
    let hold = functions.deferring("hold", move |request, token| {
        request.set_context(ledger.value(request.me()));
        // A test that has ended wants no more tokens.
        let _ = tokens.send(token);
    });
    (hold.unwrap(), held)
}

#[test]
fn callbacks_find_what_func_has_left_and_it_is_dropped_with_the_call() {
    limited(|| {
        for link in LINKS {
            for placement in [Placement::Default, Placement::Inline] {
                let (functions, ledger) = (Functions::new(), Ledger::default());
                let placed = functions.at(placement);
                let (leave, count) = (leave(&placed, &ledger), count(&placed));
                let nodes = LocalNodes::start(7, link, &functions).unwrap();
                for tree in [Tree::Binary, Tree::Chain, Tree::Flat] {
                    let call = Call::new(leave).ids(0..7).tree(tree);
                    let sum = outcome_of(nodes.root().call(call.clone().callback(count)).unwrap());
                    assert_eq!(sum.data(), &[7][..]);
                    ledger.wait_for(0);
                    // Without a callback, and on the fast path, nothing can find it.
                    assert!(outcome_of(nodes.root().call(call.clone()).unwrap()).is_complete());
                    assert!(outcome_of(nodes.root().call(call.partial()).unwrap()).is_complete());
                    ledger.wait_for(0);
                }
            }
        }
    });
}

#[test]
fn both_phases_of_a_function_share_a_value_and_a_polled_node_drops_it() {
    limited(|| {
        let (functions, ledger) = (Functions::new(), Ledger::default());
        let values = ledger.clone();
        let phased = functions.phased("phased", move |phase, request, own| {
            match phase {
                Phase::Init => {
                    request.set_context(values.value(request.me()));
                    request.set_context(values.value(request.me()));
                    own.data = vec![1];
                }
                Phase::Wait(child) => {
                    let mut left = request.take_context::<Left>().ok_or("func has left it")?;
                    left.merged += 1;
                    own.data[0] += child.data[0];
                    request.set_context(left);
                }
            }
            Ok(())
        });
        let phased = phased.unwrap();
        let mut nodes = polled(4, LinkKind::Unix, &functions);
        let handle = nodes[0].call(Call::new(phased).ids(0..4).tree(Tree::Flat)).unwrap();
        assert_eq!(drive(&mut nodes, handle).unwrap().data(), &[4][..]);
        ledger.wait_for(0);
    });
}

#[test]
fn a_value_is_dropped_when_a_function_fails() {
    limited(|| {
        for link in LINKS {
            let (functions, ledger) = (Functions::new(), Ledger::default());
            let (leave, count) = (leave(&functions, &ledger), count(&functions));
            let nodes = LocalNodes::start(7, link, &functions).unwrap();
            for (id, stage, name) in
                [(3, Stage::Func, "func"), (0, Stage::Func, "func"), (1, Stage::Callback, "callback")]
            {
                for manner in ["", " panics"] {
                    // Id 1 has children in this tree.
                    let call = Call::new(leave).callback(count).ids(0..7).tree(Tree::Binary);
                    let call = call.header(format!("{name} {id}{manner}"));
                    let cause = cause_of(nodes.root().call(call.clone()).unwrap());
                    assert_eq!((cause.id, cause.stage), (id, stage), "{cause}");
                    ledger.wait_for(0);
                    let partial = outcome_of(nodes.root().call(call.partial()).unwrap());
                    assert_eq!(partial.causes().len(), 1);
                    ledger.wait_for(0);
                }
            }
        }
    });
}

/// The tokens of the functions outlive the calls, and hold no value.
#[test]
fn a_value_is_dropped_when_a_call_is_cancelled_or_its_time_has_passed() {
    limited(|| {
        for partial in [false, true] {
            let (functions, ledger) = (Functions::new(), Ledger::default());
            let (hold, held) = hold(&functions, &ledger);
            let count = count(&functions);
            let nodes = LocalNodes::start(3, LinkKind::Unix, &functions).unwrap();
            let call = || {
                let call = Call::new(hold).callback(count).ids(0..3).forward_first();
                if partial { call.partial() } else { call }
            };
            let handle = nodes.root().call(call()).unwrap();
            let mut tokens: Vec<Deferred> =
                (0..3).map(|_| held.recv_timeout(LIMIT).expect("all run")).collect();
            ledger.wait_for(3);
            handle.cancel();
            assert!(end_of(handle).is_err());
            ledger.wait_for(0);
            let handle = nodes.root().call(call().limit(SHORT)).unwrap();
            tokens.push(held.recv_timeout(LIMIT).expect("the root runs"));
            assert!(partial == end_of(handle).is_ok());
            ledger.wait_for(0);
            drop(tokens);
        }
    });
}

#[test]
fn a_value_is_dropped_when_a_child_is_lost_and_when_its_node_ends() {
    limited(|| {
        for link in LINKS {
            let (functions, ledger) = (Functions::new(), Ledger::default());
            let (hold, held) = hold(&functions, &ledger);
            let mut nodes = LocalNodes::start(3, link, &functions).unwrap();
            let call = || Call::new(hold).ids(0..3).tree(Tree::Chain).forward_first();
            let handle = nodes.root().call(call()).unwrap();
            let tokens: Vec<Deferred> = (0..3).map(|_| held.recv_timeout(LIMIT).expect("all run")).collect();
            nodes.take(2).shutdown(Duration::ZERO);
            assert_eq!(cause_of(handle).id, 2);
            ledger.wait_for(0);
            drop(tokens);
            // The root ends while its function waits: the other node has lost the parent.
            let handle = nodes.root().call(call().ids(0..2)).unwrap();
            let tokens: Vec<Deferred> = (0..2).map(|_| held.recv_timeout(LIMIT).expect("both run")).collect();
            nodes.take(0).shutdown(Duration::ZERO);
            ledger.wait_for(0);
            assert!(end_of(handle).is_err());
            drop(tokens);
        }
    });
}

/// A function that still runs when its node ends keeps its value until it returns.
#[test]
fn a_value_is_dropped_when_its_function_has_outlived_its_node() {
    limited(|| {
        let (functions, ledger) = (Functions::new(), Ledger::default());
        let ((begun, runs), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let (values, released) = (ledger.clone(), Mutex::new(released));
        let slow = functions.func("slow", move |request, _| {
            request.set_context(values.value(request.me()));
            begun.send(()).unwrap();
            // The sender is dropped.
            let _ = released.lock().unwrap().recv_timeout(LIMIT);
            request.with_context(|left: &mut Left| left.by).map(drop).ok_or("it is still there".into())
        });
        let node = Node::builder(0).functions(&functions).start().unwrap();
        let handle = node.call(Call::new(slow.unwrap()).ids([0])).unwrap();
        runs.recv_timeout(LIMIT).expect("it runs");
        let ending = std::thread::spawn(move || node.shutdown(Duration::ZERO));
        assert!(end_of(handle).is_err());
        ledger.wait_for(1);
        drop(release);
        ending.join().unwrap();
        ledger.wait_for(0);
    });
}

#[test]
fn a_value_is_dropped_when_the_parent_is_lost() {
    limited(|| {
        let (functions, ledger) = (Functions::new(), Ledger::default());
        let (hold, held) = hold(&functions, &ledger);
        let node = listening(Node::builder(4).functions(&functions));
        let mut parent = RawPeer::greet(&node, 1, EARLY, 1);
        parent.request(call(0, 1), hold, &ids("4"));
        let token = held.recv_timeout(LIMIT).expect("it runs");
        ledger.wait_for(1);
        drop(parent);
        ledger.wait_for(0);
        drop(token);
    });
}

/// The request arrives a second time, from an adopter, and callback finds what func has left.
#[test]
fn a_value_outlives_the_parent_that_a_partial_call_has_lost() {
    limited(|| {
        let (functions, ledger) = (Functions::new(), Ledger::default());
        let (leave, count) = (leave(&functions, &ledger), count(&functions));
        let (below, address) = listener();
        let builder = Node::builder(4).functions(&functions).restart_margin(Duration::ZERO);
        let node = listening(builder.peers([(5, address)].into_iter().collect()));
        let name = call(0, 1);
        let callback = Some(count.number());
        let asked = Request { partial: true, callback, ..request(LIMIT, name, leave, &ids("4,5")) };
        let mut parent = RawPeer::greet(&node, 1, EARLY, 1);
        parent.send(Message::Request(Arc::new(asked.clone())));
        let mut child = RawPeer::answer(&below, EARLY);
        assert_eq!(child.expect_request().call, name);
        ledger.wait_for(1);
        let mut adopter = RawPeer::greet(&node, 0, EARLY, 1);
        adopter.send(Message::Request(Arc::new(Request { skipped: 1, adopted: true, ..asked })));
        assert!(matches!(parent.next(), Some(Event::Moved(moved)) if moved == name));
        drop(parent);
        let reply = SubtreeReply { level: 0, data: vec![1].into(), ..SubtreeReply::default() };
        let report = Report { causes: Vec::new(), coverage: Coverage::all(Status::Done, 1) };
        let answer = Answer::Partial(Box::new(Partial { reply, report }));
        child.send(Message::Response(Response { call: name, answer }));
        let Answer::Partial(partial) = adopter.expect_response(name) else { panic!("a partial answer") };
        assert_eq!(partial.reply.data.to_bytes(), &[2][..]);
        ledger.wait_for(0);
    });
}
