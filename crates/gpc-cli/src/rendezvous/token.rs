//! The token of a service: its sources, and `gpc rendezvous token`.

use std::path::Path;
use std::process::ExitCode;

use chained_gpc::Secret;
use chained_gpc::bootstrap::{SECRET_VARIABLE, named_or_variable, read_secret, read_token};
use gpc_rendezvous::FaultKind;
use gpc_rendezvous::client::ClientError;
use gpc_rendezvous::token::ServiceToken;
use gpc_rendezvous::variables::Variables;

use crate::args::rendezvous::{AccessArgs, TokenArgs};
use crate::refused::Refused;
use crate::{CommandResult, Failure, stdout};

/// Runs the sub-command.
pub(super) fn run(args: &TokenArgs) -> CommandResult {
    let Some(token) = of_secret(args.secret_file.as_deref())? else {
        let text = format!(
            "name the file of the job's secret: --secret-file FILE, or {SECRET_VARIABLE} in the environment"
        );
        return Err(Refused::Usage(text).into());
    };
    stdout::write(|out| writeln!(out, "{}", token.to_text().as_str()))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the token for requests to services, if there is one.
pub(crate) fn of(access: &AccessArgs, variables: &Variables) -> Result<Option<ServiceToken>, Failure> {
    if let Some(file) = &access.token_file {
        return read(file).map(Some);
    }
    if access.secret_file.is_some() {
        return of_secret(access.secret_file.as_deref());
    }
    match &variables.token_file {
        Some(file) => read(file).map(Some),
        None => of_secret(None),
    }
}

/// Returns an error that names the options for a token, if a service has refused a request without the right one.
pub(crate) fn explained(error: Failure) -> Failure {
    match error.downcast_ref().and_then(ClientError::fault) {
        Some(fault) if fault.kind == FaultKind::Unauthorized => {
            "the service wants another token, or one at all: --token-file FILE or --secret-file FILE names it, or GPC_RENDEZVOUS_TOKEN_FILE or GPC_SECRET_FILE in the environment".into()
        }
        _ => error,
    }
}

/// Returns the token derived from the secret in this file, or in the one that the environment names.
pub(super) fn of_secret(file: Option<&Path>) -> Result<Option<ServiceToken>, Failure> {
    let Some(file) = named_or_variable(file, SECRET_VARIABLE) else { return Ok(None) };
    Ok(Some(ServiceToken::of(&read_secret(&file)?)))
}

/// Reads the file of a token. Only its owner may read it: the token is a secret of 32 bytes, like that of a job.
pub(super) fn read(file: &Path) -> Result<ServiceToken, Failure> {
    let text = read_token(file)?.to_text();
    text.parse().map_err(|error| format!("{}: {error}", file.display()).into())
}

/// Returns the token in the form that is written to files.
pub(super) fn as_secret(token: &ServiceToken) -> Result<Secret, Failure> {
    Ok(token.to_text().parse()?)
}
