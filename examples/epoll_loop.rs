//! Nodes in the application's own epoll loop: one thread drives four nodes, one of which calls all.
//!
//! `cargo run --example epoll_loop`
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::time::Duration;

use chained_gpc::{Call, Functions, LinkKind, Listener, Node, Peers, PolledNode, Prepared};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};

/// Nodes of this process. In a real application each would be a process with its own loop.
const NODES: u32 = 4;

/// Work of a node before the loop turns to its other duties.
const BUDGET: usize = 64;

/// The application's loop. Each node is registered under its index.
struct Loop {
    epoll: OwnedFd,
    nodes: Vec<PolledNode>,
}

impl Loop {
    fn new(nodes: Vec<PolledNode>) -> Result<Loop, Box<dyn Error>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (number, node) in (0..).zip(&nodes) {
            epoll::add(&epoll, node.as_fd(), EventData::new_u64(number), EventFlags::IN)?;
        }
        Ok(Loop { epoll, nodes })
    }

    /// One round: waits for an event, unless a node has work to do; then drives the nodes.
    fn turn(&mut self) -> Result<(), Box<dyn Error>> {
        let mut ready = Vec::new();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if node.prepare_wait()? == Prepared::Ready {
                ready.push(number);
            }
        }
        if ready.is_empty() {
            let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 16];
            // No timeout: a node's timer makes its descriptor readable, too.
            let count = epoll::wait(&self.epoll, &mut events, None)?;
            ready.extend(events[..count].iter().map(|event| event.data.u64() as usize));
        }
        for number in ready {
            self.nodes[number].progress_at_most(BUDGET)?;
        }
        Ok(())
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let functions = Functions::new();
    let greet = functions.func("greet", |request, reply| {
        reply.data = format!("good day from id {}", request.me()).into_bytes();
        Ok(())
    })?;

    let link = LinkKind::Shm;
    let listeners: Vec<Listener> =
        (0..NODES).map(|id| Listener::bind(&link.fresh_address(id))).collect::<Result<_, _>>()?;
    let addresses: Vec<_> = listeners.iter().map(Listener::address).collect::<Result<_, _>>()?;
    let peers: Peers = (0..).zip(addresses).collect();
    let node = |(id, listener)| {
        Node::builder(id).functions(&functions).peers(peers.clone()).listener(listener).link(link).polled()
    };
    let mut all = Loop::new((0..).zip(listeners).map(node).collect::<Result<_, _>>()?)?;

    let mut handle = all.nodes[0].call(Call::new(greet).ids(0..NODES).limit(Duration::from_secs(10)))?;
    let outcome = loop {
        all.turn()?;
        if let Some(outcome) = handle.test() {
            break outcome?;
        }
    };
    for reply in outcome.replies()? {
        println!("{}: {}", reply.id, String::from_utf8_lossy(&reply.data));
    }

    // Announce work that delays the node for long, so that no peer declares it dead.
    let told = all.nodes[1].pause(Duration::from_secs(60))?;
    let sum: u64 = (0..1_000_000u64).sum();
    all.nodes[1].progress(Duration::ZERO)?;
    println!("node 1 has computed {sum} and told {told} peers before");
    Ok(())
}
