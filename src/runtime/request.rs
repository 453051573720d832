//! What a function sees: the request, a child's reply, and the token of a deferred reply.

use std::fmt;

use bytes::Bytes;
use gpc_trees::{Id, IdList};

use super::function_error::{self, FunctionError};
use crate::chain::Reply;
use crate::wire::short::Particulars;
use crate::wire::{self, CallId, CauseKind, Reason};

/// The request that an id executes.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    me: Id,
    parent: Option<Id>,
    call: CallId,
    header: &'a [u8],
    data: Data<'a>,
    data_len: u64,
    ids: &'a IdList,
}

/// A request's data, where they lie.
#[derive(Clone, Copy)]
enum Data<'a> {
    /// Shared with whoever else holds them.
    Shared(&'a Bytes),
    /// Where they were read.
    Read(&'a [u8]),
}

impl<'a> Request<'a> {
    /// A view of a request; `data` are empty where func takes them as they come.
    pub(super) fn new(me: Id, parent: Option<Id>, inner: &'a wire::Request, data: &'a Bytes) -> Request<'a> {
        let (call, header, ids) = (inner.call, &inner.header, &inner.ids);
        Request { me, parent, call, header, data: Data::Shared(data), data_len: inner.data.len(), ids }
    }

    /// A view of a short request, where it was read; `ids` is the list of this id and those below it.
    pub(super) fn short(me: Id, parent: Option<Id>, of: &Particulars<'a>, ids: &'a IdList) -> Request<'a> {
        let (data, data_len) = (Data::Read(of.data), of.data.len() as u64);
        Request { me, parent, call: of.call, header: of.header, data, data_len, ids }
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
        self.call.root
    }

    /// The call's name.
    pub fn call(&self) -> CallId {
        self.call
    }

    /// The request's header: extra arguments, at most 65,536 bytes.
    pub fn header(&self) -> &'a [u8] {
        self.header
    }

    /// The request's data, whole. Where func [takes them as they come](super::Streaming) they may be gone, and then they are empty here.
    pub fn data(&self) -> &'a [u8] {
        match self.data {
            Data::Shared(bytes) => bytes,
            Data::Read(bytes) => bytes,
        }
    }

    /// The length of the request's data when all have come, bytes.
    pub fn data_len(&self) -> u64 {
        self.data_len
    }

    /// The request's data, to keep; few are copied, many are shared.
    pub fn data_bytes(&self) -> Bytes {
        match self.data {
            Data::Shared(bytes) => bytes.clone(),
            Data::Read(bytes) => Bytes::copy_from_slice(bytes),
        }
    }

    /// The ids of this subtree: this one first, then its descendants in tree order.
    pub fn ids(&self) -> &'a IdList {
        self.ids
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("call", &self.call)
            .field("me", &self.me)
            .field("parent", &self.parent)
            .field("header_len", &self.header.len())
            .field("data_len", &self.data_len)
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

type Answer = dyn FnOnce(CallId, Result<Reply, Box<Reason>>) + Send;

impl Deferred {
    pub(super) fn new(
        call: CallId,
        answer: impl FnOnce(CallId, Result<Reply, Box<Reason>>) + Send + 'static,
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

    /// Fails the call at this id, as if func had returned this error: with its code if it is a [`WithCode`](super::WithCode).
    pub fn fail(mut self, error: impl Into<FunctionError>) {
        self.settle(Err(function_error::failed(error)));
    }

    fn settle(&mut self, result: Result<Reply, Box<Reason>>) {
        if let Some(answer) = self.answer.take() {
            answer(self.call, result);
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if self.answer.is_some() {
            let message = "the token of its deferred reply was dropped without an answer";
            self.settle(Err(Box::new(Reason::new(CauseKind::NoAnswer, message))));
        }
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deferred({})", self.call)
    }
}
