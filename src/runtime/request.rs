//! What a function sees: the request, a child's reply, and the token of a deferred reply.

use std::fmt;

use bytes::Bytes;
use gpc_trees::{Id, IdList};

use crate::chain::Reply;
use crate::wire::{self, CallId};

/// The request that an id executes.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    me: Id,
    parent: Option<Id>,
    inner: &'a wire::Request,
    data: &'a Bytes,
}

impl<'a> Request<'a> {
    /// A view of a request; `data` are empty where func takes them as they come.
    pub(super) fn new(me: Id, parent: Option<Id>, inner: &'a wire::Request, data: &'a Bytes) -> Request<'a> {
        Request { me, parent, inner, data }
    }

    /// The id that executes.
    pub fn me(&self) -> Id {
        self.me
    }

    /// The id that sent the request; `None` at the root.
    pub fn parent(&self) -> Option<Id> {
        self.parent
    }

    /// The initiator of the call.
    pub fn root(&self) -> Id {
        self.inner.call.root
    }

    /// The call's name.
    pub fn call(&self) -> CallId {
        self.inner.call
    }

    /// The request's header: extra arguments, at most 65,536 bytes.
    pub fn header(&self) -> &'a [u8] {
        &self.inner.header
    }

    /// The request's data, whole. Where func [takes them as they come](super::Streaming) they may be gone, and then they are empty here.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// The length of the request's data when all have come, bytes.
    pub fn data_len(&self) -> u64 {
        self.inner.data.len()
    }

    /// The request's data, to keep without copying them.
    pub fn data_bytes(&self) -> Bytes {
        self.data.clone()
    }

    /// The ids of this subtree: this one first, then its descendants in tree order.
    pub fn ids(&self) -> &'a IdList {
        &self.inner.ids
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { me, parent, inner, .. } = self;
        f.debug_struct("Request")
            .field("call", &inner.call)
            .field("me", me)
            .field("parent", parent)
            .field("header_len", &inner.header.len())
            .field("data_len", &inner.data.len())
            .finish()
    }
}

/// A child's reply, as a callback sees it.
#[derive(Clone, Copy, Debug)]
pub struct ChildReply<'a> {
    /// The child.
    pub from: Id,
    /// Reply header of its subtree.
    pub header: &'a [u8],
    /// Reply data of its subtree.
    pub data: &'a [u8],
}

/// The token of a func that answers later. Dropping it unanswered fails the call at this id.
pub struct Deferred {
    call: CallId,
    answer: Option<Box<Answer>>,
}

type Answer = dyn FnOnce(CallId, Result<Reply, String>) + Send;

impl Deferred {
    pub(super) fn new(
        call: CallId,
        answer: impl FnOnce(CallId, Result<Reply, String>) + Send + 'static,
    ) -> Deferred {
        Deferred { call, answer: Some(Box::new(answer)) }
    }

    /// The call that waits for the answer.
    pub fn call(&self) -> CallId {
        self.call
    }

    /// Gives the id's own reply. When the call has ended meanwhile, nothing happens.
    pub fn reply(mut self, reply: Reply) {
        self.settle(Ok(reply));
    }

    /// Fails the call at this id.
    pub fn fail(mut self, message: impl Into<String>) {
        self.settle(Err(message.into()));
    }

    fn settle(&mut self, result: Result<Reply, String>) {
        if let Some(answer) = self.answer.take() {
            answer(self.call, result);
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        self.settle(Err("the token of its deferred reply was dropped without an answer".into()));
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deferred({})", self.call)
    }
}
