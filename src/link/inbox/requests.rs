//! Requests that are being received: their ids, shape and header are gathered, and their data go into a [`Body`].

use std::sync::Arc;

use bytes::Bytes;

use super::incoming_request::IncomingRequest;
use super::split::split_to;
use super::{BODIES_MAX, Inbox};
use crate::link::event::{Context, Event, RefusedRequest};
use crate::wire::budget::Counted;
use crate::wire::frame::{FrameError, Kind, WINDOW};
use crate::wire::head::{ExtentRef, RequestHead};
use crate::wire::message::Merging;
use crate::wire::prefix::parse_prefix;
use crate::wire::short::SHORT_MAX;
use crate::wire::{Body, BodyUse, CallId, Request};

/// Minimum length of data that are charged here. The chain charges shorter ones.
const CHARGED_MIN: usize = SHORT_MAX;

/// Length of ids, shape and header above which an allocation is tried before they are parsed.
const PREFIX_PROBED: u64 = 1 << 20;

impl Inbox {
    pub(super) fn receive_request(
        &mut self,
        flags: u8,
        payload: &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        let head = RequestHead::parse(flags, payload)?;
        let body = &payload[RequestHead::LENGTH..];
        let whole = head.prefix_len().saturating_add(head.data_len);
        if body.len() as u64 > whole {
            return Err(FrameError::TooMuch { kind: Kind::Request, extra: body.len() as u64 - whole });
        }
        if self.requests.contains_key(&head.call) {
            return Err(FrameError::OutOfPlace {
                kind: Kind::Request,
                when: "for a call whose request is still arriving",
            });
        }
        if body.len() as u64 == whole {
            let (prefix, data) = body.split_at(head.prefix_len() as usize);
            let Some(data) = self.copy_data(data) else {
                events.push(self.refusal_event(&head));
                return Ok(());
            };
            let data = Body::whole(data);
            let mut request = parse_prefix(&head, flags, prefix, data, &|id| context.tree(id))?;
            set_local_options(&mut request, context);
            events.push(Event::Request(Arc::new(request)));
            return Ok(());
        }
        if self.requests.len() >= BODIES_MAX {
            return Err(FrameError::OutOfPlace {
                kind: Kind::Request,
                when: "with too many bodies still arriving",
            });
        }
        let bytes = Counted::of(self.spare.budget());
        self.requests.insert(head.call, IncomingRequest::Prefix { head, flags, bytes, deadline: None });
        if head.prefix_len() > body.len() as u64 {
            events.push(Event::RequestStarted { call: head.call, limit: head.limit });
        }
        self.append_request(head.call, body, context, events)
    }

    /// Copies the data of a request that arrived in one frame; `None` if there is no memory.
    fn copy_data(&self, data: &[u8]) -> Option<Bytes> {
        match data.len() < CHARGED_MIN {
            true => Some(Bytes::copy_from_slice(data)),
            false => self.spare.copy(data, b""),
        }
    }

    /// Returns the event of a request without memory.
    fn refusal_event(&self, head: &RequestHead) -> Event {
        let why = self.spare.budget().refusal();
        Event::RequestRefused(RefusedRequest { call: head.call, why })
    }

    pub(super) fn append_request(
        &mut self,
        call: CallId,
        mut piece: &[u8],
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        let Some(body) = self.requests.get_mut(&call) else { return Ok(()) };
        if let IncomingRequest::Prefix { head, flags, bytes, .. } = body {
            let missing = (head.prefix_len() as usize - bytes.bytes.len()).min(piece.len());
            let room = bytes.append(split_to(&mut piece, missing), head.prefix_len());
            if room && (bytes.bytes.len() as u64) < head.prefix_len() {
                return Ok(());
            }
            let mut prefix = std::mem::take(bytes);
            if !room || !reserve_prefix(&mut prefix) {
                let head = *head;
                self.requests.remove(&call);
                events.push(self.refusal_event(&head));
                return Ok(());
            }
            let prefix = &prefix.bytes;
            let mut request = parse_prefix(head, *flags, prefix, Body::default(), &|id| context.tree(id))?;
            set_local_options(&mut request, context);
            let (data, writer) = Body::arriving_in(head.data_len, body_use(&request, context), &self.spare);
            request.set_body(data);
            events.push(Event::Request(Arc::new(request)));
            *body = IncomingRequest::Data(writer);
        }
        let IncomingRequest::Data(writer) = body else { return Ok(()) };
        // Bytes beyond the end of the body were rejected with the header of their frame.
        let taken = writer.push(piece);
        if taken > 0 || writer.missing() == 0 {
            self.report_data(call, events);
        }
        Ok(())
    }

    /// Handles the next data of a request, which are in sealed memory.
    pub(super) fn receive_extent(
        &mut self,
        ExtentRef { call, length }: ExtentRef,
        context: &dyn Context,
        events: &mut Vec<Event>,
    ) -> Result<(), FrameError> {
        // Taken even if the call has ended: the memory of the next frame follows it.
        let extent = context.extent(length)?;
        let (kind, bytes) = (Kind::Extent, length as u64);
        match self.requests.get_mut(&call) {
            None => return Ok(()),
            Some(IncomingRequest::Prefix { .. }) => {
                return Err(FrameError::OutOfPlace { kind, when: "before the header of its request" });
            }
            Some(IncomingRequest::Data(writer)) => {
                if bytes > writer.allowed() && bytes <= writer.missing() {
                    return Err(FrameError::OutOfPlace { kind, when: "beyond the window of its body" });
                }
                if !writer.extend(&extent) {
                    return Err(FrameError::TooMuch { kind, extra: bytes - writer.missing() });
                }
            }
        }
        self.report_data(call, events);
        Ok(())
    }

    /// Reports that more data of a request have arrived.
    pub(super) fn report_data(&mut self, call: CallId, events: &mut Vec<Event>) {
        let Some(IncomingRequest::Data(writer)) = self.requests.get(&call) else { return };
        if writer.is_refused() {
            let why = writer.refusal();
            self.requests.remove(&call);
            events.push(Event::DataRefused { call, why });
        } else if writer.missing() == 0 {
            self.requests.remove(&call);
            events.push(Event::DataArrived(call));
        } else {
            events.push(if writer.usage() == BodyUse::Whole {
                Event::DataGrew
            } else {
                Event::StreamedData(call)
            });
        }
    }

    /// Number of bytes that the peer may send before it gets a WINDOW.
    pub(super) fn allowed(&self, call: CallId) -> Option<u64> {
        match self.requests.get(&call)? {
            IncomingRequest::Prefix { head, bytes, .. } => {
                Some((head.prefix_len() - bytes.bytes.len() as u64).saturating_add(WINDOW))
            }
            IncomingRequest::Data(writer) => Some(writer.allowed()),
        }
    }
}

/// Sets the local options of a request: the order in which its replies are merged, and the workers of its functions.
fn set_local_options(request: &mut Request, context: &dyn Context) {
    request.local.merging = request.callback.map_or(Merging::default(), |callback| context.merging(callback));
    request.local.classes = context.classes(request.func, request.callback);
}

/// Decides how the data of a request are stored. They pass through without retention if the function streams them,
/// children get them at once or do not exist, and no adopter can request them. The parts of a scatter call have readers
/// that start at different places, so the data are retained.
fn body_use(request: &Request, context: &dyn Context) -> BodyUse {
    let scatters = request.parts.as_ref().is_some_and(|parts| parts.count() > 1);
    let at_once = request.forward_first || request.ids.len() == 1;
    match context.streams(request.func) {
        false => BodyUse::Whole,
        true if at_once && !request.partial && !scatters => BodyUse::Passing,
        true => BodyUse::Retained,
    }
}

/// Reserves memory for the parsed ids, shape and header; returns whether there is enough.
fn reserve_prefix(prefix: &mut Counted<Vec<u8>>) -> bool {
    let (len, budgeted) = (prefix.bytes.len(), prefix.share.bytes());
    // The list of ids and the shape, each at most as long as its bytes.
    prefix.share.resize(budgeted + len as u64)
        && (len as u64 <= PREFIX_PROBED || Vec::<u8>::new().try_reserve_exact(2 * len).is_ok())
}
