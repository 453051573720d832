//! Requests of local clients and orders of other nodes that are not yet answered, and the receivers of answers.

use std::collections::{BTreeMap, BTreeSet};

use super::events::{Serial, Token};
use crate::names::Member;
use crate::order::Meeting;
use crate::request::{Client, Pair};

/// All that is not yet answered here.
#[derive(Default, Debug)]
pub(super) struct Pending {
    /// Requests of local clients.
    pub(super) requests: BTreeMap<Client, BTreeSet<Serial>>,
    /// Orders.
    pub(super) orders: BTreeMap<Token, PendingOrder>,
    /// Puts into databases without a copy here: the head is asked whether the database exists.
    pub(super) puts: BTreeMap<u64, PendingPut>,
    next_put: u64,
    /// Questions to the PMIx server of this node.
    pub(super) fetches: Fetches,
}

/// Questions for the data of processes here, and the receivers of the answers.
#[derive(Default, Debug)]
pub(super) struct Fetches {
    pub(super) pending: BTreeMap<u64, (Member, Requester)>,
    pub(super) next: u64,
}

/// Receiver of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Requester {
    /// The answer is dropped.
    Nobody,
    /// A local client.
    Client(Client, Serial),
    /// Another node.
    Order(Token),
    /// A collective request: the answer completes its purpose.
    Meeting(Meeting),
    /// A put into a database without a copy here.
    Put(u64),
    /// A wait for several groups, by number.
    Joined(u64),
    /// A local client that subscribes to deaths.
    Subscriber(Client, Serial),
}

/// The kind of an order that is not yet answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PendingOrder {
    /// A query to the head or to all nodes.
    Query,
    /// A coordinator collects.
    Collect(Meeting),
    /// A group is being started.
    Start,
    /// A group is being checked.
    Check,
    /// A group is being killed.
    Kill,
    /// The head watches this node.
    Watch,
    /// The domain ends.
    End,
}

/// A put that waits for the head.
#[derive(Debug)]
pub(super) struct PendingPut {
    pub(super) client: Client,
    pub(super) serial: Serial,
    pub(super) database: String,
    pub(super) pair: Pair,
    /// The database was removed in the meantime.
    pub(super) destroyed: bool,
}

impl Pending {
    /// Whether no request and no order is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.values().all(BTreeSet::is_empty) && self.orders.is_empty()
    }

    /// Whether a request is pending.
    pub(super) fn contains(&self, client: Client, serial: Serial) -> bool {
        self.requests.get(&client).is_some_and(|open| open.contains(&serial))
    }

    /// Removes a request. Returns whether it was pending.
    pub(super) fn remove(&mut self, client: Client, serial: Serial) -> bool {
        self.requests.get_mut(&client).is_some_and(|open| open.remove(&serial))
    }

    /// Adds a put that waits for the head, and returns its number.
    pub(super) fn add_put(&mut self, put: PendingPut) -> u64 {
        let number = self.next_put;
        self.next_put += 1;
        self.puts.insert(number, put);
        number
    }
}
