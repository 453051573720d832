//! The allocator that counts all threads, in a program that uses it.

use std::hint::black_box;

use gpc_test_support::memory::{Counting, OfProcess};

#[global_allocator]
static COUNTING: Counting<OfProcess> = Counting::new();

const MIB: usize = 1 << 20;

#[test]
fn all_threads_count() {
    let before = OfProcess::held();
    OfProcess::start_peak(before);
    let list = std::thread::spawn(|| black_box(vec![0_u8; MIB])).join().expect("it ends");
    assert!(OfProcess::held() >= before + MIB && OfProcess::peak() >= before + MIB);
    drop(list);
    assert!(OfProcess::held() < before + MIB / 2 && OfProcess::peak() >= before + MIB);
}
