//! A helper process for tests: a PMIx server whose node is at standard input. The argument is the name of the host.

use std::env;
use std::io;
use std::os::fd::AsFd as _;

fn main() -> io::Result<()> {
    let host = env::args().nth(1).unwrap_or_else(|| "localhost".to_owned());
    gpc_pmix::server::run(io::stdin().as_fd().try_clone_to_owned()?, &host)
}
