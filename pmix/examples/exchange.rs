//! What each process of a PMIx job can get of the others: `mpirun -n 4 exchange`.
//!
//! Every process puts its id, waits for all, gets what each has put, and prints one line. With an argument it waits no longer than so many milliseconds for each answer.

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
    space.put("exchange.id", &format!("id-{me}"))?;
    space.fence(limit)?;
    let all: Vec<String> =
        (0..count).map(|of| space.get(of, "exchange.id", limit)).collect::<Result<_, _>>()?;
    // Nobody has put it, and nobody waits for it to come.
    let missing = space.get(count - 1, "exchange.nothing", limit).unwrap_or_else(|error| error.why);
    let one_host = space.one_host().map_or("maybe".to_owned(), |one| one.to_string());
    space.finish(limit)?;
    Ok(format!("{me} of {count}: {}; one host: {one_host}; nothing: {missing}", all.join(" ")))
}
