//! `gpc rendezvous`: runs and uses services where tasks meet.
//!
//! Source: WS Rendezvous; the requests to a service are in `gpc_rendezvous::client`.

mod arguments;
mod ask;
mod private;
mod run;
mod serve;
mod show;
mod task;
mod token;

use gpc_rendezvous::FaultKind;
use gpc_rendezvous::client::ClientError;

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
        RendezvousCommand::Run(args) => run::run(args),
        RendezvousCommand::Task(args) => task::task(args),
    };
    done.map_err(|error| match error.downcast_ref().and_then(ClientError::fault) {
        Some(fault) if fault.kind == FaultKind::Unauthorized => {
            "the service wants another token, or one at all: --token-file FILE or --secret-file FILE names it, or GPC_RENDEZVOUS_TOKEN_FILE or GPC_SECRET_FILE in the environment".into()
        }
        _ => error,
    })
}
