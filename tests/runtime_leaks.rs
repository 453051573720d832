//! What nodes leave behind in their process when they have ended: no descriptors, no threads. Alone in its process, since it counts.
#![cfg(target_os = "linux")]

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use chained_gpc::runtime::{Listener, Peers};
use chained_gpc::{Call, Functions, LinkKind, LocalNodes, Node};

const LIMIT: Duration = Duration::from_secs(30);

fn count(folder: &str) -> usize {
    fs::read_dir(folder).expect("Linux has it").count()
}

/// Descriptors and threads of this process.
fn held() -> (usize, usize) {
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// Threads that were told to end may take a moment.
fn wait_until(done: impl Fn() -> bool, what: &str) {
    let until = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < until, "{what}: {:?}", held());
        thread::yield_now();
    }
}

fn run(link: LinkKind, workers: usize, end: impl FnOnce(LocalNodes)) {
    let functions = Functions::new();
    let echo = functions.func("echo", |request, reply| {
        reply.data = request.data().to_vec();
        Ok(())
    });
    let nodes = LocalNodes::start_with(12, link, &functions, |_, builder| builder.workers(workers)).unwrap();
    for root in 0..12 {
        let call = Call::new(echo.as_ref().copied().unwrap()).ids(0..12).data(vec![1; 100_000]);
        let mut handle = nodes.node(root).call(call).unwrap();
        assert!(handle.wait_for(LIMIT).expect("it ends").is_ok());
    }
    end(nodes);
}

/// A node that breaks off in the middle: no listener at the other end, a peer that is gone, a polled one that is dropped.
fn broken(functions: &Functions) {
    let func = functions.func("broken", |_, _| Ok(())).unwrap();
    let gone = Listener::bind(&LinkKind::Tcp.fresh_address(1)).unwrap();
    let silent = Listener::bind(&LinkKind::Tcp.fresh_address(2)).unwrap();
    let peers: Peers = [(1, gone.address().unwrap()), (2, silent.address().unwrap())].into_iter().collect();
    drop(gone);
    let node = Node::builder(0).functions(functions).peers(peers.clone()).start().unwrap();
    let mut refused = node.call(Call::new(func).ids(0..2)).unwrap();
    assert!(refused.wait_for(LIMIT).expect("it ends").is_err());
    let waiting = node.call(Call::new(func).ids(0..3)).unwrap();
    drop(node);
    assert!(waiting.wait().is_err());
    let mut polled = Node::builder(0).functions(functions).peers(peers).polled().unwrap();
    let _lost = polled.call(Call::new(func).ids(0..3)).unwrap();
    polled.progress(Duration::ZERO).unwrap();
}

#[test]
fn nothing_is_left_of_nodes_that_have_ended() {
    let before = held();
    for link in [LinkKind::Tcp, LinkKind::Unix] {
        run(link, 1, |nodes| nodes.shutdown(LIMIT));
        run(link, 1, drop);
        if cfg!(feature = "rayon") {
            run(link, 3, |nodes| nodes.shutdown(LIMIT));
        }
    }
    broken(&Functions::new());
    wait_until(|| held() == before, "descriptors and threads are left");
}
