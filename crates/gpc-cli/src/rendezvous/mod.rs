//! `gpc rendezvous`: runs and uses services where tasks meet.
//!
//! Source: WS Rendezvous; the requests to a service are in `gpc_rendezvous::client`.

pub(crate) mod arguments;
mod ask;
mod private;
mod serve;
mod show;
pub(crate) mod token;

use super::CommandResult;
use super::args::rendezvous::{RendezvousArgs, RendezvousCommand};

/// Runs the sub-command.
pub(super) fn run(args: &RendezvousArgs) -> CommandResult {
    let done = match &args.command {
        RendezvousCommand::Serve(args) => serve::run(args),
        RendezvousCommand::Create(args) => ask::create(args),
        RendezvousCommand::Register(args) => ask::register(args),
        RendezvousCommand::Wait(args) => ask::wait(args),
        RendezvousCommand::Show(args) => show::run(args),
        RendezvousCommand::Destroy(args) => ask::destroy(args),
        RendezvousCommand::Token(args) => token::run(args),
        #[cfg(feature = "bnr")]
        RendezvousCommand::Run(args) if !args.meets() => {
            Err(super::refused::Refused::from("name the service: --rendezvous URL").into())
        }
        #[cfg(feature = "bnr")]
        RendezvousCommand::Run(args) => super::run::run(args),
    };
    done.map_err(token::explained)
}
