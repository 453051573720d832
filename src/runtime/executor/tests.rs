//! The thread that runs a function, and the number of threads.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::*;
use crate::runtime::{Call, FuncHandle, Node, Placement, PolledNode};

const LIMIT: Duration = Duration::from_secs(60);

/// Registers a func that replies with its name and with that of its thread.
fn names_its_thread(functions: &Functions, placement: Placement, name: &'static str) -> FuncHandle {
    let func = functions.at(placement).func(name, move |_, reply| {
        reply.header = name.into();
        reply.data = thread::current().name().unwrap_or_default().into();
        Ok(())
    });
    func.unwrap()
}

fn at(name: &'static str) -> Placement {
    Placement::Executor(name.into())
}

/// The name of the thread that runs a func. A partial call takes the general path.
fn thread_of(node: &mut PolledNode, func: FuncHandle) -> (String, String) {
    let handle = node.call(Call::new(func).ids([7]).partial()).unwrap();
    let reply = node.wait(handle).unwrap().replies().unwrap().remove(0);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&reply.header), text(&reply.data))
}

#[test]
fn an_executor_has_a_thread_for_each_job_up_to_the_number_of_its_workers() {
    let functions = Functions::new();
    let [one, two] = ["one", "two"].map(|name| names_its_thread(&functions, at(name), name));
    let builder = Node::builder(7).functions(&functions).executor("one", 2).executor("two", 1);
    let mut node = builder.polled().unwrap();
    let started = |node: &PolledNode| {
        let workers = node.event_loop().executor.workers.iter();
        let threads = workers.filter_map(|workers| match workers {
            Workers::Threads { started, .. } => Some(*started),
            _ => None,
        });
        threads.collect::<Vec<usize>>()
    };
    assert_eq!(started(&node), [0, 0], "a node whose functions are all inline has no threads");
    for threads in [[1, 0], [2, 0], [2, 0]] {
        assert!(thread_of(&mut node, one).1.starts_with("gpc-7-one-"));
        assert_eq!(started(&node), threads);
    }
    for _ in 0..2 {
        assert_eq!(thread_of(&mut node, two), ("two".into(), "gpc-7-two-0".into()));
        assert_eq!(started(&node), [2, 1]);
    }
}

#[test]
fn each_function_runs_where_it_is_placed() {
    let functions = Functions::new();
    let funcs = [("default", Placement::Default), ("inline", Placement::Inline), ("io", at("io"))]
        .map(|(name, placement)| names_its_thread(&functions, placement, name));
    // Twice in turn, so that each is looked up again.
    let threads = ["gpc-7", "gpc-7", "gpc-7-io-0"].into_iter().cycle();
    let node = Node::builder(7).functions(&functions).executor("io", 1).start().unwrap();
    for (func, name) in funcs.into_iter().cycle().zip(threads).take(6) {
        let outcome = node.call(Call::new(func).ids([7]).partial()).unwrap().wait().unwrap();
        assert_eq!(outcome.reply(7).unwrap().data, name.as_bytes());
    }
}

/// Functions are looked up once, and found by their numbers from then on.
#[test]
fn a_function_is_found_again_after_another_one_was_used() {
    let functions = Functions::new();
    let names = ["a", "b", "c"];
    let funcs = names.map(|name| names_its_thread(&functions, Placement::Default, name));
    let mut node = Node::builder(7).functions(&functions).polled().unwrap();
    for at in [0, 1, 0, 2, 1, 1, 0] {
        assert_eq!(thread_of(&mut node, funcs[at]).0, names[at]);
    }
    assert_eq!(node.event_loop().executor.used.entries.len(), names.len());
}

#[test]
fn a_token_fails_its_call_when_it_is_dropped_and_learns_of_the_end_of_its_node() {
    let functions = Functions::new();
    let (gives, tokens) = channel();
    let held = functions.deferring("held", move |_, token| drop(gives.send(token))).unwrap();
    let mut node = Node::builder(7).functions(&functions).polled().unwrap();
    let mut handle = node.call(Call::new(held).ids([7])).unwrap();
    node.progress(Duration::ZERO).unwrap();
    let token = tokens.try_recv().expect("it has run");
    assert_eq!((node.event_loop().executor.runs.len(), token.is_cancelled()), (1, false));
    drop(token);
    node.progress(Duration::ZERO).unwrap();
    let end = handle.test().expect("it has ended").unwrap_err();
    assert_eq!(end.kind(), Some(CauseKind::NoAnswer));
    assert_eq!(node.event_loop().executor.runs.len(), 0);

    let mut handle = node.call(Call::new(held).ids([7])).unwrap();
    node.progress(Duration::ZERO).unwrap();
    let token = tokens.try_recv().expect("it has run");
    drop(node);
    assert!(token.is_cancelled() && handle.test().is_some());
}

#[test]
fn the_last_number_of_workers_counts_within_its_bounds_and_executors_have_a_bound() {
    let builder = Node::builder(7).workers(0).executor("one", 0).executor("two", 5000).executor("one", 2);
    let node = builder.polled().unwrap();
    let config = node.event_loop().node.config();
    // The last class is that of the recorder.
    assert_eq!((config.workers, &config.executors[..]), (1, &[2, 4096, 1][..]));
    let many = |count| (0..count).fold(Node::builder(7), |builder, at| builder.executor(format!("{at}"), 1));
    assert!(many(63).polled().is_ok());
    let error = many(64).polled().unwrap_err().to_string();
    assert_eq!(error, "64 executors are too many: a node has at most 63");
}

/// A node ended while a function waited for a worker. The worker ran the function later, when the application had
/// released the data that the function uses.
#[test]
fn a_function_that_waits_for_a_worker_does_not_run_after_its_node_has_ended() {
    let functions = Functions::new();
    let (begins, begun) = channel();
    let (release, released) = channel::<()>();
    let released = std::sync::Mutex::new(released);
    let long = functions.at(at("one")).func("long", move |request, _| {
        begins.send(request.call())?;
        // The sender is dropped after the node.
        let _ = released.lock().unwrap().recv();
        Ok(())
    });
    let long = long.unwrap();
    let builder = Node::builder(7).functions(&functions).executor("one", 2);
    let mut node = builder.polled().unwrap();
    let call = || Call::new(long).ids([7]).partial();
    let first = node.call(call()).unwrap();
    node.progress(Duration::ZERO).unwrap();
    begun.recv_timeout(LIMIT).expect("the worker has the first job");
    // As if the system refused another thread.
    for workers in &mut node.event_loop_mut().executor.workers {
        if let Workers::Threads { count, .. } = workers {
            *count = 1;
        }
    }
    let second = node.call(call()).unwrap();
    node.progress(Duration::ZERO).unwrap();
    assert_eq!(node.event_loop().executor.runs.len(), 2, "the second job waits");
    drop((node, functions, release));
    // The end of the worker drops the function.
    assert_eq!(begun.recv_timeout(LIMIT), Err(RecvTimeoutError::Disconnected));
    drop((first, second));
}

/// Functions that run one at a time run on the thread that drives the node, however many may run at once; functions
/// that wait for each other run at once.
#[cfg(feature = "rayon")]
#[test]
fn the_driving_thread_is_one_of_the_workers() {
    const WORKERS: usize = 3;
    let functions = Functions::new();
    let named = names_its_thread(&functions, Placement::Default, "named");
    let meet = Arc::new(std::sync::Barrier::new(WORKERS));
    let meets = functions.func("meets", move |_, _| {
        meet.wait();
        Ok(())
    });
    let node = Node::builder(7).functions(&functions).workers(WORKERS).start().unwrap();
    // A function that is long twice, as any may be on a busy machine, goes to the pool.
    for _ in 0..2 {
        let reply =
            node.call(Call::new(named).ids([7])).unwrap().wait().unwrap().replies().unwrap().remove(0);
        assert_eq!(reply.data, "gpc-7");
        let call = || node.call(Call::new(meets.clone().unwrap()).ids([7])).unwrap();
        let together: Vec<_> = (0..WORKERS).map(|_| call()).collect();
        together.into_iter().for_each(|call| drop(call.wait().unwrap()));
    }
}
