//! Bootstrap by IMPI: the processes of several clusters become one set of nodes.
//!
//! It has two stages. The processes of one cluster get to know each other by their own launcher, or there is one. Then the one with id 0 gathers by one chained call what each of them says of itself, takes part in the session as the client that speaks for the
//! cluster, and announces by another call what has come of it. While the session goes on a third call waits at all of them: so whoever is lost there ends the meeting for all of its cluster, and the root leaves the session.
//!
//! Ids go by client, then by host, then by process; hosts in the order in which they first appear by id in their cluster. The groups of [`Member::hosts`](chained_gpc::bootstrap::Member::hosts) are the clients, and within them the hosts: a tree that keeps hosts
//! together crosses to each cluster once. Ports, public keys and the job travel by labels of this project, where the server carries those; where it does not, each host has one process, which listens at the port of the host (H_PORT), the job is a digest of all that was
//! said, and the secret alone proves who the processes of other clusters are.
//!
//! The secret never travels by IMPI, which anybody on the way can read: each process has it beforehand ([`Setup::secret`]).
//!
//! The root keeps its connection with the server, and sends FINI when its process ends in order. Only then do launchers hear that.
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

/// What [`Bootstrap::launcher`] says.
const NAME: &str = "IMPI";

/// How a cluster takes part: the same at all of its processes.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where the server listens, `HOST:PORT`.
    pub server: String,
    /// The rank of the cluster among the clients, 0 to 31.
    pub rank: Rank,
    /// How its root can prove to the server that it may take part.
    pub methods: Methods,
    /// The secret of all clusters, which proves their processes to each other.
    pub secret: Secret,
}

/// Why the processes of the clusters have not become one set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The first stage: those of this cluster do not get to know each other.
    #[error("the processes of this cluster do not get to know each other: {0}")]
    Cluster(#[source] BootstrapError),
    /// A function could not be registered beside those of the first stage.
    #[error("a function of the cluster: {0}")]
    Functions(#[from] FunctionsError),
    /// A process of this cluster is lost, or does not answer.
    #[error("{who} is lost to its cluster, client {rank}: {error}")]
    Lost {
        /// The rank of the cluster.
        rank: Rank,
        /// Which process.
        who: Own,
        /// What the call says.
        #[source]
        error: CallError,
    },
    /// Not all processes of this cluster have answered.
    #[error("the processes of this cluster, client {rank}, have not all answered its root: {error}")]
    Call {
        /// The rank of the cluster.
        rank: Rank,
        /// What the call says.
        #[source]
        error: CallError,
    },
    /// The root of this cluster has gone before it has announced anything.
    #[error(
        "the root of this cluster, client {rank}, has gone before it has said what came of the session: {error}"
    )]
    Root {
        /// The rank of the cluster.
        rank: Rank,
        /// How that was noticed.
        #[source]
        error: CallError,
    },
    /// The root of this cluster has not announced anything in time.
    #[error(
        "the root of this cluster, client {rank}, has not said what came of the session within {limit:?}"
    )]
    Late {
        /// The rank of the cluster.
        rank: Rank,
        /// How long everything may take.
        limit: Duration,
    },
    /// What the root of this cluster has announced: why there is nothing.
    #[error("the root of this cluster, client {rank}, has given up: {}", Shown(why))]
    GivenUp {
        /// The rank of the cluster.
        rank: Rank,
        /// What it says.
        why: String,
    },
    /// What a process of this cluster has said makes no sense.
    #[error(
        "{who} says of itself what no process of this version does: {}; do all run the same program?",
        Shown(why)
    )]
    Nonsense {
        /// Which process.
        who: Own,
        /// What is wrong.
        why: String,
    },
    /// A process has no address that the other clusters reach.
    #[error(
        "{who} listens for its own host alone{}: name the address at which the other clusters reach its host with GPC_HOST_ADDRESS",
        At(.address)
    )]
    Unreachable {
        /// Which process.
        who: Own,
        /// Its loopback address, if it has one.
        address: Option<SocketAddr>,
    },
    /// The session with the server.
    #[error("IMPI, client {rank} at {}: {error}", Shown(server))]
    Session {
        /// The rank of the cluster.
        rank: Rank,
        /// The server.
        server: String,
        /// What went wrong.
        #[source]
        error: SessionError,
    },
    /// A client is no cluster of this project's nodes.
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
        /// How many.
        count: usize,
        /// The rank of a client that has the most.
        client: Rank,
        /// How many that one has.
        most: usize,
    },
    /// A host has processes whose ports nobody knows.
    #[error(
        "host {host} of client {client} has {procs} processes, and the server at {} has not carried their ports, which go by labels of this project: start one process on each host, or use the server of `gpc impi server`",
        Shown(server)
    )]
    Ports {
        /// The rank of its client.
        client: Rank,
        /// Its number there.
        host: usize,
        /// How many it has.
        procs: usize,
        /// The server.
        server: String,
    },
    /// What the clients have said makes no address book.
    #[error(transparent)]
    Book(#[from] BookError),
    /// What came back as this cluster's own is not what it has said.
    #[error("what client {rank} has said of its processes did not come back as it was")]
    NotOurs {
        /// The rank of this cluster.
        rank: Rank,
    },
}

/// Where somebody listens, if that is known: ` (at 127.0.0.1:7)`.
struct At<'a>(&'a Option<SocketAddr>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|address| write!(f, " (at {address})"))
    }
}

/// A process of the own cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Own {
    /// Its id in its cluster.
    pub id: chained_gpc::Id,
    /// What else is known of it: its host and its process id.
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

/// The processes whose environment names a server and the rank of their cluster (`GPC_IMPI_SERVER`, `GPC_IMPI_RANK`); `None` if it names none. `cluster` says who has started those of this cluster, and is asked then alone: `bootstrap::from_env` of
/// `chained_gpc` or of `gpc_pmix`. Where nobody has, this process alone is the cluster. `IMPI_AUTH_KEY` is the key for the server, `GPC_SECRET_FILE` names the file of the secret.
///
/// ```no_run
/// use chained_gpc::{Call, Functions, bootstrap};
///
/// let functions = Functions::new();
/// let hello = functions.func("hello", |_, _| Ok(()))?;
/// let Some(bootstrap) = gpc_impi::bootstrap::from_env(bootstrap::from_env)? else { return Err("there is no server".into()) };
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
/// When one of the two variables is missing, a value is none, no file of a secret is named or it cannot be read, or `cluster` fails.
pub fn from_env(
    cluster: impl FnOnce() -> Result<Option<Bootstrap>, BootstrapError>,
) -> Result<Option<Bootstrap>, EnvError> {
    let Some(setup) = Setup::from_env(None)? else { return Ok(None) };
    Ok(Some(with_cluster(setup, cluster()?)))
}

/// Gets the processes of several clusters to know each other. `cluster` is how those of this one do; without it this process alone is the cluster.
pub fn with_cluster(setup: Setup, cluster: Option<Bootstrap>) -> Bootstrap {
    Bootstrap::with_meeting(NAME, move |mine, within| cluster::meet(setup, cluster, mine, within))
}
