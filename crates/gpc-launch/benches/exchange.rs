//! Benchmark of the bootstrap exchange: time from the entries of all processes until the last one knows all others.
//! `cargo bench --bench exchange [-- COUNT...]`.
//!
//! The processes are threads of one process over a space without a server, so that the exchange and the nodes are
//! measured, not a launcher. It does not use criterion: one run takes seconds of all cores.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures, and prints"
)]

#[path = "../../../tests/integration/bootstrap/fake.rs"]
mod fake;

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use chained_gpc::bootstrap::{Bootstrap, Member};
use chained_gpc::{Call, Functions, LinkKind, Wait};
use gpc_launch::provide_files;

/// Open files of a node and its links, in units of the two that a launched process needs.
const FILES: usize = 4;

fn main() {
    let counts: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    // `cargo bench` passes `--bench`; `cargo test` only checks that the program runs.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let counts = match counts.is_empty() {
        true if measured => vec![64, 256, 1024],
        true => vec![16],
        false => counts,
    };
    for count in counts {
        provide_files(count as usize * FILES).unwrap();
        let (table, members) = (fake::Table::new(), Arc::new(Barrier::new(count as usize)));
        let done = Arc::new(Barrier::new(count as usize));
        let start = |id| {
            let (space, members, done) = (table.space(id, count), members.clone(), done.clone());
            let each = move || {
                members.wait();
                let begun = Instant::now();
                let functions = Functions::new();
                let hello = functions.func("hello", |_, _| Ok(())).unwrap();
                let bootstrap = Bootstrap::with_space(Box::new(space)).unwrap().link(LinkKind::Unix);
                let member: Member =
                    bootstrap.start(&functions, |builder| builder.wait(Wait::Block)).unwrap();
                let known = begun.elapsed();
                done.wait();
                if id == 0 {
                    let call = Call::new(hello).ids(0..count);
                    assert!(member.call(call).unwrap().wait().unwrap().is_complete());
                }
                done.wait();
                member.finish(Duration::ZERO).unwrap();
                known
            };
            thread::Builder::new().stack_size(256 << 10).spawn(each).unwrap()
        };
        let threads: Vec<_> = (0..count).map(start).collect();
        let slowest = threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap();
        assert_eq!(table.finished().len(), count as usize);
        println!(
            "{count} processes know each other after {slowest:.3?}, with {} values in the space",
            table.len()
        );
    }
}
