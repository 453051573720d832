//! Shows what happens to calls when a link fails silently. `silent serve ADDRESS` is the other end. `silent call
//! ADDRESS [DEAD_AFTER_MS]` makes a call for each line of its input, over a TCP link that is idle in between. Without
//! arguments one process is both.
//!
//! Prints a line for each call: "done" or "failed", the milliseconds that it took, and the cause. Also prints a line
//! for each link that comes up or is lost, with the milliseconds since the start.

#![allow(clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::error::Error;
use std::io::BufRead as _;
use std::time::{Duration, Instant};

use chained_gpc::runtime::{Address, Listener, NoEvent, PeerEventKind, Peers};
use chained_gpc::{Call, FuncHandle, Functions, Heartbeat, LinkKind, Node, Placement};

/// The default of nodes.
const DEAD_AFTER_MS: u64 = 10_000;

fn functions() -> Result<(Functions, FuncHandle), Box<dyn Error>> {
    let functions = Functions::new();
    let nothing = functions.at(Placement::Inline).func("nothing", |_, _| Ok(()))?;
    Ok((functions, nothing))
}

fn serve(address: &Address) -> Result<Node, Box<dyn Error>> {
    let (functions, _) = functions()?;
    let listener = Listener::bind(address)?;
    Ok(Node::builder(1).functions(&functions).link(LinkKind::Tcp).listener(listener).insecure().start()?)
}

fn call(address: &Address, dead_after_ms: u64) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let (functions, nothing) = functions()?;
    let peers: Peers = [(1, address.clone())].into_iter().collect();
    let heartbeat = Heartbeat::dead_after(Duration::from_millis(dead_after_ms));
    let node = Node::builder(0)
        .functions(&functions)
        .link(LinkKind::Tcp)
        .peers(peers)
        .heartbeat(Some(heartbeat))
        .insecure()
        .start()?;
    let events = node.events()?;
    let told = std::thread::spawn(move || {
        loop {
            match events.recv_within(Duration::from_secs(3600)) {
                Ok(event) => {
                    let at = begun.elapsed().as_millis();
                    match event.kind {
                        PeerEventKind::Lost { loss, reason } => println!("lost at {at}: {loss:?}, {reason}"),
                        _ => println!("up at {at}"),
                    }
                }
                Err(NoEvent::Ended) => return,
                Err(_) => {}
            }
        }
    });
    for line in std::io::stdin().lock().lines() {
        line?;
        let begun = Instant::now();
        let end = node.call(Call::new(nothing).ids(0..2))?.wait();
        let took = begun.elapsed().as_millis();
        match end {
            Ok(_) => println!("done after {took}"),
            Err(error) => println!("failed after {took}: {error}"),
        }
    }
    node.shutdown(Duration::from_secs(1));
    told.join().map_err(|_| "the listener panicked")?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => {
            let other = serve(&"127.0.0.1:0".parse()?)?;
            call(other.address().ok_or("it listens")?, DEAD_AFTER_MS)
        }
        ["serve", address] => {
            let _node = serve(&address.parse()?)?;
            loop {
                std::thread::park();
            }
        }
        ["call", address] => call(&address.parse()?, DEAD_AFTER_MS),
        ["call", address, dead_after_ms] => call(&address.parse()?, dead_after_ms.parse()?),
        _ => Err("usage: silent [serve ADDRESS | call ADDRESS [DEAD_AFTER_MS]]".into()),
    }
}
