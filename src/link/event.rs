//! Events of a link, and the facts about the node that its [`Inbox`](super::Inbox) needs to parse them.

use std::sync::Arc;
use std::time::Duration;

use gpc_trees::Tree;

use crate::wire::body::Extent;
use crate::wire::frame::{FrameError, Kind};
use crate::wire::head::{Goodbye, WindowRef};
use crate::wire::message::{Classes, Merging, Response};
use crate::wire::{CallId, Hello, Request, Straggler};

/// Facts about the node, for its inboxes.
pub trait Context {
    /// The tree that is registered under a wire id.
    fn tree(&self, id: u64) -> Option<Tree>;
    /// Whether the node awaits a response to this call from the peer. Of another response, the bytes after its first
    /// frame are dropped.
    fn awaits(&self, call: CallId) -> bool;
    /// Maximum length of a reply, header and data together, in bytes.
    fn reply_max(&self) -> u64;
    /// The next sealed memory that the peer has passed by descriptor, of this length.
    ///
    /// # Errors
    /// If none has arrived, or it violates docs/wire.md.
    fn extent(&self, _length: usize) -> Result<Extent, FrameError> {
        Err(FrameError::OutOfPlace { kind: Kind::Extent, when: "on a link that takes no descriptors" })
    }
    /// Whether the function with this handle streams its data.
    fn streams(&self, _func: u64) -> bool {
        false
    }
    /// The order in which the function with this handle merges replies.
    fn merging(&self, _callback: u64) -> Merging {
        Merging::default()
    }
    /// The workers that run these functions.
    fn classes(&self, _func: u64, _callback: Option<u64>) -> Classes {
        Classes::default()
    }
    /// Whether a long reply to this call is forwarded while it arrives, and not needed whole at this node.
    fn passes_on(&self, _call: CallId) -> bool {
        false
    }
}

/// An event of a link: a message, or progress of a message that is being received.
#[derive(Debug)]
pub enum Event {
    /// The first frame of the peer.
    Hello(Hello),
    /// A request. Its data may still be arriving.
    Request(Arc<Request>),
    /// More data have arrived: of a request whose function needs them whole, or of a forwarded reply.
    DataGrew,
    /// More data of this request have arrived; its function streams them.
    StreamedData(CallId),
    /// All data of this request have arrived.
    DataArrived(CallId),
    /// A response. The data of its reply may still be arriving.
    Response(Response),
    /// All data of this forwarded reply have arrived.
    ReplyArrived(CallId),
    /// A reply that is longer than a window has begun to arrive: its sender needs a WINDOW.
    ReplyStarted,
    /// The rest of a reply that has begun to arrive is dropped: it is not awaited, too long, or there is no memory. Its
    /// sender may wait for a WINDOW, and needs a CANCEL.
    UnawaitedReply(CallId),
    /// A reply is longer than this node accepts. Its bytes are dropped.
    Oversized {
        /// The call.
        call: CallId,
        /// Length of the reply in bytes.
        bytes: u64,
        /// Maximum number of bytes that this node accepts.
        most: u64,
    },
    /// A request was cancelled before its ids, shape and header were complete: only its credit is to be returned.
    RequestAbandoned,
    /// A request has begun to arrive, without all of its ids, shape and header. The chain gets it once these are
    /// complete.
    RequestStarted {
        /// The call.
        call: CallId,
        /// Its time limit.
        limit: Duration,
    },
    /// There is no memory for a request that the chain does not have. Its further bytes are dropped.
    RequestRefused(RefusedRequest),
    /// There is no memory for the data of this request. Its further bytes are dropped.
    DataRefused {
        /// The call.
        call: CallId,
        /// The exceeded limit.
        why: String,
    },
    /// There is no memory for the reply to this call. Its further bytes are dropped.
    ReplyRefused {
        /// The call.
        call: CallId,
        /// The exceeded limit.
        why: String,
    },
    /// The parent cancels the call.
    Cancel(CallId),
    /// The parent no longer needs the answer to this partial call.
    Release(CallId),
    /// The child of the call has another parent now.
    Moved(CallId),
    /// The peer requests a heartbeat.
    Ping,
    /// The peer sends a heartbeat.
    Pong,
    /// The ids below the peer that calls of this node wait for.
    Stragglers(Vec<(CallId, Straggler)>),
    /// The peer pauses for this time. Zero ends a pause.
    Pause(Duration),
    /// The peer has consumed this number of requests.
    Credit(u32),
    /// The peer accepts data of a request or a response up to this limit.
    Window(WindowRef),
    /// The peer closes the link.
    Goodbye(Goodbye),
}

/// A request that was refused for lack of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedRequest {
    /// Its call.
    pub call: CallId,
    /// The exceeded limit.
    pub why: String,
}
