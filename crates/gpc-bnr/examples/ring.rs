//! Processes that form a ring: each publishes its address and connects to the next one, and a token goes round.
//!
//! ```sh
//! cargo build --package gpc-bnr --example ring
//! gpc run -n 4 target/debug/examples/ring
//! ```
//!
//! A communication library starts in the same way; it would publish the address of a network card.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use gpc_bnr::client::Process;

/// Time limit for each wait.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let process = Process::init()?;
    let (rank, size, database) = (process.rank(), process.size(), process.database());

    // All nodes of this example are on one machine; otherwise this would be the address of the host.
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    process.put(
        database,
        format!("at-{rank}"),
        listener.local_addr()?.to_string(),
        Some((rank + 1) % size),
    )?;
    process.commit(database)?;
    process.fence(&process.everybody(), Some(LIMIT))?;
    let next = process.get(database, format!("at-{}", (rank + 1) % size))?;

    // After the fence, all processes listen.
    let mut out = TcpStream::connect(String::from_utf8(next)?)?;
    let (mut from, _) = listener.accept()?;
    from.set_read_timeout(Some(LIMIT))?;
    let mut token = [0; 4];
    if rank != 0 {
        from.read_exact(&mut token)?;
    }
    let count = u32::from_le_bytes(token) + 1;
    out.write_all(&count.to_le_bytes())?;
    if rank == 0 {
        from.read_exact(&mut token)?;
        println!("the token came back: {} processes", u32::from_le_bytes(token));
    }
    println!("rank {rank} of {size} had it as number {count}");

    process.finalize()?;
    Ok(())
}
