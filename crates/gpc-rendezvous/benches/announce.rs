//! Measures the time for an announcement to reach many tasks, beside a plain call with the same data:
//! `cargo bench -p gpc-rendezvous --bench announce [-- COUNT...]`.
//!
//! All tasks are nodes of one process, each with a thread that waits. Criterion is not used, because one run occupies
//! all cores. The program prints medians of three times:
//!
//! - a call whose function does nothing;
//! - the announcement, until the controlling task knows that all have it;
//! - the same, until the last thread has resumed, which depends on the cores more than on the wire.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures, and prints"
)]

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chained_gpc::{Call, Functions, IdList, LinkKind, LocalNodes, Wait};
use gpc_launch::provide_files;
use gpc_rendezvous::Completion;
use gpc_rendezvous::meeting::{Plan, Tasks};

/// Files that a node has open, its links included, in units of `gpc_launch::provide_files`: a unit is what a process of
/// a launch needs, two files.
const FILES: usize = 4;

/// Lengths of a task's data, bytes: none, a contact, and long data.
const LENGTHS: [usize; 3] = [0, 64, 1024];

/// Rounds of each measurement. The first one opens the links and is not counted.
const ROUNDS: usize = 12;

/// Longer than any step takes.
const LIMIT: Duration = Duration::from_secs(60);

fn main() {
    let counts: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    // `cargo bench` passes this argument. Under `cargo test` the program is only checked to run.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let counts = match counts.is_empty() {
        true if measured => vec![64, 256, 1024],
        true => vec![8],
        false => counts,
    };
    for count in counts {
        provide_files(count as usize * FILES).unwrap();
        measure(count);
    }
}

fn measure(count: u32) {
    let functions: Vec<Functions> = (0..count).map(|_| Functions::new()).collect();
    let register = |functions: &Functions| {
        functions.at(chained_gpc::Placement::Inline).func("nothing", |_, _| Ok(())).unwrap();
        Tasks::register(functions, 0).unwrap()
    };
    let tasks: Vec<Tasks> = functions.iter().map(register).collect();
    let nodes = LocalNodes::start_with(count, LinkKind::Unix, &Functions::new(), |id, builder| {
        builder.functions(&functions[id as usize]).wait(Wait::Block)
    });
    let (nodes, ids) = (nodes.unwrap(), IdList::range(0..count));
    let (begin, end) = (Arc::new(Barrier::new(count as usize)), Arc::new(Barrier::new(count as usize)));
    thread::scope(|scope| {
        for id in 1..count {
            let (node, tasks, ids) = (nodes.node(id), &tasks[id as usize], ids.clone());
            let (begin, end) = (begin.clone(), end.clone());
            let waits = move || {
                for _ in 0..LENGTHS.len() * ROUNDS {
                    begin.wait();
                    tasks.meet(node, Plan::new(ids.clone(), "", LIMIT)).unwrap();
                    end.wait();
                }
            };
            thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, waits).unwrap();
        }
        for length in LENGTHS {
            let data = Bytes::from(vec![7; length * count as usize]);
            let rounds = (0..ROUNDS).map(|_| round(&nodes, &tasks[0], &ids, &data, &begin, &end));
            let rounds: Vec<[Duration; 3]> = rounds.skip(1).collect();
            let [call, announced, told] = [0, 1, 2].map(|which| median(&rounds, which));
            println!(
                "{count} tasks, {length} bytes of each: a call {call:.2?}, announced {announced:.2?}, all go on after {told:.2?}"
            );
        }
    });
}

/// A plain call, then an announcement to all waiting tasks.
fn round(
    nodes: &LocalNodes,
    tasks: &Tasks,
    ids: &IdList,
    data: &Bytes,
    begin: &Barrier,
    end: &Barrier,
) -> [Duration; 3] {
    let node = nodes.root();
    let nothing = node.functions().named("nothing").unwrap();
    let call = Call::new(nothing).ids(ids.clone()).data(data.clone()).limit(LIMIT);
    let call = if data.len() >= 64 << 10 { call.forward_first() } else { call };
    let begun = Instant::now();
    assert!(node.call(call).unwrap().wait().unwrap().is_complete());
    let plain = begun.elapsed();
    let ended = Ok(Completion { level: 1, data: data.clone(), joint: None });
    begin.wait();
    let begun = Instant::now();
    tasks.announce(node, ids, &ended, LIMIT).unwrap();
    let announced = begun.elapsed();
    end.wait();
    [plain, announced, begun.elapsed()]
}

fn median(rounds: &[[Duration; 3]], which: usize) -> Duration {
    let mut times: Vec<Duration> = rounds.iter().map(|round| round[which]).collect();
    times.sort();
    times[times.len() / 2]
}
