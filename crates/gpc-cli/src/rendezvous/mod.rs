//! `gpc rendezvous`: runs and uses services where tasks meet.
//!
//! Source: WS Rendezvous; the requests to a service are in `gpc_rendezvous::client`.

mod ask;
mod private;
mod run;
mod serve;
mod show;
mod task;
mod token;

use gpc_rendezvous::client::{Client, ClientError, ClientOptions};
use gpc_rendezvous::variables::{self, Variables};
use gpc_rendezvous::{FaultKind, Handle, Spec};

use super::args::rendezvous::{AboveArgs, AccessArgs, HandleArgs, RendezvousArgs, RendezvousCommand};
use super::refused::Refused;
use super::{CommandResult, Failure};

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

/// Returns a client with the token and the authority from the arguments, or from the environment.
fn client(access: &AccessArgs, variables: &Variables) -> Result<Client, Failure> {
    let mut options = ClientOptions::default();
    options.token = token::of(access, variables)?;
    options.ca = access.ca.clone().or_else(|| variables.ca_file.clone());
    options.limit = access.try_for.duration();
    Ok(Client::new(&options)?)
}

/// Returns the resource from the arguments, or from the environment.
fn handle(args: &HandleArgs, variables: &Variables) -> Result<Handle, Refused> {
    let (found, names) = match (&args.handle, args.multijob) {
        (Some(handle), _) => return Ok(handle.clone()),
        (None, false) => (&variables.job, variables::JOB_HANDLE),
        (None, true) => (&variables.multijob, variables::MULTIJOB_HANDLE),
    };
    let [one, other] = names;
    found.clone().ok_or_else(|| {
        Refused::Usage(format!("name the handle of a resource, or set {one} or {other} in the environment"))
    })
}

/// Adds the resource above, with which this one is to register.
fn above(spec: Spec, above: &AboveArgs) -> Spec {
    let parent = above.parent.clone().zip(above.rank);
    let parent = parent.map(|(handle, rank)| gpc_rendezvous::Parent { handle, rank: rank.0 });
    Spec { parent, ..spec }
}
