//! What comes on the connections of a process: as `runtime::reading` reads sockets, from simulated connections.

use std::cell::RefCell;

use gpc_trees::Id;

use super::context::Receiver;
use super::step::{ConnectionEvent, Place};
use super::writing::FEW_PARTS;
use crate::check::Observation;
use crate::world::World;
use chained_gpc::link::peering::{FeedContext, LinkKey};
use chained_gpc::link::{Event as LinkEvent, Phase};
use chained_gpc::wire::CallId;
use chained_gpc::wire::frame::FrameError;
use chained_gpc::wire::message::Answer;

impl World {
    /// Bytes arrive at an end; its process reads what it wants of them.
    pub(super) fn read(&mut self, place: Place, bytes: &[u8]) {
        self.linked().end(place).unread.extend_from_slice(bytes);
        // Ends: each round reads bytes.
        while self.read_once(place) {
            let id = self.linked().end(place).id;
            self.take_in_arrivals_of(id);
        }
    }

    /// Reads once; returns whether anything was read.
    fn read_once(&mut self, place: Place) -> bool {
        let (id, key, there) = {
            let end = self.linked().end(place);
            (end.id, end.key, end.unread.len())
        };
        let Some(key) = key.filter(|_| there > 0) else { return false };
        let Some(phase) = self.process(id).links.table.link(key).map(|link| link.phase) else { return false };
        match phase {
            Phase::Closing | Phase::Connecting(_) => false,
            Phase::Greeting => {
                let Some(wanted) = self.process(id).links.peering.wants(key) else { return false };
                let piece = self.take_unread(place, wanted.min(there));
                let now = self.time();
                self.process(id).links.feed_greeting(now, key, &piece, &FeedContext::default());
                self.settle_links(id);
                !piece.is_empty()
            }
            Phase::Up(peer) => {
                let linked = self.linked();
                let cut = linked.settings.cuts && linked.random.chance(1, 2);
                let most = if cut { 1 + linked.random.below(there as u64) as usize } else { there };
                let piece = self.take_unread(place, most);
                self.feed(id, key, peer, place, &piece);
                true
            }
        }
    }

    /// Takes bytes off those that have arrived, which makes room for the writer.
    fn take_unread(&mut self, place: Place, count: usize) -> Vec<u8> {
        let (pipe, side) = place;
        let end = self.linked().end(place);
        let bytes: Vec<u8> = end.unread.drain(..count).collect();
        end.held = end.held.saturating_sub(count);
        let held = end.held;
        let few = self.linked().settings.room / FEW_PARTS;
        let [from, to] = self.sender_and_receiver(pipe, side);
        let writer = self.linked().end((pipe, 1 - side)).key;
        let waits = |world: &mut World, key: LinkKey| {
            let process = world.linked().processes[from as usize].as_deref();
            process.and_then(|process| process.links.table.get(key)).is_some_and(|it| it.blocked)
        };
        if held <= few && writer.is_some_and(|key| waits(self, key)) {
            let at = self.now + self.hosts.cost(to, from).latency_ns;
            self.schedule_event(at, pipe, 1 - side, ConnectionEvent::Room);
        }
        bytes
    }

    /// Gives bytes of a link to its machine, and the inputs that they make to the chain.
    fn feed(&mut self, id: Id, key: LinkKey, peer: Id, place: Place, piece: &[u8]) {
        let now = self.time();
        let mut events = Vec::new();
        let fed = self.feed_inbox(id, key, peer, piece, &mut events);
        self.linked().reading = Some(place);
        let mut came = false;
        for event in events {
            self.notes(id, peer, place, &event);
            let heeded = self.process(id).links.handle_event(now, key, event, |_, _, _| Ok(()));
            self.settle_links(id);
            came |= !self.process(id).links.arrivals.is_empty();
            self.take_in_arrivals_of(id);
            if let Err(why) = heeded {
                if !why.starts_with("it said goodbye") {
                    self.blame(id, Some(format!("finds {peer} wrong: {why}")));
                }
                self.close_link(id, key, &why);
                break;
            }
        }
        self.linked().reading = None;
        if let Err(error) = fed {
            self.blame(id, Some(format!("cannot read what {peer} has written: {error}")));
            self.close_link(id, key, &error.to_string());
        }
        let links = &mut self.process(id).links;
        match links.table.link_mut(key) {
            Some(link) if came => link.has_heartbeat = false,
            Some(_) => {
                links.report_heartbeat(key);
                if !self.hears(id, peer) {
                    self.blame(
                        id,
                        Some(format!("has read bytes of {peer}, and its node is not told that it lives")),
                    );
                }
            }
            None => {}
        }
        self.linked().touch(id);
    }

    /// Gives bytes of a link to its receiving side, some of them straight to where they belong.
    fn feed_inbox(
        &mut self,
        id: Id,
        key: LinkKey,
        peer: Id,
        mut piece: &[u8],
        events: &mut Vec<LinkEvent>,
    ) -> Result<(), FrameError> {
        if self.node(id).is_none() {
            return Ok(());
        }
        let straight = self.linked().settings.cuts && self.linked().random.chance(1, 2);
        let World { hosts, linked, .. } = self;
        let linked = linked.as_deref_mut();
        let process = linked.and_then(|linked| linked.processes[id as usize].as_deref_mut());
        let (Some(node), Some(process)) = (hosts.at(id).node.as_deref(), process) else { return Ok(()) };
        let Some(link) = process.links.table.link_mut(key) else { return Ok(()) };
        let context = Receiver { node, from: peer, unawaited: RefCell::new(Vec::new()) };
        link.has_heartbeat = true;
        if straight && let Some(room) = link.inbox.read_buffer() {
            let count = room.len().min(piece.len());
            room[..count].copy_from_slice(&piece[..count]);
            let filled = link.inbox.commit_read(count, events);
            piece = &piece[filled..];
        }
        let fed = link.inbox.feed(piece, &context, events);
        let unawaited: Vec<CallId> = context.unawaited.take();
        for call in unawaited {
            self.linked().reply_is_dropped(id, peer, call);
            self.observe(&Observation::HeadDropped { at: id, from: peer, call });
        }
        fed
    }

    /// Notes what an event says of the connection, before the machine heeds it.
    fn notes(&mut self, id: Id, peer: Id, place: Place, event: &LinkEvent) {
        let (pipe, side) = place;
        let other = (pipe, 1 - side);
        match event {
            LinkEvent::Request(request) => {
                let rules = &mut self.linked().end(other).rules;
                rules.request_came(request.call);
                rules.body_came(false, request.call);
            }
            LinkEvent::Response(response) => {
                self.linked().end(other).rules.body_came(true, response.call);
                let most = self.node(id).map_or(u64::MAX, |node| node.config().reply_max);
                let length = reply_len(&response.answer);
                let wrong = format!("takes a reply of {length} bytes of {peer}, and its limit is {most}");
                self.blame(id, (length > most).then_some(wrong));
            }
            LinkEvent::RequestRefused(refused) => {
                self.linked().end(other).rules.request_came(refused.call);
                self.owns_up_to_little_memory(id);
            }
            LinkEvent::DataRefused { .. } => self.owns_up_to_little_memory(id),
            LinkEvent::Cancel(call) => self.linked().end(other).rules.cancel_came(*call),
            LinkEvent::Credit(count) => self.linked().end(other).rules.credit_came(*count),
            LinkEvent::Window(window) => self.linked().end(other).rules.window_came(window),
            LinkEvent::RequestStarted { call, .. } => {
                let rules = &mut self.linked().end(other).rules;
                rules.request_begun(*call);
                rules.body_came(false, *call);
            }
            LinkEvent::Ping => self.linked().end(other).rules.question_came(),
            LinkEvent::UnawaitedReply(call) => self.end_of_reply(place, *call),
            LinkEvent::ReplyRefused { call, .. } => {
                self.end_of_reply(place, *call);
                self.owns_up_to_little_memory(id);
            }
            LinkEvent::DataArrived(call) => {
                self.observe(&Observation::DataCame { at: id, from: peer, call: *call });
            }
            _ => {}
        }
    }
}

/// Length of the reply in an answer, bytes.
fn reply_len(answer: &Answer) -> u64 {
    match answer {
        Answer::Completed | Answer::Failed(_) => 0,
        Answer::Reply(reply) => reply.len(),
        Answer::Partial(partial) => partial.reply.len(),
        Answer::Arriving(reply) => reply.header.len() as u64 + reply.data.len(),
    }
}
