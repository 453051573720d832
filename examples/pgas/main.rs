//! A small PGAS layer on chained GPC: a global array in blocks at the nodes, with put, get, accumulate and a global
//! histogram.
//!
//! Every node adds to elements of the whole array at the same time; then the totals are checked.
//!
//! `cargo run --example pgas`
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod array;

use std::thread;

use array::{GlobalArray, PgasError};
use chained_gpc::{Functions, LinkKind, LocalNodes};

const NODES: u32 = 8;
const LEN: u64 = 1 << 12;
const ROUNDS: u64 = 50;

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), PgasError> {
    // Each node has functions of its own, which hold its block of the array.
    let functions: Vec<Functions> = (0..NODES).map(|_| Functions::new()).collect();
    let handles = (0..NODES).zip(&functions).map(|(id, own)| array::register(own, id, NODES, LEN));
    let handles = handles.collect::<Result<Vec<_>, _>>()?;
    let nodes = LocalNodes::start_with(NODES, LinkKind::Unix, &Functions::new(), |id, builder| {
        builder.functions(&functions[id as usize])
    })?;
    let arrays: Vec<GlobalArray<'_>> = handles
        .iter()
        .zip(0..NODES)
        .map(|(handles, id)| GlobalArray::new(nodes.node(id), *handles, NODES, LEN))
        .collect();

    arrays[3].put(LEN / 2 - 4, &[1, 2, 3, 4, 5, 6, 7, 8])?;
    let across = arrays[5].get(LEN / 2 - 4, 8)?;
    println!("put at node 3, across two blocks; got at node 5: {across:?}");
    assert_eq!(across, [1, 2, 3, 4, 5, 6, 7, 8]);

    let added = thread::scope(|scope| {
        let threads: Vec<_> =
            arrays.iter().zip(0..).map(|(array, id)| scope.spawn(move || add_up(array, id))).collect();
        let join =
            |thread: thread::ScopedJoinHandle<'_, _>| thread.join().map_err(|_| "a thread panicked")?;
        threads.into_iter().map(join).sum::<Result<u64, PgasError>>()
    })?;

    let total: u64 = arrays[0].get(0, LEN)?.iter().sum();
    println!("{NODES} nodes added {added} in all; the array holds {total} (36 were put)");
    assert_eq!(total, added + 36);

    let histogram = arrays[1].histogram(50, 8)?;
    println!("elements by value, in steps of 50: {histogram:?}");
    assert_eq!(histogram.iter().sum::<u64>(), LEN);
    println!("totals are right");
    Ok(())
}

/// Adds to runs of elements across the array; returns the total.
fn add_up(array: &GlobalArray<'_>, id: u64) -> Result<u64, PgasError> {
    let mut added = 0;
    for round in 0..ROUNDS {
        let start = (id * 7919 + round * 104_729) % (LEN - 16);
        let values: Vec<u64> = (0..16).map(|place| id + round + place).collect();
        added += values.iter().sum::<u64>();
        array.accumulate(start, &values)?;
    }
    Ok(added)
}
