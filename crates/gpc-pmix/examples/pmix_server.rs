//! A helper process for tests: a PMIx server whose node is at standard input. The arguments are the name of the host,
//! and a libpmix.

use std::env;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

fn main() -> io::Result<()> {
    let host = env::args().nth(1).unwrap_or_else(|| "localhost".to_owned());
    let own = env::args_os().nth(2);
    gpc_pmix::server::run(io::stdin().as_fd().try_clone_to_owned()?, &host, own.as_ref().map(Path::new))
}
