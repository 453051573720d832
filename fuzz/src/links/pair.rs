//! Two honest nodes.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use chained_gpc::Id;
use chained_gpc::chain::Time;
use chained_gpc::link::peering::{FeedContext, LinkKey, Transport};
use chained_gpc::link::{LinksOutput, Phase};
use chained_gpc::wire::frame::{SEGMENT, WINDOW};
use chained_gpc::wire::message::{Answer, SubtreeReply};
use chained_gpc::wire::{Body, CallId, Message, Payload, Request, Response};
use gpc_trees::IdList;

use super::super::input::Input;
use super::node::{AwaitsAllBut, Node};

/// Requests and bytes of an input: so that it takes milliseconds.
const REQUESTS_MAX: usize = 64;
const BYTES_MAX: usize = 24 << 20;

/// Lengths of data: around what changes at them.
const LENGTHS: [usize; 8] =
    [0, 7, 300, 17 << 10, SEGMENT - 40, SEGMENT + 1, WINDOW as usize, WINDOW as usize + SEGMENT];

/// Rounds at the end, each with a write and a read of both sides: enough for all bytes in the shortest segments.
const ROUNDS: usize = BYTES_MAX / (16 << 10);

/// Bytes that are written or read at once.
const AT_ONCE: [usize; 6] = [1, 13, 300, 5_000, 70_000, 4 * SEGMENT];

struct Wire {
    keys: [LinkKey; 2],
    bytes: [VecDeque<u8>; 2],
    closed: [bool; 2],
}

struct Pair {
    now: Time,
    nodes: [Node; 2],
    wires: Vec<Wire>,
    sent: usize,
    /// The last call that each node has asked, and those that were taken back.
    asked: [u64; 2],
    cancelled: Vec<CallId>,
    requests: usize,
}

pub(super) fn run(choices: u8, input: &mut Input<'_>) {
    let hiwater = [256, 1, 2, 7][usize::from(choices & 3)];
    let mut pair = Pair {
        now: Time::from_nanos(1),
        nodes: [Node::new(0, hiwater), Node::new(1, hiwater)],
        wires: Vec::new(),
        sent: 0,
        asked: [0; 2],
        cancelled: Vec::new(),
        requests: 0,
    };
    while !input.is_empty() {
        pair.step(input);
    }
    pair.ends();
}

impl Pair {
    fn step(&mut self, input: &mut Input<'_>) {
        let byte = input.byte();
        let at = usize::from(byte & 1);
        match byte >> 1 & 15 {
            0..3 => {
                let length = input.pick(&LENGTHS);
                self.asks(at, length, input.flag());
            }
            3 | 4 => {
                let length = input.pick(&LENGTHS);
                self.answers(at, length);
            }
            5 => drop(self.nodes[at].consume(1 - at as Id)),
            6..9 => {
                let most = input.pick(&AT_ONCE);
                self.write(at, most);
            }
            9..12 => {
                let most = input.pick(&AT_ONCE);
                self.read(at, most);
            }
            12 => self.cancels(at),
            13 => self.breaks(),
            14 => {
                self.now = self.now.plus(Duration::from_millis(u64::from(input.byte()) * 50));
                let now = self.now;
                self.nodes[at].links.tick(now);
                self.settle(at);
            }
            _ => self.send(at, if input.flag() { Message::Ping } else { Message::Pause(Duration::ZERO) }),
        }
        self.checks();
    }

    fn send(&mut self, at: usize, message: Message) {
        let now = self.now;
        self.nodes[at].links.send(now, 1 - at as Id, message);
        self.settle(at);
    }

    fn asks(&mut self, at: usize, length: usize, streams: bool) {
        if self.requests < REQUESTS_MAX && self.sent + length < BYTES_MAX {
            self.requests += 1;
            self.sent += length;
            self.asked[at] += 1;
            let call = CallId { root: at as Id, sequence: self.asked[at] };
            let request = Request {
                func: u64::from(streams),
                data: Body::whole(vec![self.asked[at] as u8; length]),
                ..Request::new(call, IdList::range(0..2))
            };
            self.send(at, Message::Request(request.into()));
        }
    }

    fn answers(&mut self, at: usize, length: usize) {
        if let Some(request) = self.nodes[at].consume(1 - at as Id)
            && self.sent + length < BYTES_MAX
        {
            self.sent += length;
            let data = Payload::copy_from_slice(&vec![request.call.sequence as u8; length]);
            let reply =
                SubtreeReply { level: 1, header: Payload::default(), data, ..SubtreeReply::default() };
            self.send(at, Message::Response(Response { call: request.call, answer: Answer::Reply(reply) }));
        }
    }

    /// Takes back the last request.
    fn cancels(&mut self, at: usize) {
        let call = CallId { root: at as Id, sequence: self.asked[at] };
        if call.sequence > 0 {
            self.cancelled.push(call);
            self.send(at, Message::Cancel(call));
        }
    }

    /// Carries out what a node asks for.
    fn settle(&mut self, at: usize) {
        while let Some(output) = self.nodes[at].links.poll() {
            let now = self.now;
            match output {
                LinksOutput::Open { .. } => self.connect(at),
                LinksOutput::Close { key } | LinksOutput::CloseAfterWriting { key } => {
                    if let Some(end) = self.nodes[at].links.remove(key) {
                        self.wires[end.wire].closed[at] = true;
                    }
                }
                LinksOutput::Prepare(new) => {
                    self.nodes[at].links.establish(now, new.key, &new.hello, new.proof)
                }
                LinksOutput::PongReceived { peer, .. } => self.nodes[at].links.confirm_alive(now, peer),
                LinksOutput::Rejected { .. }
                | LinksOutput::Up { .. }
                | LinksOutput::Lost { .. }
                | LinksOutput::Pause { .. } => {}
            }
        }
        self.nodes[at].take_in();
        for lost in std::mem::take(&mut self.nodes[at].losses) {
            let Node { links, held, .. } = &mut self.nodes[at];
            match lost.unsent {
                Some(unsent) if held.is_empty() && links.may_open(lost.peer) => {
                    links.resend(lost.peer, unsent);
                }
                _ => {
                    // What has come over it is nobody's any more.
                    held.clear();
                    links.drop_pending(lost.peer);
                }
            }
            self.settle(at);
        }
    }

    fn connect(&mut self, at: usize) {
        let (other, wire, now) = (1 - at, self.wires.len(), self.now);
        let mut keys = [LinkKey(0); 2];
        for (node, phase) in [(at, Phase::Connecting(other as Id)), (other, Phase::Greeting)] {
            let end = self.nodes[node].end(node as Id, phase, wire);
            keys[node] = self.nodes[node].links.table.put(end);
        }
        self.wires.push(Wire { keys, bytes: Default::default(), closed: [false; 2] });
        self.nodes[at].links.add_outgoing(now, keys[at], other as Id);
        self.nodes[other].links.add_incoming(now, keys[other], Transport::User, None);
        self.nodes[at].links.complete_outgoing(now, keys[at], Transport::User, false);
        self.settle(other);
    }

    fn write(&mut self, at: usize, most: usize) {
        let wires = &mut self.wires;
        self.nodes[at].write(self.now, most, |wire, bytes| {
            if !wires[wire].closed[1 - at] {
                wires[wire].bytes[1 - at].extend(bytes);
            }
        });
        self.settle(at);
    }

    fn read(&mut self, at: usize, most: usize) {
        for wire in 0..self.wires.len() {
            let mut left = most;
            while left > 0 && self.read_once(at, wire, &mut left) {}
            let Wire { keys, bytes, closed } = &self.wires[wire];
            if closed[1 - at] && !closed[at] && bytes[at].is_empty() {
                let (key, now) = (keys[at], self.now);
                self.nodes[at].links.close(now, key, "the peer closed the connection");
                self.settle(at);
            }
        }
    }

    /// Reads once; returns whether anything was read.
    fn read_once(&mut self, at: usize, wire: usize, left: &mut usize) -> bool {
        let (now, key) = (self.now, self.wires[wire].keys[at]);
        let node = &mut self.nodes[at];
        let Some(phase) = node.links.table.link(key).map(|link| link.phase) else { return false };
        let greets = phase == Phase::Greeting;
        let most = match phase {
            Phase::Greeting => node.links.peering.wants(key).unwrap_or(0),
            Phase::Up(_) => *left,
            Phase::Connecting(_) | Phase::Closing => 0,
        };
        let there = &mut self.wires[wire].bytes[at];
        let bytes: Vec<u8> = there.drain(..most.min(*left).min(there.len())).collect();
        *left -= bytes.len();
        match greets {
            true => node.links.feed_greeting(now, key, &bytes, &FeedContext::default()),
            false => self.feed(at, key, &bytes),
        }
        self.settle(at);
        !bytes.is_empty()
    }

    fn feed(&mut self, at: usize, key: LinkKey, bytes: &[u8]) {
        let (now, mut events) = (self.now, Vec::new());
        let Some(link) = self.nodes[at].links.table.link_mut(key) else { return };
        let fed = link.inbox.feed(bytes, &AwaitsAllBut(&self.cancelled), &mut events);
        assert!(fed.is_ok(), "an honest node has written it: {fed:?}");
        for event in events {
            if let Err(why) = self.nodes[at].links.handle_event(now, key, event, |_, _, _| Ok(())) {
                assert!(why.starts_with("it said goodbye"), "an honest node is wrong: {why}");
                self.nodes[at].links.close(now, key, &why);
            }
            self.settle(at);
        }
    }

    /// The newest connection breaks: what is on its way is lost, and both ends learn of it.
    fn breaks(&mut self) {
        let Some(wire) = self.wires.last_mut() else { return };
        let keys = wire.keys;
        wire.bytes.iter_mut().for_each(VecDeque::clear);
        for (at, key) in keys.into_iter().enumerate() {
            let now = self.now;
            self.nodes[at].links.close(now, key, "it broke");
            self.settle(at);
        }
    }

    /// No request has come twice, and credit is kept.
    fn checks(&self) {
        for node in &self.nodes {
            let once: BTreeSet<&CallId> = node.asked.iter().collect();
            assert_eq!(once.len(), node.asked.len(), "a request has come twice: {:?}", node.asked);
            for (_, end) in node.links.table.iter() {
                assert!(end.link.unacknowledged <= end.link.hiwater());
                assert!(end.link.outbox.credit() <= end.link.hiwater(), "both nodes grant as much");
            }
        }
    }

    /// Whether nothing is on its way, or to be done with what has come.
    fn is_quiet(&self) -> bool {
        let is_quiet = |node: &Node| {
            let due = node.held.iter().any(|request| request.data.is_whole());
            node.links.dirty.is_empty() && node.links.window_grants.is_empty() && !due
        };
        let flies = |wire: &Wire| {
            wire.bytes.iter().zip(wire.closed).any(|(bytes, closed)| !bytes.is_empty() && !closed)
        };
        self.nodes.iter().all(is_quiet) && !self.wires.iter().any(flies)
    }

    /// Everything arrives, and nothing is left.
    fn ends(&mut self) {
        for at in 0..2 {
            self.send(at, Message::Ping);
        }
        // Ends: each round moves all that may move, and an input has few calls.
        for _ in 0..ROUNDS {
            // A link is fast, so its segments become long.
            self.now = self.now.plus(Duration::from_micros(1));
            for at in 0..2 {
                self.write(at, usize::MAX);
                self.read(1 - at, usize::MAX);
                while self.nodes[at].consume(1 - at as Id).is_some() {}
                self.checks();
            }
            if self.is_quiet() {
                break;
            }
        }
        let mut nothing = false;
        for at in 0..2 {
            let node = &mut self.nodes[at];
            // What broke off with its connection is nobody's.
            node.held.clear();
            node.streaming.clear();
            node.links.send_windows();
            node.links.prune_streaming();
            assert!(node.links.pending.is_empty() && node.links.window_grants.is_empty());
            assert!(!node.links.is_streaming() && node.links.arrivals.is_empty());
            for (_, end) in node.links.table.iter() {
                nothing |= !end.link.inbox.is_idle() || !end.link.outbox.is_idle();
                assert!(end.link.unacknowledged < end.link.ackmark().max(1), "credit is given back");
            }
            assert!(!nothing, "node {at} still has something on a link");
            assert_eq!(node.memory.used(), 0, "memory of node {at}");
        }
    }
}

/// Operations that reach far.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    // Writes and reads of both sides, of many bytes.
    let moves = |size: u8| vec![6 << 1, size, 9 << 1 | 1, size, 6 << 1 | 1, size, 9 << 1, size];
    let mut all = Vec::new();
    for choices in [0u8, 2, 4, 6] {
        for length in 0..LENGTHS.len() as u8 {
            let mut bytes = vec![choices];
            for step in [0u8, 1, 0] {
                bytes.extend([step, length, step]);
            }
            (0..6).for_each(|_| bytes.extend(moves(5)));
            bytes.extend([3 << 1 | 1, length, 3 << 1, length]);
            (0..6).for_each(|_| bytes.extend(moves(length % 6)));
            bytes.extend([12 << 1, 13 << 1, 0, length, 0]);
            bytes.extend(moves(3));
            bytes.extend([14 << 1, 30, 15 << 1, 1, 5 << 1 | 1]);
            all.push(bytes);
        }
    }
    all
}
