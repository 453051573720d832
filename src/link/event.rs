//! What comes on a link, and what its receiving side must know of the node it serves.

use std::sync::Arc;
use std::time::Duration;

use gpc_trees::Tree;

use crate::wire::body::Extent;
use crate::wire::frame::{FrameError, Kind};
use crate::wire::head::{Goodbye, WindowRef};
use crate::wire::message::{Classes, Merging, Response};
use crate::wire::{CallId, Hello, Request};

/// What the inbox must know of the node it serves.
pub trait Context {
    /// The tree registered under a wire id.
    fn tree(&self, id: u64) -> Option<Tree>;
    /// Whether an answer to this call is awaited from the peer: only then are its bytes kept.
    fn awaits(&self, call: CallId) -> bool;
    /// Longest header and data of a reply together, bytes.
    fn reply_max(&self) -> u64;
    /// The next sealed memory that the peer has handed over, of so many bytes.
    ///
    /// # Errors
    /// When there is none, or it is not as docs/wire.md wants it.
    fn extent(&self, _length: usize) -> Result<Extent, FrameError> {
        Err(FrameError::OutOfPlace { kind: Kind::Extent, when: "on a link that takes no descriptors" })
    }
    /// Whether the function under this handle takes its data as they come.
    fn streams(&self, _func: u64) -> bool {
        false
    }
    /// In which order the function under this handle merges replies.
    fn merging(&self, _callback: u64) -> Merging {
        Merging::default()
    }
    /// Which workers run these functions.
    fn classes(&self, _func: u64, _callback: Option<u64>) -> Classes {
        Classes::default()
    }
    /// Whether a long reply of the peer to this call is passed on as it comes, and not needed whole here.
    fn passes_on(&self, _call: CallId) -> bool {
        false
    }
}

/// What came on a link.
#[derive(Debug)]
pub enum Event {
    /// The peer's first frame.
    Hello(Hello),
    /// A call begins; its data may still be arriving.
    Request(Arc<Request>),
    /// More of the data of a request that is still arriving, whose func gets them whole, or of a reply that is passed on as it comes.
    DataGrew,
    /// More of the data of this request, whose func takes them as they come.
    DataDue(CallId),
    /// The data of this request are whole now.
    DataArrived(CallId),
    /// A call has ended below, perhaps with a reply whose data are still arriving.
    Response(Response),
    /// The data of the reply to this call, which is passed on as it comes, have all come.
    ReplyArrived(CallId),
    /// A reply begins that is longer than a window: its sender is to be told how far it may go on.
    ReplyBegun,
    /// A reply that is longer than a window begins, and nobody awaits or takes it: its sender waits for a word.
    Unwanted(CallId),
    /// A call has ended below with a reply over the limit; its bytes are dropped as they come.
    Oversized {
        /// Which call.
        call: CallId,
        /// Bytes of the reply.
        bytes: u64,
        /// Most bytes that this node takes.
        most: u64,
    },
    /// A request was cancelled before it could be read whole: nothing but its credit is left of it.
    Abandoned,
    /// The first bytes of a request have come, and not all of its ids, shape and header: until they have it is for nobody but this link.
    Begun {
        /// Which call.
        call: CallId,
        /// The time limit that it has.
        limit: Duration,
    },
    /// There is no memory for a request that was for nobody yet. What still comes of it is dropped.
    Refused(Refused),
    /// There is no memory for the data of this request. What still comes of them is dropped.
    DataRefused {
        /// Which call.
        call: CallId,
        /// Which limit they are over.
        why: String,
    },
    /// There is no memory for the reply to this call. What still comes of it is dropped.
    ReplyRefused {
        /// Which call.
        call: CallId,
        /// Which limit it is over.
        why: String,
    },
    /// The parent cancels.
    Cancel(CallId),
    /// The root has what it needs.
    Release(CallId),
    /// The child has another parent.
    Moved(CallId),
    /// The peer asks for a heartbeat.
    Ping,
    /// The peer sends a heartbeat.
    Pong,
    /// The peer answers nothing for so long; zero: it is back.
    Pause(Duration),
    /// The peer has consumed so many requests.
    Credit(u32),
    /// The peer takes so much of the data of a request.
    Window(WindowRef),
    /// The peer ends the link.
    Goodbye(Goodbye),
}

/// A request for which there is no memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Its name.
    pub call: CallId,
    /// Which limit it is over.
    pub why: String,
}
