//! Exchanges values between the processes of a PMIx job: `mpirun -n 4 exchange`.
//!
//! Every process puts its id, waits for all others, gets every id, and prints one line. An optional argument is the
//! time limit for each answer, in milliseconds.

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use gpc_pmix::{Space, SpaceError};

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]
fn main() -> ExitCode {
    let limit = env::args().nth(1).and_then(|limit| limit.parse().ok()).unwrap_or(30_000);
    match exchange(Duration::from_millis(limit)) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn exchange(limit: Duration) -> Result<String, SpaceError> {
    let Some(mut space) = gpc_pmix::space(limit)? else {
        return Ok("started by nobody who speaks PMIx".to_owned());
    };
    let (me, count) = (space.id(), space.count());
    space.put("exchange.id", &format!("id-{me}"), limit)?;
    space.fence(limit)?;
    let all: Vec<String> =
        (0..count).map(|of| space.get(of, "exchange.id", limit)).collect::<Result<_, _>>()?;
    // No process has put this key; the get returns at once.
    let missing = space.get(count - 1, "exchange.nothing", limit).unwrap_or_else(|error| error.why);
    let one_host = space.one_host().map_or("maybe".to_owned(), |one| one.to_string());
    space.finish(limit)?;
    Ok(format!("{me} of {count}: {}; one host: {one_host}; nothing: {missing}", all.join(" ")))
}
