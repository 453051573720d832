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
mod held;
mod speak;
mod variables;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use chained_gpc::bootstrap::{Bootstrap, BootstrapError};
use chained_gpc::{CallError, FunctionsError, Secret, Shown};

use crate::book::BookError;
use crate::server::Rank;
use crate::session::SessionError;
use crate::wire::Methods;

pub use variables::{EnvError, RANK_VARIABLE, SERVER_VARIABLE};

/// Value of [`Bootstrap::launcher`].
const NAME: &str = "IMPI";

/// Parameters of a cluster: the same at all of its processes.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Address of the server, `HOST:PORT`.
    pub server: String,
    /// Rank of the cluster among the clients, 0 to 31.
    pub rank: Rank,
    /// Methods by which the root can authenticate itself to the server.
    pub methods: Methods,
    /// The secret of all clusters, by which their processes authenticate each other.
    pub secret: Secret,
}

/// Why the processes of the clusters have not formed one set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The first stage has failed: the processes of this cluster have not met.
    #[error("the processes of this cluster do not get to know each other: {0}")]
    Cluster(#[source] BootstrapError),
    /// A function could not be registered beside those of the first stage.
    #[error("a function of the cluster: {0}")]
    Functions(#[from] FunctionsError),
    /// A process of this cluster is lost, or does not answer.
    #[error("{who} is lost to its cluster, client {rank}: {error}")]
    Lost {
        /// Rank of the cluster.
        rank: Rank,
        /// The process.
        who: Own,
        /// Failure of the call.
        #[source]
        error: CallError,
    },
    /// Some processes of this cluster have not answered.
    #[error("the processes of this cluster, client {rank}, have not all answered its root: {error}")]
    Call {
        /// Rank of the cluster.
        rank: Rank,
        /// Failure of the call.
        #[source]
        error: CallError,
    },
    /// The root of this cluster has gone before its announcement.
    #[error(
        "the root of this cluster, client {rank}, has gone before it has said what came of the session: {error}"
    )]
    Root {
        /// Rank of the cluster.
        rank: Rank,
        /// Failure of the call that detected it.
        #[source]
        error: CallError,
    },
    /// The root of this cluster has not announced an outcome in time.
    #[error(
        "the root of this cluster, client {rank}, has not said what came of the session within {limit:?}"
    )]
    Late {
        /// Rank of the cluster.
        rank: Rank,
        /// Time limit of the bootstrap.
        limit: Duration,
    },
    /// The root of this cluster has announced a failure.
    #[error("the root of this cluster, client {rank}, has given up: {}", Shown(why))]
    GivenUp {
        /// Rank of the cluster.
        rank: Rank,
        /// The announced reason.
        why: String,
    },
    /// The entry or announcement of a process of this cluster is malformed.
    #[error(
        "{who} says of itself what no process of this version does: {}; do all run the same program?",
        Shown(why)
    )]
    Nonsense {
        /// The process.
        who: Own,
        /// What is malformed.
        why: String,
    },
    /// A process has no address that the other clusters can reach.
    #[error(
        "{who} listens for its own host alone{}: name the address at which the other clusters reach its host with GPC_HOST_ADDRESS",
        At(.address)
    )]
    Unreachable {
        /// The process.
        who: Own,
        /// Its loopback address, if it has one.
        address: Option<SocketAddr>,
    },
    /// The session with the server has failed.
    #[error("IMPI, client {rank} at {}: {error}", Shown(server))]
    Session {
        /// Rank of the cluster.
        rank: Rank,
        /// The server.
        server: String,
        /// The cause.
        #[source]
        error: SessionError,
    },
    /// A client is not a cluster of this project's nodes.
    #[error(
        "client {client} does not run nodes of this project, as far as its versions (C_VERSION) tell: all clients of a bootstrap do"
    )]
    Foreign {
        /// Its rank.
        client: Rank,
    },
    /// There are too many processes.
    #[error(
        "the clients have {count} processes in all, of which {most} are of client {client}, and one bootstrap takes {max} at most",
        max = speak::IDS_MAX
    )]
    TooMany {
        /// Number of processes.
        count: usize,
        /// Rank of a client that has most.
        client: Rank,
        /// Number that this client has.
        most: usize,
    },
    /// The ports of a host's processes are unknown.
    #[error(
        "host {host} of client {client} has {procs} processes, and the server at {} has not carried their ports, which go by labels of this project: start one process on each host, or use the server of `gpc impi server`",
        Shown(server)
    )]
    Ports {
        /// Rank of its client.
        client: Rank,
        /// Its number in the client.
        host: usize,
        /// Number of its processes.
        procs: usize,
        /// The server.
        server: String,
    },
    /// The clients' values give no address book.
    #[error(transparent)]
    Book(#[from] BookError),
    /// The session's result does not contain this cluster's processes as they were sent.
    #[error("what client {rank} has said of its processes did not come back as it was")]
    NotOurs {
        /// Rank of this cluster.
        rank: Rank,
    },
}

/// An address in a message, if it is known: ` (at 127.0.0.1:7)`.
struct At<'a>(&'a Option<SocketAddr>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|address| write!(f, " (at {address})"))
    }
}

/// A process of this cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Own {
    /// Its id in the cluster.
    pub id: chained_gpc::Id,
    /// Its host and its process id, if known.
    pub known: Option<(String, u32)>,
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.known {
            Some((host, pid)) => write!(f, "process {} of this cluster (pid {pid} on host {host})", self.id),
            None => write!(f, "process {} of this cluster", self.id),
        }
    }
}

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
    Bootstrap::with_meeting(NAME, move |mine, within| cluster::meet(setup, cluster, mine, within))
}
