//! A process that knows all others: its node, where they are, and how it leaves.

use std::ops::Deref;
use std::time::Duration;

use gpc_trees::Hosts;

use super::BootstrapError;
use super::farewell::{AtEnd, Farewell};
use super::watch::Watch;
use crate::peering::Secret;
use crate::runtime::{Loss, Node, Peers};
use crate::wire::Job;

/// One of the processes that were started together. It is their [`Node`], too: it calls, and its functions are called.
///
/// [`finish`](Self::finish) leaves in order. A process that panics or dies before it does so has its launcher end the others; dropping it otherwise leaves in order, as well.
#[derive(Debug)]
pub struct Member {
    pub(super) node: Node,
    pub(super) count: u32,
    pub(super) launcher: &'static str,
    pub(super) peers: Peers,
    pub(super) hosts: Hosts,
    pub(super) job: Job,
    pub(super) secret: Option<Secret>,
    /// Where there is somebody else.
    pub(super) watch: Option<Watch>,
    /// Behind the node, which leaves first.
    pub(super) farewell: AtEnd,
}

impl Member {
    /// How many processes were started together; their ids are those below.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Which launcher has started this process, for people: `PMI-1`, `PMIx`.
    pub fn launcher(&self) -> &'static str {
        self.launcher
    }

    /// Where each id is reached from here, this process included, with their keys; of the same job.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Which host each id is on: what [a tree that keeps hosts together](Hosts::layout) needs.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The job of all of them.
    pub fn job(&self) -> Job {
        self.job
    }

    /// Their secret: for nodes that are to join them later. `None` where all are on one host by a rule, and the system says whose process the other one is.
    pub fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Serves the calls of the others until id 0 leaves, and says whether it left in order ([`Loss::Left`]) or was lost. Returns at once at id 0, and where there is no other.
    ///
    /// # Errors
    /// When the node has ended.
    pub fn serve_until_left(&mut self) -> Result<Loss, BootstrapError> {
        match (self.watch.take(), self.peers.address(0)) {
            (Some(watch), Some(root)) => watch.until_left(&self.node, &root),
            _ => Ok(Loss::Left),
        }
    }

    /// Leaves in order: calls in flight get `limit` to end, the others are told, and so is the launcher.
    ///
    /// # Errors
    /// When the launcher's server is gone; the node has left then.
    pub fn finish(self, limit: Duration) -> Result<(), BootstrapError> {
        self.leave(limit).say()
    }

    /// Leaves the others as [`finish`](Self::finish) does, and hands over what is to be said to the launcher, which hears nothing yet: for a process that goes on among others, whom it has met by means of these. It becomes a part of [their
    /// farewell](super::Meeting::farewell).
    pub fn leave(self, limit: Duration) -> Farewell {
        let Member { node, mut farewell, .. } = self;
        node.shutdown(limit);
        farewell.take()
    }
}

impl Deref for Member {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}
