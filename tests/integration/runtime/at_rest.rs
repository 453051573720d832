//! What nodes hold when calls have ended, of each kind and in each way: their links, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::link::Outbox;
use chained_gpc::wire::{self, Message};
use chained_gpc::{
    Address, Call, CallHandle, FuncHandle, Functions, LinkKind, Placement, PolledNode, Reply, Request,
    Streaming, Tree,
};
use gpc_test_support::nodes::{assert_idle, assert_polled_idle, drive, polled_with, turn};
use gpc_test_support::waiting::until;
use smallvec::SmallVec;

use super::common::{LIMIT, LINKS, hold, ids, limited, noise, who};
use super::raw::{EARLY, RawPeer, call, node, request};

/// Counts its data.
struct Count(usize);

impl Streaming for Count {
    fn segment(&mut self, bytes: &[u8]) -> chained_gpc::FunctionResult {
        self.0 += bytes.len();
        Ok(())
    }

    fn finish(&mut self, _: &Request<'_>, reply: &mut Reply) -> chained_gpc::FunctionResult {
        reply.data = self.0.to_string().into_bytes();
        Ok(())
    }
}

fn nodes(link: LinkKind, functions: &Functions) -> Vec<PolledNode> {
    polled_with(4, link, functions, |builder| builder.executor("io", 2))
}

#[test]
fn nothing_is_left_of_a_call_of_any_kind() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let who = who(&functions);
            let io = functions.at(Placement::Executor("io".into()));
            let worker = io.func("on a worker", |_, reply| {
                reply.data = noise(300_000, 1);
                Ok(())
            });
            let later = functions.deferring("later", |_, token| token.reply(Reply::default())).unwrap();
            let never = functions.deferring("never", |_, token| drop(token)).unwrap();
            let fails = functions.func("fails", |request, _| match request.me() {
                2 => Err("not here".into()),
                _ => Ok(()),
            });
            let stream = functions.streaming("stream", |_| Ok(Count(0))).unwrap();
            let merge = functions.callback("merge", |_, child, own| {
                own.data.extend_from_slice(child.data);
                Ok(())
            });
            let defers = io.callback("defers", |request, _, own| {
                let token = request.defer().expect("a callback may");
                token.reply(std::mem::take(own));
                Ok(())
            });
            let (merge, defers, fails) = (merge.unwrap(), defers.unwrap(), fails.unwrap());
            let of = |func: FuncHandle| Call::new(func).ids(0..4);
            let calls = [
                of(who),
                of(who).tree(Tree::Chain),
                of(who).callback(merge).tree(Tree::Chain),
                of(who).callback(defers).tree(Tree::Binary),
                of(who).data(noise(3 << 20, 2)).forward_first().tree(Tree::Chain),
                of(worker.unwrap()),
                of(later).partial(),
                of(never),
                of(fails).tree(Tree::Chain),
                of(fails).partial(),
                of(stream).data(noise(3 << 20, 3)).forward_first().tree(Tree::Chain),
                Call::new(who).ids(1..4).watch(),
                of(who).no_reply(),
            ];
            let mut nodes = nodes(link, &functions);
            for call in calls.into_iter().flat_map(|call| [call.clone(), call]) {
                let handle = nodes[0].call(call).unwrap();
                // Some fail, which leaves nothing either.
                let _ = drive(&mut nodes, handle);
                assert_polled_idle(&mut nodes);
            }
        }
    });
}

/// Drives nodes until all have handed over a token.
fn until_held<T>(nodes: &mut [PolledNode], held: &std::sync::mpsc::Receiver<T>) -> Vec<T> {
    let mut tokens = Vec::new();
    while tokens.len() < nodes.len() {
        turn(nodes);
        tokens.extend(held.try_iter());
    }
    tokens
}

/// A way to break a call off.
type End = dyn Fn(&mut [PolledNode], CallHandle);

#[test]
fn nothing_is_left_of_a_call_that_is_broken_off() {
    limited(|| {
        for link in LINKS {
            let functions = Functions::new();
            let (hold, held) = hold(&functions);
            let who = who(&functions);
            let mut nodes = nodes(link, &functions);
            let call = || Call::new(hold).ids(0..4).tree(Tree::Chain).data(noise(100_000, 5));
            let broken: [&End; 3] = [
                &|nodes, handle| {
                    handle.cancel();
                    assert!(drive(nodes, handle).is_err());
                },
                &|_, handle| drop(handle),
                &|nodes, handle| {
                    nodes[0].forget(1).unwrap();
                    assert!(drive(nodes, handle).is_err());
                    let peer =
                        chained_gpc::Peer::new(1, nodes[1].address().cloned().unwrap_or(Address::Host));
                    nodes[0].learn(peer).unwrap();
                },
            ];
            for end in broken {
                let handle = nodes[0].call(call()).unwrap();
                let tokens = until_held(&mut nodes, &held);
                end(&mut nodes, handle);
                assert_polled_idle(&mut nodes);
                assert!(tokens.iter().all(|token| token.is_cancelled()));
                // Too late: nobody waits for them.
                tokens.into_iter().for_each(|token| token.reply(Reply::default()));
                assert_polled_idle(&mut nodes);
            }
            // The time limit passes, and the nodes go on.
            let handle = nodes[0].call(call().limit(Duration::from_millis(20))).unwrap();
            assert!(drive(&mut nodes, handle).is_err());
            drop(held.try_iter().collect::<Vec<_>>());
            assert_polled_idle(&mut nodes);
            let handle = nodes[0].call(Call::new(who).ids(0..4)).unwrap();
            assert!(drive(&mut nodes, handle).is_ok());
            assert_polled_idle(&mut nodes);
        }
    });
}

/// A long header that came in several segments left its deadline, for up to a minute.
#[test]
fn nothing_is_left_of_a_request_that_came_in_parts() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = node(5, &functions, []);
        let mut peer = RawPeer::greet(&node, 0, EARLY, 1);
        let deadlines = || node.snapshot().count("connection deadlines");
        for sequence in EARLY..EARLY + 2 {
            let name = call(0, sequence);
            let whole =
                wire::Request { header: noise(65_000, 1).into(), ..request(LIMIT, name, who, &ids("5")) };
            let mut outbox = Outbox::new();
            // As a node does whose core has much else to do.
            outbox.set_pace(16 << 10, usize::MAX);
            outbox.add_credit(1);
            outbox.push(Message::Request(Arc::new(whole)));
            let mut bytes = Vec::new();
            while outbox.prepare() {
                let mut parts = SmallVec::new();
                outbox.parts(&mut parts);
                let part = parts.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>();
                drop(parts);
                outbox.mark_written(part.len());
                bytes.extend_from_slice(&part);
            }
            let (most, rest) = bytes.split_at(bytes.len() - 1000);
            peer.bytes(most);
            until("its deadline is set", || deadlines() == 1);
            peer.bytes(rest);
            peer.expect_response(name);
            assert_idle(&node);
        }
    });
}
