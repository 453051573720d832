//! An idle node releases its memory: within seconds its allocated bytes are back to within a mebibyte of the level
//! before.
#![allow(clippy::disallowed_methods, reason = "that memory comes back within seconds is what is held here")]

use std::collections::VecDeque;
use std::thread::sleep;
use std::time::{Duration, Instant};

use chained_gpc::Placement;
use chained_gpc::{Call, CallHandle, FuncHandle, Functions, LinkKind, LocalNodes, Snapshot, Tree};
use gpc_test_support::memory::{Counting, OfProcess};

#[global_allocator]
static COUNTING: Counting<OfProcess> = Counting::new();

const MIB: usize = 1 << 20;

/// docs/performance.md promises a second without traffic; the rest is a margin for busy machines.
const GIVEN_BACK: Duration = Duration::from_secs(20);

/// Twice the time without traffic after which a node releases memory.
const RELEASED: Duration = Duration::from_secs(2);

/// Nodes of this process with one function, which replies with its data.
struct Set {
    nodes: LocalNodes,
    echo: FuncHandle,
}

impl Set {
    fn start(link: LinkKind) -> Set {
        let functions = Functions::new();
        let echo = functions.at(Placement::Inline).func("echo", |request, reply| {
            reply.data.extend_from_slice(request.data());
            Ok(())
        });
        let nodes = LocalNodes::start(4, link, &functions).expect("nodes start");
        Set { nodes, echo: echo.expect("a name of its own") }
    }

    fn call(&self, data: usize) -> Call {
        Call::new(self.echo).ids(0..4).tree(Tree::Chain).data(vec![7; data])
    }

    /// Makes `count` calls, with `in_flight` of them at a time.
    fn calls(&self, count: usize, in_flight: usize, call: impl Fn() -> Call) {
        let ended = |handle: CallHandle| drop(handle.wait().expect("it goes well"));
        let mut handles = VecDeque::new();
        for _ in 0..count {
            if handles.len() == in_flight {
                handles.pop_front().into_iter().for_each(ended);
            }
            handles.push_back(self.nodes.root().call(call()).expect("a good call"));
        }
        handles.into_iter().for_each(ended);
    }

    /// Allocated bytes when links are up, and each node has released the memory of earlier messages.
    fn at_rest(&self) -> usize {
        self.calls(10, 2, || self.call(100));
        let deadline = Instant::now() + GIVEN_BACK;
        // A question is traffic as well, so each comes after the time in which memory is released.
        loop {
            sleep(RELEASED);
            let held = OfProcess::held();
            let spare = |(_, snapshot): &(_, Snapshot)| snapshot.count("spare memory") > 0;
            let busy: Vec<_> = self.nodes.snapshots().into_iter().filter(spare).collect();
            if busy.is_empty() {
                return held;
            }
            assert!(Instant::now() < deadline, "nodes without traffic hold memory: {busy:?}");
        }
    }

    /// Checks that the memory of this traffic is released.
    fn gives_back(&self, before: usize, what: &str, traffic: impl FnOnce(&Set)) {
        OfProcess::start_peak(before);
        traffic(self);
        let most = OfProcess::peak();
        let deadline = Instant::now() + GIVEN_BACK;
        let left = || OfProcess::held().saturating_sub(before);
        while left() > MIB && Instant::now() < deadline {
            sleep(Duration::from_millis(50));
        }
        let left = left();
        assert!(left <= MIB, "{what}: {left} bytes are left of {}", most - before);
        assert!(most - before > 2 * MIB, "{what}: it held {} bytes", most - before);
    }
}

/// After calls with 15 KB each and a thousand in flight, nodes kept 59 MiB for good; 40,000 partial calls left 4 MiB.
#[test]
fn what_went_through_is_given_back() {
    for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
        let set = Set::start(link);
        let at_rest = set.at_rest();
        set.gives_back(at_rest, "many in flight", |set| set.calls(3000, 1000, || set.call(15 << 10)));
        set.gives_back(at_rest, "many small in flight", |set| set.calls(6000, 4000, || set.call(64)));
        set.gives_back(at_rest, "long data", |set| set.calls(3, 1, || set.call(8 * MIB)));
        set.gives_back(at_rest, "long data first", |set| {
            set.calls(3, 1, || set.call(8 * MIB).forward_first())
        });
        set.gives_back(at_rest, "partial calls", |set| set.calls(10_000, 1000, || set.call(100).partial()));
    }
}
