//! The queue by which other threads reach the loop of a domain's node.
//!
//! The queue has no bound of its own; each kind of message is bounded elsewhere. Orders and batches are bounded by the
//! calls that a chained-GPC node admits, ends of calls by the calls that were made. Requests are bounded by the threads
//! that wait for their answers.

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
use crate::supervisor::Recipients;

/// Receives the answer to a request.
pub(super) type AnswerCallback = Box<dyn FnOnce(Result<Answer, Fault>) + Send>;

/// A message to the loop.
pub(super) enum EngineMessage {
    /// An order of another node.
    Order { root: Id, order: Box<Order>, answer: Deferred },
    /// The reply to an order is no longer needed.
    Cancelled(Token),
    /// A call of this node may have ended.
    CallReady(u64),
    /// A request of the application that runs this node.
    Ask { request: Box<Request>, callback: AnswerCallback },
    /// Output of another node, on its way to the head.
    Batches { data: Bytes, answer: Deferred },
    /// Another node waits until all output of ended processes here has reached the head.
    Flush { answer: Deferred },
    /// Standard input for rank 0, which is here. No bytes mean its end.
    Input { data: Bytes, answer: Deferred },
    /// Standard input for rank 0, at whatever node. No bytes mean its end.
    Feed { data: Bytes, done: SyncSender<io::Result<()>> },
    /// A signal for the processes of one group, or of all.
    Signal { group: Option<GroupId>, signal: u8, to: Recipients },
    /// The output writer has written a batch, or has failed.
    Written(io::Result<()>),
    /// Respond when all output of ended processes has been written.
    Drain(SyncSender<()>),
    /// Respond with what the node holds.
    #[cfg(feature = "snapshot")]
    Snapshot(SyncSender<chained_gpc::Snapshot>),
    /// End the domain.
    End(SyncSender<()>),
}

/// The sending side of the queue.
#[derive(Clone)]
pub(super) struct Mailbox {
    sender: Sender<EngineMessage>,
    waker: Arc<Waker>,
}

impl Mailbox {
    /// A queue whose loop is woken through `registry`; the receiver is for that loop.
    pub(super) fn new(
        registry: &Registry,
        token: mio::Token,
    ) -> io::Result<(Mailbox, Receiver<EngineMessage>)> {
        let (sender, receiver) = mpsc::channel();
        let waker = Arc::new(Waker::new(registry, token)?);
        Ok((Mailbox { sender, waker }, receiver))
    }

    /// Sends a message to the loop. Returns the message if the loop has ended.
    pub(super) fn send(&self, message: EngineMessage) -> Result<(), EngineMessage> {
        self.sender.send(message).map_err(|unsent| unsent.0)?;
        // A loop that cannot be woken has ended or is running.
        let _ = self.waker.wake();
        Ok(())
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox")
    }
}
