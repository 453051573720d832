//! A program that any launcher can start as many processes: `mpiexec -n 8 target/debug/examples/under_a_launcher`.
//!
//! Each process finds its id and exchanges addresses with the others. Id 0 makes a call over all of them, and the
//! others serve until it leaves. Without a launcher, the program reports that and makes the call alone.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Duration;

use chained_gpc::{Call, Functions, LinkKind, LocalNodes, bootstrap};

fn main() -> Result<(), Box<dyn Error>> {
    let functions = Functions::new();
    let pid = functions.func("pid", |_, reply| {
        reply.data = std::process::id().to_string().into_bytes();
        Ok(())
    })?;
    // A launcher's variables without its server are an error here: otherwise the other processes would wait for this
    // one.
    let Some(bootstrap) = bootstrap::from_env()? else {
        println!("no launcher has started this process: it is alone");
        let nodes = LocalNodes::start(1, LinkKind::default(), &functions)?;
        let outcome = nodes.root().call(Call::new(pid).ids(0..1))?.wait()?;
        println!("{} process answered", outcome.replies()?.len());
        return Ok(());
    };
    // The builder can configure the node further, such as its workers.
    let mut member = bootstrap.start(&functions, |builder| builder)?;
    if member.id() > 0 {
        member.serve_until_left()?;
        return Ok(member.finish(Duration::ZERO)?);
    }
    println!("{} processes of {}, on {} hosts", member.count(), member.launcher(), member.hosts().len());
    let outcome = member.call(Call::new(pid).ids(0..member.count()))?.wait()?;
    for reply in outcome.replies()? {
        println!("id {} is process {}", reply.id, String::from_utf8_lossy(&reply.data));
    }
    Ok(member.finish(Duration::from_secs(5))?)
}
