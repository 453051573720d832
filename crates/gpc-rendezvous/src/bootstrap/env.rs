//! Bootstrap from environment variables, with resources over HTTP.

use std::path::PathBuf;
use std::sync::Arc;

use chained_gpc::bootstrap::{self, Bootstrap};

use super::{Resources, with_resources};
use crate::client::{Client, ClientError, ClientOptions};
use crate::machine::{Handle, RankChoice};
use crate::meeting::{ClientResource, Resource};
use crate::token::{ServiceToken, ServiceTokenError};
use crate::variables::{Variables, VariablesError};

/// Why the environment variables are unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvError {
    /// A variable has an invalid value.
    #[error(transparent)]
    Variables(#[from] VariablesError),
    /// Variables of a rendezvous are set, but not the handle of this job.
    #[error(
        "the environment names the rendezvous above or a subjob's rank, but not the one of this job: set GPC_JOB_HANDLE (GLOBUS_GRAM_JOB_HANDLE), or remove the others"
    )]
    NoJob,
    /// The file of the token cannot be read.
    #[error("the token file {}: {why} (from GPC_RENDEZVOUS_TOKEN_FILE or --token-file)", file.display())]
    TokenFile {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// The HTTP client cannot be created.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Bootstrap for processes whose environment names a rendezvous, see [`variables`](crate::variables). Returns `None` if
/// the environment names none. Ranks within the job are assigned.
///
/// ```no_run
/// use chained_gpc::{Call, Functions};
///
/// let functions = Functions::new();
/// let hello = functions.func("hello", |_, _| Ok(()))?;
/// let Some(bootstrap) = gpc_rendezvous::bootstrap::from_env()? else { return Err("there is no handle".into()) };
/// let mut member = bootstrap.start(&functions, |builder| builder)?;
/// match member.id() {
///     0 => drop(member.call(Call::new(hello).ids(0..member.count()))?.wait()?),
///     _ => drop(member.serve_until_left()?),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if some of the variables are set and these are incomplete or invalid: such a process must not start
/// as a single one.
pub fn from_env() -> Result<Option<Bootstrap>, EnvError> {
    let variables = Variables::of_this_process()?;
    let Variables { job, multijob, rank, token_file, ca_file } = variables;
    let Some(job) = needed(job, multijob.is_some() || rank.is_some())? else { return Ok(None) };
    let options = client_options(token_file, ca_file)?;
    let subjob = rank.map_or(RankChoice::Assign, |rank| RankChoice::Rank(rank.into()));
    Ok(Some(with_handles(job, RankChoice::Assign, multijob, subjob, Client::new(&options)?)))
}

/// Options of a client with the token in this file and the certificates in this one. Files that are not named are those
/// that the environment names, see [`variables`](crate::variables).
///
/// # Errors
/// Returns an error if the token cannot be read.
pub fn client_options(token_file: Option<PathBuf>, ca: Option<PathBuf>) -> Result<ClientOptions, EnvError> {
    let variables = Variables::files_of_this_process();
    let token = token_file.or(variables.token_file).map(read_token).transpose()?;
    Ok(ClientOptions { token, ca: ca.or(variables.ca_file), ..ClientOptions::default() })
}

/// The handle of the job. It is needed if other variables of a rendezvous are set.
fn needed(job: Option<Handle>, others: bool) -> Result<Option<Handle>, EnvError> {
    match (job, others) {
        (None, true) => Err(EnvError::NoJob),
        (job, _) => Ok(job),
    }
}

/// Bootstrap with the resource of the processes' job, at this rank, and the parent resource, where their subjob has
/// rank `subjob`.
pub fn with_handles(
    job: Handle,
    rank: RankChoice,
    multijob: Option<Handle>,
    subjob: RankChoice,
    client: Client,
) -> Bootstrap {
    let client = Arc::new(client);
    let reached = |handle| Arc::new(ClientResource::new(client.clone(), handle)) as Arc<dyn Resource>;
    with_resources(Resources { job: reached(job), rank, multijob: multijob.map(reached), subjob })
}

/// Reads the token, the only line of the file: 32 bytes, like the secret of a job. It is as confidential, so the file
/// must be readable by its owner alone.
pub(super) fn read_token(file: PathBuf) -> Result<ServiceToken, EnvError> {
    let fault = |why: String| EnvError::TokenFile { file: file.clone(), why };
    let secret = bootstrap::read_token(&file).map_err(|error| fault(error.why.to_string()))?;
    secret.to_text().parse().map_err(|error: ServiceTokenError| fault(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::ResourceId;

    #[test]
    fn a_rendezvous_above_needs_that_of_the_job() {
        let job = Handle::new("http://a/rendezvous", ResourceId([1; 16])).unwrap();
        assert!(matches!(needed(None, false), Ok(None)));
        assert!(matches!(needed(None, true), Err(EnvError::NoJob)));
        for others in [false, true] {
            assert_eq!(needed(Some(job.clone()), others).unwrap(), Some(job.clone()));
        }
    }
}
