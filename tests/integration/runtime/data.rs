//! Long data, down and up.

use std::sync::Arc;

use chained_gpc::link::Event;
use chained_gpc::wire::{Body, Message, Request};
use chained_gpc::{Call, Functions, LinkKind};
use gpc_test_support::nodes::LocalNodes;
use gpc_trees::Tree;

use super::common::{LIMIT, LINKS, checksum, ids, limited, noise, replies_of, who};
use super::raw::{EARLY, RawPeer, call, listener, node, request};

#[test]
fn long_data_reach_every_id_whole_forwarded_first_or_not() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let sum = functions.func("sum of data", |request, reply| {
                reply.data = checksum(request.data()).to_le_bytes().to_vec();
                reply.header = request.data().len().to_le_bytes().to_vec();
                Ok(())
            });
            let nodes = LocalNodes::start(6, link, &functions).unwrap();
            let data = noise(32 << 20, 11);
            let expected = checksum(&data).to_le_bytes();
            let call = Call::new(sum.unwrap()).ids(0..6).data(data).header("a header too");
            let forward_first = call.clone().tree(Tree::Chain).forward_first();
            for call in [forward_first, call.tree(Tree::Binary)] {
                for reply in replies_of(nodes.root().call(call).unwrap()) {
                    assert_eq!(reply.header[..], (32usize << 20).to_le_bytes(), "id {}", reply.id);
                    assert_eq!(reply.data[..], expected, "id {}", reply.id);
                }
            }
        }
    });
}

#[test]
fn data_of_every_length_about_the_bounds_of_frames_arrive() {
    limited(|| {
        let functions = Functions::new();
        let echo = functions.func("echo", |request, reply| {
            reply.data = request.data().to_vec();
            Ok(())
        });
        let echo = echo.unwrap();
        let nodes = LocalNodes::start(3, LinkKind::Tcp, &functions).unwrap();
        let small = 16usize << 10;
        let segment = 256usize << 10;
        let lengths =
            [0, 1, small - 100, small - 1, small, small + 1, segment - 1, segment, segment + 1, 3 * segment];
        let calls: Vec<_> = lengths
            .iter()
            .flat_map(|&len| [(len, false), (len, true)])
            .map(|(len, first)| {
                let data = noise(len, len as u64);
                let call = Call::new(echo).ids(0..3).tree(Tree::Chain).data(data.clone());
                let call = if first { call.forward_first() } else { call };
                (data, nodes.root().call(call).unwrap())
            })
            .collect();
        for (data, handle) in calls {
            let replies = replies_of(handle);
            assert_eq!(replies.len(), 3);
            assert!(replies.iter().all(|reply| reply.data == data), "{} bytes", data.len());
        }
    });
}

#[test]
fn long_replies_of_every_id_come_up_whole() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let long = functions.func("long", |request, reply| {
                reply.data = noise(4 << 20, request.me().into());
                reply.header = noise(100_000, request.me().into());
                Ok(())
            });
            let long = long.unwrap();
            let nodes = LocalNodes::start(8, link, &functions).unwrap();
            for tree in [Tree::Binomial, Tree::Flat] {
                let replies = replies_of(nodes.root().call(Call::new(long).ids(0..8).tree(tree)).unwrap());
                assert_eq!(replies.len(), 8);
                for reply in replies {
                    assert!(reply.data == noise(4 << 20, reply.id.into()), "data of id {}", reply.id);
                    assert!(reply.header == noise(100_000, reply.id.into()), "header of id {}", reply.id);
                }
            }
        }
    });
}

#[test]
fn a_small_call_passes_a_long_transfer() {
    limited(|| {
        let functions = Functions::new();
        let len = functions.func("len", |request, reply| {
            reply.data = request.data().len().to_le_bytes().to_vec();
            Ok(())
        });
        let len = len.unwrap();
        let nodes = LocalNodes::start(2, LinkKind::Tcp, &functions).unwrap();
        let long = nodes.root().call(Call::new(len).ids(0..2).data(noise(32 << 20, 5))).unwrap();
        let small: Vec<_> = (0..100).map(|_| nodes.root().call(Call::new(len).ids(0..2)).unwrap()).collect();
        for handle in small {
            assert_eq!(replies_of(handle)[1].data[..], 0usize.to_le_bytes());
        }
        assert_eq!(replies_of(long)[1].data[..], (32usize << 20).to_le_bytes());
    });
}

#[test]
fn data_forwarded_first_flow_on_while_they_arrive_and_stop_with_their_parent() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let node = node(1, &functions, [(5, address)]);
        let mut parent = RawPeer::greet(&node, 7, EARLY, 1);
        let bytes = noise(4 << 20, 21);
        let (data, mut source) = Body::arriving(bytes.len() as u64);
        let request = request(LIMIT, call(7, 1), who, &ids("1,5"));
        source.push(&bytes[..1 << 20]);
        parent.send(Message::Request(Arc::new(Request { forward_first: true, data, ..request })));
        let mut child = RawPeer::answer(&listener, EARLY);
        let received = child.expect_request().data;
        let grow = |child: &mut RawPeer, len: u64| {
            while received.arrived() < len {
                let event = child.next();
                assert!(matches!(event, Some(Event::DataGrew | Event::DataArrived(_))), "{event:?}");
            }
        };
        grow(&mut child, 1 << 20);
        source.push(&bytes[1 << 20..3 << 20]);
        parent.go_on();
        grow(&mut child, 3 << 20);
        assert_eq!(received.read(0, 4 << 20), bytes[..3 << 20]);
        // The rest never arrives.
        drop(parent);
        // Each piece of a read is an event.
        let last =
            std::iter::repeat_with(|| child.next()).find(|event| !matches!(event, Some(Event::DataGrew)));
        let cancelled = matches!(last, Some(Some(Event::Cancel(cancelled))) if cancelled == call(7, 1));
        assert!(cancelled, "a cancel is to come, but: {last:?}");
    });
}
