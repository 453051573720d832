//! A client, and the resources that a sub-command works on, from the arguments or from the environment.

use gpc_rendezvous::client::{Client, ClientOptions};
use gpc_rendezvous::variables::{self, Variables};
use gpc_rendezvous::{Handle, Spec};

use super::token;
use crate::Failure;
use crate::args::above::AboveArgs;
use crate::args::rendezvous::{AccessArgs, HandleArgs};
use crate::refused::Refused;

/// Returns a client with the token and the authority from the arguments, or from the environment.
pub(crate) fn client(access: &AccessArgs, variables: &Variables) -> Result<Client, Failure> {
    let mut options = ClientOptions::default();
    options.token = token::of(access, variables)?;
    options.ca = access.ca.clone().or_else(|| variables.ca_file.clone());
    options.limit = access.try_for.map_or(options.limit, |limit| limit.duration());
    Ok(Client::new(&options)?)
}

/// Returns the resource from the arguments, or from the environment.
pub(super) fn handle(args: &HandleArgs, variables: &Variables) -> Result<Handle, Refused> {
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
pub(crate) fn above(spec: Spec, above: &AboveArgs) -> Spec {
    let parent = above.parent.clone().zip(above.rank);
    let parent = parent.map(|(handle, rank)| gpc_rendezvous::Parent { handle, rank: rank.0 });
    Spec { parent, ..spec }
}
