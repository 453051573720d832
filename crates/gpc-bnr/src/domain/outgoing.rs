//! Calls of this node to other nodes that have not ended, and the purpose of each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::events::CallNumber;
use super::pending::Requester;
use crate::names::GroupId;
use crate::order::{Meeting, Order};

/// The calls of this node.
#[derive(Default, Debug)]
pub(super) struct Outgoing {
    next: CallNumber,
    calls: BTreeMap<CallNumber, CallPurpose>,
}

/// The purpose of a call.
#[derive(Debug)]
pub(super) enum CallPurpose {
    /// Begin the domain.
    Begin,
    /// The head's standing call, which detects lost nodes.
    Watch,
    /// The head checks which nodes answer.
    Probe,
    /// Deliver an order until each node has taken it or is lost.
    Deliver(Delivery),
    /// Send a request to the head.
    Ask(Requester),
    /// Request a value from the other nodes.
    Find(Requester, Vec<u8>),
    /// Request the other nodes' pairs of a database; the map has the local ones.
    List(Requester, BTreeMap<Vec<u8>, Vec<u8>>),
    /// A coordinator waits for the members of a collective request.
    Collect(Meeting),
    /// A coordinator asks for the members that are missing after the time limit.
    Missing(Meeting),
    /// The head has a group checked or started.
    Start(GroupId),
    /// The head ends the domain.
    End,
}

/// An order to deliver.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) order: Arc<Order>,
    pub(super) limit: Duration,
    pub(super) continuation: Continuation,
}

/// What follows when all living nodes have taken the order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Continuation {
    Nothing,
    /// Record that the group's processes at other nodes have been killed.
    Killed(GroupId),
    /// Answer the removal of the database.
    Destroyed(String),
    /// Record that the nodes of groups made of members of others know them.
    Announced(Vec<GroupId>),
    /// Remove the group: all nodes know its deaths.
    Forget(GroupId),
}

impl Outgoing {
    /// Adds a call, and returns its number.
    pub(super) fn add(&mut self, purpose: CallPurpose) -> CallNumber {
        let call = self.next;
        self.next += 1;
        self.calls.insert(call, purpose);
        call
    }

    /// Removes a call that has ended or is cancelled. `None` if it was removed before.
    pub(super) fn remove(&mut self, call: CallNumber) -> Option<CallPurpose> {
        self.calls.remove(&call)
    }

    pub(super) fn numbers(&self) -> Vec<CallNumber> {
        self.calls.keys().copied().collect()
    }

    /// The purposes of all calls.
    #[cfg(any(feature = "sim", feature = "snapshot"))]
    pub(super) fn purposes(&self) -> impl Iterator<Item = &CallPurpose> {
        self.calls.values()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}
