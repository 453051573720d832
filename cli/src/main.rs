//! The `gpc` command; all of it is in [`gpc_cli`].

use std::process::ExitCode;

/// What worlds make and drop takes a quarter of their time otherwise; nodes take more memory with it.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    gpc_cli::main()
}
