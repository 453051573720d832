//! Worlds of one service with its store on a disk, and clients that retry. Time is virtual, and the seed decides
//! everything.
//!
//! The service crashes at any write of its store, is slow, or finds its disk full. Requests and answers are lost, and
//! proxies answer in place of the service. Leases run out meanwhile. The service thread's state, the file store, and
//! the client's decisions about retries are the real ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod clients;
mod disk;
mod world;

use world::{Trouble, World};

/// Runs a world, and names it if it fails. Returns how many writes its disk has seen.
fn run(seed: u64, trouble: Trouble) -> u64 {
    std::panic::catch_unwind(|| World::new(seed, trouble).run())
        .unwrap_or_else(|_| panic!("in world {seed} with {trouble:?}"))
}

/// Each write of the store, with everything that the disk has not synced kept or lost.
#[test]
fn a_crash_at_any_write_loses_nothing_that_was_acknowledged() {
    for seed in 0..4 {
        let writes = run(seed, Trouble::None);
        assert!(writes > 20, "world {seed} has {writes} writes");
        for write in 0..writes {
            run(seed, Trouble::Crash { write, keeps: write % 2 == 0 });
        }
    }
}

#[test]
fn a_disk_that_is_full_for_a_while_loses_nothing_that_was_acknowledged() {
    for seed in 0..4 {
        for write in (0..run(seed, Trouble::None)).step_by(5) {
            run(seed, Trouble::Full { write });
        }
    }
}

/// Many worlds, with several crashes each.
#[test]
fn clients_that_retry_get_true_answers_and_leave_nothing() {
    for seed in 100..160 {
        run(seed, Trouble::Storm);
    }
}
