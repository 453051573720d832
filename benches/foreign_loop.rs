//! Benchmark of polled nodes in a foreign event loop: both ends block in `progress`, in a plain epoll loop, or in
//! tokio, in alternation.
//!
//! `cargo bench --bench foreign_loop [CALLS]` prints the median and the 99th percentile of CALLS calls of each kind
//! (20,000 by default). It also prints the difference of each loop's median from that of `progress`.
#![allow(missing_docs, clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use chained_gpc::{
    Call, CallError, CallHandle, FuncHandle, Functions, LinkKind, Outcome, PolledNode, Prepared, Wait,
};
use gpc_test_support::nodes;
use rustix::event::epoll;
use rustix::fd::{AsFd as _, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};

/// Calls of one kind before the next kind: disturbances from the machine then affect all kinds.
const TURN: usize = 200;

/// A call takes some microseconds; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Loop that drives the nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Progress,
    Epoll,
    Tokio,
}

const KINDS: [(Kind, &str); 3] =
    [(Kind::Progress, "progress"), (Kind::Epoll, "epoll"), (Kind::Tokio, "tokio")];

/// A node and its loop.
enum Loop {
    Progress(PolledNode),
    Epoll(PolledNode, OwnedFd),
    Tokio(Box<AsyncFd<PolledNode>>, Runtime),
}

impl Loop {
    fn new(kind: Kind, node: PolledNode) -> io::Result<Loop> {
        Ok(match kind {
            Kind::Progress => Loop::Progress(node),
            Kind::Epoll => {
                let outer = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                epoll::add(&outer, node.as_fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
                Loop::Epoll(node, outer)
            }
            Kind::Tokio => {
                let runtime = Builder::new_current_thread().enable_io().build()?;
                let entered = runtime.enter();
                // The node's descriptor stays the same.
                #[allow(deprecated, reason = "what takes its place is unsafe, and newer than most")]
                let node = Box::new(AsyncFd::with_interest(node, Interest::READABLE)?);
                drop(entered);
                Loop::Tokio(node, runtime)
            }
        })
    }

    fn node(&mut self) -> &mut PolledNode {
        match self {
            Loop::Progress(node) | Loop::Epoll(node, _) => node,
            Loop::Tokio(node, _) => node.get_mut(),
        }
    }

    /// Drives the node until `done` returns true.
    fn run(&mut self, mut done: impl FnMut() -> bool) -> io::Result<()> {
        match self {
            Loop::Progress(node) => {
                while !done() {
                    node.progress(LIMIT)?;
                }
            }
            Loop::Epoll(node, outer) => {
                let none =
                    epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
                let mut events = [none; 8];
                while !done() {
                    if node.prepare_wait()? == Prepared::MaySleep {
                        epoll::wait(&*outer, &mut events, None)?;
                    }
                    node.progress(Duration::ZERO)?;
                }
            }
            Loop::Tokio(node, runtime) => runtime.block_on(async {
                while !done() {
                    if node.get_mut().prepare_wait()? == Prepared::MaySleep {
                        node.readable_mut().await?.clear_ready();
                    }
                    node.get_mut().progress(Duration::ZERO)?;
                }
                io::Result::Ok(())
            })?,
        }
        Ok(())
    }

    fn call(&mut self, call: Call) -> Result<Outcome, CallError> {
        let mut handle: CallHandle = self.node().call(call)?;
        let mut ended = None;
        let driven = self.run(|| {
            ended = ended.take().or_else(|| handle.test());
            ended.is_some()
        });
        driven.expect("the poll works");
        ended.expect("it is driven until then")
    }
}

/// A root, and the node that it calls, which has a thread.
struct Pair {
    root: Loop,
    serving: Option<JoinHandle<()>>,
    nothing: FuncHandle,
    stop: FuncHandle,
    took: Vec<Duration>,
}

impl Pair {
    fn new(kind: Kind, link: LinkKind) -> Pair {
        let functions = Functions::new();
        let nothing = functions.func("nothing", |_, _| Ok(())).expect("a fresh name");
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let stop = functions.func("stop", move |_, _| {
            ends.store(true, Ordering::SeqCst);
            Ok(())
        });
        let [root, below] = nodes::polled_pair(link, &functions, |builder| builder.wait(Wait::Block));
        let serving = thread::spawn(move || {
            let mut below = Loop::new(kind, below).expect("a loop");
            below.run(|| over.load(Ordering::SeqCst)).expect("the poll works");
            // The last answer has been sent.
        });
        let root = Loop::new(kind, root).expect("a loop");
        Pair { root, serving: Some(serving), nothing, stop: stop.expect("a fresh name"), took: Vec::new() }
    }

    fn turn(&mut self, counts: bool) {
        for _ in 0..TURN {
            let call = Call::new(self.nothing).ids(0..2).limit(LIMIT);
            let begun = Instant::now();
            self.root.call(call).expect("it ends well");
            if counts {
                self.took.push(begun.elapsed());
            }
        }
    }

    fn end(mut self) -> Vec<Duration> {
        self.root.call(Call::new(self.stop).ids(1..2).watch().limit(LIMIT)).expect("it ends well");
        self.serving.take().into_iter().for_each(|thread| thread.join().expect("it ends"));
        self.took.sort_unstable();
        self.took
    }
}

fn main() {
    let calls = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(20_000usize);
    println!("microseconds a call     median      p99   beyond progress");
    for (link, name) in [(LinkKind::Tcp, "tcp"), (LinkKind::Unix, "unix"), (LinkKind::Shm, "shm")] {
        let mut pairs = KINDS.map(|(kind, _)| Pair::new(kind, link));
        pairs.iter_mut().for_each(|pair| pair.turn(false));
        for _ in 0..calls.div_ceil(TURN) {
            pairs.iter_mut().for_each(|pair| pair.turn(true));
        }
        let mut least = None;
        for ((_, kind), pair) in KINDS.into_iter().zip(pairs) {
            let took = pair.end();
            let us = |place: usize| took[place].as_nanos() as f64 / 1000.0;
            let median = us(took.len() / 2);
            let beyond = median - *least.get_or_insert(median);
            println!("{name:5} {kind:10} {median:13.1} {:8.1} {beyond:12.1}", us(took.len() * 99 / 100));
        }
    }
}
