//! Processes of one program: the first starts the others as nodes, calls a function on all of them, and ends them.
//!
//! `cargo run --example processes`
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::time::Duration;

use chained_gpc::{Call, Functions};
use gpc_launch::{Launch, Launched, Plan, own_id};

/// Arguments of a started process, before its id.
const STARTED: [&str; 1] = ["--started-as"];

/// Number of processes, including the first.
const PROCESSES: u32 = 8;

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let functions = Functions::new();
    let pid = functions.func("pid", |_, reply| {
        reply.data = std::process::id().to_string().into_bytes();
        Ok(())
    })?;
    if let Some(id) = own_id(std::env::args_os(), &STARTED) {
        // Serve until the first process ends this one, or dies.
        return Ok(Launched::take(id)?.serve(&functions)?);
    }
    let launch = Launch::start(&Plan::new(1..PROCESSES, std::env::current_exe()?, &STARTED))?;
    let node = launch.node(0).functions(&functions).start()?;
    let outcome = node.call(Call::new(pid).ids(0..PROCESSES))?.wait()?;
    for reply in outcome.replies()? {
        println!("id {} is process {}", reply.id, String::from_utf8_lossy(&reply.data));
    }
    let ended = launch.end(Duration::from_secs(5));
    match ended.killed.is_empty() && ended.failed.is_empty() {
        true => Ok(()),
        false => Err(format!("did not end in order: {ended:?}").into()),
    }
}
