//! Calls on the fast path, which the runtime uses for quick functions.
//!
//! Only worlds with faults use the fast path, most of them at every second id. These worlds predict no durations, and
//! calls move from the fast path into the tables.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gpc_trees::Id;

use super::check::{FunctionEnd, Observation, Outcome, reason};
use super::classes::has_usual_classes;
use super::faults::{Act, Fault};
use super::large::{FEW, LARGE};
use super::profile::ShortWays;
use super::world::World;
use chained_gpc::chain::{
    CallOrigin, ChildRequest, FastResponse, FastResult, FastSlot, FastStart, Job, Output, Outputs, Reply,
    RootReply, Start, Time, Work,
};
use chained_gpc::wire::head::{AnswerKind, ResponseHead};
use chained_gpc::wire::level::{Leveled, aggregate, level0};
use chained_gpc::wire::message::{Answer, Response, SubtreeReply};
use chained_gpc::wire::short::{KeyBuffer, Particulars, ShortRequest, ShortResponse};
use chained_gpc::wire::{CallId, Message, Payload, Reason, Request};

/// In a small world, one in this many requests is also offered with a position outside the tree.
const NO_PLACE: u64 = 16;

impl World {
    /// Handles a message on the fast path if it qualifies; returns whether it did.
    pub(super) fn on_fast_path(&mut self, id: Id, from: Id, message: &Message) -> bool {
        if !self.takes_short_ways(id) {
            return false;
        }
        match message {
            Message::Request(request) => self.request_on_fast_path(id, from, request).is_some(),
            Message::Response(response) => self.response_on_fast_path(id, from, response).is_some(),
            _ => false,
        }
    }

    fn takes_short_ways(&self, id: Id) -> bool {
        let short = match self.profile.short_ways {
            // A plan and its buffers take as much memory as the rest of a node that waits for replies.
            ShortWays::All | ShortWays::Odd if self.scenario.n > LARGE => id % FEW == 1,
            ShortWays::All => true,
            ShortWays::Odd => id % 2 == 1,
            ShortWays::None => false,
        };
        self.mishaps.is_some() && short
    }

    /// Starts a call on the fast path if it qualifies; returns whether it did.
    pub(super) fn starts_on_fast_path(&mut self, id: Id, ticket: u64, start: &Start) -> bool {
        self.takes_short_ways(id) && self.start_on_fast_path(id, ticket, start).is_some()
    }

    fn start_on_fast_path(&mut self, id: Id, ticket: u64, start: &Start) -> Option<()> {
        let (now, data) = (Time::from_nanos(self.now), start.data.as_bytes()?);
        let act = self.calls.all.get(ticket as usize).and_then(|state| state.acts.get(&id)).copied();
        if !start.watch && !is_quick(act) {
            return None;
        }
        let mut room = KeyBuffer::default();
        let node = self.node(id)?;
        let request = start.short(node.next_name(), &data, &mut room)?;
        if !node.start_fast(now, &request, start.watch) {
            return None;
        }
        let origin = CallOrigin::Application { ticket, watch: start.watch };
        if !start.watch && overruns(id, request.particulars.call) {
            let whole = request.particulars.request(&request.plan, start.ids.clone())?;
            return self.overrun(id, origin, Request { limit: start.limit, left: start.limit, ..whole });
        }
        self.run_on_fast_path(id, origin, &request.particulars, act, (Duration::ZERO, start.limit))
    }

    fn request_on_fast_path(&mut self, id: Id, from: Id, request: &Request) -> Option<()> {
        if !has_usual_classes(request.call) {
            return None;
        }
        let act = self.call(request.call).and_then(|state| state.acts.get(&id)).copied();
        let mut room = std::mem::take(&mut self.buffers.plan);
        let begun = is_quick(act).then(|| self.begin_on_fast_path(id, from, request, act, &mut room));
        self.buffers.plan = room;
        begun?
    }

    fn begin_on_fast_path(
        &mut self,
        id: Id,
        from: Id,
        request: &Request,
        act: Option<Act>,
        room: &mut KeyBuffer,
    ) -> Option<()> {
        let (now, data) = (Time::from_nanos(self.now), request.data.as_bytes()?);
        let short = ShortRequest::of(request, &data, room)?;
        self.offers_no_place(id, from, &short);
        match self.node(id)?.begin_fast(|| now, from, &short) {
            FastStart::General => None,
            _ if overruns(id, request.call) => self.overrun(id, CallOrigin::Parent(from), request.clone()),
            FastStart::Leaf => self.run_alone(id, from, request.call, act),
            FastStart::WithChildren => {
                let times = (request.age, request.left.max(request.limit));
                self.run_on_fast_path(id, CallOrigin::Parent(from), &short.particulars, act, times)
            }
        }
    }

    /// Sometimes offers the request with a position after the whole tree. The fast path must leave it to the general
    /// parser, which rejects it.
    fn offers_no_place(&mut self, id: Id, from: Id, short: &ShortRequest<'_>) {
        let now = Time::from_nanos(self.now);
        if self.scenario.n > LARGE || !self.profile.history.random.chance(1, NO_PLACE) {
            return;
        }
        let particulars = Particulars { position: short.particulars.total, ..short.particulars };
        let none = ShortRequest { particulars, ..*short };
        let begun = self.node(id).map(|node| node.begin_fast(|| now, from, &none));
        assert!(
            matches!(begun, None | Some(FastStart::General)),
            "a request for a place that there is none of is not taken"
        );
    }

    /// Moves a call whose func is still running into the tables.
    fn overrun(&mut self, id: Id, origin: CallOrigin, request: Request) -> Option<()> {
        let (begun, call) = (Time::from_nanos(self.now), request.call);
        let parent = match origin {
            CallOrigin::Parent(parent) => Some(parent),
            CallOrigin::Application { .. } => None,
        };
        let until = begun.plus(request.limit);
        let (whole, work) = (Arc::new(request.clone()), Work::Func);
        let mut outputs = Outputs::new();
        self.node(id)?.func_overran(origin, request, begun, &mut outputs);
        self.carry_out(id, Output::Run(Job { call, me: id, parent, request: whole, until, work }));
        self.carry_out_all(id, outputs);
        Some(())
    }

    /// Runs func at an id without children, and responds.
    fn run_alone(&mut self, id: Id, from: Id, call: CallId, act: Option<Act>) -> Option<()> {
        let result = self.func_on_fast_path(id, call, act);
        self.ran_on_fast_path(id, call, result.is_ok());
        self.consumed(id, from);
        let node = self.node(id)?;
        let (ids, room) = node.leaf_room()?;
        let alone = ids.len() == 1 && *room == Reply::default();
        let result = reply_into(room, result);
        let answer = match node.leaf_ran(call, result) {
            Ok((head, answer)) => {
                let (mut start, mut rest) = (Vec::new(), BytesMut::new());
                answer.emit_start(&mut start);
                answer.emit_rest(&mut rest);
                read_alone(&head, [start, rest.into()].concat())
            }
            Err(answer) => *answer,
        };
        node.leaf_answered();
        assert!(alone, "func runs over its own id, on an empty reply");
        self.send(id, from, Message::Response(Response { call, answer }));
        Some(())
    }

    /// Reports that func has run.
    fn ran_on_fast_path(&mut self, id: Id, call: CallId, well: bool) {
        let run = self.hosts.run(id);
        self.trace.say(self.now, format_args!("{id} executes {call} on the fast path"));
        self.observe(&Observation::Began { id, call, until: None });
        self.observe(&Observation::Executed { id, run, call });
        self.settle(id);
        let end = if well { FunctionEnd::Through } else { FunctionEnd::Failed };
        self.observe(&Observation::Ran { id, call, end });
    }

    /// Runs func and handles its result. The call's age and the rest of its limit are exact, as in all messages of the
    /// simulator; frames carry whole milliseconds.
    fn run_on_fast_path(
        &mut self,
        id: Id,
        origin: CallOrigin,
        of: &Particulars<'_>,
        act: Option<Act>,
        (age, left): (Duration, Duration),
    ) -> Option<()> {
        let call = of.call;
        let watches = matches!(origin, CallOrigin::Application { watch: true, .. });
        let result = match watches {
            true => Ok(Reply::default()),
            false => self.func_on_fast_path(id, call, act),
        };
        if !watches {
            self.ran_on_fast_path(id, call, result.is_ok());
        }
        if let CallOrigin::Parent(from) = origin {
            self.consumed(id, from);
        }
        let now = Time::from_nanos(self.now);
        let (mut outputs, mut requests) = (Outputs::new(), Vec::new());
        let send = |child: ChildRequest<'_>| {
            let exact = |request| Request { age, left, ..request };
            requests.extend(child.request().map(|request| (child.to, exact(request))));
        };
        let node = self.node(id)?;
        let (_, room) = node.reply_room()?;
        assert_eq!(*room, Reply::default(), "id {id}: func finds the reply of another call");
        let result = reply_into(room, result);
        let ran = node.func_ran(origin, of, result, || now, send, &mut outputs);
        for (to, request) in requests {
            self.send(id, to, Message::Request(Arc::new(request)));
        }
        let answer = match ran {
            FastResult::Waits => None,
            FastResult::Answered(answer) => Some(answer),
        };
        match (origin, answer) {
            (_, None) => {}
            (CallOrigin::Parent(from), Some(answer)) => {
                self.send(id, from, Message::Response(Response { call, answer }));
            }
            (CallOrigin::Application { ticket, .. }, Some(answer)) => {
                self.end_on_fast_path(id, ticket, call, answer)
            }
        }
        self.carry_out_all(id, outputs);
        Some(())
    }

    /// Result of func, with the fault drawn for this id.
    fn func_on_fast_path(&mut self, id: Id, call: CallId, act: Option<Act>) -> Result<Reply, Box<Reason>> {
        match act {
            Some(Act::Fail) => {
                self.inject(Fault::Fail, &[id]);
                Err(reason(Fault::Fail, id))
            }
            Some(Act::Panic) => {
                self.inject(Fault::Panic, &[id]);
                Err(reason(Fault::Panic, id))
            }
            _ => Ok(self.given(id, call)),
        }
    }

    fn response_on_fast_path(&mut self, id: Id, from: Id, response: &Response) -> Option<()> {
        let now = Time::from_nanos(self.now);
        let parts = match &response.answer {
            Answer::Completed => None,
            Answer::Reply(reply) => Some((reply.level, reply.header.to_bytes(), reply.data.to_bytes())),
            Answer::Failed(_) | Answer::Partial(_) | Answer::Arriving(_) => return None,
        };
        let level = parts.as_ref().map_or(0, |(level, _, _)| *level);
        let reply = parts.as_ref().map(|(_, header, data)| (&header[..], &data[..]));
        let short = ShortResponse { call: response.call, level, reply };
        match self.node(id)?.fast_response(|| now, from, &short) {
            FastResponse::General => None,
            FastResponse::Waits => {
                self.settle(id);
                self.ask_about_calls(id);
                Some(())
            }
            FastResponse::Complete(place) => self.complete_on_fast_path(id, place),
        }
    }

    fn complete_on_fast_path(&mut self, id: Id, place: FastSlot) -> Option<()> {
        let now = Time::from_nanos(self.now);
        let (node, mut outputs) = (self.node(id)?, Outputs::new());
        let answer = node.fast_answer(place).map(|(to, head, answer)| {
            let reply = answer.reply(&head).map_or(Answer::Completed, Answer::Reply);
            (to, Response { call: head.call, answer: reply })
        });
        match answer {
            Some((to, response)) => {
                node.end_fast(place);
                self.send(id, to, Message::Response(response));
            }
            None => {
                if let Some(ended) = node.finish_fast(|| now, place, &mut outputs) {
                    let reply = ended.reply.map(|reply| as_asked(ended.call, reply));
                    let answer = reply.map_or(Answer::Completed, Answer::Reply);
                    self.end_on_fast_path(id, ended.ticket, ended.call, answer);
                }
            }
        }
        self.carry_out_all(id, outputs);
        Some(())
    }

    fn end_on_fast_path(&mut self, id: Id, ticket: u64, call: CallId, answer: Answer) {
        let result = answer.into_result().map_err(|failure| *failure);
        self.finished(id, ticket as usize, call, Outcome { result, report: None });
    }

    fn carry_out_all(&mut self, id: Id, outputs: Outputs) {
        for output in outputs {
            self.carry_out(id, output);
        }
        self.settle(id);
        self.ask_about_calls(id);
    }
}

/// Decodes an answer as a parent does; excess bytes become part of the data.
fn read_alone(head: &ResponseHead, bytes: Vec<u8>) -> Answer {
    if head.kind == AnswerKind::Completed && bytes.is_empty() {
        return Answer::Completed;
    }
    let (header, data) = bytes.split_at(bytes.len().min(head.header_len as usize));
    let (header, data) = (Payload::copy_from_slice(header), Payload::copy_from_slice(data));
    Answer::Reply(SubtreeReply { level: head.level, header, data, ..SubtreeReply::default() })
}

/// Whether func is still running when its node continues: at one id in eight, by the call.
fn overruns(id: Id, call: CallId) -> bool {
    (u64::from(id) + call.sequence).is_multiple_of(8)
}

/// Slow functions and deferred replies do not take the fast path.
fn is_quick(act: Option<Act>) -> bool {
    matches!(act, None | Some(Act::Fail | Act::Panic))
}

/// Stores func's reply in its buffer. If func fails, the buffer holds what func wrote before.
fn reply_into(room: &mut Reply, result: Result<Reply, Box<Reason>>) -> Result<(), Box<Reason>> {
    match result {
        Ok(reply) => *room = reply,
        Err(reason) => {
            room.data.extend_from_slice(reason.message.as_bytes());
            return Err(reason);
        }
    }
    Ok(())
}

/// The root's reply as its application reads it: in some calls part by part, in others as one buffer.
fn as_asked(call: CallId, reply: RootReply) -> SubtreeReply {
    let RootReply::Parts(parts) = &reply else { return reply.aggregated() };
    let (mut headers, mut data) = (Vec::new(), Vec::new());
    let of_level_0 = |bytes: &[u8]| Leveled { level: 0, data: level0(Bytes::copy_from_slice(bytes)) };
    let whole = parts.parts(|header, part| {
        headers.push(of_level_0(header));
        data.push(of_level_0(part));
    });
    let joined = |values: &[Leveled]| aggregate(None, values).map(|it| it.data);
    match (joined(&headers), joined(&data)) {
        (Ok(header), Ok(data)) if whole && call.sequence % 4 < 2 => {
            SubtreeReply { level: parts.level(), header, data, ..SubtreeReply::default() }
        }
        _ => reply.aggregated(),
    }
}
