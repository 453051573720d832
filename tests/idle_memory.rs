//! An idle node releases its memory: within seconds its allocated bytes are back to within a mebibyte of the level
//! before.
#![allow(clippy::disallowed_methods, reason = "that memory comes back within seconds is what is held here")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use chained_gpc::Placement;
use chained_gpc::{Call, CallHandle, FuncHandle, Functions, LinkKind, LocalNodes, Tree};

/// The system's allocator, with the current and the peak number of bytes of all threads.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn taken(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        taken(size);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const MIB: usize = 1 << 20;

/// docs/performance.md promises a second without traffic; the rest is a margin for busy machines.
const GIVEN_BACK: Duration = Duration::from_secs(20);

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

    /// Allocated bytes when links are up and no message has arrived for a while.
    fn at_rest(&self) -> usize {
        self.calls(10, 2, || self.call(100));
        sleep(Duration::from_secs(2));
        HELD.load(Ordering::Relaxed)
    }

    /// Checks that the memory of this traffic is released.
    fn gives_back(&self, before: usize, what: &str, traffic: impl FnOnce(&Set)) {
        MOST.store(before, Ordering::Relaxed);
        traffic(self);
        let most = MOST.load(Ordering::Relaxed);
        let deadline = Instant::now() + GIVEN_BACK;
        let left = || HELD.load(Ordering::Relaxed).saturating_sub(before);
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
