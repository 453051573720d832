//! Functions that block, spin, wait or panic on the thread that drives their node: the node continues.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::*;
use crate::runtime::{Call, Canceller, FuncHandle, Functions, LinkKind, LocalNodes, Placement};

/// Time limit of all waits; each takes less than a tenth of it.
const LIMIT: Duration = Duration::from_secs(30);

/// Time limit of an event that follows at once.
const SOON: Duration = Duration::from_secs(5);

/// A func that reports its start, and returns when it is released.
fn blocks(functions: &Functions) -> (FuncHandle, Receiver<()>, Sender<()>) {
    let (began, begins) = channel();
    let (end, ends) = channel();
    let (began, ends) = (Mutex::new(began), Mutex::new(ends));
    let func = functions.func("blocks", move |_, _| {
        began.lock().unwrap().send(()).unwrap();
        ends.lock().unwrap().recv_timeout(10 * LIMIT)?;
        Ok(())
    });
    (func.unwrap(), begins, end)
}

/// A func on an executor of its own.
fn beside(functions: &Functions) -> FuncHandle {
    functions.at(Placement::Executor("beside".into())).func("beside", |_, _| Ok(())).unwrap()
}

fn nodes(n: u32, link: LinkKind, functions: &Functions) -> LocalNodes {
    LocalNodes::start_with(n, link, functions, |_, builder| builder.executor("beside", 1)).unwrap()
}

/// Number of threads of this process with this prefix of their names.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let comm =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.flatten().map(comm).filter(|comm| comm.trim_end() == name).count()
}

#[test]
fn a_node_goes_on_while_its_function_blocks() {
    let functions = Functions::new();
    let (blocks, begins, end) = blocks(&functions);
    let beside = beside(&functions);
    let nodes = nodes(3, LinkKind::Unix, &functions);
    let mut blocked = nodes.root().call(Call::new(blocks).ids([0, 1]).forward_first()).unwrap();
    for _ in 0..2 {
        begins.recv_timeout(LIMIT).unwrap();
    }
    // Requests of others, requests that it forwards, and calls of its own.
    for _ in 0..100 {
        let call = || Call::new(beside).ids(0..3).tree(crate::Tree::Chain).limit(LIMIT);
        nodes.node(2).call(call().ids([2, 1, 0])).unwrap().wait().unwrap();
        nodes.root().call(call()).unwrap().wait().unwrap();
    }
    assert!(blocked.test().is_none());
    (0..2).for_each(|_| end.send(()).unwrap());
    blocked.wait_for(LIMIT).unwrap().unwrap();
}

/// A spinning function makes no blocking call, so only the guard detects it.
#[test]
fn a_node_goes_on_while_its_function_spins() {
    let functions = Functions::new();
    let stop = Arc::<AtomicBool>::default();
    let stopped = stop.clone();
    let spins = functions.func("spins", move |_, _| {
        while !stopped.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Ok(())
    });
    let beside = beside(&functions);
    let nodes = nodes(2, LinkKind::Shm, &functions);
    let mut spinning = nodes.root().call(Call::new(spins.unwrap()).ids([0, 1])).unwrap();
    for _ in 0..20 {
        nodes.node(1).call(Call::new(beside).ids([1, 0])).unwrap().wait().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    spinning.wait_for(LIMIT).unwrap().unwrap();
}

#[test]
fn a_node_is_shut_down_while_its_function_blocks() {
    let functions = Functions::new();
    let (blocks, begins, end) = blocks(&functions);
    let nodes = LocalNodes::start(1, LinkKind::Unix, &functions).unwrap();
    let blocked = nodes.root().call(Call::new(blocks).ids([0])).unwrap();
    begins.recv_timeout(LIMIT).unwrap();
    nodes.shutdown(Duration::ZERO);
    assert!(blocked.wait().is_err());
    end.send(()).unwrap();
}

#[test]
fn a_served_node_ends_with_its_control_link_while_its_function_blocks() {
    let functions = Functions::new();
    let (blocks, begins, end) = blocks(&functions);
    let listener = crate::Listener::bind(&LinkKind::Unix.fresh_address(1)).unwrap();
    let peers = [(1, listener.address().unwrap())].into_iter().collect();
    let (control_link, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let builder = crate::Node::builder(1).functions(&functions).listener(listener);
    let served = thread::spawn(move || builder.serve(theirs));
    let root = crate::Node::builder(0).functions(&functions).peers(peers).start().unwrap();
    let _blocked = root.call(Call::new(blocks).ids([0, 1]).forward_first()).unwrap();
    for _ in 0..2 {
        begins.recv_timeout(LIMIT).unwrap();
    }
    drop(control_link);
    served.join().unwrap().unwrap();
    (0..2).for_each(|_| end.send(()).unwrap());
}

/// The chain did not know a call that waited for its turn behind the function of another one: the cancel was lost, and
/// the call executed.
#[test]
fn a_call_that_waits_behind_a_function_is_cancelled() {
    let functions = Functions::new();
    let (runs, cancels) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Option<Canceller>>>::default());
    let (count, cancel) = (runs.clone(), cancels.clone());
    let counts = functions.func("counts", move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        if let Some(next) = cancel.lock().unwrap().take() {
            next.cancel();
        }
        Ok(())
    });
    let counts = counts.unwrap();
    let (started, handles) = channel();
    let (started, cancel) = (Mutex::new(started), cancels);
    // Both calls are in the mailbox before the loop starts the first one.
    let starts = functions.at(Placement::Inline).func("starts", move |request, _| {
        let call = || request.caller().try_call(Call::new(counts).ids([0]));
        let (first, second) = (call()?, call()?);
        *cancel.lock().unwrap() = Some(second.canceller());
        started.lock().unwrap().send((first, second))?;
        Ok(())
    });
    let nodes = LocalNodes::start_with(1, LinkKind::Unix, &functions, |_, builder| builder.workers(1));
    let nodes = nodes.unwrap();
    let root = nodes.root();
    // Only functions that have run before take the fast path.
    (0..4).for_each(|_| drop(root.call(Call::new(counts).ids([0])).unwrap().wait().unwrap()));
    for round in 0..20 {
        root.call(Call::new(starts.clone().unwrap()).ids([0])).unwrap().wait().unwrap();
        let (first, second) = handles.recv_timeout(LIMIT).unwrap();
        first.wait().unwrap();
        let error = second.wait().unwrap_err();
        assert_eq!(error.kind(), Some(crate::wire::CauseKind::Cancelled), "round {round}: {error}");
        assert_eq!(runs.load(Ordering::SeqCst), 5 + round);
    }
}

/// A function that waits for a call hands the loop over at once; otherwise the call would wait for the guard.
#[test]
fn a_function_calls_down_the_tree_and_itself_elsewhere() {
    let functions = Functions::new();
    let deeper: Arc<OnceLock<FuncHandle>> = Arc::default();
    let again = deeper.clone();
    let sums = functions.func("sums", move |request, reply| {
        let below: u32 = match request.me() {
            4 => 0,
            me => {
                let call = Call::new(*again.get().unwrap()).ids([me + 1]).watch();
                let outcome = request.caller().call(call)?.wait()?;
                outcome.replies()?[0].data[0].into()
            }
        };
        reply.data = vec![u8::try_from(below + request.me()).unwrap()];
        Ok(())
    });
    let sums = *deeper.get_or_init(|| sums.unwrap());
    let nodes = LocalNodes::start(5, LinkKind::Unix, &functions).unwrap();
    for _ in 0..20 {
        let outcome = nodes.root().call(Call::new(sums).ids([0])).unwrap().wait().unwrap();
        assert_eq!(outcome.replies().unwrap()[0].data, [10][..]);
    }
}

/// One at a time on whatever thread, and in the order of the calls.
#[test]
#[allow(clippy::disallowed_methods, reason = "the function is to take that long")]
fn a_thousand_functions_run_one_at_a_time_and_in_order() {
    let functions = Functions::new();
    let (running, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let order = Arc::<Mutex<Vec<u16>>>::default();
    let (now, max, seen) = (running.clone(), most.clone(), order.clone());
    let counts = functions.func("counts", move |request, _| {
        max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let number = u16::from_le_bytes([request.data()[0], request.data()[1]]);
        // Some take long enough for the guard.
        if number.is_multiple_of(50) {
            thread::sleep(2 * FREE_LIMIT);
        }
        seen.lock().unwrap().push(number);
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    });
    let counts = counts.unwrap();
    let nodes = LocalNodes::start(1, LinkKind::Unix, &functions).unwrap();
    let call = |number: u16| Call::new(counts).ids([0]).data(number.to_le_bytes().to_vec());
    // All at once, or so few that all may wait for the end of a turn.
    for at_once in [1000, 100] {
        for first in (0..1000).step_by(at_once) {
            let numbers = first..first + at_once as u16;
            let handles: Vec<_> = numbers.map(|number| nodes.root().call(call(number)).unwrap()).collect();
            handles.into_iter().for_each(|handle| drop(handle.wait().unwrap()));
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert!(std::mem::take(&mut *order.lock().unwrap()).into_iter().eq(0..1000));
    }
}

/// Short functions wake no other thread, and long ones use one: a node has at most two threads.
#[test]
fn a_node_has_a_thread_and_one_more_for_functions_that_are_long() {
    let functions = Functions::new();
    let short = functions.func("short", |_, _| Ok(())).unwrap();
    let (blocks, begins, end) = blocks(&functions);
    let beside = beside(&functions);
    let builder = crate::Node::builder(4_000_001).functions(&functions).executor("beside", 1);
    let node = builder.start().unwrap();
    let name = "gpc-4000001";
    for _ in 0..50 {
        node.call(Call::new(short).ids([4_000_001])).unwrap().wait().unwrap();
    }
    assert!(threads(name) <= 2, "a machine that is busy may interrupt a short one");
    for _ in 0..2 {
        let handle = node.call(Call::new(blocks).ids([4_000_001])).unwrap();
        begins.recv_timeout(LIMIT).unwrap();
        // Another thread drives the node for this call.
        node.call(Call::new(beside).ids([4_000_001])).unwrap().wait().unwrap();
        end.send(()).unwrap();
        handle.wait().unwrap();
        assert!(threads(name) <= 2);
    }
    // The function took long twice, and goes to the worker from now on.
    let handle = node.call(Call::new(blocks).ids([4_000_001])).unwrap();
    begins.recv_timeout(LIMIT).unwrap();
    assert_eq!(threads("gpc-4000001-wor"), 1);
    end.send(()).unwrap();
    handle.wait().unwrap();
}

#[test]
fn a_function_that_panics_outside_the_loop_fails_its_call_alone() {
    let functions = Functions::new();
    let panics = functions.func("panics", |_, _| panic!("on purpose")).unwrap();
    let short = functions.func("short", |_, _| Ok(())).unwrap();
    let nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
    for _ in 0..3 {
        let error = nodes.root().call(Call::new(panics).ids([0, 1])).unwrap().wait().unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        nodes.root().call(Call::new(short).ids([0, 1])).unwrap().wait().unwrap();
    }
}

/// The last owner of a node is a function of its own, which runs on the thread that has left the loop.
#[test]
fn a_node_is_dropped_by_its_function() {
    let functions = Functions::new();
    let slot: Arc<Mutex<Option<crate::Node>>> = Arc::default();
    let mine = slot.clone();
    let (say, said) = channel();
    let say = Mutex::new(say);
    let ends = functions.func("ends", move |_, _| {
        drop(mine.lock().unwrap().take());
        say.lock().unwrap().send(()).unwrap();
        Ok(())
    });
    let node = crate::Node::builder(0).functions(&functions).start().unwrap();
    let caller = node.caller();
    *slot.lock().unwrap() = Some(node);
    let handle = caller.call(Call::new(ends.unwrap()).ids([0])).unwrap();
    said.recv_timeout(LIMIT).unwrap();
    assert!(handle.wait().is_err());
}

/// A func that blocks at the id in the data until it is released or its call has ended. It reports its start, and
/// whether the call has ended.
fn blocks_at(functions: &Functions) -> (FuncHandle, Receiver<u32>, Sender<()>, Receiver<bool>) {
    let (began, begins) = channel();
    let (end, ends) = channel();
    let (cancelled, says) = channel();
    let shared = Mutex::new((began, ends, cancelled));
    let func = functions.func("blocks-at", move |request, reply| {
        reply.data = vec![7];
        if request.data() == [u8::try_from(request.me())?] {
            let (began, ends, cancelled) = &*shared.lock().unwrap();
            began.send(request.me())?;
            for _ in 0..1000 {
                match ends.recv_timeout(SOON / 1000) {
                    Ok(()) => break,
                    Err(_) if request.is_cancelled() => break,
                    Err(_) => {}
                }
            }
            cancelled.send(request.is_cancelled())?;
        }
        Ok(())
    });
    (func.unwrap(), begins, end, says)
}

/// Repeats a call, so that it takes the fast path, until its function blocks at the root, in the middle or at a leaf.
#[test]
fn a_call_like_those_before_blocks_and_its_node_goes_on() {
    let functions = Functions::new();
    let (blocks, begins, end, cancelled) = blocks_at(&functions);
    let beside = beside(&functions);
    for link in [LinkKind::Unix, LinkKind::Shm] {
        let nodes = nodes(3, link, &functions);
        let call = |at: u8| Call::new(blocks).ids(0..3).tree(crate::Tree::Chain).data(vec![at]).limit(LIMIT);
        for at in [0, 1, 2] {
            for _ in 0..3 {
                let outcome = nodes.root().call(call(9)).unwrap().wait().unwrap();
                assert_eq!(outcome.replies().unwrap().len(), 3);
            }
            let blocked = nodes.root().call(call(at)).unwrap();
            assert_eq!(begins.recv_timeout(LIMIT).unwrap(), u32::from(at));
            for _ in 0..20 {
                let call = || Call::new(beside).ids(0..3).tree(crate::Tree::Chain).limit(LIMIT);
                nodes.node(2).call(call().ids([2, 1, 0])).unwrap().wait().unwrap();
            }
            end.send(()).unwrap();
            assert_eq!(blocked.wait().unwrap().replies().unwrap()[2].data, [7][..]);
            assert!(!cancelled.recv_timeout(LIMIT).unwrap());
            // The next call is cancelled while its function blocks.
            let mut blocked = nodes.root().call(call(at)).unwrap();
            begins.recv_timeout(LIMIT).unwrap();
            blocked.cancel();
            assert!(blocked.wait_for(SOON).expect("it ends at once").is_err());
            assert!(cancelled.recv_timeout(LIMIT).unwrap(), "its function learns of it");
        }
    }
}

/// Functions execute in the order of their calls from one caller to one id, on whatever thread.
#[test]
fn functions_run_in_the_order_of_their_calls() {
    let functions = Functions::new();
    let seen = Arc::<Mutex<Vec<u8>>>::default();
    let placed = [Placement::Default, Placement::Inline].map(|placement| {
        let seen = seen.clone();
        let name = if placement == Placement::Inline { "inline" } else { "default" };
        let func = functions.at(placement).func(name, move |request, _| {
            if request.me() == 1 {
                seen.lock().unwrap().push(request.data()[0]);
            }
            Ok(())
        });
        func.unwrap()
    });
    let nodes = LocalNodes::start(3, LinkKind::Unix, &functions).unwrap();
    for round in 0..20 {
        let call = |number: u8| {
            let func = placed[usize::from(number.is_multiple_of(3))];
            let call = Call::new(func).tree(crate::Tree::Chain).data(vec![number]);
            // A root that only watches has no function to run.
            let call = if round % 2 == 0 { call.ids(0..3) } else { call.ids([1, 2]).watch() };
            // A request with limits takes the general path.
            if number.is_multiple_of(7) { call.reply_limits(9, 9) } else { call }
        };
        let calls = (0..60).map(|number| nodes.root().call(call(number)).unwrap());
        calls.collect::<Vec<_>>().into_iter().for_each(|call| drop(call.wait().unwrap()));
        let mut order = seen.lock().unwrap();
        assert!(order.iter().copied().eq(0..60), "round {round}: {order:?}");
        order.clear();
    }
}

/// The response of a default function left after its turn. The call was counted in the next turn, up to ten seconds
/// later.
#[test]
fn requests_are_counted_before_their_answers_leave() {
    let functions = Functions::new();
    let func = functions.func("func", |_, _| Ok(())).unwrap();
    let nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
    for calls in 1..=20 {
        nodes.root().call(Call::new(func).ids(0..2)).unwrap().wait().unwrap();
        let metrics = nodes.node(1).metrics();
        // A function that ran at the end of a turn counted as waiting until the next turn.
        assert_eq!((metrics.requests_succeeded, metrics.functions_waiting), (calls, 0));
    }
}
