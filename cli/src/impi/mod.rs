//! `gpc impi`: the collecting server of IMPI.
//!
//! Source: IMPI, "Startup"; the server is in `gpc_impi::serve`.

pub(crate) mod field;
mod methods;
mod server;
mod trace;

use super::CommandResult;
use super::args::impi::{ImpiArgs, ImpiCommand};

/// Runs the sub-command.
pub(super) fn run(args: &ImpiArgs) -> CommandResult {
    match &args.command {
        ImpiCommand::Server(args) => server::run(args),
    }
}
