//! `gpc impi`: the collecting server of IMPI, and its client.
//!
//! Source: IMPI, "Startup"; the server is in `gpc_impi::serve`, the client in `gpc_impi::session`.

mod client;
mod command;
pub(crate) mod field;
mod learned;
mod line_writer;
mod methods;
mod server;
mod shown;
mod trace;

use super::CommandResult;
use super::args::impi::{ImpiArgs, ImpiCommand};

/// Runs the sub-command.
pub(super) fn run(args: &ImpiArgs) -> CommandResult {
    match &args.command {
        ImpiCommand::Server(args) => server::run(args),
        ImpiCommand::Client(args) => client::run(args),
    }
}
