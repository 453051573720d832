//! A member of a job: a process that knows all others, its node, and how it leaves.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use gpc_trees::Hosts;

use super::BootstrapError;
use super::driven::Driven;
use super::farewell::{AtEnd, Farewell};
use super::watch::Watch;
use crate::link::peering::Secret;
use crate::runtime::{Address, Loss, Node, Peers, PolledNode};
use crate::wire::Job;

/// One of the processes that were started together. It dereferences to its node, a [`Node`] or a [`PolledNode`]: it
/// makes calls, and executes the calls of others.
///
/// [`finish`](Self::finish) leaves in order, and so does a normal drop. If the process panics or dies first, its
/// launcher ends the other processes.
#[derive(Debug)]
pub struct Member<N = Node> {
    pub(super) node: N,
    pub(super) count: u32,
    pub(super) launcher: &'static str,
    pub(super) peers: Peers,
    pub(super) hosts: Hosts,
    pub(super) job: Job,
    pub(super) secret: Option<Secret>,
    /// Present if there are other processes, and this is not id 0.
    pub(super) watch: Option<Watch>,
    /// Declared after the node, which is dropped first.
    pub(super) farewell: AtEnd,
}

impl<N> Member<N> {
    /// Number of processes that were started together; their ids are below this number.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The launcher of this process, for people: `PMI-1`, `PMIx`.
    pub fn launcher(&self) -> &'static str {
        self.launcher
    }

    /// The addresses at which this process reaches each id, itself included, with their keys and their job.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The host of each id, for [a tree that keeps hosts together](Hosts::layout).
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The job of all members.
    pub fn job(&self) -> Job {
        self.job
    }

    /// The secret of the job, for nodes that join later. `None` if a rule places all processes on one host, where the
    /// system reports the user of the other process.
    pub fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// The node.
    pub fn node(&self) -> &N {
        &self.node
    }

    fn take_serving(&mut self) -> Serving {
        Serving { watch: self.watch.take(), root: self.peers.address(0) }
    }
}

impl Member {
    /// Serves the calls of the others until id 0 leaves; returns whether it has left in order ([`Loss::Left`]) or was
    /// lost. Returns at once at id 0, and if there is no other process.
    ///
    /// # Errors
    /// If the node has ended.
    pub fn serve_until_left(&mut self) -> Result<Loss, BootstrapError> {
        self.serving().until_left(&self.node)
    }

    /// Takes the part of the member that waits for id 0 out of it, for threads that share the member: with it one of
    /// them can serve [until id 0 has left](Self::serve_until_left). A second one returns at once.
    pub fn serving(&mut self) -> Serving {
        self.take_serving()
    }

    /// Leaves in order: calls in flight get `limit` to end, and the peers and the launcher are notified.
    ///
    /// # Errors
    /// If the launcher's server has gone; the node has left then.
    pub fn finish(self, limit: Duration) -> Result<(), BootstrapError> {
        self.leave(limit).say()
    }

    /// Leaves the others as [`finish`](Self::finish) does, but returns the farewell to the launcher unsent. If this
    /// process continues as a member of another job, it adds the farewell to [that of its
    /// meeting](super::Meeting::farewell).
    pub fn leave(self, limit: Duration) -> Farewell {
        let Member { node, mut farewell, .. } = self;
        node.shutdown(limit);
        farewell.take()
    }
}

impl Member<PolledNode> {
    /// Drives the node and serves the calls of the others until id 0 leaves: see [`Member::serve_until_left`].
    ///
    /// # Errors
    /// If the node has ended.
    pub fn serve_until_left(&mut self) -> Result<Loss, BootstrapError> {
        self.take_serving().until(&mut self.node)
    }

    /// Leaves in order, driving the node: see [`Member::finish`].
    ///
    /// # Errors
    /// If the launcher's server has gone, or the poll itself fails; the node has left then.
    pub fn finish(self, limit: Duration) -> Result<(), BootstrapError> {
        let Member { node, mut farewell, .. } = self;
        let left = node.shutdown(limit);
        farewell.take().say()?;
        left.map_err(|error| BootstrapError::System { doing: "cannot drive the node to its end", error })
    }
}

/// The part of a [`Member`] that waits for id 0: see [`Member::serving`].
#[derive(Debug)]
pub struct Serving {
    watch: Option<Watch>,
    root: Option<Address>,
}

impl Serving {
    /// Serves the calls of the others until id 0 leaves: see [`Member::serve_until_left`]. `node` is the member's.
    ///
    /// # Errors
    /// If the node has ended.
    pub fn until_left(self, mut node: &Node) -> Result<Loss, BootstrapError> {
        self.until(&mut node)
    }

    fn until(self, node: &mut dyn Driven) -> Result<Loss, BootstrapError> {
        match (self.watch, self.root) {
            (Some(watch), Some(root)) => watch.until_left(node, &root),
            _ => Ok(Loss::Left),
        }
    }

    /// How id 0 has gone; `None` as long as it is there, as far as this process can detect it now. Waits for no event;
    /// it may wait some seconds to open a lost link again. Always `None` at id 0. `node` is the member's.
    ///
    /// # Errors
    /// If the node has ended.
    pub fn left_by_now(&mut self, mut node: &Node) -> Result<Option<Loss>, BootstrapError> {
        match (&mut self.watch, &self.root) {
            (Some(watch), Some(root)) => watch.left_by_now(&mut node, root),
            _ => Ok(None),
        }
    }
}

impl<N> Deref for Member<N> {
    type Target = N;

    fn deref(&self) -> &N {
        &self.node
    }
}

impl DerefMut for Member<PolledNode> {
    fn deref_mut(&mut self) -> &mut PolledNode {
        &mut self.node
    }
}
