//! One node, and a peer that sends what it likes once its hello has come.

use chained_gpc::chain::Time;
use chained_gpc::link::peering::{FeedContext, LinkKey, Transport};
use chained_gpc::link::{LinksOutput, Phase};
use chained_gpc::wire::frame::{FrameHeader, Kind, flags};
use chained_gpc::wire::head::{CallRef, RequestHead, ResponseHead, WindowRef};
use chained_gpc::wire::prefix::{emit_prefix, request_head};
use chained_gpc::wire::{Body, CallId, Hello, Message, Request};
use chained_gpc::{Id, Job};
use gpc_trees::IdList;

use super::super::input::{Input, pieces};
use super::node::{AwaitsAllBut, End, Node};

/// The peer.
const PEER: Id = 1;

/// Memory that a node may hold for each byte that has come, and besides, bytes: chunks of long data, and frames.
const EACH: u64 = 8;
const BESIDES: u64 = 2 << 20;

struct Victim {
    node: Node,
    key: LinkKey,
    now: Time,
    closed: bool,
    came: u64,
}

pub(super) fn run(choices: u8, input: &mut Input<'_>) {
    let mut victim = Victim::linked([256, 1, 3, 64][usize::from(choices & 3)]);
    let cuts = input.cuts(choices >> 2);
    let own = input.byte();
    let stream = input.rest();
    for (count, piece) in pieces(stream, &cuts).enumerate() {
        if own >> (count % 8) & 1 == 1 {
            victim.asks(count as u64);
        }
        victim.read(piece);
        victim.write();
    }
    victim.ends();
}

impl Victim {
    /// A node that has linked with its peer.
    fn linked(hiwater: u32) -> Victim {
        let (mut node, now) = (Node::new(0, hiwater), Time::from_nanos(1));
        let end = node.end(0, Phase::Greeting, 0);
        let key = node.links.table.put(end);
        node.links.add_incoming(now, key, Transport::User, None);
        let hello = Hello {
            from: PEER,
            to: 0,
            incarnation: 9,
            generation: 1,
            hiwater: 4,
            job: Job::default(),
            rings: false,
            extents: false,
        };
        let mut victim = Victim { node, key, now, closed: false, came: 0 };
        victim.read(&frame(Kind::Hello, 0, &hello.emit()));
        assert!(victim.node.links.up(PEER).is_some(), "its hello is valid");
        victim
    }

    fn asks(&mut self, sequence: u64) {
        let call = CallId { root: 0, sequence };
        let request = Request { data: Body::whole(vec![1; 300]), ..Request::new(call, IdList::range(0..2)) };
        if !self.closed {
            self.node.links.send(self.now, PEER, Message::Request(request.into()));
            self.settle();
        }
    }

    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.closed {
            let Some(phase) = self.node.links.table.link(self.key).map(|link| link.phase) else { return };
            match phase {
                Phase::Greeting => {
                    let Some(wanted) = self.node.links.peering.wants(self.key) else { return };
                    let (piece, rest) = bytes.split_at(wanted.min(bytes.len()));
                    self.node.links.feed_greeting(self.now, self.key, piece, &FeedContext::default());
                    bytes = rest;
                }
                Phase::Up(_) => {
                    self.feed(bytes);
                    bytes = &[];
                }
                Phase::Connecting(_) | Phase::Closing => return,
            }
            self.settle();
        }
        let held = self.node.memory.used();
        assert!(held <= self.came * EACH + BESIDES, "{held} bytes are held of {}", self.came);
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.came += bytes.len() as u64;
        let mut events = Vec::new();
        let Some(link) = self.node.links.table.link_mut(self.key) else { return };
        let fed = link.inbox.feed(bytes, &AwaitsAllBut(&[]), &mut events);
        for event in events {
            if let Err(why) = self.node.links.handle_event(self.now, self.key, event, |_, _, _| Ok(())) {
                self.node.links.close(self.now, self.key, &why);
                return self.settle();
            }
            self.settle();
            let most = self.node.links.table.link(self.key).map(|link| (link.unacknowledged, link.hiwater()));
            assert!(most.is_none_or(|(used, all)| used <= all), "more than it gave credit for: {most:?}");
        }
        if let Err(error) = fed {
            self.node.links.close(self.now, self.key, &error.to_string());
            self.settle();
        }
    }

    fn write(&mut self) {
        self.node.write(self.now, 1 << 16, |_, _| {});
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(output) = self.node.links.poll() {
            match output {
                LinksOutput::Close { key } | LinksOutput::CloseAfterWriting { key } => {
                    self.closed |= key == self.key;
                    drop::<Option<End>>(self.node.links.remove(key));
                }
                LinksOutput::Prepare(new) => {
                    self.node.links.establish(self.now, new.key, &new.hello, new.proof);
                }
                LinksOutput::Open { peer } => {
                    let kind = chained_gpc::wire::CauseKind::Unreachable;
                    self.node.links.fail_outgoing(self.now, peer, kind, "connection refused");
                }
                _ => {}
            }
        }
        self.node.take_in();
        for lost in std::mem::take(&mut self.node.losses) {
            self.node.links.drop_pending(lost.peer);
        }
    }

    /// Nothing is left of a link that has ended.
    fn ends(&mut self) {
        if !self.closed {
            self.node.links.close(self.now, self.key, "it ends");
            self.settle();
        }
        self.node.held.clear();
        self.node.streaming.clear();
        self.node.links.send_windows();
        let links = &self.node.links;
        assert!(links.table.is_empty() && links.pending.is_empty() && links.arrivals.is_empty());
        assert!(
            links.deadlines.next().is_none() && links.window_grants.is_empty() && links.peers_up().is_empty()
        );
        assert_eq!(self.node.memory.used(), 0);
    }
}

fn frame(kind: Kind, flags: u8, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { length: payload.len() as u32, kind, flags };
    [&header.emit()[..], payload].concat()
}

/// The first frame of a request with so much data announced.
fn request(sequence: u64, data: u64) -> Vec<u8> {
    let (body, _) = Body::arriving(data);
    let call = CallId { root: PEER, sequence };
    let request = Request { func: sequence, data: body, ..Request::new(call, IdList::range(0..1)) };
    let (head, mut payload) = (request_head(&request), Vec::new());
    head.emit(&mut payload);
    debug_assert_eq!(payload.len(), RequestHead::LENGTH);
    emit_prefix(&request, head.ids_form, &mut payload);
    frame(Kind::Request, 0, &payload)
}

fn about(kind: Kind, flags: u8, sequence: u64, more: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    CallRef(CallId { root: PEER, sequence }).emit(&mut payload);
    payload.extend_from_slice(more);
    frame(kind, flags, &payload)
}

/// The first frame of a reply to a call of the node.
fn response(sequence: u64, data: u64) -> Vec<u8> {
    let call = CallId { root: 0, sequence };
    let kind = chained_gpc::wire::head::AnswerKind::Reply;
    let head =
        ResponseHead { call, level: 1, kind, header_len: 3, data_len: data, report_len: 0, trace_len: 0 };
    let mut payload = Vec::new();
    head.emit(&mut payload);
    payload.extend_from_slice(b"abc");
    frame(Kind::Response, 0, &payload)
}

/// Bytes of a peer: valid ones that end in the middle of something, or go too far.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let window = |limit: u64| {
        let mut payload = Vec::new();
        let call = CallId { root: 0, sequence: 0 };
        WindowRef { call, of_response: false, limit }.emit(&mut payload);
        frame(Kind::Window, 0, &payload)
    };
    let streams: Vec<Vec<Vec<u8>>> = vec![
        vec![request(1, 0), request(2, 0), about(Kind::Cancel, 0, 1, &[])],
        vec![request(1, 100), about(Kind::Segment, 0, 1, &[5; 60]), about(Kind::Segment, 0, 1, &[5; 40])],
        vec![request(2, 1 << 30), about(Kind::Segment, 0, 2, &[5; 900]), about(Kind::Cancel, 0, 2, &[])],
        vec![request(2, 50), request(2, 50)],
        vec![response(0, 5_000_000), about(Kind::Segment, flags::OF_RESPONSE, 0, &[1; 9])],
        vec![response(1, 90_000), response(1, 90_000)],
        vec![frame(Kind::Credit, 0, &3u32.to_le_bytes()), frame(Kind::Credit, 0, &u32::MAX.to_le_bytes())],
        vec![frame(Kind::Ping, 0, &[]), frame(Kind::Ping, 0, &[]), frame(Kind::Pong, 0, &[])],
        vec![window(1 << 40), frame(Kind::Pause, 0, &2000u32.to_le_bytes())],
        vec![
            about(Kind::Moved, 0, 1, &[]),
            about(Kind::Release, 0, 1, &[]),
            frame(Kind::Goodbye, 0, &[1, 0, 0]),
        ],
        (0..9).map(|sequence| request(sequence, 0)).collect(),
    ];
    let mut all = Vec::new();
    for (place, stream) in streams.into_iter().enumerate() {
        let bytes = stream.concat();
        for choices in [1u8, 1 | 2 << 1, 1 | 5 << 3] {
            let cuts = vec![(place * 7 % 50) as u8 + 1; usize::from(choices >> 3 & 7)];
            all.push([&[choices][..], &cuts, &[0x5a], &bytes].concat());
        }
    }
    all
}
