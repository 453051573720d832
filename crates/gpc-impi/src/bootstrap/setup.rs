//! Parameters of a cluster for the bootstrap.

use chained_gpc::Secret;

use crate::server::Rank;
use crate::wire::Methods;

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
