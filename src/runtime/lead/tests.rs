//! Functions that block, spin, wait or panic on the thread that drives their node: the node goes on.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::*;
use crate::runtime::{Call, FuncHandle, Functions, LinkKind, LocalNodes, Placement};

/// No wait in these tests takes a tenth of this.
const LIMIT: Duration = Duration::from_secs(30);

/// What follows at once follows within this; what never does is told from a hang.
const SOON: Duration = Duration::from_secs(5);

/// A func that says when it begins, and returns when it is told.
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

/// A func that does not wait for those of the default workers.
fn beside(functions: &Functions) -> FuncHandle {
    functions.at(Placement::Executor("beside".into())).func("beside", |_, _| Ok(())).unwrap()
}

fn nodes(n: u32, link: LinkKind, functions: &Functions) -> LocalNodes {
    LocalNodes::start_with(n, link, functions, |_, builder| builder.executor("beside", 1)).unwrap()
}

/// Threads of this process whose names begin so.
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
    // Requests of others, requests that it passes on, and calls of its own.
    for _ in 0..100 {
        let call = || Call::new(beside).ids(0..3).tree(crate::Tree::Chain).limit(LIMIT);
        nodes.node(2).call(call().ids([2, 1, 0])).unwrap().wait().unwrap();
        nodes.root().call(call()).unwrap().wait().unwrap();
    }
    assert!(blocked.test().is_none());
    (0..2).for_each(|_| end.send(()).unwrap());
    blocked.wait_for(LIMIT).unwrap().unwrap();
}

/// A function that spins does not wait for anything: only the guard can notice it.
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

/// A function that waits for a call of its own gives the loop away, or the call would wait for the guard each time.
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

/// One at a time, whoever drives the node, and in the order of the calls.
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
        // Some are long enough for the guard.
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
    // All at once, and so few that all may wait for the end of a turn.
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

/// Short functions wake no other thread, and long ones have one: whatever is called, a node has two threads at most.
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
        // Another thread drives the node for this.
        node.call(Call::new(beside).ids([4_000_001])).unwrap().wait().unwrap();
        end.send(()).unwrap();
        handle.wait().unwrap();
        assert!(threads(name) <= 2);
    }
    // It was long twice, and goes to the worker at once from now on.
    let handle = node.call(Call::new(blocks).ids([4_000_001])).unwrap();
    begins.recv_timeout(LIMIT).unwrap();
    assert_eq!(threads("gpc-4000001-wor"), 1);
    end.send(()).unwrap();
    handle.wait().unwrap();
}

#[test]
fn a_function_that_panics_outside_the_loop_fails_its_call_alone() {
    let functions = Functions::new();
    let panics = functions.func("panics", |_, _| panic!("as it is told")).unwrap();
    let short = functions.func("short", |_, _| Ok(())).unwrap();
    let nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
    for _ in 0..3 {
        let error = nodes.root().call(Call::new(panics).ids([0, 1])).unwrap().wait().unwrap_err();
        assert!(error.to_string().contains("as it is told"), "{error}");
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

/// A func that blocks at an id if the data say so, once it has said that it begins, until it is told or its call has
/// ended; it says then whether that was so.
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

/// The ids, the tree and the functions of a call that was made before, which goes the fast path, until its function
/// blocks at one of its ids: at the root, in the middle or at a leaf.
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
            // The next one is given up while it blocks.
            let mut blocked = nodes.root().call(call(at)).unwrap();
            begins.recv_timeout(LIMIT).unwrap();
            blocked.cancel();
            assert!(blocked.wait_for(SOON).expect("it ends at once").is_err());
            assert!(cancelled.recv_timeout(LIMIT).unwrap(), "its function learns of it");
        }
    }
}

/// Calls of one caller to one id have their functions executed in the order in which they were made, wherever those
/// run.
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
            // With limits a request takes the general path.
            if number.is_multiple_of(7) { call.reply_limits(9, 9) } else { call }
        };
        let calls = (0..60).map(|number| nodes.root().call(call(number)).unwrap());
        calls.collect::<Vec<_>>().into_iter().for_each(|call| drop(call.wait().unwrap()));
        let mut order = seen.lock().unwrap();
        assert!(order.iter().copied().eq(0..60), "round {round}: {order:?}");
        order.clear();
    }
}
