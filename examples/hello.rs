//! A first call: one function, eight nodes, one call, a reply from each node.
//!
//! `cargo run --example hello`
#![allow(clippy::print_stdout, clippy::print_stderr)]

use chained_gpc::{Call, Functions, LinkKind, LocalNodes};

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let functions = Functions::new();
    let hello = functions.func("hello", |request, reply| {
        let greeting = String::from_utf8_lossy(request.header());
        reply.data = format!("{greeting}, says id {}", request.me()).into_bytes();
        Ok(())
    })?;

    let nodes = LocalNodes::start(8, LinkKind::Unix, &functions)?;
    let outcome = nodes.root().call(Call::new(hello).ids(0..8).header("good day"))?.wait()?;

    for reply in outcome.replies()? {
        println!("{}: {}", reply.id, String::from_utf8_lossy(&reply.data));
    }
    Ok(())
}
