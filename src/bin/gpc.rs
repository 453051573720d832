//! The `gpc` command; all of it is in [`chained_gpc::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    chained_gpc::cli::main()
}
