//! Gives inputs to nodes and carries out their outputs: messages sent, calls ended.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::Id;
use smallvec::SmallVec;

use super::call_of::call_of;
use super::calls::CallState;
use super::check::{Held, Limits, Observation, Outcome};
use super::classes::{EXECUTOR, classes_of, has_usual_classes};
use super::cost::wire_bytes;
use super::event::{Event, Question};
use super::faults::{Fate, Fault, Passage, Receipt};
use super::hosts::held;
use super::large::LARGE;
use super::parcel::{Parcel, Sent};
use super::path::ReceivedMessage;
use super::trace::{MessageText, digest};
use super::world::World;
use chained_gpc::chain::{Config, Input, Node, Output, Time};
use chained_gpc::wire::budget::Budget;
use chained_gpc::wire::message::{Answer, Response};
use chained_gpc::wire::{Body, CallId, Message, Request};

/// The peers and workers that a node needs are checked at one event in this many, to limit the cost.
const INVOLVED_EVERY: u64 = 4;

/// Where data may stall, those of one in this many long replies do, for as long as a fault may last. The heads of these
/// replies have already been sent.
const STALLED_PARTS: u64 = 3;

/// In a large world, messages are repeated on the links of one in this many ids. Few of a hundred thousand links break,
/// and recording what each carried costs time and memory.
const REPEATING: Id = 8;

impl World {
    /// Gives a node one input and carries out its outputs.
    pub(super) fn input(&mut self, id: Id, input: Input) {
        // An input that the link brings follows at once.
        let more = matches!(input, Input::LinkUp { .. });
        if self.drain(id, input).is_none() {
            return;
        }
        self.settle(id);
        self.ask_about_calls(id);
        if !more {
            self.release_spare_memory(id);
        }
    }

    /// Gives a node one input and carries out its outputs. Outputs make no input by themselves, so the node is drained
    /// before its next input.
    fn drain(&mut self, id: Id, input: Input) -> Option<()> {
        let (now, mut outputs) = (self.now, std::mem::take(&mut self.buffers.outputs));
        self.node(id)?.input(Time::from_nanos(now), input, &mut outputs);
        self.buffers.outputs = outputs;
        while let Some(output) = self.buffers.outputs.pop_front() {
            self.carry_out(id, output);
        }
        Some(())
    }

    /// The node of a process that is up; made if needed.
    pub(super) fn node(&mut self, id: Id) -> Option<&mut Node> {
        let (workers, heartbeat, restart_margin) =
            (self.settings.workers, self.settings.heartbeat, self.settings.under_way_max);
        let limits = self.profile.limits;
        let (sizes, plan_at_once) = (self.profile.history.sizes, self.profile.history.plan_at_once);
        let (up, incarnation) = (self.hosts.is_up(id), self.hosts.incarnation(id));
        let host = self.hosts.at(id);
        let (started, first_run) = (Time::from_nanos(host.begun), host.run == 0);
        let node = || {
            let mut config = Config {
                workers,
                executors: vec![EXECUTOR],
                restart_margin,
                heartbeat,
                plan_at_once,
                sizes,
                started,
                first_run,
                ..Config::new(id, incarnation)
            };
            if let Some(limits) = limits {
                let Limits { calls_max, data_max, reply_max, adopted_max, memory_max, .. } = limits;
                (config.calls_max, config.data_max) = (calls_max, data_max);
                (config.reply_max, config.adopted_max) = (reply_max, adopted_max);
                config.trees.fan_out = config.trees.fan_out.min(limits.children_of(id));
                if memory_max < u64::MAX {
                    config.memory = Budget::new(memory_max, format!("id {id}"));
                }
            }
            Box::new(Node::new(config))
        };
        up.then(|| &mut **host.node.get_or_insert_with(node))
    }

    /// Finishes an input: feeds back the functions that ended inline, sets the timer, and reports what the node holds.
    pub(super) fn settle(&mut self, id: Id) {
        // This loop ends: a job ends once, and a call has one func, one continuation for each piece of data, and one
        // callback for each child.
        while let Some((call, result)) = self.buffers.ended.pop_front() {
            self.ran(id, call, &result);
            self.drain(id, Input::Ran { call, result });
        }
        let (now, workers) = (self.now, [self.settings.workers, EXECUTOR]);
        let host = self.hosts.at(id);
        let Some(node) = host.node.as_deref() else { return };
        let next = node.next_deadline();
        let held = held(node, next, self.scenario.n <= LARGE);
        let goes_on = next.is_some_and(|next| next.as_nanos() <= now);
        if let Some(next) = next.map(Time::as_nanos).filter(|&next| next < host.timer) {
            host.timer = next;
            self.queue.push_timer(next, id);
        }
        let until = next.map_or(u64::MAX, Time::as_nanos);
        self.trace.fold_deep([held.calls as u64, held.retained_answers as u64, held.memory, until]);
        self.checkers.observe(now, &Observation::Held { id, held: Held { goes_on, ..held }, workers });
    }

    /// At some events of a small world, asks a node what drivers ask: its peers in calls, and the workers that its own
    /// calls still need.
    pub(super) fn ask_about_calls(&mut self, id: Id) {
        let asked = self.scenario.n <= LARGE && self.counts.events.is_multiple_of(INVOLVED_EVERY);
        let Some(node) = self.hosts.at(id).node.as_deref().filter(|_| asked) else { return };
        let with = node.involved();
        let in_flight =
            |call: &CallState| call.name.is_some_and(|name| name.root == id) && call.ended.is_none();
        // Tickets are indices into the list of calls.
        let calls = (0..).zip(&self.calls.all).filter(|(_, call)| in_flight(call));
        let needs: SmallVec<[_; 4]> =
            calls.filter_map(|(ticket, call)| Some((call.name?, node.needs_workers(ticket)))).collect();
        self.observe(&Observation::Involved { id, with: &with });
        for (call, classes) in needs {
            self.observe(&Observation::Needs { call, classes });
        }
    }

    pub(super) fn carry_out(&mut self, id: Id, output: Output) {
        match output {
            Output::Send { to, message } => self.send(id, to, message),
            Output::Run(job) => self.execute(id, job),
            Output::Consumed { from } => {
                self.trace.fold_deep([self.now, 10, id.into(), from.into()]);
                self.consumed(id, from);
            }
            Output::Finished { ticket, call, result, report } => {
                // Tickets are indices into the list of calls.
                let (result, report) = (result.map_err(|failure| *failure), report.map(|report| *report));
                self.finished(id, ticket as usize, call, Outcome { result, report });
            }
            Output::Abandon { peer } => self.abandon(id, peer),
            Output::ChildReply { ticket, group, reply, report } => {
                // Tickets are indices into the list of calls.
                let call = self.calls.all.get(ticket as usize).and_then(|call| call.name);
                self.trace.fold_deep([self.now, 12, id.into(), group.start.into()]);
                let (reply, report) = (&reply, report.as_deref());
                let seen = |call| Observation::ChildReply { call, group, reply, report };
                call.map(seen).into_iter().for_each(|seen| self.observe(&seen));
            }
            // In the simulator a function runs to its end, even if its call is over.
            Output::Stopped(call) => {
                self.trace.fold_deep([self.now, 11, id.into(), call.sequence]);
                self.observe(&Observation::Stopped { id, call });
            }
        }
    }

    /// A request is consumed: its sender gets credit back.
    pub(super) fn consumed(&mut self, id: Id, from: Id) {
        self.observe(&Observation::Consumed { at: id, from });
        if self.linked.is_some() {
            self.consumed_on_link(id, from);
        }
    }

    pub(super) fn send(&mut self, from: Id, to: Id, message: Message) {
        self.took_part(to);
        self.trace.fold([self.now, 7, u64::from(from) << 32 | u64::from(to), digest(&message)]);
        self.trace.say(self.now, format_args!("{}", MessageText(from, to, &message)));
        self.observe(&Observation::Sent { from, to, message: &message });
        let message = self.perhaps_malformed(from, message);
        let message = self.perhaps_unchecked(from, message);
        let bytes = wire_bytes(&message);
        self.counts.messages += 1;
        self.counts.bytes += bytes;
        if self.linked.is_some() {
            return self.leaves(from, to, message);
        }
        let message = self.through_bytes(from, message);
        if !self.send_long(from, to, &message) {
            self.transmit(from, to, message, bytes, false);
        }
    }

    /// Sends a message of `bytes` bytes over the network.
    pub(super) fn transmit(&mut self, from: Id, to: Id, message: Message, bytes: u64, data: bool) {
        let slowness = self.slowness(from);
        let arrival = self.hosts.leave(self.now, from, to, bytes, slowness);
        let sent = self.now;
        if matches!(message, Message::Ping) {
            let left = arrival - self.hosts.cost(from, to).latency_ns;
            let question = Question { peer: to, epoch: self.epoch_at(from, to), asked: sent };
            self.queue.push(left, Event::PingLeft { id: from, run: self.hosts.run(from), question });
        }
        self.fill_socket(from, to, arrival);
        if self.mishaps.is_some() {
            return self.send_where_links_break(from, to, message, arrival, data);
        }
        let begun = self.hosts.incarnation(from);
        let sent = Sent::at(sent).data(data);
        self.on_its_way(Parcel { from, to, passage: Passage::default(), begun, sent, message }, arrival);
    }

    /// Schedules the arrival of a message. Where one event serves for arrival and handling, it is due when the receiver
    /// has read the message.
    pub(super) fn on_its_way(&mut self, parcel: Parcel, arrival: u64) {
        let at = arrival.saturating_add(self.arrival_delay(parcel.from, parcel.to));
        let parcel = Box::new(parcel);
        self.queue.push(at, Event::Arrive(parcel));
    }

    /// Whether a message to an idle receiver is one event instead of two. In a large world with faults this saves a
    /// third of all events.
    pub(super) fn takes_in_at_once(&self) -> bool {
        self.scenario.n > LARGE && self.mishaps.is_some() && self.linked.is_none()
    }

    /// Delay between arrival and the event of arrival: the receiver's overhead where one event serves for both, else 0.
    fn arrival_delay(&self, from: Id, to: Id) -> u64 {
        if self.takes_in_at_once() { self.hosts.cost(from, to).overhead_ns } else { 0 }
    }

    fn send_where_links_break(&mut self, from: Id, to: Id, message: Message, arrival: u64, data: bool) {
        let (sent, lives) = (self.now, self.hosts.is_up(to));
        let refuses = self.mishaps.as_ref().is_some_and(|mishaps| mishaps.timing.refuses(from, to, sent));
        let up = lives && !refuses;
        let Some(mishaps) = &mut self.mishaps else { return };
        let opens = matches!(message, Message::Request(_) | Message::Ping);
        match mishaps.links.send(from, to, opens, up) {
            Fate::Vanishes => self.trace.say(sent, format_args!("  into a link that is lost")),
            Fate::Refused(epoch) => {
                if lives {
                    self.inject(Fault::Refused, &[from, to]);
                }
                let latency = self.hosts.cost(from, to).latency_ns;
                let run = self.hosts.run(from);
                self.queue.push(arrival + latency, Event::Notice { id: from, run, peer: to, epoch });
            }
            Fate::Goes(passage) => self.goes(from, to, passage, message, arrival, data),
        }
    }

    /// Sends a message over a link that is up, subject to faults.
    fn goes(&mut self, from: Id, to: Id, passage: Passage, message: Message, arrival: u64, data: bool) {
        let (sent, begun) = (self.now, self.hosts.incarnation(from));
        let (mut late, mut orphans, mut copy, mut lied) = (0, false, None, None);
        let repeats = self.scenario.n <= LARGE || from.min(to).is_multiple_of(REPEATING);
        if let Some(mishaps) = &mut self.mishaps {
            let again = repeats && mishaps.used.has(Fault::Duplicate) && !data;
            if let Some(copy) = again.then(|| may_come_again(&message)).flatten() {
                let runs = [self.hosts.run(from), self.hosts.run(to)];
                mishaps.repeats.remember(sent, from, to, runs, copy);
            }
            let stalls = data && self.profile.history.stalls && sent < mishaps.end;
            // Where data already wait, those of another child arrive after the limit.
            let waits = stalls && self.streaming.is_waited_for(to, &message);
            let stalls = stalls && self.random.chance(1, if waits { 2 } else { STALLED_PARTS });
            late = match stalls {
                true if waits || self.random.chance(1, 2) => mishaps.longest,
                true => self.random.below(mishaps.longest),
                false => mishaps.lateness(&mut self.random, sent),
            };
            if stalls {
                self.streaming.stall(to, &message);
            }
            if matches!(message, Message::Request(_)) {
                let forged;
                (orphans, forged) = mishaps.request(sent);
                copy = forged.then(|| message.clone());
            }
            let lies = call_of(&message).is_some_and(|_| mishaps.count_message(sent));
            lied = lies.then(|| message.clone());
        }
        let due = arrival;
        let arrival = self.in_order(from, to, passage, arrival.saturating_add(late));
        let sent = Sent::at(sent).data(data);
        let parcel = Parcel { from, to, passage, begun, sent, message };
        self.on_its_way(parcel, arrival);
        if late > 0 {
            self.inject(Fault::Delay, &[from, to]);
        }
        if orphans {
            self.orphan(from, to, arrival);
        }
        copy.into_iter().for_each(|copy| self.forge(from, to, copy, arrival));
        lied.into_iter().for_each(|message| self.lie(from, to, &message, due));
    }

    /// Arrival time of a message, given its earliest time `at` and the order of its link.
    pub(super) fn in_order(&mut self, from: Id, to: Id, passage: Passage, at: u64) -> u64 {
        match &mut self.mishaps {
            Some(mishaps) => mishaps.links.in_order(from, to, passage, at),
            None => at,
        }
    }

    fn epoch_at(&self, id: Id, peer: Id) -> u32 {
        self.mishaps.as_ref().map_or(0, |mishaps| mishaps.links.epoch_at(id, peer))
    }

    /// A heartbeat request has left. A request that went down with its link has not: a driver reports nothing more of a
    /// lost link.
    pub(super) fn ping_left(&mut self, id: Id, run: u32, question: Question) {
        let Question { peer, epoch, asked } = question;
        if self.hosts.is_up(id) && self.hosts.run(id) == run && self.epoch_at(id, peer) == epoch {
            self.trace.say(self.now, format_args!("{id} has sent its question to {peer}"));
            self.observe(&Observation::PingLeft { at: id, peer, asked_ns: asked });
            self.input(id, Input::PingLeft(peer));
        }
    }

    /// Sometimes fills the socket to a peer; the node learns later that the socket has taken bytes.
    fn fill_socket(&mut self, from: Id, to: Id, arrival: u64) {
        let Some(heartbeat) = self.settings.heartbeat.filter(|_| self.profile.full_sockets) else { return };
        // In a large world this is rare, since each time adds an event.
        let one_in = if self.scenario.n > LARGE { 64 } else { 4 };
        if self.random.chance(1, one_in) {
            let most = heartbeat.dead_after.as_nanos() as u64;
            let at = arrival + self.random.below(most.max(1));
            let (run, epoch) = (self.hosts.run(from), self.epoch_at(from, to));
            self.queue.push(at, Event::Taken { id: from, run, peer: to, epoch });
        }
    }

    /// A full socket has taken bytes, if its link is still up.
    pub(super) fn taken(&mut self, id: Id, run: u32, peer: Id, epoch: u32) {
        let stands = self.hosts.is_up(peer) && self.epoch_at(id, peer) == epoch;
        if stands && self.hosts.is_up(id) && self.hosts.run(id) == run {
            self.trace.say(self.now, format_args!("the socket of {id} for {peer} has taken bytes"));
            self.observe(&Observation::Heard { at: id, from: peer });
            self.input(id, Input::Heartbeat(peer));
        }
    }

    /// A message reaches its receiver, which reads it as soon as it can.
    pub(super) fn arrive(&mut self, parcel: Box<Parcel>) {
        let (from, to) = (parcel.from, parcel.to);
        let cut = self.mishaps.as_ref().and_then(|mishaps| mishaps.timing.cut_until(from, to, self.now));
        if let Some(until) = cut {
            return self.queue.push(until, Event::Arrive(parcel));
        }
        let (slowness, delay) = (self.slowness(to), self.arrival_delay(from, to));
        let taken_in = self.hosts.take_in(self.now - delay, from, to, slowness);
        if delay > 0 && taken_in <= self.now {
            let parcel = *parcel;
            return self.handle(parcel);
        }
        self.queue.push(taken_in, Event::Handle(parcel));
    }

    pub(super) fn handle(&mut self, parcel: Parcel) {
        let Parcel { from, to, passage, begun, sent, ref message } = parcel;
        if !self.hosts.is_up(to) {
            return;
        }
        if let Some(mishaps) = &mut self.mishaps {
            match mishaps.links.receive(from, to, passage) {
                Receipt::Dropped => return,
                Receipt::In => {}
                Receipt::InAfterLoss { unreached } => self.lose_link(to, from, unreached),
            }
            self.link_comes_up(to, from, passage, begun);
        }
        self.trace.fold([self.now, 8, u64::from(from) << 32 | u64::from(to), 0]);
        if !sent.is_lie() {
            if self.head_came(to, from, message) {
                return;
            }
            if sent.is_data() {
                self.note_path(to, from, sent.time(), message);
                return self.data_came(parcel);
            }
        }
        let message = match sent.is_lie() {
            true => parcel.message,
            false => self.begin_pieces(to, from, passage, parcel.message),
        };
        self.comes_in(to, from, sent.is_lie(), sent.time(), message);
    }

    /// A message reaches its node. Of a lie the node learns only that the peer is alive.
    pub(super) fn comes_in(&mut self, to: Id, from: Id, is_lie: bool, sent: u64, message: Message) {
        let down = matches!(message, Message::Request(_));
        if is_lie {
            self.observe(&Observation::Heard { at: to, from });
            if let Message::Request(request) = &message {
                self.observe(&Observation::Requested { at: to, from });
                self.observe(&Observation::Misdirected { at: to, from, call: request.call });
            }
            if self.on_fast_path(to, from, &message) {
                return self.release_spare_memory(to);
            }
            return self.input(to, Input::Message { from, message });
        }
        if down {
            self.observe(&Observation::Requested { at: to, from });
        }
        self.note_path(to, from, sent, &message);
        self.observe(&Observation::Received { at: to, from, message: &message });
        if self.on_fast_path(to, from, &message) {
            return self.release_spare_memory(to);
        }
        let asked = if let Message::Request(request) = &message { Some(request.call) } else { None };
        self.remember_request(to, &message);
        let message = self.placed(message);
        self.input(to, Input::Message { from, message });
        // Another parent may have sent data that the first one did not.
        asked.into_iter().for_each(|call| self.more_below(to, call));
    }

    /// Notes a message for the critical path of its call.
    fn note_path(&mut self, to: Id, from: Id, sent: u64, message: &Message) {
        if self.paths.is_some() {
            let down = matches!(message, Message::Request(_));
            let alone = self.hosts.cost(from, to).message_ns(wire_bytes(message));
            let received = ReceivedMessage { from, to, down, sent, received: self.now, alone };
            self.paths.as_mut().into_iter().for_each(|paths| paths.record(received));
        }
    }

    /// From the first message of a link an end learns the incarnation of the peer. An end that receives nothing on a
    /// link learns nothing of it.
    fn link_comes_up(&mut self, id: Id, peer: Id, passage: Passage, incarnation: u64) {
        let up = self.mishaps.as_mut().is_some_and(|mishaps| mishaps.links.comes_up(peer, id, passage));
        if up {
            self.trace.say(
                self.now,
                format_args!("{id} is linked with the run of {peer} that began at {incarnation}"),
            );
            self.observe(&Observation::LinkUp { at: id, peer });
            self.input(id, Input::LinkUp { peer, incarnation });
            self.perhaps_asked_again(id, peer);
        }
    }

    /// The request as its node receives it, with worker classes and merging order. Functions of every other call run on
    /// a named executor.
    fn placed(&self, message: Message) -> Message {
        let Message::Request(mut request) = message else { return message };
        let merging = self.call(request.call).map(|state| state.plan.carries.merging).unwrap_or_default();
        let usual = has_usual_classes(request.call);
        let classes = if usual { request.local.classes } else { classes_of(request.call) };
        if (classes, merging) != (request.local.classes, request.local.merging) {
            let request = Arc::make_mut(&mut request);
            (request.local.classes, request.local.merging) = (classes, merging);
        }
        Message::Request(request)
    }

    pub(super) fn call(&self, call: CallId) -> Option<&CallState> {
        self.calls.named(call)
    }

    /// Rounds a time down to the wire's unit, microseconds; the result is in nanoseconds.
    pub(super) fn whole_us(ns: u64) -> u64 {
        Duration::from_nanos(ns).as_micros() as u64 * 1000
    }
}

/// Copies a message that may arrive twice; `None` for a streaming reply, and for request data that are incomplete. The
/// copy has memory of its own, because memory held by its sender is counted.
pub(super) fn may_come_again(message: &Message) -> Option<Message> {
    match message {
        Message::Response(Response { answer: Answer::Arriving(_), .. }) => None,
        Message::Request(request) if !request.body().is_empty() => {
            let data = Bytes::copy_from_slice(&request.body().bytes()?);
            Some(Message::Request(Arc::new(Request::clone(request).with_body(Body::whole(data)))))
        }
        other => Some(other.clone()),
    }
}
