//! What a client knows when all are done.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Cluster;
use crate::server::Rank;
use crate::wire::{Label, Version};

/// What a client knows when all are done: the same at all of them, but for the rank.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Learned {
    /// The rank of this client.
    pub rank: Rank,
    /// By rank, what each client said of its cluster. One that has said nothing of hosts has none.
    pub clusters: Vec<Cluster>,
    /// Longest packet of data that all take, bytes; `None` where nobody has said one.
    pub datalen: Option<u32>,
    /// Largest tag that all take; `None` where nobody has said one.
    pub tag_ub: Option<i32>,
    /// What all agree on: from how many bytes on collectives are long. 1024 where nobody has said anything else.
    pub coll_xsize: i32,
    /// What all agree on: up to how many hosts collectives are linear. 4 where nobody has said anything else.
    pub coll_maxlinear: i32,
    /// C_JOB, of this project: the job of all nodes.
    pub job: Option<[u8; 16]>,
    /// Whether the server has broadcast the labels of this project, to clients that all know them.
    pub own_labels: bool,
    /// What was broadcast under labels that are not known here: the clients that have sent values, by the bits of their ranks, and their values by ascending rank, without gaps. How long each client's part is, those who use the label know.
    pub others: BTreeMap<Label, (u32, Bytes)>,
}

impl Learned {
    /// Of the client of this rank, from what each client said of its cluster, by rank: nobody has said more than that, and the rest is as it is then.
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

    /// The version that two clients speak with each other: the highest one that both have named. One that has named none speaks 0.0, as all do. `None` where there is no such client.
    pub fn version(&self, a: Rank, b: Rank) -> Option<Version> {
        let versions = |rank: Rank| self.clusters.get(rank as usize).map(|cluster| &cluster.versions);
        let (a, b) = (versions(a)?, versions(b)?);
        // Both ascend: the search is in the longer one, for each of the other, from its end.
        let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
        let common = short.iter().rev().find(|version| long.binary_search(version).is_ok());
        Some(common.copied().unwrap_or(Version::MANDATORY))
    }

    /// How many processes all clients have.
    pub fn procs(&self) -> usize {
        self.clusters.iter().map(Cluster::procs).sum()
    }
}
