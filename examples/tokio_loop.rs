//! Nodes in tokio: a task of one runtime drives each node, and another task gives a function's reply.
//!
//! `cargo run --example tokio_loop`
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::io;

use chained_gpc::{Call, Functions, LinkKind, Listener, Node, Peers, PolledNode, Prepared, Reply};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::{spawn, yield_now};

const NODES: u32 = 4;

/// Work of a node before other tasks run.
const BUDGET: usize = 64;

/// Drives a node until the task is aborted.
async fn drive(node: PolledNode) -> io::Result<()> {
    // The node's descriptor stays the same.
    #[allow(deprecated, reason = "what takes its place is unsafe, and newer than most")]
    let mut node = AsyncFd::with_interest(node, Interest::READABLE)?;
    loop {
        match node.get_mut().prepare_wait()? {
            Prepared::Ready => yield_now().await,
            // Events from here on make the descriptor ready again.
            Prepared::MaySleep => node.readable_mut().await?.clear_ready(),
        }
        node.get_mut().progress_at_most(BUDGET)?;
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    if let Err(error) = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(run())) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let functions = Functions::new();
    // The function returns at once; the task gives the reply later.
    let greet = functions.deferring("greet", |request, token| {
        let me = request.me();
        spawn(async move {
            yield_now().await;
            token.reply(Reply { data: format!("a task of id {me}").into_bytes(), ..Reply::default() });
        });
    })?;

    let link = LinkKind::Unix;
    let listeners: Vec<Listener> =
        (0..NODES).map(|id| Listener::bind(&link.fresh_address(id))).collect::<Result<_, _>>()?;
    let addresses: Vec<_> = listeners.iter().map(Listener::address).collect::<Result<_, _>>()?;
    let peers: Peers = (0..).zip(addresses).collect();
    let mut handle = None;
    let mut driving = Vec::new();
    for (id, listener) in (0..).zip(listeners) {
        let builder = Node::builder(id).functions(&functions).peers(peers.clone());
        let node = builder.listener(listener).link(link).polled()?;
        if id == 0 {
            // The handle is a future that any task can await.
            handle = Some(node.call(Call::new(greet).ids(0..NODES))?);
        }
        driving.push(spawn(drive(node)));
    }

    let Some(handle) = handle else { return Ok(()) };
    for reply in handle.await?.replies()? {
        println!("{}: {}", reply.id, String::from_utf8_lossy(&reply.data));
    }
    driving.iter().for_each(|task| task.abort());
    Ok(())
}
