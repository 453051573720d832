//! Data by descriptor with peers made by hand from docs/wire.md: one that follows it, and ones that lie.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::channel;

use chained_gpc::link::Event;
use chained_gpc::runtime::{Listener, Peers};
use chained_gpc::wire::message::{Answer, Response, SubtreeReply};
use chained_gpc::wire::{Body, BodyWriter, CallId, Message, Request};
use chained_gpc::{Address, Call, FuncHandle, Functions, LinkKind, Node, Placement, Reply, Streaming, Tree};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::common::{LIMIT, assert_who, checksum, ids, limited, noise, replies_of, who};
use super::raw::{call, level_0, request};
use super::rings::{Peer, name_of, node, send_with, try_send_with};

const MIB: usize = 1 << 20;

fn all_seals() -> SealFlags {
    SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

/// Memory with these bytes and these seals.
fn memory(bytes: &[u8], seals: SealFlags) -> OwnedFd {
    let memory = memfd_create("by hand", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    let mut file = File::from(memory);
    file.write_all(bytes).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

fn good(bytes: &[u8]) -> OwnedFd {
    memory(bytes, all_seals())
}

/// Functions that reply with the length and checksum of their data, taken whole or as they arrive.
fn sums(functions: &Functions) -> [FuncHandle; 2] {
    struct Sum(Vec<u8>);
    impl Streaming for Sum {
        fn segment(&mut self, bytes: &[u8]) -> chained_gpc::FunctionResult {
            self.0.extend_from_slice(bytes);
            Ok(())
        }
        fn finish(&mut self, _: &chained_gpc::Request<'_>, reply: &mut Reply) -> chained_gpc::FunctionResult {
            reply.data = said(&self.0);
            Ok(())
        }
    }
    let whole = functions.func("whole", |request, reply| {
        reply.data = said(request.data());
        Ok(())
    });
    [whole.unwrap(), functions.streaming("streaming", |_| Ok(Sum(Vec::new()))).unwrap()]
}

fn said(bytes: &[u8]) -> Vec<u8> {
    format!("{} {}", bytes.len(), checksum(bytes)).into_bytes()
}

/// Begins a call with data of this length, of which none is sent yet.
fn begin(peer: &mut Peer, call: CallId, func: FuncHandle, len: usize) -> BodyWriter {
    let (data, writer) = Body::arriving(len as u64);
    peer.send(Message::Request(Arc::new(Request { data, ..request(LIMIT, call, func, &ids("1")) })));
    writer
}

/// Passes descriptors with one byte.
fn hand(peer: &Peer, descriptors: &[OwnedFd]) {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    // A node that has closed the link takes nothing.
    let _ = try_send_with(&peer.stream, &[1], &borrowed);
}

/// Sends the frame that announces a descriptor.
fn speak(peer: &mut Peer, CallId { root, sequence }: CallId, length: u64) {
    let words = [&root.to_le_bytes()[..], &[0; 4], &sequence.to_le_bytes(), &length.to_le_bytes()].concat();
    peer.bytes(&[&[24, 0, 0, 0, 13, 0, 0, 0], &words[..]].concat());
}

fn segment(peer: &mut Peer, CallId { root, sequence }: CallId, bytes: &[u8]) {
    let words = [&root.to_le_bytes()[..], &[0; 4], &sequence.to_le_bytes(), bytes].concat();
    let length = (words.len() as u32).to_le_bytes();
    peer.bytes(&[&length[..], &[4, 0, 0, 0], &words].concat());
}

/// The reply to a call, after any windows.
fn reply_to(peer: &mut Peer, call: CallId) -> Vec<u8> {
    loop {
        match peer.next() {
            Some(Event::Window(window)) => assert_eq!(window.call, call),
            Some(Event::Response(Response { call: of, answer: Answer::Reply(reply) })) if of == call => {
                return reply.data.as_slice().to_vec();
            }
            other => panic!("a reply is to come, but: {other:?}"),
        }
    }
}

#[test]
fn data_that_a_peer_hands_over_are_those_that_func_gets() {
    limited(|| {
        let functions = Functions::new();
        let funcs = sums(&functions);
        let one = node(1, &functions, []);
        let mut peer = Peer::with_rings(&one);
        // With ends within pages, and bytes of the ring in between.
        let lengths: [&[usize]; 4] = [
            &[MIB, MIB, MIB],
            &[MIB / 4 + 5, 17, MIB / 4 + 1, MIB, 3, 4096, MIB / 2],
            &[9, MIB, 1, MIB / 4, MIB / 4],
            &[2 * MIB, 2 * MIB],
        ];
        for (sequence, (func, lengths)) in
            (1..).zip(funcs.iter().flat_map(|func| lengths.map(|lengths| (*func, lengths))))
        {
            let bytes = noise(lengths.iter().sum(), sequence);
            let call = call(7, sequence);
            let _writer = begin(&mut peer, call, func, bytes.len());
            let mut at = 0;
            for &length in lengths {
                let piece = &bytes[at..at + length];
                at += length;
                if length < MIB / 4 {
                    segment(&mut peer, call, piece);
                    continue;
                }
                hand(&peer, &[good(piece)]);
                speak(&mut peer, call, length as u64);
            }
            assert_eq!(reply_to(&mut peer, call), level_0(&said(&bytes)));
        }
    });
}

/// Frames of several calls announce descriptors that arrived long before, and calls that have ended.
#[test]
fn descriptors_are_taken_in_the_order_of_the_frames() {
    limited(|| {
        let functions = Functions::new();
        let [whole, _] = sums(&functions);
        let one = node(1, &functions, []);
        let mut peer = Peer::with_rings(&one);
        let calls = [call(7, 1), call(7, 2)];
        let _writers = calls.map(|call| begin(&mut peer, call, whole, 2 * MIB));
        let data = [noise(2 * MIB, 1), noise(2 * MIB, 2)];
        for at in [0, MIB] {
            for data in &data {
                hand(&peer, &[good(&data[at..at + MIB])]);
            }
            hand(&peer, &[good(&noise(MIB, 3))]);
        }
        for _ in 0..2 {
            speak(&mut peer, calls[0], MIB as u64);
            speak(&mut peer, calls[1], MIB as u64);
            // This call is unknown.
            speak(&mut peer, call(7, 99), MIB as u64);
        }
        let mut replies = [None, None];
        while replies.contains(&None) {
            match peer.next() {
                Some(Event::Response(Response { call, answer: Answer::Reply(reply) })) => {
                    replies[(call.sequence - 1) as usize] = Some(reply.data.as_slice().to_vec());
                }
                other => panic!("replies are to come, but: {other:?}"),
            }
        }
        assert_eq!(replies, data.map(|data| Some(level_0(&said(&data)))));
    });
}

/// A way to violate the protocol instead of passing the announced descriptor.
type Lie = fn(&mut Peer, CallId);

#[test]
fn who_hands_over_what_is_not_as_it_must_be_loses_its_link_and_no_other() {
    limited(|| {
        let functions = Functions::new();
        let (funcs, who) = (sums(&functions), who(&functions));
        let one = node(1, &functions, []);
        let zero = node(0, &functions, [(1, one.address().unwrap().clone())]);
        let lies: [(&str, Lie); 16] = [
            ("nothing", |_, _| {}),
            ("a notification", |peer, _| send_with(&peer.stream, &[1; 40], &[])),
            ("memory that is not sealed", |peer, _| hand(peer, &[memory(&vec![1; MIB], SealFlags::empty())])),
            ("memory that may be written", |peer, _| {
                hand(peer, &[memory(&vec![1; MIB], all_seals() - SealFlags::WRITE)]);
            }),
            ("memory that may shrink", |peer, _| {
                hand(peer, &[memory(&vec![1; MIB], all_seals() - SealFlags::SHRINK)]);
            }),
            ("memory that may get seals", |peer, _| {
                hand(peer, &[memory(&vec![1; MIB], all_seals() - SealFlags::SEAL)]);
            }),
            ("memory that is too short", |peer, _| hand(peer, &[good(&vec![1; MIB - 1])])),
            ("memory that is too long", |peer, _| hand(peer, &[good(&vec![1; MIB + 1])])),
            ("memory without a byte", |peer, _| hand(peer, &[good(b"")])),
            ("memory that was never written", |peer, _| {
                let hole = memfd_create("hole", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
                ftruncate(&hole, MIB as u64).unwrap();
                fcntl_add_seals(&hole, all_seals()).unwrap();
                hand(peer, &[hole]);
            }),
            ("a pipe", |peer, _| hand(peer, &[std::io::pipe().unwrap().0.into()])),
            ("a file", |peer, _| hand(peer, &[tempfile::tempfile().unwrap().into()])),
            ("its own socket", |peer, _| {
                let descriptor = peer.stream.try_clone().unwrap().into();
                hand(peer, &[descriptor]);
            }),
            ("two at once", |peer, _| hand(peer, &[good(&vec![1; MIB]), good(&vec![2; MIB])])),
            ("four at once", |peer, _| hand(peer, &[0; 4].map(|_| good(&vec![1; MIB])))),
            ("more than the call has", |peer, call| {
                for _ in 0..4 {
                    hand(peer, &[good(&vec![1; MIB])]);
                    speak(peer, call, MIB as u64);
                }
                hand(peer, &[good(&vec![1; MIB])]);
            }),
        ];
        for (sequence, (what, lie)) in (1..).zip(lies) {
            let mut peer = Peer::with_rings(&one);
            let call = call(7, sequence);
            let _writer = begin(&mut peer, call, funcs[sequence as usize % 2], 4 * MIB - 1);
            lie(&mut peer, call);
            speak(&mut peer, call, MIB as u64);
            peer.is_closed();
            let replies = replies_of(zero.call(Call::new(who).ids(0..2)).unwrap());
            assert_eq!(replies.len(), 2, "after {what}");
        }
    });
}

/// As many unannounced descriptors as the system takes: they fill no table of the node, and delay no other peer.
#[test]
fn a_peer_that_only_hands_over_harms_nobody() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let zero = node(0, &functions, [(1, one.address().unwrap().clone())]);
        let piece = good(b"any");
        for round in 1..5 {
            let mut peer = Peer::with_rings(&one);
            peer.is_served(who, round);
            peer.stream.set_nonblocking(true).unwrap();
            // This loop ends when the socket is full, or closed because they were too many.
            while try_send_with(&peer.stream, &[1], &[piece.as_fd()]).is_ok() {}
            assert_who(&replies_of(zero.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
        }
    });
}

/// Forty unannounced descriptors were left unread, since so few notifications are not read.
#[test]
fn a_peer_that_hands_over_more_than_its_frames_may_speak_of_is_put_out() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let one = node(1, &functions, []);
        let piece = good(b"any");
        let mut peer = Peer::with_rings(&one);
        peer.is_served(who, 1);
        for _ in 0..40 {
            // The link may be closed before all have been sent.
            let _ = try_send_with(&peer.stream, &[1], &[piece.as_fd()]);
        }
        peer.is_closed();
        // As many as may wait are allowed.
        let mut peer = Peer::with_rings(&one);
        peer.is_served(who, 2);
        for sequence in 3..35 {
            send_with(&peer.stream, &[1], &[piece.as_fd()]);
            peer.is_served(who, sequence);
        }
    });
}

/// If one side of a link does not take descriptors, none are used, whatever arrives.
#[test]
fn who_has_not_said_that_it_takes_descriptors_gets_none_and_sends_none() {
    limited(|| {
        let functions = Functions::new();
        let [whole, _] = sums(&functions);
        let (address, listener) = place_of_five();
        let zero = node(0, &functions, [(5, address)]);
        let data = noise(MIB, 1);
        let handle = zero.call(Call::new(whole).ids(ids("0,5")).data(data.clone())).unwrap();
        let mut peer = Peer::accept(&listener);
        peer.by_descriptor = false;
        peer.answer(true);
        assert_eq!(body_of(&mut peer).bytes().unwrap(), data);
        assert!(peer.came.waiting.borrow().is_empty(), "nothing is handed over");
        speak(&mut peer, call(0, 1), MIB as u64);
        peer.is_closed();
        super::common::end_of(handle).unwrap_err();
    });
}

/// Address of id 5, whose peer is made by hand.
fn place_of_five() -> (Address, UnixListener) {
    let address = LinkKind::Shm.fresh_address(5);
    let listener = UnixListener::bind_addr(&name_of(&address)).unwrap();
    (address, listener)
}

/// All data of the next request.
fn body_of(peer: &mut Peer) -> Body {
    let mut request = None;
    loop {
        match peer.next() {
            Some(Event::Request(begun)) => {
                peer.grant();
                request = Some(begun);
            }
            Some(Event::DataGrew) => {}
            Some(Event::DataArrived(_)) => return request.expect("it comes before its data").data.clone(),
            other => panic!("a request is to come, but: {other:?}"),
        }
    }
}

/// The memory arrives sealed, each piece before its frame, which the peer checks; memory sent on one link is sent on
/// another, too.
#[test]
fn a_node_hands_its_data_over() {
    limited(|| {
        let functions = Functions::new();
        let [whole, _] = sums(&functions);
        let (address, listener) = place_of_five();
        let zero = node(0, &functions, [(5, address)]);
        let data = noise(9 * MIB + 77, 4);
        let handle = zero.call(Call::new(whole).ids(ids("0,5")).data(data.clone())).unwrap();
        let mut peer = Peer::accept(&listener);
        peer.answer(true);
        let Some(Event::Request(begun)) = peer.next() else { panic!("a request is to come") };
        // All but the last bytes, which are too few, come by descriptor.
        peer.grant();
        while begun.data.arrived() < data.len() as u64 {
            match peer.next() {
                Some(Event::DataGrew | Event::DataArrived(_)) => {}
                other => panic!("data are to come, but: {other:?}"),
            }
        }
        assert_eq!(peer.came.taken.get(), data.len());
        assert!(begun.data.bytes().unwrap() == data);
        let reply = SubtreeReply {
            level: 0,
            header: level_0(b"").into(),
            data: level_0(b"done").into(),
            ..SubtreeReply::default()
        };
        peer.send(Message::Response(Response { call: begun.call, answer: Answer::Reply(reply) }));
        let replies = replies_of(handle);
        assert_eq!((&replies[0].data[..], &replies[1].data[..]), (&said(&data)[..], &b"done"[..]));
    });
}

/// A child reads nothing more, and closes its link: the call ends, and the node continues.
#[test]
fn a_child_that_goes_with_descriptors_on_their_way_fails_its_call_alone() {
    limited(|| {
        let functions = Functions::new();
        let ([whole, _], who) = (sums(&functions), who(&functions));
        let (address, listener) = place_of_five();
        let one = node(1, &functions, []);
        let zero = node(0, &functions, [(5, address), (1, one.address().unwrap().clone())]);
        let handle = zero.call(Call::new(whole).ids(ids("0,5")).data(noise(9 * MIB, 4))).unwrap();
        let mut peer = Peer::accept(&listener);
        peer.answer(true);
        let Some(Event::Request(_)) = peer.next() else { panic!("a request is to come") };
        drop(peer);
        super::common::end_of(handle).unwrap_err();
        assert_who(&replies_of(zero.call(Call::new(who).ids(0..2)).unwrap()), &[0, 1], "");
    });
}

/// A parent closes its link after it has passed descriptors: the data that it sent before count.
#[test]
fn what_a_parent_has_handed_over_before_it_went_is_there() {
    limited(|| {
        let functions = Functions::new();
        let (got, gets) = channel();
        // The function needs no worker: a call that still waits for one when its parent is lost is given up with it.
        let inline = functions.at(Placement::Inline);
        let note = inline.func("note", move |request, _| Ok(got.send(request.data_bytes())?)).unwrap();
        let one = node(1, &functions, []);
        for round in 1..10 {
            let mut peer = Peer::with_rings(&one);
            let data = noise(2 * MIB, round);
            let _writer = begin(&mut peer, call(7, round), note, data.len());
            for piece in data.chunks(MIB) {
                hand(&peer, &[good(piece)]);
                speak(&mut peer, call(7, round), MIB as u64);
            }
            drop(peer);
            let bytes = gets.recv_timeout(LIMIT).expect("the data were there before the peer went");
            assert!(bytes == data);
        }
    });
}

/// In one chain long data arrive by socket, are forwarded by descriptor, and leave by socket again. Every id gets all
/// of them, whole or as they arrive.
#[test]
fn data_go_by_socket_and_by_descriptor_in_turn() {
    limited(|| {
        let functions = Functions::new();
        let funcs = sums(&functions);
        let kinds =
            [LinkKind::Unix, LinkKind::Shm, LinkKind::Shm, LinkKind::Unix, LinkKind::Shm, LinkKind::Shm];
        let listeners = kinds.map(|_| Listener::bind(&LinkKind::Shm.fresh_address(0)).unwrap());
        let addresses = listeners.iter().map(|listener| listener.address().unwrap());
        let peers: Peers = (0..).zip(addresses).collect();
        let nodes: Vec<Node> = (0..)
            .zip(listeners.into_iter().zip(kinds))
            .map(|(id, (listener, kind))| {
                let builder = Node::builder(id).functions(&functions).peers(peers.clone());
                builder.listener(listener).link(kind).start().unwrap()
            })
            .collect();
        for (seed, func) in (1..).zip(funcs.iter().cycle().take(6)) {
            for tree in [Tree::Chain, Tree::Binary, Tree::Flat] {
                let data = noise(5 * MIB + 1234, seed);
                let call = Call::new(*func).ids(0..6).tree(tree).data(data.clone());
                let call = if seed % 3 == 0 { call } else { call.forward_first() };
                let replies = replies_of(nodes[(seed % 2) as usize].call(call).unwrap());
                assert_eq!(replies.len(), 6);
                assert!(replies.iter().all(|reply| reply.data[..] == said(&data)));
            }
        }
    });
}
