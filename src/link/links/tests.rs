//! Tests of links: messages without a link, the choice of a link, and losses, between two nodes whose connections are
//! byte streams in memory.

mod long;

use std::collections::VecDeque;

use gpc_trees::{IdList, Tree};
use proptest::prelude::*;
use smallvec::SmallVec;

use super::*;
use crate::link::event::Context;
use crate::link::peering::{FeedContext, Identity, PublicKey, Strictness, Transport};
use crate::link::{HIWATER, LostLink};
use crate::wire::body::Spare;
use crate::wire::budget::Budget;
use crate::wire::{CauseKind, Job, Request, Response};

const CALL: CallId = CallId { root: 0, sequence: 1 };

/// Maximum length of a reply in bytes.
const REPLY_MAX: u64 = 16 << 20;

/// The ids below 4 are the peers.
#[derive(Debug)]
struct Four;

impl Book for Four {
    fn contains(&self, id: Id) -> bool {
        id < 4
    }

    fn key(&self, _: Id) -> Option<PublicKey> {
        None
    }

    fn shown_address(&self, id: Id) -> Option<String> {
        Some(format!("place {id}"))
    }
}

/// A node that awaits every response.
struct AwaitsAll;

impl Context for AwaitsAll {
    fn tree(&self, _: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, _: CallId) -> bool {
        true
    }

    fn reply_max(&self) -> u64 {
        REPLY_MAX
    }
}

/// A connection: its link, and its wire.
#[derive(Debug)]
struct End {
    link: Link,
    wire: usize,
}

impl HasLink for End {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// Two streams of bytes. Arrays are indexed by the node at that end.
#[derive(Debug)]
struct Wire {
    keys: [LinkKey; 2],
    /// Bytes on the way to that end.
    bytes: [VecDeque<u8>; 2],
    closed: [bool; 2],
}

/// Two nodes, and the wires between them.
struct Pair {
    now: Time,
    nodes: [Links<Four, End>; 2],
    wires: Vec<Wire>,
    /// Whether connections cannot be opened.
    unreachable: bool,
    /// Whether node 0 fails to prepare connections after their greeting.
    fails_to_prepare: bool,
    /// Whether the test consumes requests itself.
    holds: bool,
    /// Budget of each node for bytes from and for its peers.
    memory: [Budget; 2],
    /// The held requests, and the responses, in order of arrival.
    requests: [VecDeque<Arc<Request>>; 2],
    responses: [Vec<Response>; 2],
    /// The requests that each node has received, and the losses.
    messages: [Vec<CallId>; 2],
    losses: [Vec<LostLink>; 2],
}

fn links(me: Id) -> Links<Four, End> {
    links_with(me, HIWATER)
}

fn links_with(me: Id, hiwater: u32) -> Links<Four, End> {
    let identity = Identity { me, incarnation: 7, job: Job::default(), hiwater };
    Links::new(Peering::new(identity, None, Strictness { insecure: true, ..Strictness::default() }, Four))
}

fn request(call: CallId) -> Message {
    Message::Request(Arc::new(Request::new(call, IdList::range(0..2))))
}

fn call(sequence: u64) -> CallId {
    CallId { root: 0, sequence }
}

impl Pair {
    fn new() -> Pair {
        Pair {
            now: Time::default(),
            nodes: [links(0), links(1)],
            wires: Vec::new(),
            unreachable: false,
            fails_to_prepare: false,
            holds: false,
            memory: [0, 1].map(|id| Budget::new(1 << 30, format!("id {id}"))),
            requests: Default::default(),
            responses: Default::default(),
            messages: Default::default(),
            losses: Default::default(),
        }
    }

    fn send(&mut self, from: usize, message: Message) {
        self.nodes[from].send(self.now, 1 - from as Id, message);
        self.settle(from);
    }

    /// Carries out the outputs of a node.
    fn settle(&mut self, at: usize) {
        while let Some(output) = self.nodes[at].poll() {
            let now = self.now;
            match output {
                LinksOutput::Open { peer } if self.unreachable => {
                    self.nodes[at].fail_outgoing(now, peer, CauseKind::Unreachable, "connection refused");
                }
                LinksOutput::Open { .. } => self.connect(at),
                LinksOutput::Close { key } | LinksOutput::CloseAfterWriting { key } => {
                    if let Some(end) = self.nodes[at].remove(key) {
                        self.wires[end.wire].closed[at] = true;
                    }
                }
                LinksOutput::Prepare(new) if at == 0 && self.fails_to_prepare => {
                    self.nodes[0].fail_setup(now, new.key, 1, "no memory for rings");
                }
                LinksOutput::Prepare(new) => self.nodes[at].establish(now, new.key, &new.hello, new.proof),
                LinksOutput::PongReceived { peer, .. } => self.nodes[at].confirm_alive(now, peer),
                LinksOutput::Rejected { .. }
                | LinksOutput::Up { .. }
                | LinksOutput::Lost { .. }
                | LinksOutput::Pause { .. } => {}
            }
        }
        while let Some(arrival) = self.nodes[at].arrivals.pop_front() {
            match arrival {
                Arrival::Input(Input::Message { message: Message::Request(request), from }) => {
                    self.messages[at].push(request.call);
                    match self.holds {
                        true => self.requests[at].push_back(request),
                        false => self.nodes[at].consume_request(from),
                    }
                }
                Arrival::Input(Input::Message { message: Message::Response(response), .. }) => {
                    self.responses[at].push(response);
                }
                Arrival::Input(_) => {}
                Arrival::Lost(lost) => self.losses[at].push(lost),
            }
        }
    }

    /// Opens a connection; the other node accepts it.
    fn connect(&mut self, at: usize) {
        let (other, wire, now) = (1 - at, self.wires.len(), self.now);
        let mut keys = [LinkKey(0); 2];
        for (node, phase) in [(at, Phase::Connecting(other as Id)), (other, Phase::Greeting)] {
            let (mut link, memory) = (Link::new(phase), &self.memory[node]);
            link.inbox.set_budgets(Spare::default().within(memory), memory);
            link.outbox.set_budgets(node as Id, memory, memory);
            keys[node] = self.nodes[node].table.put(End { link, wire });
        }
        self.wires.push(Wire { keys, bytes: Default::default(), closed: [false; 2] });
        self.nodes[at].add_outgoing(now, keys[at], other as Id);
        self.nodes[other].add_incoming(now, keys[other], Transport::User, None);
        self.nodes[at].complete_outgoing(now, keys[at], Transport::User, false);
        self.settle(other);
    }

    /// Writes the queued bytes of a node, at most this many on each connection.
    fn write(&mut self, at: usize, most: usize) {
        let node = &mut self.nodes[at];
        node.send_windows();
        if std::mem::take(&mut node.has_stream_data) {
            node.mark_streaming();
        }
        for key in std::mem::take(&mut node.dirty) {
            let Some(End { link, wire }) = node.table.get_mut(key) else { continue };
            link.is_dirty = false;
            link.piggyback_credit();
            let (mut parts, mut bytes) = (SmallVec::new(), Vec::new());
            if link.outbox.prepare() {
                link.outbox.parts(&mut parts);
            }
            parts
                .iter()
                .for_each(|part| bytes.extend_from_slice(&part[..part.len().min(most - bytes.len())]));
            drop(parts);
            link.mark_written(bytes.len());
            if !link.outbox.is_idle() {
                link.mark(&mut node.dirty, key);
            }
            self.wires[*wire].bytes[1 - at].extend(bytes);
            node.finish_write(key);
        }
        self.settle(at);
    }

    /// Reads at most this many bytes of each connection of a node.
    fn read(&mut self, at: usize, most: usize) {
        for wire in 0..self.wires.len() {
            let mut left = most;
            while left > 0 && self.read_once(at, wire, &mut left) {}
            let Wire { keys, bytes, closed } = &self.wires[wire];
            if closed[1 - at] && !closed[at] && bytes[at].is_empty() {
                self.nodes[at].close(self.now, keys[at], "the peer closed the connection");
                self.settle(at);
            }
        }
    }

    /// Reads once; returns whether anything was read.
    fn read_once(&mut self, at: usize, wire: usize, left: &mut usize) -> bool {
        let (now, key) = (self.now, self.wires[wire].keys[at]);
        let Some(phase) = self.nodes[at].table.link(key).map(|link| link.phase) else { return false };
        let greets = phase == Phase::Greeting;
        let most = if greets { self.nodes[at].peering.wants(key).unwrap_or(0) } else { *left };
        let there = &mut self.wires[wire].bytes[at];
        let bytes: Vec<u8> = there.drain(..most.min(*left).min(there.len())).collect();
        *left -= bytes.len();
        if greets {
            self.nodes[at].feed_greeting(now, key, &bytes, &FeedContext::default());
        } else {
            self.feed(at, key, &bytes);
        }
        self.settle(at);
        !bytes.is_empty()
    }

    fn feed(&mut self, at: usize, key: LinkKey, bytes: &[u8]) {
        let (now, mut events) = (self.now, Vec::new());
        let link = self.nodes[at].table.link_mut(key).unwrap();
        link.inbox.feed(bytes, &AwaitsAll, &mut events).unwrap();
        for event in events {
            let effects = self.nodes[at].handle_event(now, key, event, |_, _, _| Ok(()));
            if let Err(why) = effects {
                self.nodes[at].close(now, key, &why);
            }
        }
    }

    /// Delivers all queued bytes.
    fn runs(&mut self) {
        for _ in 0..20 {
            (0..2).for_each(|at| self.write(at, usize::MAX));
            (0..2).for_each(|at| self.read(at, usize::MAX));
        }
    }

    /// Breaks the newest wire: its bytes are lost, and both ends are closed.
    fn breaks(&mut self) {
        let Some(wire) = self.wires.last_mut() else { return };
        let keys = wire.keys;
        wire.bytes.iter_mut().for_each(VecDeque::clear);
        for (at, key) in keys.into_iter().enumerate() {
            self.nodes[at].close(self.now, key, "it broke");
            self.settle(at);
        }
    }

    /// Asserts that the nodes hold no state of lost links.
    fn assert_empty(&self) {
        for node in &self.nodes {
            assert!(node.pending.is_empty() && node.deadlines.next().is_none() && node.unsent.is_none());
            assert_eq!((node.outputs.len(), node.arrivals.len()), (0, 0));
        }
    }
}

/// A cancel of a call whose link was lost opened the next link.
#[test]
fn requests_and_pings_open_links_to_known_peers() {
    for (message, to, opens) in [
        (request(CALL), 1, true),
        (Message::Ping, 1, true),
        (Message::Cancel(CALL), 1, false),
        (Message::Pong, 1, false),
        (request(CALL), 5, false),
    ] {
        let mut node = links(0);
        node.send(Time::default(), to, message);
        let asked = matches!(node.poll(), Some(LinksOutput::Open { peer: 1 }));
        assert_eq!((asked, node.pending.len()), (opens, usize::from(opens)));
        let unreachable =
            matches!(node.arrivals.pop_front(), Some(Arrival::Input(Input::Unreachable { peer: 5, .. })));
        assert_eq!(unreachable, to == 5);
    }
}

/// Messages that waited for a link that was given up were sent on the next one.
#[test]
fn the_queue_of_a_lost_link_is_dropped() {
    let lose: [fn(&mut Pair); 2] =
        [|pair| assert!(pair.nodes[0].drop_pending(1)), |pair| pair.nodes[0].abandon(Time::default(), 1)];
    for lose in lose {
        let mut pair = Pair::new();
        pair.send(0, request(CALL));
        assert_eq!(pair.nodes[0].pending.len(), 1);
        lose(&mut pair);
        pair.settle(0);
        pair.runs();
        assert_eq!(pair.messages[1], []);
        pair.assert_empty();
    }
}

#[test]
fn queued_messages_arrive_in_order_and_a_failed_attempt_is_reported_once() {
    let mut pair = Pair::new();
    (1..=3).for_each(|sequence| pair.send(0, request(call(sequence))));
    pair.runs();
    assert_eq!(pair.messages[1], [1, 2, 3].map(call));
    assert_eq!(pair.wires.len(), 1, "one link for all");
    pair.assert_empty();
    let mut pair = Pair::new();
    pair.unreachable = true;
    pair.send(0, request(CALL));
    let [LostLink { peer: 1, unreached: true, unsent: None, why, .. }] = &pair.losses[0][..] else {
        panic!("{:?}", pair.losses)
    };
    assert_eq!(why, "cannot connect to place 1: connection refused");
    pair.assert_empty();
}

/// A loss reports the requests of which no byte was sent, and the driver may send them again. All others are lost.
#[test]
fn a_loss_reports_the_unsent_requests() {
    let mut pair = Pair::new();
    pair.send(0, request(call(1)));
    pair.runs();
    pair.send(0, request(call(2)));
    pair.breaks();
    let lost = pair.losses[0].pop().unwrap();
    let unsent = lost.unsent.unwrap();
    assert_eq!(*unsent.calls(), [call(2)].into());
    assert_eq!(pair.nodes[0].unsent_calls(1, &unsent), [call(2)].into());
    pair.send(0, request(call(3)));
    assert_eq!(pair.nodes[0].unsent_calls(1, &unsent), [call(2), call(3)].into());
    pair.nodes[0].resend(1, unsent);
    pair.settle(0);
    pair.runs();
    assert_eq!(pair.messages[1], [1, 2, 3].map(call), "before what came later");
    // Links that break repeatedly do not cause endless retries.
    pair.send(0, request(call(4)));
    pair.breaks();
    let unsent = pair.losses[0].pop().unwrap().unsent.unwrap();
    pair.nodes[0].resend(1, unsent);
    pair.settle(0);
    for _ in 0..10 {
        (0..2).for_each(|at| pair.read(at, usize::MAX));
        if pair.nodes[0].up(1).is_some() {
            break;
        }
        (0..2).for_each(|at| pair.write(at, usize::MAX));
    }
    pair.breaks();
    assert!(pair.losses[0].pop().unwrap().unsent.is_none());
    // A byte of this request was sent.
    pair.send(0, request(call(5)));
    pair.runs();
    pair.send(0, request(call(6)));
    pair.write(0, 1);
    pair.breaks();
    assert!(pair.losses[0].pop().unwrap().unsent.is_none());
    pair.assert_empty();
}

#[test]
fn a_peer_that_left_in_order_gets_no_request_again() {
    let mut pair = Pair::new();
    pair.send(0, request(call(1)));
    pair.runs();
    pair.nodes[1].send_goodbyes("it is over");
    pair.send(0, request(call(2)));
    pair.write(1, usize::MAX);
    pair.read(0, usize::MAX);
    let lost = pair.losses[0].pop().unwrap();
    assert!(lost.unsent.is_none() && lost.why.contains("it is over"), "{lost:?}");
    assert!(pair.nodes[0].table.is_empty());
}

/// A connection that the driver could not prepare was reported as a link that was lost. So the ids below counted as
/// unknown, though nothing can have arrived.
#[test]
fn a_failed_setup_counts_as_unreached() {
    let mut pair = Pair::new();
    pair.fails_to_prepare = true;
    pair.send(0, request(call(1)));
    pair.runs();
    let [lost] = &pair.losses[0][..] else { panic!("{:?}", pair.losses[0]) };
    assert_eq!((lost.kind, lost.unreached), (CauseKind::Unreachable, true));
    assert!(pair.messages[1].is_empty());
    pair.assert_empty();
}

#[test]
fn of_two_crossing_attempts_one_becomes_the_link() {
    let mut pair = Pair::new();
    pair.nodes[0].send(pair.now, 1, request(call(1)));
    pair.nodes[1].send(pair.now, 0, request(call(2)));
    (0..2).for_each(|at| pair.settle(at));
    pair.runs();
    assert_eq!(pair.messages, [vec![call(2)], vec![call(1)]]);
    assert_eq!(
        pair.nodes.each_ref().map(|node| (node.peers_up(), node.table.len())),
        [(vec![1], 1), (vec![0], 1)]
    );
    assert!(pair.losses.iter().all(Vec::is_empty));
    pair.assert_empty();
}

#[test]
fn a_forgotten_peer_gets_its_queue_and_a_goodbye() {
    let mut pair = Pair::new();
    pair.send(0, request(call(1)));
    pair.runs();
    pair.send(0, request(call(2)));
    pair.nodes[0].forget(pair.now, 1);
    pair.settle(0);
    assert!(
        pair.nodes[0].next_deadline().is_some(),
        "it waits for its last bytes to leave, but not for ever"
    );
    pair.runs();
    assert_eq!(pair.messages[1], [1, 2].map(call));
    pair.now = pair.now.plus(crate::link::CLOSING_LIMIT);
    pair.nodes[0].tick(pair.now);
    pair.settle(0);
    pair.runs();
    assert!(pair.nodes.iter().all(|node| node.table.is_empty() && node.peers_up().is_empty()));
    pair.assert_empty();
}

/// A step of a node or of the wires.
#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Write(usize, usize),
    Read(usize, usize),
    Break,
    Abandon(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..2).prop_map(Step::Send),
        4 => (0usize..2, 1usize..200).prop_map(|(at, most)| Step::Write(at, most)),
        4 => (0usize..2, 1usize..200).prop_map(|(at, most)| Step::Read(at, most)),
        1 => Just(Step::Break),
        1 => (0usize..2).prop_map(Step::Abandon),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// Each request arrives at most once and in order, whatever pieces are written and read, and however often a wire
    /// breaks. At rest the last request has arrived. Requests that a loss reports as unsent have not arrived.
    #[test]
    fn requests_arrive_at_most_once_and_in_order(steps in proptest::collection::vec(step(), 0..60)) {
        let (mut pair, mut sent) = (Pair::new(), [0, 0]);
        for step in steps {
            match step {
                Step::Send(from) => {
                    sent[from] += 1;
                    pair.send(from, request(call(sent[from])));
                }
                Step::Write(at, most) => pair.write(at, most),
                Step::Read(at, most) => pair.read(at, most),
                Step::Break => pair.breaks(),
                Step::Abandon(at) => {
                    pair.nodes[at].abandon(pair.now, 1 - at as Id);
                    pair.settle(at);
                }
            }
            for (at, last) in sent.into_iter().enumerate() {
                for lost in std::mem::take(&mut pair.losses[at]) {
                    let unreached = pair.nodes[at].drop_pending(lost.peer) && lost.unreached;
                    let arrived = pair.messages[1 - at].clone();
                    if let Some(unsent) = lost.unsent {
                        prop_assert!(unsent.calls().iter().all(|call| !arrived.contains(call)));
                        // As drivers do: if the next link is up already, the requests are lost.
                        if pair.nodes[at].may_open(lost.peer) {
                            pair.nodes[at].resend(lost.peer, unsent);
                            pair.settle(at);
                        }
                    }
                    prop_assert!(!unreached || !arrived.contains(&call(last)));
                }
            }
        }
        pair.runs();
        for (from, last) in sent.iter_mut().enumerate() {
            *last += 1;
            pair.send(from, request(call(*last)));
        }
        pair.runs();
        for (from, last) in sent.into_iter().enumerate() {
            let arrived = &pair.messages[1 - from];
            prop_assert!(arrived.is_sorted_by_key(|call| call.sequence), "{:?}", arrived);
            prop_assert!(arrived.windows(2).all(|two| two[0] != two[1]), "{:?}", arrived);
            prop_assert_eq!(arrived.last(), Some(&call(last)));
        }
        for node in &pair.nodes {
            prop_assert_eq!(node.table.len(), 1, "one link is left");
        }
        pair.assert_empty();
    }
}
