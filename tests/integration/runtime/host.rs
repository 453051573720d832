//! Nodes over a network of the program: one that has no room, one that loses messages or peers, one whose processes
//! start again.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use chained_gpc::runtime::AddressRow;
use chained_gpc::{
    Call, FuncHandle, Functions, Heartbeat, HostNetwork, HostPort, Id, Job, Loss, MemoryNetwork, Node,
    NotSent, PeerEventKind, Peers, Tree,
};
use gpc_test_support::nodes::assert_idle;

use super::common::{LIMIT, assert_cause, assert_who, cause_of, limited, noise, replies_of, who};
use chained_gpc::Stage;

/// Messages for an id, each behind the id of its sender.
type Queue = VecDeque<(Id, Vec<u8>)>;

/// What has been sent and not delivered, between all ids.
#[derive(Default)]
struct Wire {
    ports: Mutex<Vec<Option<HostPort>>>,
    queues: Mutex<Vec<Queue>>,
    /// Messages that a queue takes.
    room: usize,
    message_max: usize,
    /// What decides when there is no room, and which messages are lost.
    dice: AtomicU64,
    loses: AtomicBool,
}

impl Wire {
    fn new(n: usize, room: usize, message_max: usize, seed: u64) -> Arc<Wire> {
        let ports = Mutex::new((0..n).map(|_| None).collect());
        let queues = Mutex::new((0..n).map(|_| VecDeque::new()).collect());
        Arc::new(Wire { ports, queues, room, message_max, dice: AtomicU64::new(seed | 1), ..Wire::default() })
    }

    /// A number below a bound.
    fn draw(&self, bound: u64) -> u64 {
        let next = |state: u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        (self.dice.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).unwrap() >> 33) % bound
    }

    /// Delivers what waits for an id, and tells senders of room; returns whether anything waited.
    fn deliver(&self, to: Id) -> bool {
        let Some((from, message)) = self.queues.lock().unwrap()[to as usize].pop_front() else {
            return false;
        };
        let ports = self.ports.lock().unwrap().clone();
        if let Some(port) = &ports[to as usize] {
            // A node that has ended takes nothing.
            let _ = port.deliver(from, &message);
        }
        for port in ports.iter().flatten() {
            port.writable(to);
        }
        true
    }

    /// Delivers on one thread for each id, until all nodes are gone.
    fn run(self: &Arc<Wire>, done: &Arc<AtomicBool>) -> Vec<thread::JoinHandle<()>> {
        let n = self.ports.lock().unwrap().len();
        let deliver = |to| {
            let (wire, done) = (self.clone(), done.clone());
            thread::spawn(move || {
                while !done.load(Ordering::SeqCst) {
                    if !wire.deliver(to) {
                        thread::yield_now();
                    }
                }
            })
        };
        (0..n as Id).map(deliver).collect()
    }
}

/// The place of an id.
struct Place(Id, Arc<Wire>);

impl HostNetwork for Place {
    fn send(&self, to: Id, parts: &[IoSlice<'_>]) -> Result<(), NotSent> {
        let Place(me, wire) = self;
        let message: Vec<u8> = parts.iter().map(|part| &**part).collect::<Vec<_>>().concat();
        assert!(message.len() <= wire.message_max, "{} bytes", message.len());
        if wire.loses.load(Ordering::SeqCst) && wire.draw(4) == 0 {
            return Ok(());
        }
        let mut queues = wire.queues.lock().unwrap();
        let queue = &mut queues[to as usize];
        if queue.len() >= wire.room {
            return Err(NotSent::WouldBlock);
        }
        queue.push_back((*me, message));
        Ok(())
    }

    fn message_max(&self) -> usize {
        self.1.message_max
    }

    fn starts(&self, port: HostPort) {
        self.1.ports.lock().unwrap()[self.0 as usize] = Some(port);
    }
}

fn node(id: Id, n: u32, wire: &Arc<Wire>, functions: &Functions) -> Node {
    let peers = Peers::from(AddressRow::host(0..n));
    let place = Arc::new(Place(id, wire.clone()));
    Node::builder(id).functions(functions).peers(peers).host(place).first_run().start().unwrap()
}

/// Each id replies with the data of the request, behind its id.
fn echo(functions: &Functions) -> FuncHandle {
    let echo = functions.func("echo", |request, reply| {
        reply.data = [&request.me().to_le_bytes()[..], request.data()].concat();
        Ok(())
    });
    echo.unwrap()
}

/// What comes back does not depend on the network: tiny messages, queues of one message, or memory.
#[test]
fn calls_over_tiny_messages_and_full_queues_are_those_over_memory() {
    limited(|| {
        let functions = Functions::new();
        let echo = echo(&functions);
        let memory = MemoryNetwork::new();
        let start = |id| {
            let peers = Peers::from(AddressRow::host(0..5));
            Node::builder(id).functions(&functions).peers(peers).memory(&memory).start().unwrap()
        };
        let plain: Vec<Node> = (0..5).map(start).collect();
        for (room, message_max) in [(1, 64), (1, 100_000), (3, 1000), (1000, 70_000)] {
            let wire = Wire::new(5, room, message_max, 7);
            let nodes: Vec<Node> = (0..5).map(|id| node(id, 5, &wire, &functions)).collect();
            let done = Arc::<AtomicBool>::default();
            let threads = wire.run(&done);
            // Where each message carries little, the longest data would take long.
            let longest = (message_max * 3000).min(3 << 20);
            for (length, tree) in [(0, Tree::Flat), (5000, Tree::Chain), (longest, Tree::Binomial)] {
                let call = || Call::new(echo).ids([3, 0, 1, 2, 4]).tree(tree.clone()).data(noise(length, 3));
                let [here, there] = [&nodes, &plain].map(|nodes| replies_of(nodes[3].call(call()).unwrap()));
                assert!(here == there, "{room} messages of {message_max}: {length} bytes");
            }
            nodes.iter().for_each(assert_idle);
            drop(nodes);
            done.store(true, Ordering::SeqCst);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
}

/// A network that loses messages breaks links, and the reason names it: no call hangs, and none has a wrong reply.
#[test]
fn a_network_that_loses_messages_is_named_as_the_cause() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let wire = Wire::new(3, 1000, 1000, 11);
        let nodes: Vec<Node> = (0..3).map(|id| node(id, 3, &wire, &functions)).collect();
        let done = Arc::<AtomicBool>::default();
        let threads = wire.run(&done);
        let call = || nodes[0].call(Call::new(who).ids(0..3).limit(Duration::from_millis(300))).unwrap();
        assert_who(&replies_of(call()), &[0, 1, 2], "");
        wire.loses.store(true, Ordering::SeqCst);
        let mut reasons = Vec::new();
        let is_named = (0..60).any(|_| match call().wait() {
            Ok(outcome) => {
                assert_who(&outcome.replies().unwrap(), &[0, 1, 2], "");
                false
            }
            Err(error) => {
                reasons.push(error.to_string());
                reasons.last().is_some_and(|why| why.contains("the program's network must keep all messages"))
            }
        });
        assert!(is_named, "{reasons:?}");
        wire.loses.store(false, Ordering::SeqCst);
        // Links that have lost a message without noticing it are found by the next one.
        let recovers = (0..30).any(|_| call().wait().is_ok());
        assert!(recovers, "links come up again");
        drop(nodes);
        done.store(true, Ordering::SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_peer_that_the_network_has_lost_fails_its_calls_and_may_come_again() {
    limited(|| {
        let functions = Functions::new();
        let (hold, held) = super::common::hold(&functions);
        let who = who(&functions);
        let wire = Wire::new(2, 1000, 1000, 1);
        let (root, one) = (node(0, 2, &wire, &functions), node(1, 2, &wire, &functions));
        let done = Arc::<AtomicBool>::default();
        let threads = wire.run(&done);
        let events = root.events().unwrap();
        let handle = root.call(Call::new(hold).ids([0, 1]).tree(Tree::Flat)).unwrap();
        let tokens: Vec<_> = (0..2).map(|_| held.recv_timeout(LIMIT).unwrap()).collect();
        let port = wire.ports.lock().unwrap()[0].clone().unwrap();
        port.peer_lost(1, "its host is down");
        assert_cause(
            &cause_of(handle),
            1,
            Stage::Link,
            "the program's network has lost the peer: its host is down",
        );
        let up = events.recv_within(LIMIT).unwrap();
        let lost = events.recv_within(LIMIT).unwrap();
        assert_eq!((up.id, up.kind), (1, PeerEventKind::Up));
        assert!(matches!(lost.kind, PeerEventKind::Lost { loss: Loss::Broken, .. }), "{lost:?}");
        drop(tokens);
        drop(one);
        // Another process of the id, without a word to the program.
        let again = node(1, 2, &wire, &functions);
        assert_who(&replies_of(root.call(Call::new(who).ids([0, 1])).unwrap()), &[0, 1], "");
        drop((root, again));
        done.store(true, Ordering::SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The new process of an id knows nothing of the links of the one before it, whose death nobody has reported.
#[test]
fn a_process_that_starts_again_without_a_report_is_linked_anew() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let wire = Wire::new(2, 1000, 1000, 1);
        let (root, one) = (node(0, 2, &wire, &functions), node(1, 2, &wire, &functions));
        let done = Arc::<AtomicBool>::default();
        let threads = wire.run(&done);
        assert_who(&replies_of(root.call(Call::new(who).ids([0, 1])).unwrap()), &[0, 1], "");
        // What it says at its end is lost with it.
        wire.ports.lock().unwrap()[1] = None;
        let gone = wire.ports.lock().unwrap()[0].take();
        drop(one);
        while !wire.queues.lock().unwrap()[0].is_empty() {
            thread::yield_now();
        }
        wire.ports.lock().unwrap()[0] = gone;
        let again = node(1, 2, &wire, &functions);
        // The first call may meet the old link, and says so.
        let first = root.call(Call::new(who).ids([0, 1])).unwrap().wait();
        if let Err(error) = first {
            assert!(error.to_string().contains("does not have this connection"), "{error}");
        }
        assert_who(&replies_of(root.call(Call::new(who).ids([0, 1])).unwrap()), &[0, 1], "");
        drop((root, again));
        done.store(true, Ordering::SeqCst);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The network knows who has sent a message: a node that says hello under another id is refused.
#[test]
fn a_hello_of_another_id_than_the_network_says_is_refused() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let memory = MemoryNetwork::new();
        struct Lies(Arc<OnceLock<HostPort>>, Sender<Vec<u8>>);
        impl HostNetwork for Lies {
            fn send(&self, _: Id, parts: &[IoSlice<'_>]) -> Result<(), NotSent> {
                let message = parts.iter().map(|part| &**part).collect::<Vec<_>>().concat();
                self.1.send(message).map_err(|_| NotSent::Lost("gone".into()))
            }
            fn starts(&self, port: HostPort) {
                self.0.get_or_init(|| port);
            }
        }
        let honest = Arc::<OnceLock<HostPort>>::default();
        let (to_liar, from_honest): (_, Receiver<Vec<u8>>) = channel();
        let peers = || Peers::from(AddressRow::host(0..3));
        let builder = |id| Node::builder(id).functions(&functions).peers(peers());
        let node = builder(0).host(Arc::new(Lies(honest.clone(), to_liar))).start().unwrap();
        let liar_port = Arc::<OnceLock<HostPort>>::default();
        let (to_honest, from_liar) = channel();
        let liar = builder(1).host(Arc::new(Lies(liar_port.clone(), to_honest))).start().unwrap();
        let carry = move || loop {
            match from_liar.recv_timeout(Duration::from_millis(1)) {
                // The network says truly that id 2 has sent this.
                Ok(message) => drop(honest.get().unwrap().deliver(2, &message)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(message) = from_honest.try_recv() {
                drop(liar_port.get().unwrap().deliver(0, &message));
            }
        };
        let carrier = thread::spawn(carry);
        let cause = cause_of(liar.call(Call::new(who).ids([1, 0])).unwrap());
        assert_cause(
            &cause,
            0,
            Stage::Link,
            "the program's network reports that id 2 has sent the hello of id 1",
        );
        drop((node, liar, memory));
        carrier.join().unwrap();
    });
}

#[test]
fn a_node_without_a_network_says_what_is_missing() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let peers = Peers::from(AddressRow::host(0..2));
        let node = Node::builder(0).functions(&functions).peers(peers.clone()).start().unwrap();
        let cause = cause_of(node.call(Call::new(who).ids([0, 1])).unwrap());
        assert_cause(&cause, 1, Stage::Link, "this node has no network of its program");
        // A peer that is on no network.
        let alone = Node::builder(0).functions(&functions).peers(peers).memory(&MemoryNetwork::new());
        let cause = cause_of(alone.start().unwrap().call(Call::new(who).ids([0, 1])).unwrap());
        assert_cause(&cause, 1, Stage::Link, "id 1 is not in this network");
    });
}

/// A stopped process of the network's other end: the heartbeat finds it, as on any link.
#[test]
fn a_peer_to_which_the_network_delivers_nothing_is_given_up() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let wire = Wire::new(2, 1, 1000, 1);
        let place = Arc::new(Place(0, wire.clone()));
        let peers = Peers::from(AddressRow::host(0..2));
        let beat = Heartbeat::dead_after(Duration::from_millis(300));
        let builder = Node::builder(0).functions(&functions).peers(peers).heartbeat(Some(beat));
        let root = builder.host(place).job(Job::default()).start().unwrap();
        let one = node(1, 2, &wire, &functions);
        let call = || root.call(Call::new(who).ids([0, 1])).unwrap();
        let mut up = call();
        let outcome = loop {
            wire.deliver(0);
            wire.deliver(1);
            if let Some(end) = up.test() {
                break end;
            }
        };
        assert_who(&outcome.unwrap().replies().unwrap(), &[0, 1], "");
        let cause = cause_of(call());
        assert_cause(&cause, 1, Stage::Link, "no heartbeat");
        drop(one);
    });
}
