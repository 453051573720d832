//! The result of a session at a client.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Cluster;
use crate::server::Rank;
use crate::wire::{Label, Version};

/// The result of a session: the same at all clients, except for the rank.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Learned {
    /// Rank of this client.
    pub rank: Rank,
    /// Cluster of each client, by rank. A client that has sent nothing about hosts has none.
    pub clusters: Vec<Cluster>,
    /// Longest packet of data that all clients accept, bytes; `None` if no client has sent a limit.
    pub datalen: Option<u32>,
    /// Largest tag that all clients accept; `None` if no client has sent one.
    pub tag_ub: Option<i32>,
    /// Agreed number of bytes from which on collectives count as long; 1024 by default.
    pub coll_xsize: i32,
    /// Agreed number of hosts up to which collectives are linear; 4 by default.
    pub coll_maxlinear: i32,
    /// C_JOB, of this project: the job of all nodes.
    pub job: Option<[u8; 16]>,
    /// Whether all clients know the labels of this project, and the server has broadcast them.
    pub own_labels: bool,
    /// Values under unknown labels: the mask of the clients that have sent values, and these values by ascending rank,
    /// without gaps. Only users of the label know the length of each client's part.
    pub others: BTreeMap<Label, (u32, Bytes)>,
}

impl Learned {
    /// The result for the client of this rank, if each client has sent only its cluster, by rank; everything else has
    /// its default.
    pub fn new(rank: Rank, clusters: Vec<Cluster>) -> Learned {
        Learned {
            rank,
            datalen: clusters.iter().filter_map(|cluster| cluster.datalen).min(),
            tag_ub: clusters.iter().filter_map(|cluster| cluster.tag_ub).min(),
            clusters,
            coll_xsize: 1024,
            coll_maxlinear: 4,
            job: None,
            own_labels: false,
            others: BTreeMap::new(),
        }
    }

    /// The version that two clients use with each other: the highest one that both have named. A client that has named
    /// none uses 0.0, as every client can. `None` if a rank is out of range.
    pub fn version(&self, a: Rank, b: Rank) -> Option<Version> {
        let versions = |rank: Rank| self.clusters.get(rank as usize).map(|cluster| &cluster.versions);
        let (a, b) = (versions(a)?, versions(b)?);
        // Both lists ascend: search the longer one for each version of the shorter, from its end.
        let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        let common = short.iter().rev().find(|version| long.binary_search(version).is_ok());
        Some(common.copied().unwrap_or(Version::MANDATORY))
    }

    /// Number of processes of all clients.
    pub fn procs(&self) -> usize {
        self.clusters.iter().map(Cluster::procs).sum()
    }
}
