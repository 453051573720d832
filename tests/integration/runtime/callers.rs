//! Calls from anywhere: by callers on other threads and in functions, without endless waits; what functions know of
//! their call; and calls whose handle is dropped.
#![allow(clippy::disallowed_methods, reason = "every wait has a limit")]

use std::future::Future as _;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use chained_gpc::{
    AbsentPeers, Call, CallError, Caller, CauseKind, Deadlock, FuncHandle, FunctionResult, Functions, Group,
    LinkKind, Node, Placement, Registered, Reply, Request, Stage, Streaming,
};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::{IdList, Tree};

use super::common::{LIMIT, limited};

/// Longer than any test waits for an error that must be returned at once.
const LONG: Duration = Duration::from_secs(60);

/// A func that calls `inner` over its own id, waits for it, and sends the result.
fn waits(
    functions: &Functions,
    name: &str,
    inner: FuncHandle,
) -> (FuncHandle, mpsc::Receiver<Result<(), CallError>>) {
    let (say, said) = mpsc::channel();
    let say = Mutex::new(say);
    let func = functions.func(name, move |request, _| {
        let call = Call::new(inner).ids(list(&[request.me()])).limit(LONG);
        let outcome = request.caller().call(call).and_then(|handle| handle.wait());
        say.lock().expect("one at a time").send(outcome.map(drop))?;
        Ok(())
    });
    (func.expect("a name of its own"), said)
}

fn list(ids: &[u32]) -> IdList {
    IdList::from_ids(ids.iter().copied()).expect("distinct ids")
}

fn nodes(functions: &Functions, n: u32) -> LocalNodes {
    LocalNodes::start_with(n, LinkKind::Unix, functions, |_, node| node.executor("other", 1)).expect("nodes")
}

/// It hung until the time limit: the only worker waited for a function that only it could run.
#[test]
fn a_function_that_waits_for_its_own_worker_is_told_so_at_once() {
    limited(|| {
        let functions = Functions::new();
        let inner = functions.func("inner", |_, _| Ok(())).unwrap();
        let (outer, said) = waits(&functions, "outer", inner);
        let nodes = nodes(&functions, 1);
        let begun = Instant::now();
        nodes.root().call(Call::new(outer).ids(0..1).limit(LONG)).unwrap().wait().unwrap();
        assert_eq!(said.recv_timeout(LIMIT), Ok(Err(CallError::Deadlock(Deadlock::Workers))));
        assert!(begun.elapsed() < LONG);
    });
}

/// Returning such a refusal has a failure kind of its own.
#[test]
fn a_function_that_returns_such_a_refusal_fails_by_its_kind() {
    limited(|| {
        let functions = Functions::new();
        let inner = functions.func("inner", |_, _| Ok(())).unwrap();
        let outer = functions.func("outer", move |request, _| {
            request.caller().call(Call::new(inner).ids([request.me()]))?.wait()?;
            Ok(())
        });
        let nodes = nodes(&functions, 1);
        let error = nodes.root().call(Call::new(outer.unwrap()).ids(0..1)).unwrap().wait().unwrap_err();
        assert_eq!(error.kind(), Some(CauseKind::Deadlock), "{error}");
    });
}

/// If the func runs on another executor, or workers are free, the same wait is allowed.
#[test]
fn a_function_waits_for_what_another_worker_runs() {
    limited(|| {
        let functions = Functions::new();
        let elsewhere =
            functions.at(Placement::Executor("other".into())).func("elsewhere", |_, _| Ok(())).unwrap();
        let inner = functions.func("inner", |_, _| Ok(())).unwrap();
        let (one, one_said) = waits(&functions, "one", elsewhere);
        let (two, two_said) = waits(&functions, "two", inner);
        let nodes = nodes(&functions, 1);
        nodes.root().call(Call::new(one).ids(0..1)).unwrap().wait().unwrap();
        assert_eq!(one_said.recv_timeout(LIMIT), Ok(Ok(())));
        drop(nodes);
        let spare = LocalNodes::start_with(1, LinkKind::Unix, &functions, |_, node| node.workers(2)).unwrap();
        spare.root().call(Call::new(two).ids(0..1)).unwrap().wait().unwrap();
        assert_eq!(two_said.recv_timeout(LIMIT), Ok(Ok(())));
    });
}

/// An inline function that waited blocked the thread that its call needed, forever.
#[test]
fn nothing_waits_on_the_thread_that_drives_a_node() {
    limited(|| {
        let functions = Functions::new();
        let inner = functions.at(Placement::Executor("other".into())).func("inner", |_, _| Ok(())).unwrap();
        let (outer, said) = waits(&functions.at(Placement::Inline), "outer", inner);
        let nodes = nodes(&functions, 1);
        nodes.root().call(Call::new(outer).ids(0..1)).unwrap().wait().unwrap();
        let refused = said.recv_timeout(LIMIT).unwrap().unwrap_err();
        assert_eq!(refused, CallError::Deadlock(Deadlock::Driver));
        assert!(refused.to_string().contains("`CallHandle::on_end`"), "{refused}");
        // A continuation runs there, too.
        let (say, said) = mpsc::channel();
        let caller = nodes.root().caller();
        nodes.root().call(Call::new(inner).ids(0..1)).unwrap().on_end(move |_| {
            let _ = say.send(caller.call(Call::new(inner).ids(0..1)).and_then(|handle| handle.wait()));
        });
        assert_eq!(said.recv_timeout(LIMIT).unwrap().unwrap_err(), CallError::Deadlock(Deadlock::Driver));
    });
}

/// It hung forever, with or without a limit, and the node with it.
#[test]
fn nobody_waits_for_peers_on_the_thread_that_drives_a_node() {
    limited(|| {
        let functions = Functions::new();
        let hello = functions.func("hello", |_, _| Ok(())).unwrap();
        let node = Arc::new(Node::builder(0).functions(&functions).start().unwrap());
        let (say, said) = mpsc::channel();
        let same = node.clone();
        node.call(Call::new(hello).ids([0])).unwrap().on_end(move |_| {
            let _ = say.send(same.wait_for_peers([0], LONG));
        });
        assert_eq!(said.recv_timeout(LIMIT).unwrap().unwrap_err(), AbsentPeers::Driver);
    });
}

/// The last owner of a node was a continuation of the node itself: its thread panicked as it joined itself.
#[test]
fn a_node_that_is_dropped_on_its_own_thread_ends() {
    limited(|| {
        let functions = Functions::new();
        let hello = functions.func("hello", |_, _| Ok(())).unwrap();
        let node = Node::builder(0).functions(&functions).start().unwrap();
        let caller = node.caller();
        let (say, said) = mpsc::channel();
        let handle = node.call(Call::new(hello).ids([0])).unwrap();
        handle.on_end(move |_| {
            drop(node);
            let _ = say.send(());
        });
        assert_eq!(said.recv_timeout(LIMIT), Ok(()));
        let until = Instant::now() + LIMIT;
        while caller.id().is_some() {
            assert!(Instant::now() < until, "the node goes on");
            thread::yield_now();
        }
    });
}

/// Values from a program may panic where the node uses them: a continuation, a cancel handler, a waker, a drop, a
/// split. A panic ended the node, which reported that it had been shut down.
#[test]
fn a_panic_in_what_a_program_hands_over_ends_no_node() {
    limited(|| {
        let functions = Functions::new();
        let hello = functions.func("hello", |_, _| Ok(())).unwrap();
        let later = functions.deferring("later", |_, deferred| {
            deferred.on_cancel(|| panic!("told"));
            std::mem::forget(deferred);
        });
        let takes = functions.at(Placement::Inline).streaming("takes", |_| Ok(Panics)).unwrap();
        let split = Registered::new("panics", |n, groups| {
            assert!(n == 3, "a split of {n}");
            groups.push(Group { start: 1, len: 2 });
        });
        functions.tree(split.unwrap()).unwrap();
        let nodes = nodes(&functions, 3);
        let root = nodes.root();
        let fine = || assert!(root.call(Call::new(hello).ids(0..3)).unwrap().wait().unwrap().is_complete());
        root.call(Call::new(hello).ids(0..3)).unwrap().on_end(|_| panic!("continued"));
        fine();
        let limit = Duration::from_millis(100);
        assert!(root.call(Call::new(later.unwrap()).ids(0..3).limit(limit)).unwrap().wait().is_err());
        fine();
        assert!(root.call(Call::new(takes).ids(0..3).data("x")).unwrap().wait().is_ok());
        fine();
        let mut handle = pin!(root.call(Call::new(hello).ids(0..3)).unwrap());
        let _ = handle.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::new(Panics))));
        fine();
        let tree = functions.named_tree(&"panics".parse().unwrap()).unwrap();
        let refused = root.call(Call::new(hello).ids(0..3).tree(tree)).unwrap_err();
        assert!(refused.to_string().contains("the split function panicked"), "{refused}");
        fine();
    });
}

/// Panics on every use.
struct Panics;

impl Streaming for Panics {
    fn segment(&mut self, _: &[u8]) -> FunctionResult {
        Ok(())
    }

    fn finish(&mut self, _: &chained_gpc::Request<'_>, _: &mut Reply) -> FunctionResult {
        Ok(())
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("dropped")
        }
    }
}

impl std::task::Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("woken")
    }
}

#[test]
fn a_polled_node_is_called_from_other_threads_and_not_waited_for_by_its_own() {
    limited(|| {
        let functions = Functions::new();
        let hello = functions.func("hello", |_, _| Ok(())).unwrap();
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        node.progress(Duration::ZERO).unwrap();
        let caller = node.caller();
        let refused = caller.call(Call::new(hello).ids(0..1)).unwrap().wait();
        assert_eq!(refused.unwrap_err(), CallError::NotDriven);
        let other = thread::spawn(move || caller.call(Call::new(hello).ids(0..1))?.wait());
        while !other.is_finished() {
            node.progress(Duration::from_millis(10)).unwrap();
        }
        assert!(other.join().unwrap().unwrap().is_complete());
    });
}

#[test]
fn a_caller_keeps_no_node_alive() {
    fn anywhere<T: Clone + Send + Sync + 'static>() {}
    anywhere::<Caller>();
    limited(|| {
        let functions = Functions::new();
        let hello = functions.func("hello", |_, _| Ok(())).unwrap();
        let nodes = nodes(&functions, 1);
        let caller = nodes.root().caller();
        assert_eq!(caller.id(), Some(0));
        drop(nodes);
        assert_eq!(caller.call(Call::new(hello).ids(0..1)).unwrap_err(), CallError::Ended);
    });
}

/// The rest of the time of the served call, unless the call sets its own limit.
#[test]
fn a_call_made_in_a_function_inherits_its_time() {
    limited(|| {
        let functions = Functions::new();
        let left = functions.at(Placement::Executor("other".into())).func("left", |request, reply| {
            reply.data = request.remaining().as_millis().to_string().into_bytes();
            Ok(())
        });
        let left = left.unwrap();
        let outer = functions.func("outer", move |request, reply| {
            let limit = match request.header() {
                b"own" => Some(Duration::from_secs(4_000)),
                _ => None,
            };
            let call = Call::new(left).ids(0..1);
            let call = limit.into_iter().fold(call, Call::limit);
            reply.data = request.caller().call(call)?.wait()?.replies()?[0].data.to_vec();
            Ok(())
        });
        let nodes = nodes(&functions, 1);
        let ask = |header: &'static str| -> u64 {
            let call =
                Call::new(outer.clone().unwrap()).ids(0..1).header(header).limit(Duration::from_secs(1_000));
            let outcome = nodes.root().call(call).unwrap().wait().unwrap();
            String::from_utf8_lossy(&outcome.replies().unwrap()[0].data).parse().unwrap()
        };
        assert!((900_000..=1_000_000).contains(&ask("")));
        assert!((3_900_000..=4_000_000).contains(&ask("own")));
    });
}

/// No node can detect this: each function waits for the other node's only worker. It ends by the limit, and the waiting
/// function is named.
#[test]
fn a_cycle_over_two_nodes_ends_by_the_inherited_limit_and_names_who_waits() {
    limited(|| {
        let functions = Functions::new();
        let there = functions.func("there", |_, _| Ok(())).unwrap();
        let ping = functions.func("ping", move |request, _| {
            let other = 1 - request.me();
            request.caller().call(Call::new(there).ids(list(&[other])).watch())?.wait()?;
            Ok(())
        });
        let nodes = nodes(&functions, 2);
        let call = |root: u32| {
            let call =
                Call::new(ping.clone().unwrap()).ids(list(&[root])).limit(Duration::from_millis(1_500));
            nodes.node(root).call(call).unwrap()
        };
        let ended = [call(0), call(1)].map(|handle| handle.wait());
        // Either one of them had ended before the other began, or both waited for each other.
        if ended.iter().all(Result::is_err) {
            let said = ended.map(|ended| ended.unwrap_err().to_string());
            let named =
                |said: &String| said.contains("`ping` wait") && said.contains("for a call of `there`");
            assert!(said.iter().any(named), "{said:?}");
        }
    });
}

#[test]
fn a_task_waits_for_room_without_blocking() {
    limited(|| {
        let functions = Functions::new();
        let hello = functions.func("hello", |_, _| Ok(())).unwrap();
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        let caller: Caller = node.caller();
        let call = || Call::new(hello).ids(0..1);
        // As many as there is room for.
        let handles: Vec<_> =
            std::iter::repeat_with(|| caller.try_call(call())).map_while(Result::ok).collect();
        assert_eq!(caller.try_call(call()).unwrap_err(), CallError::Busy);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut calling = pin!(caller.call_async(call()));
        assert!(matches!(calling.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending));
        assert!(!woken.0.load(Ordering::SeqCst));
        node.progress(Duration::ZERO).unwrap();
        assert!(woken.0.load(Ordering::SeqCst), "room was made");
        let Poll::Ready(Ok(handle)) = calling.as_mut().poll(&mut Context::from_waker(&waker)) else {
            panic!("there is room")
        };
        for mut handle in handles.into_iter().chain([handle]) {
            while handle.test().is_none() {
                node.progress(Duration::from_millis(10)).unwrap();
            }
        }
    });
}

#[derive(Default)]
struct Woken(AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn functions_know_their_place_in_the_call() {
    limited(|| {
        for placement in [Placement::Default, Placement::Inline, Placement::Executor("other".into())] {
            let functions = Functions::new();
            let facts = functions.at(placement.clone()).func("facts", |request, reply| {
                let (position, total, wanted) = (request.position(), request.total(), request.reply_wanted());
                reply.data = format!("{position} of {total} {wanted} {}", request.tree()).into_bytes();
                Ok(())
            });
            let nodes = nodes(&functions, 9);
            let order = [4, 8, 0, 2, 6, 1, 7];
            for round in 0..3 {
                let call = Call::new(facts.clone().unwrap()).ids(list(&order)).tree(Tree::Binomial);
                let outcome = nodes.node(4).call(call).unwrap().wait().unwrap();
                let said: Vec<(u32, String)> = outcome
                    .replies()
                    .unwrap()
                    .iter()
                    .map(|reply| (reply.id, String::from_utf8_lossy(&reply.data).into_owned()))
                    .collect();
                let expected: Vec<(u32, String)> = order
                    .iter()
                    .zip(0..)
                    .map(|(id, position)| (*id, format!("{position} of 7 true binomial")))
                    .collect();
                assert_eq!(said, expected, "{placement:?}, round {round}");
            }
        }
    });
}

#[test]
fn a_dropped_handle_gives_its_call_up_and_a_detached_one_does_not() {
    limited(|| {
        let functions = Functions::new();
        let (say, said) = mpsc::channel();
        let say = Mutex::new(say);
        // Runs until its call is over, or as long as a test may.
        let long = functions.func("long", move |request, _| {
            let say = say.lock().expect("one at a time").clone();
            say.send("runs")?;
            let until = Instant::now() + LIMIT;
            while request.header() != b"short" && !request.is_cancelled() && Instant::now() < until {
                thread::yield_now();
            }
            say.send(if request.is_cancelled() { "cancelled" } else { "done" })?;
            Ok(())
        });
        let nodes = nodes(&functions, 2);
        let call = |header: &'static str| {
            Call::new(long.clone().unwrap()).ids(list(&[1])).watch().header(header).limit(LONG)
        };
        let next = || said.recv_timeout(LIMIT).expect("it says so");
        let handle = nodes.root().call(call("")).unwrap();
        assert_eq!(next(), "runs");
        drop(handle);
        assert_eq!(next(), "cancelled");
        nodes.root().call(call("short")).unwrap().detach();
        assert_eq!((next(), next()), ("runs", "done"));
        drop(nodes.root().call(call("short").no_reply()).unwrap());
        assert_eq!((next(), next()), ("runs", "done"));
    });
}

/// A call that is given up in the queue never begins.
#[test]
fn a_call_that_is_given_up_before_it_begins_runs_nowhere() {
    limited(|| {
        let functions = Functions::new();
        let runs = Arc::new(AtomicBool::new(false));
        let ran = runs.clone();
        let func = functions.func("func", move |_, _| {
            ran.store(true, Ordering::SeqCst);
            Ok(())
        });
        let mut node = Node::builder(0).functions(&functions).polled().unwrap();
        let func = func.unwrap();
        drop(node.call(Call::new(func).ids(0..1)).unwrap());
        let mut cancelled = node.caller().call(Call::new(func).ids(0..1)).unwrap();
        cancelled.cancel();
        node.progress(Duration::ZERO).unwrap();
        let failure = cancelled.test().expect("it has ended").unwrap_err();
        assert_eq!(failure.failure().expect("a failure").cause.stage, Stage::Cancelled);
        assert!(!runs.load(Ordering::SeqCst));
    });
}

#[test]
fn the_token_of_a_deferred_reply_learns_that_its_call_has_ended() {
    limited(|| {
        let functions = Functions::new();
        let (keep, kept) = mpsc::channel();
        let keep = Mutex::new(keep);
        let later = functions.deferring("later", move |_, deferred| {
            let _ = keep.lock().expect("one at a time").send(deferred);
        });
        let nodes = nodes(&functions, 2);
        let handle =
            nodes.root().call(Call::new(later.unwrap()).ids(list(&[1])).watch().limit(LONG)).unwrap();
        let deferred = kept.recv_timeout(LIMIT).unwrap();
        assert!(!deferred.is_cancelled());
        let (say, said) = mpsc::channel();
        deferred.on_cancel(move || {
            let _ = say.send(());
        });
        drop(handle);
        assert_eq!(said.recv_timeout(LIMIT), Ok(()));
        assert!(deferred.is_cancelled());
        deferred.reply(Reply::default());
    });
}

/// Long replies of existing bytes are sent without a copy, alone and beside those of others.
#[test]
fn a_reply_shares_its_data() {
    limited(|| {
        for (n, placement) in [(1, Placement::Inline), (3, Placement::Inline), (3, Placement::Default)] {
            for len in [0, 3, 16 << 10, (16 << 10) + 1, 3 << 20] {
                let functions = Functions::new();
                let page = bytes::Bytes::from(vec![7; len]);
                let shared = page.clone();
                let page_for = move |request: &Request<'_>| {
                    let data = if request.header() == b"both" { b"before".to_vec() } else { Vec::new() };
                    Reply { data, shared: shared.clone(), ..Reply::default() }
                };
                let (at, later) = (functions.at(placement.clone()), page_for.clone());
                let funcs = [
                    at.func("page", move |request, reply| {
                        *reply = page_for(request);
                        Ok(())
                    }),
                    at.deferring("later", move |request, token| token.reply(later(request))),
                ];
                let nodes = nodes(&functions, n);
                for (func, header) in
                    funcs.iter().flat_map(|func| ["", "both", ""].map(|header| (func, header)))
                {
                    let call = Call::new(func.clone().unwrap()).ids(0..n).header(header);
                    let outcome = nodes.root().call(call).unwrap().wait().unwrap();
                    let before: &[u8] = if header.is_empty() { b"" } else { b"before" };
                    let replies = outcome.replies().unwrap();
                    assert_eq!(replies.len(), n as usize);
                    assert!(replies.iter().all(|reply| reply.data == [before, &page].concat()), "{n} {len}");
                }
            }
        }
    });
}

/// In a partial call the token was never informed, because its id's own part had already failed.
#[test]
fn the_token_of_a_partial_call_learns_that_its_time_limit_has_passed() {
    limited(|| {
        let functions = Functions::new();
        let (say, said) = mpsc::channel();
        let say = Mutex::new(say);
        let later = functions.deferring("later", move |_, deferred| {
            let say = say.lock().expect("one at a time").clone();
            deferred.on_cancel(move || {
                let _ = say.send(());
            });
            // Kept until the node ends.
            std::mem::forget(deferred);
        });
        let nodes = nodes(&functions, 2);
        let call = Call::new(later.unwrap()).ids([1]).watch().partial().limit(Duration::from_millis(50));
        let outcome = nodes.root().call(call).unwrap().wait().unwrap();
        assert!(!outcome.is_complete());
        assert_eq!(said.recv_timeout(LIMIT), Ok(()));
    });
}

/// A function that ran until its node requested it to stop ran forever after the node had ended.
#[test]
fn functions_are_told_that_their_node_ends() {
    limited(|| {
        let functions = Functions::new();
        let (say, said) = mpsc::channel();
        let say = Mutex::new(say);
        let long = functions.func("long", move |request, _| {
            let say = say.lock().expect("one at a time").clone();
            say.send("runs")?;
            let until = Instant::now() + LIMIT;
            while !request.is_cancelled() && Instant::now() < until {
                thread::yield_now();
            }
            say.send(if request.is_cancelled() { "told" } else { "late" })?;
            Ok(())
        });
        let node = nodes(&functions, 1).take(0);
        let handle = node.call(Call::new(long.unwrap()).ids([0]).limit(LONG)).unwrap();
        assert_eq!(said.recv_timeout(LIMIT), Ok("runs"));
        drop(node);
        assert_eq!(said.recv_timeout(LIMIT), Ok("told"));
        assert_eq!(handle.wait().unwrap_err(), CallError::Ended);
    });
}

/// A callback could not defer its reply: it had to merge at once.
#[test]
fn a_callback_answers_later() {
    limited(|| {
        let functions = Functions::new();
        let who = functions.func("who", |request, reply| {
            reply.data = vec![request.me() as u8];
            Ok(())
        });
        let merge = functions.callback("merge", |request, child, own| {
            let deferred = request.defer().ok_or("a callback may")?;
            assert!(request.defer().is_none(), "once");
            let (mut own, child) = (std::mem::take(own), child.data.to_vec());
            thread::spawn(move || {
                own.data.extend(child);
                deferred.reply(own);
            });
            Ok(())
        });
        let nodes = nodes(&functions, 7);
        let call = Call::new(who.unwrap()).callback(merge.unwrap()).ids(0..7).tree(Tree::Binary);
        let outcome = nodes.root().call(call).unwrap().wait().unwrap();
        assert_eq!(outcome.replies().unwrap()[0].data, vec![0, 1, 2, 3, 4, 5, 6]);
    });
}

#[test]
fn who_does_not_implement_a_function_calls_it_by_its_name() {
    limited(|| {
        let functions = Functions::new();
        functions.func("there", |_, _| Ok(())).unwrap();
        let nodes = nodes(&functions, 2);
        let address = |id: u32| (id, nodes.node(id).address().expect("it listens").clone());
        let caller = Node::builder(9).peers((0..2).map(address).collect()).start().unwrap();
        const THERE: FuncHandle = FuncHandle::named("there");
        let outcome = caller.call(Call::new(THERE).ids(0..2).watch()).unwrap().wait().unwrap();
        assert!(outcome.is_complete());
        let refused = caller.call(Call::new(THERE).ids(0..2)).unwrap_err();
        assert!(refused.to_string().contains("can only watch"), "{refused}");
        let nobody = caller.call(Call::new(FuncHandle::named("nowhere")).ids(0..2).watch()).unwrap().wait();
        assert_eq!(nobody.unwrap_err().failure().expect("a failure").cause.stage, Stage::Setup);
    });
}

/// A service waited forever behind a function of the application that never ended; with an executor of its own it does
/// not.
#[test]
fn a_service_does_not_starve_behind_an_application() {
    limited(|| {
        let functions = Functions::new();
        let (open, opened) = mpsc::channel::<()>();
        let opened = Mutex::new(opened);
        let (say, runs) = mpsc::channel();
        let say = Mutex::new(say);
        let busy = functions.func("busy", move |_, _| {
            say.lock().expect("one at a time").send(())?;
            let _ = opened.lock().expect("one at a time").recv_timeout(LIMIT);
            Ok(())
        });
        let service =
            functions.at(Placement::Executor("other".into())).func("service", |_, _| Ok(())).unwrap();
        let nodes = nodes(&functions, 2);
        let busy = nodes.root().call(Call::new(busy.unwrap()).ids(0..2)).unwrap();
        runs.recv_timeout(LIMIT).unwrap();
        assert!(nodes.root().call(Call::new(service).ids(0..2)).unwrap().wait().unwrap().is_complete());
        open.send(()).unwrap();
        open.send(()).unwrap();
        assert!(busy.wait().unwrap().is_complete());
    });
}

#[test]
fn an_executor_that_a_node_lacks_is_named() {
    limited(|| {
        let functions = Functions::new();
        let func = functions.at(Placement::Executor("gpu".into())).func("func", |_, _| Ok(())).unwrap();
        let nodes = nodes(&functions, 1);
        let failed = nodes.root().call(Call::new(func).ids(0..1)).unwrap().wait().unwrap_err();
        assert!(failed.to_string().contains("no executor `gpu`"), "{failed}");
    });
}

/// The callback was silently ignored.
#[test]
fn a_func_with_phases_takes_no_callback_beside_it() {
    limited(|| {
        let functions = Functions::new();
        let phased = functions.phased("phased", |_, _, _| Ok(())).unwrap();
        let merge = functions.callback("merge", |_, _, _| Ok(())).unwrap();
        let nodes = nodes(&functions, 1);
        let refused = nodes.root().call(Call::new(phased).callback(merge).ids([0])).unwrap_err();
        assert!(refused.to_string().contains("`phased` merges replies itself"), "{refused}");
        assert!(nodes.root().call(Call::new(phased).ids([0])).unwrap().wait().is_ok());
    });
}
