//! Steps of streaming replies: their heads and their data travel as separate messages.

use gpc_trees::Id;

use super::check::Observation;
use super::event::Event;
use super::faults::{Fault, Mishap};
use super::parcel::Parcel;
use super::ranges::NAMES;
use super::world::World;
use chained_gpc::chain::Input;
use chained_gpc::wire::frame::{FRAME_HEADER, SEGMENT};
use chained_gpc::wire::head::ResponseHead;
use chained_gpc::wire::message::{Answer, Message, Response, SubtreeReply};
use chained_gpc::wire::streaming_reply::{StreamingData, StreamingPart, StreamingReply};
use chained_gpc::wire::{Body, CallId};

/// Where data may stall, one in this many forwarded replies has its data held by an ancestor.
const HELD_PARTS: u64 = 2;

impl World {
    /// Sends the head of a long reply; returns whether the message was one.
    pub(super) fn send_long(&mut self, from: Id, to: Id, message: &Message) -> bool {
        self.streaming.ends(from, to, message);
        let Message::Response(Response { call, answer }) = message else { return false };
        let Some(reply) = long(answer) else { return false };
        let (data, _) = Body::arriving(reply.data.len());
        let head = StreamingReply { data: data.into(), ..reply.clone() };
        let bytes = (FRAME_HEADER + ResponseHead::LENGTH + reply.header.len()) as u64;
        let answer = Answer::Arriving(Box::new(head));
        self.transmit(from, to, Message::Response(Response { call: *call, answer }), bytes, false);
        self.perhaps_held(from, to, *call, &reply);
        self.streaming.outgoing.insert((from, *call), (to, reply));
        self.send_data(from, *call);
        self.perhaps_breaks(from, *call);
        true
    }

    /// Sometimes holds the data of a forwarded reply, as if an ancestor took none for a while.
    fn perhaps_held(&mut self, from: Id, to: Id, call: CallId, reply: &StreamingReply) {
        let passed_on = reply.data.parts().iter().any(|part| matches!(part, StreamingPart::Arriving(_)));
        let Some(longest) = self.mishaps.as_ref().filter(|it| self.now < it.end).map(|it| it.longest) else {
            return;
        };
        let history = &mut self.profile.history;
        if passed_on && history.stalls && history.random.chance(1, HELD_PARTS) {
            // Mostly until the limit has passed: then this id has data that it has not forwarded.
            let lasts = if history.random.chance(2, 3) { longest } else { history.random.below(longest) };
            let until = self.now + 1 + lasts;
            self.streaming.held.insert((from, call));
            self.inject(Fault::Delay, &[from, to]);
            self.queue.push(until, Event::GoesUp { id: from, run: self.hosts.run(from), call });
        }
    }

    /// Sends the data of a reply that was held.
    pub(super) fn goes_up(&mut self, id: Id, run: u32, call: CallId) {
        if self.hosts.is_up(id) && self.hosts.run(id) == run && self.streaming.held.remove(&(id, call)) {
            self.send_data(id, call);
        }
    }

    /// Sometimes breaks a link of a child whose data a long reply waits for; perhaps the link that carries the data.
    fn perhaps_breaks(&mut self, id: Id, call: CallId) {
        let Some(mishaps) =
            self.mishaps.as_mut().filter(|_| self.streaming.outgoing.contains_key(&(id, call)))
        else {
            return;
        };
        let below = self.streaming.incoming.range((id, 0, NAMES[0])..=(id, Id::MAX, NAMES[1]));
        let mut below = below.filter(|((_, _, of), _)| *of == call).map(|((_, child, _), _)| *child);
        let Some(child) = below.next().filter(|_| mishaps.breaks_reply(self.now)) else { return };
        let latest = self.hosts.cost(id, child).latency_ns;
        let at = self.now + 1 + self.random.below(latest.max(1));
        let hard = self.random.chance(3, 4);
        self.queue.push(at, Event::Mishap(Box::new(Mishap::Break { hard, of: Some(child) })));
    }

    /// Sends the data of a long reply once they are complete.
    fn send_data(&mut self, from: Id, call: CallId) {
        if self.streaming.held.contains(&(from, call)) {
            return;
        }
        let Some((to, reply)) = self.streaming.outgoing.get(&(from, call)) else { return };
        let to = *to;
        pass_on(&reply.data);
        let Some(whole) = reply.whole() else { return };
        self.streaming.outgoing.remove(&(from, call));
        let bytes = whole.data.len() as u64;
        self.trace.say(self.now, format_args!("{from} -> {to}: the {bytes} bytes of its reply to {call}"));
        let answer = Answer::Reply(whole);
        self.transmit(from, to, Message::Response(Response { call, answer }), bytes, true);
    }

    /// Handles a message that may be the head of a long reply; returns whether it was.
    pub(super) fn head_came(&mut self, at: Id, from: Id, message: &Message) -> bool {
        self.streaming.hears(at, from, message);
        self.report_need_of_whole(at, from, message);
        let Message::Response(Response { call, answer: Answer::Arriving(head) }) = message else {
            return false;
        };
        // As in the runtime, a reply that no call waits for is dropped.
        if !self.node(at).is_some_and(|node| node.awaits(from, *call)) {
            self.observe(&Observation::HeadDropped { at, from, call: *call });
            return true;
        }
        let passes_on = self.node(at).is_some_and(|node| node.passes_on(from, *call));
        let (data, writer) = Body::arriving(head.data.len());
        self.streaming.incoming.insert((at, from, *call), passes_on.then_some(writer));
        if passes_on {
            let head = StreamingReply { data: data.into(), ..StreamingReply::clone(head) };
            let answer = Answer::Arriving(Box::new(head));
            let message = Message::Response(Response { call: *call, answer });
            self.observe(&Observation::Received { at, from, message: &message });
            self.input(at, Input::Message { from, message });
        }
        true
    }

    /// A long reply of a partial call arrives whole: its receiver must ask for that, or its driver would deliver the
    /// head alone.
    pub(super) fn report_need_of_whole(&mut self, at: Id, from: Id, message: &Message) {
        if let Message::Response(Response { call, answer: Answer::Partial(partial) }) = message
            && partial.reply.data.len() > SEGMENT
            && self.call(*call).is_some_and(|state| state.plan.partial)
            && self.node(at).is_some_and(|node| node.passes_on(from, *call))
        {
            self.observe(&Observation::HeadDropped { at, from, call: *call });
        }
    }

    /// Handles the data of a long reply.
    pub(super) fn data_came(&mut self, parcel: Parcel) {
        let Parcel { from, to: at, message, .. } = parcel;
        let Message::Response(Response { call, answer: Answer::Reply(reply) }) = &message else { return };
        let call = *call;
        // Data without their head are dropped.
        let Some(writer) = self.streaming.incoming.remove(&(at, from, call)) else { return };
        if writer.is_none() && !self.node(at).is_some_and(|node| node.awaits(from, call)) {
            return;
        }
        self.observe(&Observation::Received { at, from, message: &message });
        let Some(mut writer) = writer else { return self.input(at, Input::Message { from, message }) };
        writer.fill(reply.data.clone());
        self.input(at, Input::ReplyArrived { from, call });
        self.send_data(at, call);
    }
}

/// The sender's view of a reply of more than a frame; `None` for other answers.
fn long(answer: &Answer) -> Option<StreamingReply> {
    match answer {
        Answer::Arriving(reply) => Some(StreamingReply::clone(reply)),
        // A traced reply is needed whole, as is that of a partial call.
        Answer::Reply(SubtreeReply { level, header, data, trace })
            if data.len() > SEGMENT && trace.is_empty() =>
        {
            let mut streaming = StreamingData::default();
            streaming.push_arrived(data);
            Some(StreamingReply { level: *level, header: header.clone(), data: streaming })
        }
        Answer::Reply(_) | Answer::Completed | Answer::Failed(_) | Answer::Partial(_) => None,
    }
}

/// Marks complete data as forwarded, up to the first part that is incomplete.
fn pass_on(streaming: &StreamingData) {
    for part in streaming.parts() {
        match part {
            StreamingPart::Arrived(_) => {}
            StreamingPart::Arriving(body) if body.is_whole() => body.passed(body.len()),
            StreamingPart::Arriving(_) => return,
        }
    }
}
