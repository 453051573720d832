//! Errors of the bootstrap by IMPI.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use chained_gpc::bootstrap::BootstrapError;
use chained_gpc::{CallError, FunctionsError, Shown};

use crate::book::BookError;
use crate::server::Rank;
use crate::session::SessionError;

/// Most processes of all clusters together. Each process stores an entry of some hundred bytes for every other one.
pub(super) const IDS_MAX: usize = 1 << 16;

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
        who: OwnProcess,
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
        who: OwnProcess,
        /// What is malformed.
        why: String,
    },
    /// A process has no address that the other clusters can reach.
    #[error(
        "{who} listens for its own host alone{}: name the address at which the other clusters reach its host with GPC_HOST_ADDRESS",
        OptionalAddress(.address)
    )]
    Unreachable {
        /// The process.
        who: OwnProcess,
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
        max = IDS_MAX
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
struct OptionalAddress<'a>(&'a Option<SocketAddr>);

impl fmt::Display for OptionalAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|address| write!(f, " (at {address})"))
    }
}

/// A process of this cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnProcess {
    /// Its id in the cluster.
    pub id: chained_gpc::Id,
    /// Its host and its process id, if known.
    pub known: Option<(String, u32)>,
}

impl fmt::Display for OwnProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.known {
            Some((host, pid)) => write!(f, "process {} of this cluster (pid {pid} on host {host})", self.id),
            None => write!(f, "process {} of this cluster", self.id),
        }
    }
}
