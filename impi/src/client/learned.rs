//! What a client knows when all are done.

use super::Cluster;
use crate::server::Rank;

/// What a client knows when all are done: the same at all of them, but for the rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Learned {
    /// The rank of this client.
    pub rank: Rank,
    /// By rank, what each client said of its cluster.
    pub clusters: Vec<Cluster>,
    /// Longest packet of data that all take, bytes; `None` where nobody has said one.
    pub datalen: Option<u32>,
    /// Largest tag that all take; `None` where nobody has said one.
    pub tag_ub: Option<i32>,
    /// What all agree on: from how many bytes on collectives are long.
    pub coll_xsize: i32,
    /// What all agree on: up to how many hosts collectives are linear.
    pub coll_maxlinear: i32,
    /// C_JOB, of this project: the job of all nodes.
    pub job: Option<[u8; 16]>,
    /// Whether the server has broadcast the labels of this project, to clients that all know them.
    pub own_labels: bool,
}
