//! Rings in shared memory with peers made by hand from docs/wire.md: one that follows it, and ones that do not. They
//! map nothing: they read and write the memory as a file.
#![cfg(target_os = "linux")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read as _, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;

use bytes::Bytes;
use chained_gpc::Placement;
use chained_gpc::link::{Context, Event, HIWATER, Inbox, Outbox};
use chained_gpc::runtime::{Address, Listener};
use chained_gpc::wire::body::{self, Extent, Sealed};
use chained_gpc::wire::frame::{FRAME_HEADER, FrameError};
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{CallId, Hello, Message};
use chained_gpc::{Call, FuncHandle, Functions, Id, LinkKind, Node, Stage};
use gpc_trees::Tree;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use smallvec::SmallVec;

use super::common::{LIMIT, assert_cause, assert_who, cause_of, ids, limited, noise, replies_of, who};
use super::raw::{EARLY, Everything, call, request};

/// From docs/wire.md, "Shared rings".
const CAPACITY: u64 = 262_144;
const LENGTH: u64 = 4096 + 2 * CAPACITY;
pub(super) const PRODUCED: u64 = 0;
const BASE: u64 = 8;
pub(super) const CONSUMED: u64 = 128;
pub(super) const READER_SLEEPS: u64 = 256;
pub(super) const WRITER_WAITS: u64 = 384;

/// Memory of a size, with seals.
fn memory(length: u64, seals: SealFlags) -> File {
    let memory = memfd_create("rings by hand", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&memory, length).unwrap();
    fcntl_add_seals(&memory, seals).unwrap();
    File::from(memory)
}

fn sealed() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

fn good_memory() -> File {
    memory(LENGTH, sealed())
}

/// A node that listens at an abstract Unix socket.
pub(super) fn node(id: Id, functions: &Functions, peers: impl IntoIterator<Item = (Id, Address)>) -> Node {
    let listener = Listener::bind(&LinkKind::Shm.fresh_address(id)).unwrap();
    let builder = Node::builder(id).functions(functions).peers(peers.into_iter().collect());
    builder.listener(listener).link(LinkKind::Shm).start().unwrap()
}

pub(super) fn name_of(address: &Address) -> SocketAddr {
    let Address::Abstract(name) = address else { panic!("{address} has no name") };
    SocketAddr::from_abstract_name(name).unwrap()
}

pub(super) fn send_with(stream: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    assert_eq!(try_send_with(stream, bytes, descriptors).unwrap(), bytes.len());
}

pub(super) fn try_send_with(
    stream: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)));
    sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
}

/// A peer that does everything by hand.
pub(super) struct Peer {
    pub(super) stream: UnixStream,
    /// The shared memory; `None` when bytes go through the socket.
    memory: Option<File>,
    /// Index of the ring that it writes.
    writes: u64,
    pub(super) sent: u64,
    got: u64,
    /// Whether it accepts data by descriptor, and those that have arrived.
    pub(super) by_descriptor: bool,
    pub(super) came: Came,
    inbox: Inbox,
    outbox: Outbox,
    events: VecDeque<Event>,
}

impl Peer {
    fn new(stream: UnixStream, memory: Option<File>, writes: u64) -> Peer {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let (inbox, outbox, events) = (Inbox::new(), Outbox::new(), VecDeque::new());
        let (by_descriptor, came) = (true, Came::default());
        Peer { stream, memory, writes, sent: 0, got: 0, by_descriptor, came, inbox, outbox, events }
    }

    /// Connects as id 7, sends these descriptors with its hello, and checks whether the node takes the memory.
    pub(super) fn connect(node: &Node, memory: Option<File>, descriptors: &[BorrowedFd<'_>]) -> Peer {
        let stream = UnixStream::connect_addr(&name_of(node.address().unwrap())).unwrap();
        let mut peer = Peer::new(stream, None, 0);
        send_with(&peer.stream, &hello(7, node.id(), false, true), descriptors);
        let Event::Hello(answer) = peer.next().unwrap() else { panic!("a hello is to come") };
        assert_eq!((answer.from, answer.to, answer.rings), (node.id(), 7, memory.is_some()));
        peer.memory = memory;
        peer
    }

    /// The same, with good memory.
    pub(super) fn with_rings(node: &Node) -> Peer {
        let memory = good_memory();
        let descriptor = memory.try_clone().unwrap();
        Peer::connect(node, Some(memory), &[descriptor.as_fd()])
    }

    /// Accepts a node that connects, and takes the memory that it sends.
    pub(super) fn accept(listener: &UnixListener) -> Peer {
        let (stream, _) = listener.accept().unwrap();
        let mut peer = Peer::new(stream, None, 1);
        let mut buffer = [0; 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let count = recvmsg(&peer.stream, &mut parts, &mut control, flags).unwrap().bytes;
        for message in control.drain() {
            let RecvAncillaryMessage::ScmRights(descriptors) = message else { continue };
            peer.memory = descriptors.last().map(File::from);
        }
        let mut events = Vec::new();
        peer.inbox.feed(&buffer[..count], &Everything, &mut events).unwrap();
        peer.events.extend(events);
        peer
    }

    /// Answers the hello of a node that has connected.
    pub(super) fn answer(&mut self, rings: bool) {
        let Some(Event::Hello(theirs)) = self.events.pop_front() else { panic!("a hello is to come") };
        let by_descriptor = rings && self.by_descriptor && theirs.extents;
        self.stream.write_all(&hello(theirs.to, theirs.from, rings, by_descriptor)).unwrap();
    }

    pub(super) fn word(&self, ring: u64, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory.as_ref().unwrap().read_exact_at(&mut bytes, ring * 512 + word).unwrap();
        u64::from_ne_bytes(bytes)
    }

    pub(super) fn set(&self, ring: u64, word: u64, value: u64) {
        let memory = self.memory.as_ref().unwrap();
        memory.write_all_at(&value.to_ne_bytes(), ring * 512 + word).unwrap();
    }

    pub(super) fn notify(&mut self) {
        // A node that has closed the link reads nothing.
        let _ = self.stream.write(&[1]);
    }

    pub(super) fn send(&mut self, message: Message) {
        self.outbox.add_credit(1);
        self.outbox.push(message);
        self.flush();
    }

    /// Extends the windows of all requests that have begun to their full length.
    pub(super) fn grant(&mut self) {
        self.inbox.take_windows(|window| self.outbox.push_window(&window));
        self.flush();
    }

    fn flush(&mut self) {
        while self.outbox.prepare() {
            let mut parts = SmallVec::new();
            self.outbox.parts(&mut parts);
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
            drop(parts);
            self.outbox.mark_written(bytes.len());
            self.bytes(&bytes);
        }
    }

    /// Sends bytes, one by one where they go through the memory.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let Some(memory) = &self.memory else { return self.stream.write_all(bytes).unwrap() };
        for (at, byte) in (self.sent..).zip(bytes) {
            let place = 4096 + self.writes * CAPACITY + at % CAPACITY;
            memory.write_all_at(&[*byte], place).unwrap();
        }
        self.sent += bytes.len() as u64;
        self.set(self.writes, PRODUCED, self.sent);
        self.notify();
    }

    /// The next bytes, or none when the node has closed the connection.
    fn read(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 65_536];
        if let Some(memory) = &self.memory {
            let ring = 1 - self.writes;
            loop {
                let (produced, base) = (self.word(ring, PRODUCED), self.word(ring, BASE));
                if produced > self.got {
                    let place = |at: u64| 4096 + ring * CAPACITY + (at - base) % CAPACITY;
                    let mut bytes = vec![0; (produced - self.got) as usize];
                    for (at, byte) in (self.got..).zip(&mut bytes) {
                        memory.read_exact_at(std::slice::from_mut(byte), place(at)).unwrap();
                    }
                    self.got = produced;
                    self.set(ring, CONSUMED, produced);
                    return bytes;
                }
                self.set(ring, READER_SLEEPS, 1);
                // Bytes that were written before the node could see the flag are there now.
                if self.word(ring, PRODUCED) == self.got
                    && !matches!(self.came.read(&self.stream, true), Ok(1..))
                {
                    return Vec::new();
                }
            }
        }
        let count = self.stream.read(&mut buffer).unwrap_or(0);
        buffer.truncate(count);
        buffer
    }

    pub(super) fn next(&mut self) -> Option<Event> {
        loop {
            match self.events.pop_front() {
                Some(Event::Ping) => self.send(Message::Pong),
                Some(Event::Credit(_)) => {}
                Some(event) => return Some(event),
                None => {
                    let bytes = self.read();
                    if bytes.is_empty() {
                        return None;
                    }
                    let mut events = Vec::new();
                    let around = Taking { stream: &self.stream, came: &self.came };
                    self.inbox.feed(&bytes, &around, &mut events).unwrap();
                    self.events.extend(events);
                }
            }
        }
    }

    pub(super) fn request(&mut self, call: CallId, func: FuncHandle) {
        self.send(Message::Request(Arc::new(request(LIMIT, call, func, &ids("1")))));
    }

    /// Checks that it is served.
    pub(super) fn is_served(&mut self, who: FuncHandle, sequence: u64) {
        self.request(call(7, sequence), who);
        match self.next() {
            Some(Event::Response(response)) if response.call == call(7, sequence) => {
                assert!(matches!(response.answer, Answer::Reply(_)), "{response:?}");
            }
            other => panic!("a response is to come, but: {other:?}"),
        }
    }

    /// Checks that the node closes the connection; it may send something before.
    pub(super) fn is_closed(&mut self) {
        let mut rest = [0; 4096];
        let end = loop {
            match self.stream.read(&mut rest) {
                Ok(1..) => {}
                end => break end,
            }
        };
        // Reset, if notifications were not read.
        let reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(end.as_ref().map_or_else(reset, |_| true), "the node does not close: {end:?}");
    }
}

/// The descriptors that have arrived on a socket.
#[derive(Default)]
pub(super) struct Came {
    pub(super) waiting: RefCell<VecDeque<OwnedFd>>,
    /// Bytes taken from the announced ones.
    pub(super) taken: Cell<usize>,
}

impl Came {
    /// Reads notifications, and the descriptor that may arrive with them.
    pub(super) fn read(&self, stream: &UnixStream, wait: bool) -> std::io::Result<usize> {
        let mut buffer = [0; 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let flags =
            if wait { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT };
        let count = recvmsg(stream, &mut parts, &mut control, flags)?.bytes;
        for message in control.drain() {
            let RecvAncillaryMessage::ScmRights(descriptors) = message else { continue };
            self.waiting.borrow_mut().extend(descriptors);
        }
        Ok(count)
    }
}

/// A peer that takes descriptors beside its link.
struct Taking<'a> {
    stream: &'a UnixStream,
    came: &'a Came,
}

impl Context for Taking<'_> {
    fn tree(&self, id: u64) -> Option<Tree> {
        Everything.tree(id)
    }

    fn awaits(&self, call: CallId) -> bool {
        Everything.awaits(call)
    }

    fn reply_max(&self) -> u64 {
        Everything.reply_max()
    }

    fn extent(&self, length: usize) -> Result<Extent, FrameError> {
        while self.came.waiting.borrow().is_empty() {
            assert!(self.came.read(self.stream, false).unwrap() > 0, "the descriptor comes before its frame");
        }
        let memory = File::from(self.came.waiting.borrow_mut().pop_front().unwrap());
        let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        assert_eq!(fcntl_get_seals(&memory).unwrap(), seals);
        assert_eq!(memory.metadata().unwrap().len(), length as u64);
        let mut bytes = vec![0; length];
        memory.read_exact_at(&mut bytes, 0).unwrap();
        self.came.taken.set(self.came.taken.get() + length);
        Ok(Arc::new(Read(bytes.into())))
    }
}

/// Memory that was read.
#[derive(Debug)]
struct Read(Bytes);

impl Sealed for Read {
    fn length(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> Bytes {
        self.0.clone()
    }

    fn room(&self, _: u64) -> Option<Box<dyn body::Room>> {
        None
    }

    fn may_be_kept(&self) -> bool {
        false
    }
}

/// A hello of an early run.
fn hello(from: Id, to: Id, rings: bool, extents: bool) -> Vec<u8> {
    let mut outbox = Outbox::new();
    outbox.push_hello(&Hello {
        from,
        to,
        incarnation: EARLY,
        generation: 1,
        hiwater: HIWATER,
        job: Default::default(),
        rings,
        extents,
    });
    assert!(outbox.prepare());
    let mut parts = SmallVec::new();
    outbox.parts(&mut parts);
    assert_eq!(parts[0].len(), FRAME_HEADER + 48);
    parts[0].to_vec()
}

#[test]
fn a_peer_made_from_the_document_is_served_through_the_memory() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let mut peer = Peer::with_rings(&one);
        // Enough for the node's ring to wrap around more than once.
        (1..200).for_each(|sequence| peer.is_served(who, sequence));
        assert!(peer.word(1, BASE) > 0 && peer.got > 8192);
    });
}

#[test]
fn a_node_brings_memory_that_nobody_can_truncate() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let address = LinkKind::Shm.fresh_address(5);
        let listener = UnixListener::bind_addr(&name_of(&address)).unwrap();
        let zero = node(0, &functions, [(5, address)]);
        let handle = zero.call(Call::new(who).ids(ids("0,5"))).unwrap();
        let mut peer = Peer::accept(&listener);
        let memory = peer.memory.as_ref().expect("a node brings memory");
        assert_eq!(memory.metadata().unwrap().len(), LENGTH);
        assert!(memory.set_len(0).is_err() && memory.set_len(2 * LENGTH).is_err());
        peer.answer(true);
        let Some(Event::Request(request)) = peer.next() else { panic!("a request is to come") };
        assert_eq!(request.ids, ids("5"));
        peer.set(0, CONSUMED, u64::MAX);
        peer.notify();
        // The node detects it at its next write there, at the latest when it asks for a heartbeat.
        peer.set(1, PRODUCED, CAPACITY + 1);
        peer.notify();
        peer.is_closed();
        assert_cause(&cause_of(handle), 5, Stage::Link, "the peer broke the shared ring");
    });
}

/// Everything that may come with a hello and is not two rings: the link stays on its socket.
#[test]
fn memory_that_is_not_right_is_left_alone() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let (pipe, _other_end) = std::io::pipe().unwrap();
        let descriptors: Vec<(&str, Vec<OwnedFd>)> = vec![
            ("nothing", vec![]),
            ("memory that is not sealed", vec![memory(LENGTH, SealFlags::empty()).into()]),
            ("memory that may shrink", vec![memory(LENGTH, SealFlags::GROW | SealFlags::SEAL).into()]),
            ("memory that may get seals", vec![memory(LENGTH, SealFlags::GROW | SealFlags::SHRINK).into()]),
            ("memory that is too small", vec![memory(LENGTH - 1, sealed()).into()]),
            ("memory that is too large", vec![memory(LENGTH + 4096, sealed()).into()]),
            ("memory without a byte", vec![memory(0, sealed()).into()]),
            ("memory that must not be written", vec![memory(LENGTH, sealed() | SealFlags::WRITE).into()]),
            ("a pipe", vec![pipe.into()]),
            ("a file", vec![tempfile::tempfile().unwrap().into()]),
            ("two memories", vec![good_memory().into(), good_memory().into()]),
            ("four memories", (0..4).map(|_| good_memory().into()).collect()),
        ];
        for (generation, (what, descriptors)) in (1..).zip(descriptors) {
            let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
            let mut peer = Peer::connect(&one, None, &borrowed);
            peer.is_served(who, generation);
            peer.stream.shutdown(std::net::Shutdown::Write).unwrap();
            peer.is_closed();
            assert!(one.address().is_some(), "after {what}");
        }
    });
}

/// A change of the memory by a peer.
type Lie = fn(&mut Peer);

#[test]
fn indices_that_cannot_be_close_the_link_and_no_other() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let zero = node(0, &functions, [(1, one.address().unwrap().clone())]);
        let lies: [(&str, Lie); 5] = [
            ("more than the ring holds", |peer| peer.set(0, PRODUCED, peer.sent + CAPACITY + 1)),
            ("less than there was", |peer| peer.set(0, PRODUCED, peer.sent - 1)),
            ("the last number there is", |peer| peer.set(0, PRODUCED, u64::MAX)),
            ("bytes that are no frames", |peer| peer.bytes(&noise(1000, 5))),
            ("bytes of nowhere", |peer| {
                peer.set(0, BASE, 0x1234_5678_9abc_def1);
                peer.set(0, PRODUCED, peer.sent + 1000);
            }),
        ];
        for (sequence, (what, lie)) in (1..).zip(lies) {
            let mut peer = Peer::with_rings(&one);
            peer.is_served(who, sequence);
            lie(&mut peer);
            peer.notify();
            peer.is_closed();
            let replies = replies_of(zero.call(Call::new(who).ids(0..2)).unwrap());
            assert_eq!(replies.len(), 2, "after {what}");
        }
        // When it wants to write, a node detects that its own ring was broken.
        let mut peer = Peer::with_rings(&one);
        peer.set(1, CONSUMED, 2 * CAPACITY);
        // Until it must check the index, since it has written a page.
        (11..200).for_each(|sequence| peer.request(call(7, sequence), who));
        peer.is_closed();
    });
}

/// Noise over all of the memory, including the flags of sleeping sides, repeatedly while calls continue.
#[test]
fn noise_in_the_memory_harms_nobody_but_its_own_link() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let zero = node(0, &functions, [(1, one.address().unwrap().clone())]);
        for round in 0..40 {
            let mut peer = Peer::with_rings(&one);
            peer.request(call(7, round), who);
            let memory = peer.memory.as_ref().unwrap();
            memory
                .write_all_at(&noise(if round % 2 == 0 { 1024 } else { LENGTH as usize }, round + 1), 0)
                .unwrap();
            peer.notify();
            assert_who(&replies_of(zero.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
        }
    });
}

/// A peer may ring as often as it likes, claim that it sleeps while it does not, and write anything to the socket.
#[test]
fn flags_and_notifications_are_hints() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let mut peer = Peer::with_rings(&one);
        peer.stream.set_nonblocking(true).unwrap();
        for sequence in 1..100 {
            for ring in [0, 1] {
                peer.set(ring, READER_SLEEPS, sequence);
                peer.set(ring, WRITER_WAITS, u64::MAX);
            }
            let _ = peer.stream.write(&noise(100_000, sequence));
            peer.request(call(7, sequence), who);
        }
        peer.stream.set_nonblocking(false).unwrap();
        for sequence in 1..100 {
            match peer.next() {
                Some(Event::Response(response)) => assert_eq!(response.call, call(7, sequence)),
                other => panic!("a response is to come, but: {other:?}"),
            }
        }
    });
}

/// Bytes that a peer writes before it closes the connection count, even if it closes at once.
#[test]
fn the_last_words_of_a_peer_are_heard() {
    limited(|| {
        let functions = Functions::new();
        let (runs, ran) = std::sync::mpsc::channel();
        // Inline: a function that waits for a worker need not run any more when the link to its parent is lost.
        let note = functions.at(Placement::Inline).func("note", move |_, _| Ok(runs.send(())?)).unwrap();
        let one = node(1, &functions, []);
        for sequence in 1..20 {
            let mut peer = Peer::with_rings(&one);
            peer.request(call(7, sequence), note);
            drop(peer);
            ran.recv_timeout(LIMIT).expect("the request was there before the peer went");
        }
    });
}

#[test]
fn rings_that_nobody_has_offered_are_refused() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let address = LinkKind::Unix.fresh_address(5);
        let listener = UnixListener::bind_addr(&name_of(&address)).unwrap();
        let plain = Node::builder(0).functions(&functions).peers([(5, address)].into_iter().collect());
        let plain = plain.link(LinkKind::Unix).start().unwrap();
        let handle = plain.call(Call::new(who).ids(ids("0,5"))).unwrap();
        let mut peer = Peer::accept(&listener);
        assert!(peer.memory.is_none(), "a node of plain sockets brings nothing");
        peer.answer(true);
        peer.is_closed();
        assert_cause(&cause_of(handle), 5, Stage::Link, "it accepts rings that were not offered");
        // Data by descriptor require rings: an answer that accepted them without rings was accepted.
        for link in [LinkKind::Unix, LinkKind::Shm] {
            let address = LinkKind::Unix.fresh_address(5);
            let listener = UnixListener::bind_addr(&name_of(&address)).unwrap();
            let zero = Node::builder(0).functions(&functions).peers([(5, address)].into_iter().collect());
            let zero = zero.link(link).start().unwrap();
            let handle = zero.call(Call::new(who).ids(ids("0,5"))).unwrap();
            let mut peer = Peer::accept(&listener);
            peer.stream.write_all(&hello(5, 0, false, true)).unwrap();
            peer.is_closed();
            assert_cause(&cause_of(handle), 5, Stage::Link, "without rings");
        }
        // The first hello must not accept any, either.
        let one = node(1, &functions, []);
        let mut stream = UnixStream::connect_addr(&name_of(one.address().unwrap())).unwrap();
        stream.write_all(&hello(7, 1, true, false)).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        assert!(String::from_utf8_lossy(&said).contains("cannot accept rings"), "{said:?}");
    });
}

/// A peer that uses sockets, as an earlier version or by choice, gets a link over its socket, whichever side connects.
#[test]
fn nodes_with_and_without_rings_understand_each_other() {
    limited(|| {
        for kinds in [[LinkKind::Shm, LinkKind::Unix], [LinkKind::Unix, LinkKind::Shm]] {
            let functions = Functions::new();
            let who = who(&functions);
            let listeners = [0, 1].map(|id| Listener::bind(&LinkKind::Shm.fresh_address(id)).unwrap());
            let peers = (0..).zip(listeners.iter().map(|listener| listener.address().unwrap()));
            let peers: chained_gpc::Peers = peers.collect();
            let nodes: Vec<Node> = (0..)
                .zip(listeners)
                .zip(kinds)
                .map(|((id, listener), kind)| {
                    let builder = Node::builder(id).functions(&functions).peers(peers.clone());
                    builder.listener(listener).link(kind).start().unwrap()
                })
                .collect();
            assert_who(&replies_of(nodes[0].call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
        }
    });
}
