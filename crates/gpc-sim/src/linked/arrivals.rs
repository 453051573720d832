//! Inputs that links make for the chains.

use gpc_trees::Id;

use super::given::{GivenMessage, GivenMessages, Kind, Name, Origin};
use super::network::REFUSED;
use super::{Linked, address_of};
use crate::check::Observation;
use crate::faults::Fault;
use crate::world::World;
use chained_gpc::chain::Input;
use chained_gpc::link::{Arrival, LostLink, UnsentRequests};
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{CallId, CauseKind, Message, Stage};

impl World {
    /// Lets the links of all processes that have something to do go on: inputs for their chains, and writes.
    pub(crate) fn serve_links(&mut self) {
        // This loop ends: what an input causes is finite, and nothing is read meanwhile.
        while let Some(id) = self.linked().touched.pop_front() {
            if self.hosts.is_up(id) {
                self.take_in_arrivals_of(id);
                self.flush(id);
                self.links_are_steady(id);
                self.await_deadline(id);
            }
        }
    }

    /// Gives the chain of a process its pending inputs.
    pub(super) fn take_in_arrivals_of(&mut self, id: Id) {
        while self.hosts.is_up(id)
            && let Some(arrival) = self.process(id).links.arrivals.pop_front()
        {
            self.linked().touch(id);
            match arrival {
                Arrival::Input(input) => self.take_in_input(id, input),
                Arrival::Lost(lost) => self.take_in_loss(id, lost),
            }
        }
    }

    fn take_in_input(&mut self, id: Id, input: Input) {
        match input {
            Input::LinkUp { peer, incarnation } => {
                let begun = self.begun_of(id, peer);
                let wrong = self.process(id).announced.up(peer, incarnation, begun);
                self.blame(id, wrong);
                self.trace.say(
                    self.now,
                    format_args!("{id} is linked with the run of {peer} that began at {incarnation}"),
                );
                self.observe(&Observation::LinkUp { at: id, peer });
                self.input(id, Input::LinkUp { peer, incarnation });
                self.perhaps_asked_again(id, peer);
            }
            Input::Message { from, message } => self.take_in_message(id, from, message),
            Input::ReplyArrived { from, call } => self.take_in_reply(id, from, call),
            Input::Heartbeat(peer) => {
                self.trace.say(self.now, format_args!("{id} notices that {peer} reads or writes"));
                self.observe(&Observation::Heard { at: id, from: peer });
                self.input(id, Input::Heartbeat(peer));
            }
            Input::PingLeft(peer) => {
                self.trace.say(self.now, format_args!("{id} has sent its question to {peer}"));
                let place = self.linked().place_up(id, peer);
                let end = place.map(|(pipe, side)| self.linked().end((pipe, 1 - side)));
                if end.is_some_and(|end| !end.rules.question_left()) {
                    self.blame(
                        id,
                        Some(format!("is told that its question to {peer} has left, and none has")),
                    );
                }
                self.observe(&Observation::PingLeft { at: id, peer, asked_ns: self.now });
                self.input(id, Input::PingLeft(peer));
            }
            Input::Unreachable { peer, call, why } => {
                self.observe(&Observation::LinkEnded { at: id, peer, unreached: true });
                self.input(id, Input::Unreachable { peer, call, why });
            }
            other => self.input(id, other),
        }
    }

    /// Start of the run at the other end of a link.
    fn begun_of(&mut self, id: Id, peer: Id) -> u64 {
        let place = self.linked().place_up(id, peer);
        place.map_or(0, |(pipe, side)| self.linked().end((pipe, 1 - side)).begun)
    }

    /// A message of a peer arrives as an input.
    fn take_in_message(&mut self, id: Id, from: Id, message: Message) {
        let Some(place) = self.linked().reading else {
            return self.blame(id, Some(format!("hears {from} though nothing is read")));
        };
        let (pipe, side) = place;
        let begun = self.linked().end((pipe, 1 - side)).begun;
        let wrong = self.process(id).announced.comes(from, begun);
        self.blame(id, wrong);
        let given_up = !self.linked().end((pipe, 1 - side)).open;
        if given_up && matches!(&message, Message::Request(request) if request.partial) {
            // Messages sent before the link was given up still arrive; an adopter may have passed the receiver
            // meanwhile.
            self.inject(Fault::Duplicate, &[from, id]);
        }
        if lacks_memory(&message, from) {
            self.owns_up_to_little_memory(from);
        }
        let name = Name::of(&message);
        let given = match self.linked().end(place).given.arrived(&message) {
            Some(Ok(given)) => given,
            Some(Err(before)) => {
                self.blame(id, Some(format!("hears {name:?} of {from} before {before:?}")));
                GivenMessage::new(&message, Origin::ByNode, self.now)
            }
            // The link of the peer has refused a request that its chain never had: that counts as an answer.
            None if is_refusal(&message) => GivenMessage::new(&message, Origin::ByNode, self.now),
            None if is_of_links(name.kind) => GivenMessage::new(&message, Origin::Lie, self.now),
            None => {
                self.blame(id, Some(format!("hears {name:?} of {from}, which was not sent on this link")));
                GivenMessage::new(&message, Origin::Lie, self.now)
            }
        };
        match (name.kind, name.call) {
            (Kind::Cancel, Some(call)) => self.end_of_reply((pipe, 1 - side), call),
            (Kind::Response, Some(call)) => {
                self.linked().end((pipe, 1 - side)).given.take_back(Name::request(call));
                if !arrives_later(&message) {
                    // The reply is whole, or of no use.
                    self.linked().end(place).rules.reply(call);
                }
            }
            _ => {}
        }
        let message = match message {
            Message::Request(request) => Message::Request(given.exact((*request).clone()).into()),
            other => other,
        };
        self.trace.fold([self.now, 8, u64::from(from) << 32 | u64::from(id), 0]);
        self.report_need_of_whole(id, from, &message);
        self.comes_in(id, from, given.origin == Origin::Lie, given.sent, message);
    }

    /// The data of a reply that is passed on have arrived.
    fn take_in_reply(&mut self, id: Id, from: Id, call: CallId) {
        let place = self.linked().reading;
        let Some(reply) = place.and_then(|place| self.linked().end(place).rules.reply(call)) else {
            return self
                .blame(id, Some(format!("has all of the reply of {from} to {call} before it is written")));
        };
        let message = Message::Response(Response { call, answer: Answer::Reply(reply) });
        self.observe(&Observation::Received { at: id, from, message: &message });
        self.input(id, Input::ReplyArrived { from, call });
    }

    /// A link, or an attempt to open one, is lost.
    fn take_in_loss(&mut self, id: Id, lost: LostLink) {
        let LostLink { peer, kind, why, unreached, unsent } = lost;
        if why.contains(REFUSED) && !why.contains(&address_of(peer)) {
            self.blame(
                id,
                Some(format!("cannot reach {peer}, and does not say where that should be: {why}")),
            );
        }
        if let Some(unsent) = unsent {
            if let Some(mishaps) = &mut self.mishaps {
                mishaps.repeats.never_left(id, peer, unsent.calls());
            }
            if self.loses_nothing(id, peer, &unsent) {
                return self.go_on_later(id, peer, unsent);
            }
        }
        let process = self.process(id);
        process.queued.remove(&peer);
        let unreached = process.links.drop_pending(peer) && unreached;
        let wrong = process.announced.lost(peer, unreached);
        self.blame(id, wrong);
        self.lose_link_for(id, peer, kind, why, unreached);
    }

    /// Whether all that a lost link was used for are requests of which no byte has left.
    fn loses_nothing(&mut self, id: Id, peer: Id, unsent: &UnsentRequests) -> bool {
        let process = self.process(id);
        let calls = process.links.unsent_calls(peer, unsent);
        let may_open = process.links.may_open(peer);
        may_open && self.node(id).is_some_and(|node| node.is_involved_only_in(peer, &calls))
    }

    /// Requests of which no byte has left wait for the next link. The chain learns nothing of the loss.
    fn go_on_later(&mut self, id: Id, peer: Id, unsent: Box<UnsentRequests>) {
        self.trace.say(
            self.now,
            format_args!("{id} keeps {} requests for the next link to {peer}", unsent.calls().len()),
        );
        let process = self.process(id);
        process.announced.ended(peer);
        let last = process.last_links.get(&peer).copied();
        let mut queued = GivenMessages::default();
        if let Some((pipe, side)) = last {
            let given = self.linked().end((pipe, 1 - side)).given.take();
            for mut message in given.filter(|message| message.is_request_of(unsent.calls())) {
                message.note_framed();
                queued.push(message);
            }
        }
        let process = self.process(id);
        let later = process.queued.remove(&peer).unwrap_or_default().take();
        later.for_each(|message| queued.push(message));
        process.queued.insert(peer, queued);
        self.process(id).links.resend(peer, unsent);
        self.settle_links(id);
    }
}

/// Whether a link itself sends such messages: a question whether an old run lives, and a cancel of a reply that is of
/// no use.
fn is_of_links(kind: Kind) -> bool {
    matches!(kind, Kind::Ping | Kind::Cancel)
}

/// Whether its sender says that it has no memory.
fn lacks_memory(message: &Message, from: Id) -> bool {
    match message {
        Message::Response(Response { answer: Answer::Failed(failure), .. }) => {
            (failure.cause.id, failure.cause.kind) == (from, CauseKind::NoMemory)
        }
        _ => false,
    }
}

/// Whether it refuses a request before anything is executed.
fn is_refusal(message: &Message) -> bool {
    match message {
        Message::Response(Response { answer: Answer::Failed(failure), .. }) => {
            failure.cause.stage == Stage::Setup
        }
        _ => false,
    }
}

fn arrives_later(message: &Message) -> bool {
    matches!(message, Message::Response(Response { answer: Answer::Arriving(_), .. }))
}

impl Linked {
    /// The receiver drops the rest of a reply.
    pub(super) fn reply_is_dropped(&mut self, id: Id, peer: Id, call: CallId) {
        if let Some(place) = self.place_up(id, peer) {
            self.end(place).given.take_back(Name::response(call));
        }
    }
}
