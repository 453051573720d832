//! The allocator that counts one thread, in a program that uses it.

use std::hint::black_box;

use gpc_test_support::memory::{Cost, Counting, OfThread};

#[global_allocator]
static COUNTING: Counting<OfThread> = Counting::new();

#[test]
fn allocations_and_bytes_are_counted() {
    let (list, cost) = OfThread::cost(|| {
        let mut list: Vec<u8> = black_box(Vec::with_capacity(1000));
        list.reserve_exact(3000);
        drop(black_box(vec![0_u8; 500]));
        list
    });
    let expected = Cost { peak: 3500, peak_moving: 4000, kept: 3000, taken: 4500, allocations: 3 };
    assert_eq!(cost, expected);
    // Freed memory of before does not count below zero.
    let ((), cost) = OfThread::cost(|| drop(list));
    assert_eq!(cost, Cost { peak: 0, peak_moving: 0, kept: 0, taken: 0, allocations: 0 });
}

#[test]
fn other_threads_do_not_count() {
    let work = || drop(black_box(vec![0_u8; 1 << 20]));
    let ((), cost) = OfThread::cost(|| std::thread::spawn(work).join().expect("it ends"));
    assert!(cost.peak < 1 << 20 && cost.allocations < 100, "{cost:?}");
}
