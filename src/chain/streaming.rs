//! Streaming replies: an id answers as soon as its answer is determined, and the data follow as they arrive.
//!
//! A child's reply whose head has arrived counts as a reply. When func has ended and every child has replied, the level
//! and all lengths of the aggregate are known. The answer goes up, followed by the data of the children, in list order.
//! The call stays in the tables until the last data have arrived, so its time limit, a cancel or a lost link still ends
//! it; the parent then receives a failure instead of the rest.
//!
//! Replies do not stream where they are needed whole: at the root, for callback, in a partial call. Source: the ARMCI
//! design of chained GPC (2007), "The action for any response" 2.

use gpc_trees::Id;
use gpc_trees::sorting::sort_by_key;

use super::call::{Call, ChildAnswer, Origin, OwnPart};
use super::gather::{over_level, over_limit};
use super::recorder::End;
use super::slot::Slot;
use super::{Node, Output};
use crate::wire::message::{Answer, Response};
use crate::wire::streaming_reply::{
    ChildReply, StreamingData, StreamingPart, StreamingReply, aggregate_streaming,
};
use crate::wire::{Body, CallId, Cause, CauseKind, Message, Stage};

impl Call {
    /// Whether long replies are forwarded as they arrive, because they are not needed whole.
    fn passes_on(&self) -> bool {
        let request = &self.request;
        let above = matches!(self.origin, Origin::Parent { .. });
        // A trace is complete when the data of the reply are.
        above
            && request.reply_wanted
            && request.callback.is_none()
            && !request.partial
            && !request.local.trace
    }

    /// Records that a child's streaming reply has begun.
    fn add_streaming_reply(&mut self, index: usize, reply: StreamingReply) {
        let Some(child) = self.children.as_mut().and_then(|children| children.get_mut(index)) else { return };
        child.answer = ChildAnswer::Arriving;
        let (place, id) = (child.group.start, child.id);
        self.awaited -= 1;
        let streaming = self.streaming.get_or_insert_default();
        streaming.coming += 1;
        streaming.bodies.extend(bodies(&reply.data).map(|body| (place, id, body.clone())));
        streaming.replies.push((place, reply));
    }

    /// Returns why the call has not ended although its answer has gone up: the sender that holds up the next data.
    pub(super) fn held_up(&self, me: Id) -> Cause {
        let bodies = self.streaming.as_deref().map_or(&[][..], |streaming| &streaming.bodies);
        let limit = self.request.limit;
        let Some((_, child, body)) = bodies.iter().find(|(_, _, body)| body.taken() < body.len()) else {
            let message = format!("the time limit ({limit:?} here) passed");
            return Cause::new(me, Stage::Reply, CauseKind::TimeLimit, message);
        };
        let (len, came, gone) = (body.len(), body.arrived(), body.taken());
        // Data that have arrived but not left wait for an id above.
        let late = if came > gone { me } else { *child };
        let message = format!(
            "the time limit ({limit:?} at id {me}) passed when of the {len} bytes of the reply of id {child} {came} had come and {gone} had gone up"
        );
        Cause::new(late, Stage::Reply, CauseKind::TimeLimit, message)
    }
}

impl Node {
    /// Whether a long reply of this child is forwarded as it arrives; otherwise it is needed whole.
    pub fn passes_on(&self, child: Id, call: CallId) -> bool {
        let fast_call =
            self.fast_calls.as_ref().and_then(|fast_calls| fast_calls.get(fast_calls.find(call)?));
        fast_call.is_some_and(|fast_call| fast_call.passes_on() && fast_call.awaited_child(child).is_some())
            || self
                .calls
                .named(call)
                .is_some_and(|call| call.passes_on() && call.awaited_child(child).is_some())
    }

    /// Handles the beginning of a child's streaming reply.
    pub(super) fn reply_begun(&mut self, slot: Slot, index: usize, from: Id, reply: StreamingReply) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        if !call.passes_on() {
            // The driver checks `passes_on` before it supplies one.
            let message = "its reply is still arriving where it is needed whole";
            return self.fail(slot, Cause::new(from, Stage::Reply, CauseKind::BadReply, message));
        }
        if call.is_streaming(index) {
            return;
        }
        call.add_streaming_reply(index, reply);
        self.advance(slot);
    }

    /// Handles that all data of a child's reply have arrived.
    pub(super) fn reply_arrived(&mut self, from: Id, id: CallId) {
        let Some(slot) = self.calls.find(id) else { return };
        let Some(call) = self.calls.get_mut(slot) else { return };
        let Some(index) = call.awaited_child(from).filter(|&index| call.is_streaming(index)) else { return };
        if let (Some(children), Some(streaming)) = (&mut call.children, &mut call.streaming) {
            children[index].answer = ChildAnswer::Done;
            streaming.coming -= 1;
        }
        self.end_if_gone(slot);
    }

    /// Ends a call whose answer has gone up with all its data.
    fn end_if_gone(&mut self, slot: Slot) {
        let gone = |call: &Call| {
            matches!(call.own, OwnPart::Given)
                && call.streaming.as_ref().is_none_or(|streaming| streaming.coming == 0)
        };
        if self.calls.get(slot).is_some_and(gone)
            && let Some(call) = self.remove(slot, End::Done)
        {
            self.calls.recycle(call);
        }
    }

    /// Answers with streaming replies, if there are any; returns whether that settles the call.
    pub(super) fn respond_streaming(&mut self, slot: Slot) -> bool {
        let reply_max = self.config.reply_max;
        let Some(call) = self.calls.get_mut(slot) else { return false };
        let (id, Origin::Parent { id: to, .. }) = (call.request.call, &call.origin) else { return false };
        let to = *to;
        match call.aggregate_streaming_replies(self.config.me, reply_max) {
            None => return false,
            Some(Err(cause)) => self.fail(slot, cause),
            Some(Ok(reply)) => {
                let answer = Answer::Arriving(Box::new(reply));
                self.emit(Output::Send { to, message: Message::Response(Response { call: id, answer }) });
                self.end_if_gone(slot);
            }
        }
        true
    }
}

impl Call {
    /// Whether the reply of a child is streaming.
    pub(super) fn is_streaming(&self, index: usize) -> bool {
        let child = self.children.as_ref().and_then(|children| children.get(index));
        child.is_some_and(|child| child.answer == ChildAnswer::Arriving)
    }

    /// Returns the aggregate of streaming replies, if there are any. It takes the replies out of the call, and leaves
    /// the bodies that show their progress.
    fn aggregate_streaming_replies(
        &mut self,
        me: Id,
        reply_max: u64,
    ) -> Option<Result<StreamingReply, Cause>> {
        let streaming = self.streaming.as_deref_mut().filter(|streaming| !streaming.is_empty())?;
        let own = match std::mem::replace(&mut self.own, OwnPart::Given) {
            OwnPart::Ready(own) => Some(own.into_parts()),
            _ => None,
        };
        let whole = self.arrived.in_list_order().iter();
        let whole = whole.map(|(place, reply)| (*place, ChildReply::Whole(reply.clone())));
        let arriving = streaming.replies.drain(..).map(|(place, reply)| (place, ChildReply::Arriving(reply)));
        let mut replies: Vec<(u32, ChildReply)> = whole.chain(arriving).collect();
        sort_by_key(&mut replies, |(place, _)| *place);
        sort_by_key(&mut streaming.bodies, |(place, ..)| *place);
        self.arrived.clear();
        let replies: Vec<ChildReply> = replies.into_iter().map(|(_, reply)| reply).collect();
        let reply = aggregate_streaming(own, &replies);
        let reply = reply.map_err(|error| over_level(me, error));
        Some(reply.and_then(|reply| match reply.len() {
            len if len > reply_max => Err(over_limit(me, len, reply_max)),
            _ => Ok(reply),
        }))
    }
}

/// The parts of a reply that are still arriving.
fn bodies(data: &StreamingData) -> impl Iterator<Item = &Body> {
    data.parts().iter().filter_map(|part| match part {
        StreamingPart::Arriving(body) => Some(body),
        StreamingPart::Arrived(_) => None,
    })
}
