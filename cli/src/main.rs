//! The `gpc` command; all of it is in [`gpc_cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    gpc_cli::main()
}
