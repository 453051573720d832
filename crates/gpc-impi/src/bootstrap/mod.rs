//! Bootstrap by IMPI: makes the processes of several clusters one set of nodes.
//!
//! The bootstrap has two stages. In the first, the processes of one cluster meet by their own launcher; a cluster may
//! also be a single process. In the second, the process with id 0, the root, gathers the entries of all by one chained
//! call. It takes part in the session as the client of its cluster, and announces the outcome by another call. During
//! the session a third call waits at all processes of the cluster. If one of them is lost, that call fails, the meeting
//! ends for the whole cluster, and the root leaves the session.
//!
//! Ids go by client, then by host, then by process; hosts are in the order in which they first appear by id in their
//! cluster. The groups of [`Member::hosts`](chained_gpc::bootstrap::Member::hosts) are the clients, and within them the
//! hosts. So a tree that keeps hosts together crosses to each cluster once.
//!
//! Ports, public keys and the job are sent under labels of this project, if the server supports those. If not, each
//! host must have one process, which listens at the host's port (H_PORT), and the job is a digest of all values. The
//! secret alone then authenticates the processes of other clusters.
//!
//! The secret is never sent by IMPI, which is readable on the wire: each process has it beforehand ([`Setup::secret`]).
//!
//! The root keeps its connection with the server, and sends FINI when its process ends in order. The launchers are
//! informed after that.
//!
//! Source: IMPI, "Startup": the client's side, for processes that make chained calls.

mod answer;
mod cluster;
mod error;
mod pending_call;
mod root_client;
mod setup;
mod variables;

use chained_gpc::Clock;
use chained_gpc::bootstrap::{Bootstrap, BootstrapError};

pub use error::{JoinError, OwnProcess};
pub use setup::Setup;
pub use variables::{EnvError, RANK_VARIABLE, SERVER_VARIABLE};

/// Value of [`Bootstrap::launcher`].
const NAME: &str = "IMPI";

/// Bootstrap for processes whose environment names a server and the rank of their cluster (`GPC_IMPI_SERVER`,
/// `GPC_IMPI_RANK`); `None` if it names none. `cluster` returns the launcher's bootstrap of this cluster, and is called
/// only if a server is named: `bootstrap::from_env` of `chained_gpc` or of `gpc_pmix`. If it returns `None`, this
/// process alone is the cluster. `IMPI_AUTH_KEY` is the key for the server, `GPC_SECRET_FILE` names the file of the
/// secret.
///
/// ```no_run
/// use chained_gpc::{Call, Functions, bootstrap};
///
/// let functions = Functions::new();
/// let hello = functions.func("hello", |_, _| Ok(()))?;
/// let Some(bootstrap) = gpc_impi::bootstrap::from_env(bootstrap::from_env)? else {
///     return Err("there is no server".into());
/// };
/// let mut member = bootstrap.start(&functions, |builder| builder)?;
/// match member.id() {
///     0 => drop(member.call(Call::new(hello).ids(0..member.count()))?.wait()?),
///     _ => drop(member.serve_until_left()?),
/// }
/// member.finish(std::time::Duration::from_secs(1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if one of the two variables is missing, a value is invalid, the file of the secret is not named or
/// cannot be read, or `cluster` fails.
pub fn from_env(
    cluster: impl FnOnce() -> Result<Option<Bootstrap>, BootstrapError>,
) -> Result<Option<Bootstrap>, EnvError> {
    let Some(setup) = Setup::from_env(None)? else { return Ok(None) };
    Ok(Some(with_cluster(setup, cluster()?)))
}

/// Bootstrap for the processes of several clusters. `cluster` is the bootstrap of this cluster's processes; if it is
/// `None`, this process alone is the cluster.
pub fn with_cluster(setup: Setup, cluster: Option<Bootstrap>) -> Bootstrap {
    Bootstrap::with_meeting(NAME, move |mine, within| {
        cluster::meet(setup, cluster, mine, within, &Clock::system())
    })
}
