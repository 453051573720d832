//! Arguments of `gpc run` for the resource where its processes meet.

use std::path::PathBuf;

use gpc_rendezvous::RankChoice;
use gpc_rendezvous::client::ServiceUrl;

use super::above::AboveArgs;
use crate::duration::Span;

/// Heading of these arguments in the help.
pub(super) const MEETING_HEADING: &str = "Rendezvous";

/// The resource where the processes meet.
#[derive(Clone, PartialEq, Eq, Default, Debug, clap::Args)]
pub struct MeetingArgs {
    /// Create a resource for the job at this rendezvous service, and destroy it at the end. The processes meet there:
    /// their environment has its handle, and the name of a file with the token
    #[arg(long, value_name = "URL", alias = "service")]
    pub rendezvous: Option<ServiceUrl>,

    /// Resource above, where the data of all are registered.
    #[command(flatten)]
    pub above: AboveArgs,

    /// Have the resource generate a job and a secret, so that the processes can become one set of nodes; with --parent
    /// the resource at the top does
    #[arg(long, requires = "rendezvous", conflicts_with = "parent")]
    pub joint: bool,

    /// The name of `--on-death notify` in `gpc rendezvous run`.
    #[arg(long, requires = "rendezvous", conflicts_with = "on_death", hide = true)]
    pub keep_going: bool,

    /// File with the token of the service. By default the token is derived from the secret in --secret-file, or
    /// GPC_RENDEZVOUS_TOKEN_FILE or GPC_SECRET_FILE in the environment names a file
    #[arg(long, value_name = "FILE", requires = "rendezvous")]
    pub token_file: Option<PathBuf>,

    /// File with the certificates (PEM) of the authority that signed the certificate of a service over https. By
    /// default the file that GPC_RENDEZVOUS_CA_FILE in the environment names
    #[arg(long, value_name = "FILE", requires = "rendezvous")]
    pub ca: Option<PathBuf>,

    /// Time to try to reach the service, such as 500ms, 10s or 1h; 10s by default
    #[arg(long, value_name = "TIME", requires = "rendezvous")]
    pub try_for: Option<Span>,
}

impl MeetingArgs {
    /// Returns the rank above, which the processes get.
    ///
    /// # Errors
    /// If the processes cannot get it, or a resource above is named without one below.
    pub fn parent_rank(&self) -> Result<Option<u32>, String> {
        if self.above.parent.is_some() && self.rendezvous.is_none() {
            return Err("--parent goes with --rendezvous URL".into());
        }
        let Some(RankChoice::Rank(rank)) = self.above.rank.map(|rank| rank.0) else { return Ok(None) };
        let told = u32::try_from(rank).map(Some);
        told.map_err(|_| format!("--rank {rank}: ranks go from 0 to {}", u32::MAX))
    }
}
