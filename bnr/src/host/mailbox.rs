//! How other threads reach the loop of a domain's node.
//!
//! The queue has no bound of its own, since each who puts something there waits for the answer or is bounded elsewhere: orders and batches by the calls that a chained-GPC node takes, ends of calls by the calls that were made, requests by the threads that ask.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

use bytes::Bytes;
use chained_gpc::Deferred;
use chained_gpc::trees::Id;
use mio::{Registry, Waker};

use crate::domain::Token;
use crate::fault::Fault;
use crate::names::GroupId;
use crate::order::Order;
use crate::request::{Answer, Request};

/// What goes on when a request is answered.
pub(super) type Then = Box<dyn FnOnce(Result<Answer, Fault>) + Send>;

/// What the loop is told.
pub(super) enum Told {
    /// Another node orders.
    Order { root: Id, order: Box<Order>, answer: Deferred },
    /// Nobody waits for the answer to an order any more.
    Cancelled(Token),
    /// A call of this node has ended, or may have.
    CallReady(u64),
    /// The application that runs this node asks.
    Ask { request: Box<Request>, then: Then },
    /// Output of another node, on its way to the head.
    Batches { data: Bytes, answer: Deferred },
    /// Another node wants to know when all output of processes that have ended here has arrived at the head.
    Flush { answer: Deferred },
    /// Standard input for rank 0, which is here. Without bytes: its end.
    Input { data: Bytes, answer: Deferred },
    /// Standard input for rank 0, wherever it is. Without bytes: its end.
    Feed { data: Bytes, then: SyncSender<io::Result<()>> },
    /// A signal for the processes of a group, or of all.
    Signal { group: Option<GroupId>, signal: u8 },
    /// The writer of output has written so many bytes, or has failed.
    Written(usize, io::Result<()>),
    /// Say so when all output of processes that have ended has been written.
    Drain(SyncSender<()>),
    /// The domain ends.
    End(SyncSender<()>),
}

/// The sending side.
#[derive(Clone)]
pub(super) struct Post {
    sender: Sender<Told>,
    waker: Arc<Waker>,
}

impl Post {
    /// A mailbox whose loop is woken through `registry`.
    pub(super) fn new(registry: &Registry, token: mio::Token) -> io::Result<(Post, Receiver<Told>)> {
        let (sender, receiver) = mpsc::channel();
        let waker = Arc::new(Waker::new(registry, token)?);
        Ok((Post { sender, waker }, receiver))
    }

    /// Tells the loop; gives back what the loop is too late for, since it has ended.
    pub(super) fn tell(&self, told: Told) -> Result<(), Told> {
        self.sender.send(told).map_err(|unsent| unsent.0)?;
        // A loop that cannot be woken has ended, or looks by itself.
        let _ = self.waker.wake();
        Ok(())
    }
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Post")
    }
}
