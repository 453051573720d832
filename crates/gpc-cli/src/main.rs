//! The `gpc` program; its code is in [`gpc_cli`].

use std::process::ExitCode;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: gpc_cli::allocator::Allocator = gpc_cli::allocator::Allocator;

fn main() -> ExitCode {
    gpc_cli::main()
}
