//! A peer that speaks the protocol by hand, so that it can also break it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::link::{Context, Event, HIWATER, Inbox, Outbox};
use chained_gpc::runtime::{Address, Builder, Listener, Peers};
use chained_gpc::wire::frame::{FrameHeader, Kind};
use chained_gpc::wire::head::{Goodbye, GoodbyeReason, WindowRef};
use chained_gpc::wire::message::{Answer, SubtreeReply};
use chained_gpc::wire::{Body, CallId, Hello, Message, Payload, Request, Response};
use chained_gpc::{FuncHandle, Functions, Id, IdList, Job, Node};
use gpc_trees::Tree;
use smallvec::SmallVec;

use super::common::LIMIT;

/// An incarnation earlier than that of any node.
pub(crate) const EARLY: u64 = 1000;

/// Accepts every body.
pub(crate) struct Everything;

impl Context for Everything {
    fn tree(&self, _: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, _: CallId) -> bool {
        true
    }

    fn reply_max(&self) -> u64 {
        1 << 30
    }
}

/// One end of a TCP connection, with both halves of a link.
pub(crate) struct RawPeer {
    stream: TcpStream,
    inbox: Inbox,
    outbox: Outbox,
    events: VecDeque<Event>,
}

impl RawPeer {
    fn new(stream: TcpStream) -> RawPeer {
        stream.set_read_timeout(Some(LIMIT)).expect("a limit that is not zero");
        stream.set_nodelay(true).expect("a TCP socket");
        RawPeer { stream, inbox: Inbox::new(), outbox: Outbox::new(), events: VecDeque::new() }
    }

    /// Connects to a node, and sends nothing.
    pub(crate) fn connect(node: &Node) -> RawPeer {
        RawPeer::connect_to(node.address())
    }

    /// Connects to a node at this address, and sends nothing.
    pub(crate) fn connect_to(address: Option<&Address>) -> RawPeer {
        let Some(Address::Tcp(address)) = address else { panic!("the node listens on TCP") };
        RawPeer::new(TcpStream::connect(address).expect("the node listens"))
    }

    /// Waits for a node to connect.
    pub(crate) fn accept(listener: &TcpListener) -> RawPeer {
        RawPeer::new(listener.accept().expect("a node connects").0)
    }

    /// A connection that a node has made.
    pub(crate) fn accepted(stream: TcpStream) -> RawPeer {
        RawPeer::new(stream)
    }

    /// Connects and exchanges hellos as `from`.
    pub(crate) fn greet(node: &Node, from: Id, incarnation: u64, generation: u32) -> RawPeer {
        let mut peer = RawPeer::connect(node);
        peer.hello(from, node.id(), incarnation, generation);
        let answer = peer.expect_hello();
        assert_eq!((answer.from, answer.to, answer.generation), (node.id(), from, generation));
        peer
    }

    /// Accepts a connection and answers its hello.
    pub(crate) fn answer(listener: &TcpListener, incarnation: u64) -> RawPeer {
        let mut peer = RawPeer::accept(listener);
        peer.greet_back(incarnation);
        peer
    }

    /// Answers the hello of a node that has connected.
    pub(crate) fn greet_back(&mut self, incarnation: u64) {
        let hello = self.expect_hello();
        self.hello(hello.to, hello.from, incarnation, hello.generation);
    }

    /// Refuses a hello.
    pub(crate) fn refuse(&mut self, reason: GoodbyeReason) {
        self.outbox.push_goodbye(&Goodbye { reason, text: "not you".into() });
        self.flush();
    }

    pub(crate) fn hello(&mut self, from: Id, to: Id, incarnation: u64, generation: u32) {
        self.hello_of(Job::default(), from, to, incarnation, generation);
    }

    /// Sends a hello as a node of this job.
    pub(crate) fn hello_of(&mut self, job: Job, from: Id, to: Id, incarnation: u64, generation: u32) {
        let (rings, extents) = (false, false);
        let hiwater = HIWATER;
        self.outbox.push_hello(&Hello { from, to, incarnation, generation, hiwater, job, rings, extents });
        self.flush();
    }

    /// Sends a message, ignoring credit.
    pub(crate) fn send(&mut self, message: Message) {
        self.outbox.add_credit(1);
        self.outbox.push(message);
        self.flush();
    }

    /// Sends a message, ignoring credit; returns whether the node still takes it.
    pub(crate) fn can_send(&mut self, message: Message) -> bool {
        self.send(message);
        !self.outbox.prepare()
    }

    /// Sends a request for this func to the node; its list is the node and the ids after it.
    pub(crate) fn request(&mut self, call: CallId, func: FuncHandle, ids: &IdList) {
        self.request_within(LIMIT, call, func, ids);
    }

    pub(crate) fn request_within(&mut self, limit: Duration, call: CallId, func: FuncHandle, ids: &IdList) {
        self.send(Message::Request(Arc::new(request(limit, call, func, ids))));
    }

    /// Sends the data that have arrived for requests in flight.
    pub(crate) fn go_on(&mut self) {
        self.flush();
    }

    pub(crate) fn reply(&mut self, call: CallId, data: &[u8]) {
        let [header, data] = [&b""[..], data].map(|bytes| Payload::from(level_0(bytes)));
        let answer = Answer::Reply(SubtreeReply { level: 0, header, data, ..SubtreeReply::default() });
        self.send(Message::Response(Response { call, answer }));
    }

    /// Sends any bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // The node may have closed the connection already; reading shows what it did.
        let _ = self.stream.write_all(bytes);
    }

    /// Sends more of a long body, up to the window.
    pub(crate) fn widen(&mut self, window: &WindowRef) {
        self.outbox.extend_window(window);
        self.flush();
    }

    /// Stops sending a request that is answered.
    pub(crate) fn answered(&mut self, call: CallId) {
        self.outbox.stop_request(call);
        self.flush();
    }

    /// Extends the windows of long replies that have begun.
    pub(crate) fn grant(&mut self) {
        let RawPeer { inbox, outbox, .. } = self;
        inbox.take_windows(|window| outbox.push_window(&window));
        self.flush();
    }

    /// Sends any bytes; returns whether the node still takes them.
    pub(crate) fn can_send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    pub(crate) fn goodbye(&mut self) {
        self.outbox.push_goodbye(&Goodbye { reason: GoodbyeReason::Shutdown, text: "enough".into() });
        self.flush();
    }

    fn flush(&mut self) {
        while self.outbox.prepare() {
            let Ok(count) = self.write() else { return };
            self.outbox.mark_written(count);
        }
    }

    fn write(&mut self) -> io::Result<usize> {
        let mut parts = SmallVec::new();
        self.outbox.parts(&mut parts);
        self.stream.write_vectored(&parts)
    }

    /// The next event except PINGs, which are answered; `None` when the node has closed the connection.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            match self.next_event() {
                Some(Event::Ping) => self.send(Message::Pong),
                // They come ahead of a PONG, while a call of this peer is in flight.
                Some(Event::Stragglers(_)) => {}
                other => return other,
            }
        }
    }

    /// Answers this many PINGs, one after the other.
    pub(crate) fn answer_pings(&mut self, count: usize) {
        for _ in 0..count {
            self.expect_ping();
            self.send(Message::Pong);
        }
    }

    /// Whether unread bytes have arrived.
    pub(crate) fn has_something(&self) -> bool {
        self.stream.set_nonblocking(true).expect("a socket");
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("a socket");
        peeked.is_ok_and(|count| count > 0)
    }

    /// Waits for a PING, and does not answer it.
    pub(crate) fn expect_ping(&mut self) {
        assert!(matches!(self.next_event(), Some(Event::Ping)), "a ping is to come");
    }

    fn next_event(&mut self) -> Option<Event> {
        let mut buffer = [0; 65_536];
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => {
                    let mut events = Vec::new();
                    let fed = self.inbox.feed(&buffer[..count], &Everything, &mut events);
                    fed.expect("a node keeps to the protocol");
                    self.events.extend(events);
                }
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing comes: {error}"),
            }
        }
    }

    pub(crate) fn expect_hello(&mut self) -> Hello {
        match self.next() {
            Some(Event::Hello(hello)) => hello,
            other => panic!("a hello is to come, but: {other:?}"),
        }
    }

    pub(crate) fn expect_request(&mut self) -> Request {
        match self.next() {
            Some(Event::Request(request)) => Request::clone(&request),
            other => panic!("a request is to come, but: {other:?}"),
        }
    }

    pub(crate) fn expect_response(&mut self, call: CallId) -> Answer {
        match self.next() {
            Some(Event::Response(response)) if response.call == call => response.answer,
            other => panic!("a response is to come, but: {other:?}"),
        }
    }

    pub(crate) fn expect_cancel(&mut self, call: CallId) {
        match self.next() {
            Some(Event::Cancel(cancelled)) => assert_eq!(cancelled, call),
            other => panic!("a cancel is to come, but: {other:?}"),
        }
    }

    pub(crate) fn expect_goodbye(&mut self, reason: GoodbyeReason) -> String {
        match self.next() {
            Some(Event::Goodbye(goodbye)) => {
                assert_eq!(goodbye.reason, reason);
                goodbye.text
            }
            other => panic!("a goodbye is to come, but: {other:?}"),
        }
    }

    /// Checks that the node closes the connection, whatever it sends before.
    pub(crate) fn expect_closed(&mut self) {
        // A node sends little to a peer that it gives up.
        for _ in 0..1000 {
            if self.next_event().is_none() {
                return;
            }
        }
        panic!("the connection is still there");
    }
}

/// A request for the first id of a list.
pub(crate) fn request(limit: Duration, call: CallId, func: FuncHandle, ids: &IdList) -> Request {
    Request {
        call,
        position: 1,
        total: ids.len() + 1,
        func: func.number(),
        callback: None,
        local: Default::default(),
        reply_limits: Default::default(),
        reply_wanted: true,
        forward_first: false,
        partial: false,
        adopted: false,
        skipped: 0,
        age: Duration::ZERO,
        left: limit,
        limit,
        tree: Ok(Tree::Chain),
        ids: ids.clone(),
        header: Bytes::new(),
        data: Body::default(),
        parts: None,
    }
}

/// Level-0 data: the length in decimal, a space, the bytes.
pub(crate) fn level_0(bytes: &[u8]) -> Vec<u8> {
    [format!("{} ", bytes.len()).as_bytes(), bytes].concat()
}

/// The bytes of a frame.
pub(crate) fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { length: payload.len() as u32, kind, flags: 0 };
    [&header.emit()[..], payload].concat()
}

/// A listener for peers made by hand, and its address.
pub(crate) fn listener() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = Address::Tcp(listener.local_addr().expect("it is bound"));
    (listener, address)
}

/// A node that listens on TCP and has these peers.
pub(crate) fn node(id: Id, functions: &Functions, peers: impl IntoIterator<Item = (Id, Address)>) -> Node {
    let peers: Peers = peers.into_iter().collect();
    listening(Node::builder(id).functions(functions).peers(peers))
}

/// A node that listens on TCP.
pub(crate) fn listening(builder: Builder) -> Node {
    let listener = Listener::bind(&"127.0.0.1:0".parse().expect("an address")).expect("a free port");
    builder.listener(listener).start().expect("it starts")
}

/// Name of a call whose root is made by hand.
pub(crate) fn call(root: Id, sequence: u64) -> CallId {
    CallId { root, sequence }
}

/// A limit that a test waits for on purpose: calls fail by it and by nothing else.
pub(crate) const SHORT: Duration = Duration::from_millis(300);
