//! A member of a job on several machines: `members ID`, in a folder with `peers.txt` and `job.secret`.
//!
//! Each process has the same program, peers file and secret. Handles of functions follow from their names, so they are
//! equal in all processes. The process of id 0 calls all others.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Duration;

use chained_gpc::bootstrap::read_secret;
use chained_gpc::{Call, Functions, Listener, Node, Peers};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let me = std::env::args().nth(1).ok_or("no id")?.parse()?;
    let peers: Peers = std::fs::read_to_string("peers.txt")?.parse()?;
    let functions = Functions::new();
    let pid = functions.func("pid", |_, reply| {
        reply.data = std::process::id().to_string().into_bytes();
        Ok(())
    })?;
    let listener = Listener::bind(&peers.address(me).ok_or("no peer")?)?;
    let node = Node::builder(me).functions(&functions).peers(peers.clone()).listener(listener);
    let node = node.secret(read_secret(Path::new("job.secret"))?).start()?;
    if me == 0 {
        let all: Vec<_> = peers.ids().collect();
        // The processes start in any order.
        node.wait_for_peers(&all, Duration::from_secs(30))?;
        let outcome = node.call(Call::new(pid).ids(&all))?.wait()?;
        println!("{} processes answered", outcome.replies()?.len());
    }
    std::io::stdin().read_line(&mut String::new())?; // until Enter
    Ok(())
}
