//! Commands: their order, their share of a turn, and their results when a node ends.

use std::future::Future as _;
use std::sync::Mutex;

use super::*;
use crate::runtime::{CallError, FuncHandle, Peer};

/// A func that records the header of its request.
fn records(functions: &Functions) -> (FuncHandle, Arc<Mutex<Vec<u8>>>) {
    let headers = Arc::<Mutex<Vec<u8>>>::default();
    let record = headers.clone();
    let func = functions.func("records", move |request, _| {
        record.lock().unwrap().extend_from_slice(request.header());
        Ok(())
    });
    (func.unwrap(), headers)
}

fn lone(functions: &Functions) -> PolledNode {
    Node::builder(0).functions(functions).heartbeat(None).polled().unwrap()
}

fn turns(node: &mut PolledNode, count: usize) {
    for _ in 0..count {
        node.progress(Duration::ZERO).unwrap();
    }
}

#[test]
fn calls_begin_in_the_order_in_which_they_were_started() {
    let functions = Functions::new();
    let (func, headers) = records(&functions);
    let mut node = lone(&functions);
    let mut handles = Vec::new();
    for number in 0..9u8 {
        handles.push(node.call(Call::new(func).ids([0]).header(vec![number])).unwrap());
        if number % 3 == 2 {
            // Each turn leaves two of three commands to later turns, and more arrive meanwhile.
            node.progress_at_most(1).unwrap();
        }
    }
    assert!(node.event_loop().starting() > 0);
    turns(&mut node, 3);
    assert!(handles.iter_mut().all(|handle| handle.test().is_some()));
    assert_eq!(*headers.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

/// Each check of a mailbox clears its flag, which must be set again if the check leaves mail.
#[test]
fn mail_beyond_the_share_of_a_turn_is_work_for_the_next() {
    let functions = Functions::new();
    let (func, headers) = records(&functions);
    let mut node = lone(&functions);
    let caller = node.caller();
    let call = |number| caller.try_call(Call::new(func).ids([0]).header(vec![number])).unwrap();
    let mut handles: Vec<CallHandle> = (0..5).map(call).collect();
    for taken in 1..=5 {
        assert!(node.event_loop().is_busy());
        node.progress_at_most(1).unwrap();
        assert_eq!(headers.lock().unwrap().len(), taken);
    }
    turns(&mut node, 1);
    assert!(!node.event_loop().is_busy() && handles.iter_mut().all(|handle| handle.test().is_some()));
}

/// A call that a full queue rejected was cancelled, under a number that no call had.
#[test]
fn a_command_that_a_full_queue_rejects_leaves_nothing_behind() {
    let functions = Functions::new();
    let (func, _) = records(&functions);
    let mut node = lone(&functions);
    let caller = node.caller();
    let call = || Call::new(func).ids([0]);
    let mut handles = Vec::new();
    let refused = loop {
        match caller.try_call(call()) {
            Ok(handle) => handles.push(handle),
            Err(error) => break error,
        }
    };
    assert_eq!((refused, handles.len()), (CallError::Busy, crate::runtime::mailbox::COMMANDS));
    let mut calling = Box::pin(caller.call_async(call()));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..2 {
        assert!(calling.as_mut().poll(&mut context).is_pending(), "it waits for a place");
    }
    let slots = &node.event_loop().slots;
    assert_eq!((slots.commands.len(), slots.results.len()), (handles.len(), 0));
    node.progress_at_most(1).unwrap();
    let std::task::Poll::Ready(Ok(mut handle)) = calling.as_mut().poll(&mut context) else {
        panic!("there is a place")
    };
    turns(&mut node, 10);
    assert!(handle.test().is_some() && handles.iter_mut().all(|handle| handle.test().is_some()));
}

fn shut_down(node: &PolledNode, limit: Duration) {
    node.event_loop().mailbox.command(Command::Shutdown { limit }, Duration::ZERO).unwrap();
}

#[test]
fn a_node_that_ends_starts_no_call_and_keeps_to_its_first_limit() {
    let functions = Functions::new();
    let (func, _) = records(&functions);
    let tokens = Arc::<Mutex<Vec<_>>>::default();
    let hold = tokens.clone();
    let held = functions.deferring("held", move |_, token| hold.lock().unwrap().push(token)).unwrap();
    let mut node = lone(&functions);
    let mut flying = node.call(Call::new(held).ids([0])).unwrap();
    turns(&mut node, 1);
    shut_down(&node, Duration::from_secs(5));
    turns(&mut node, 1);
    let mut late = node.call(Call::new(func).ids([0])).unwrap();
    // None of these commands changes a node that ends.
    node.learn(Peer::new(1, "unix:@one".parse().unwrap())).unwrap();
    shut_down(&node, Duration::ZERO);
    turns(&mut node, 2);
    assert_eq!(late.test(), Some(Err(CallError::Ended)));
    assert!(node.event_loop().connections.members().is_empty());
    assert!(!node.event_loop().has_ended() && flying.test().is_none());
    // No memory for a next call is left to release.
    let idle = node.event_loop().memory_until();
    node.event_loop_mut().release_memory(idle);
    assert!(!node.event_loop().holds_memory());
    let end = node.event_loop().next_deadline().expect("it ends at some time");
    let left = end.since(node.event_loop().now());
    assert!(left > Duration::from_secs(1) && left <= Duration::from_secs(5), "{left:?}");
    tokens.lock().unwrap().pop().unwrap().reply(Default::default());
    turns(&mut node, 2);
    assert!(node.event_loop().has_ended() && flying.test().is_some_and(|end| end.is_ok()));
}

#[test]
fn a_dropped_handle_cancels_only_a_call_with_replies() {
    let functions = Functions::new();
    let tokens = Arc::<Mutex<Vec<_>>>::default();
    let hold = tokens.clone();
    let held = functions.deferring("held", move |_, token| hold.lock().unwrap().push(token)).unwrap();
    let mut node = lone(&functions);
    let call = || Call::new(held).ids([0]);
    let (dropped, silent) = (node.call(call()).unwrap(), node.call(call().no_reply()).unwrap());
    let [detached, cancelled] = [0, 1].map(|_| node.call(call()).unwrap());
    turns(&mut node, 1);
    drop((dropped, silent));
    detached.detach();
    cancelled.cancel();
    cancelled.cancel();
    assert_eq!(node.event_loop().slots.results.len(), 2, "of each order to cancel one is sent");
    turns(&mut node, 1);
    let cancelled = tokens.lock().unwrap().iter().map(|token| token.is_cancelled()).collect::<Vec<_>>();
    assert_eq!(cancelled, [true, false, false, true]);
}

#[test]
fn calls_of_other_threads_that_have_not_begun_end_with_their_node() {
    let functions = Functions::new();
    let (func, headers) = records(&functions);
    let node = lone(&functions);
    let mut own = node.call(Call::new(func).ids([0])).unwrap();
    let mut other = node.caller().try_call(Call::new(func).ids([0])).unwrap();
    drop(node);
    assert_eq!([own.test(), other.test()], [Some(Err(CallError::Ended)), Some(Err(CallError::Ended))]);
    assert!(headers.lock().unwrap().is_empty());
}
