//! A node of a domain among others, which the test plays: real nodes whose functions wait for the test.

use std::net::{Ipv4Addr, TcpListener};

use chained_gpc::runtime::{Peer, Peers};
use chained_gpc::{Address, Deferred, FuncHandle, Functions, LinkKind, Node, Placement};

use super::*;
use crate::host::Serving;
use crate::host::calls::reply;
use crate::order::{Order, Report};
use crate::streams::{Piece, Stream};

/// Longer than any call takes.
const PATIENCE: Duration = Duration::from_secs(60);

const FUNCTIONS: [&str; 5] = ["bnr.order", "bnr.output", "bnr.flush", "bnr.input", "bnr.look"];

/// A call that has arrived at another node.
struct Arrived {
    at: u32,
    /// What is left of its time limit.
    left: Duration,
    answer: Deferred,
}

/// This node, and the others.
struct Nodes {
    own: Node,
    others: Vec<Node>,
    /// The calls of each function.
    calls: [Receiver<Arrived>; 5],
}

impl Nodes {
    fn new(others: &[u32]) -> Nodes {
        let (senders, calls): (Vec<_>, Vec<_>) = FUNCTIONS.map(|_| mpsc::channel()).into_iter().unzip();
        let (listeners, addresses) = LinkKind::Unix.listen(ME..ME + 4).unwrap();
        let peers = Peers::from(addresses);
        let start = |(id, listener)| {
            let functions = Functions::new().at(Placement::Inline);
            for (name, sender) in FUNCTIONS.into_iter().zip(&senders) {
                let sender = sender.clone();
                let arrive = move |request: &chained_gpc::Request<'_>, answer| {
                    drop(sender.send(Arrived { at: id, left: request.remaining(), answer }));
                };
                functions.deferring(name, arrive).unwrap();
            }
            let node = Node::builder(id).functions(&functions).peers(peers.clone()).listener(listener);
            node.start().unwrap()
        };
        let wanted = |(id, _): &(u32, _)| *id == ME || others.contains(id);
        let mut nodes = (ME..).zip(listeners).filter(wanted).map(start);
        let own = nodes.next().unwrap();
        Nodes { own, others: nodes.collect(), calls: calls.try_into().unwrap() }
    }

    fn rig(&self, nodes: &[u32]) -> Rig {
        let [order, output, flush, input, query] = FUNCTIONS.map(FuncHandle::named);
        let handles = Handles { order, output, flush, input, query };
        Rig::among(nodes, Some((handles, self.own.caller())), (None, false))
    }

    fn outputs(&self) -> &Receiver<Arrived> {
        &self.calls[1]
    }

    fn flushes(&self) -> &Receiver<Arrived> {
        &self.calls[2]
    }
}

fn drains(rig: &mut Rig) -> Receiver<()> {
    let (done, drained) = mpsc::sync_channel(1);
    rig.send(EngineMessage::Drain(done));
    rig.turns();
    drained
}

/// `gpc run` ended while other nodes still had output of its processes.
#[test]
fn a_drain_waits_until_the_others_have_written_their_output() {
    let nodes = Nodes::new(&[8]);
    let mut rig = nodes.rig(&[ME, 8]);
    let drained = drains(&mut rig);
    let flush = nodes.flushes().recv_timeout(PATIENCE).unwrap();
    rig.turns();
    assert!(flush.at == 8 && drained.try_recv().is_err(), "node 8 has output");
    flush.answer.reply(chained_gpc::Reply::default());
    rig.until(|_| drained.try_recv().is_ok());
}

/// A node that cannot say that its output is written, or is not reached, has none that will come.
#[test]
fn a_drain_ends_with_a_flush_that_fails() {
    let nodes = Nodes::new(&[8]);
    let mut rig = nodes.rig(&[ME, 8]);
    let drained = drains(&mut rig);
    nodes.flushes().recv_timeout(PATIENCE).unwrap().answer.fail("this node has no part in such a domain");
    rig.until(|_| drained.try_recv().is_ok());
    // No call can be made.
    let Nodes { own, .. } = nodes;
    own.shutdown(Duration::ZERO);
    let drained = drains(&mut rig);
    rig.until(|_| drained.try_recv().is_ok());
}

/// Output of a process at a node that is not the head.
fn writes(rig: &mut Rig) {
    let member = Member { group: GroupId(1), rank: 0 };
    rig.engine.stdio.outflow.take(Piece {
        member,
        stream: Stream::Out,
        bytes: Bytes::from_static(b"line\n"),
    });
    rig.turns();
}

/// The head has said that the node above is lost, or the call to it has ended with it: output that was under way goes
/// to the node above that one.
#[test]
fn output_goes_around_a_node_that_was_lost() {
    for by_order in [true, false] {
        let mut nodes = Nodes::new(&[8, 10]);
        // Node 10 is above the tenth node, and the head above it.
        let mut rig = nodes.rig(&[8, 10, 20, 21, 22, 23, 24, 25, 26, ME]);
        writes(&mut rig);
        let Arrived { at, answer, .. } = nodes.outputs().recv_timeout(PATIENCE).unwrap();
        assert_eq!(at, 10);
        if by_order {
            let ask = chained_gpc::Call::new(FuncHandle::named("bnr.look")).ids([8]).watch();
            let _asked = nodes.own.call(ask).unwrap();
            let token = nodes.calls[4].recv_timeout(PATIENCE).unwrap().answer;
            let order = Box::new(Order::Lost(vec![10]));
            rig.send(EngineMessage::Order { root: 8, order, answer: token });
            rig.turns();
            answer.fail("for the test");
        } else {
            drop(nodes.others.pop());
        }
        let mut again = None;
        rig.until(|_| {
            again = again.take().or(nodes.outputs().try_recv().ok());
            again.is_some()
        });
        let Arrived { at, answer, .. } = again.unwrap();
        assert_eq!(at, 8, "by an order: {by_order}");
        answer.reply(chained_gpc::Reply::default());
        rig.until(|rig| rig.engine.stdio.outflow.is_empty());
    }
}

/// A node that did not answer kept the nodes below it in the tree from being asked. `gpc ps --peers` showed no job of
/// theirs.
#[test]
fn a_node_that_does_not_answer_hides_none_below_it() {
    /// A half of it is for the tree, the other half for each node alone.
    const LIMIT: Duration = Duration::from_secs(6);
    const TURN: Duration = Duration::from_millis(10);
    let mut nodes = Nodes::new(&[8, 9, 10]);
    let command = SupervisorCommand { program: "/nowhere/supervisor".into(), args: Vec::new() };
    let serving = Serving::register(&Functions::new(), command, Limits::default()).unwrap();
    serving.attach(nodes.own.caller());
    // Node 9, which node 10 is below, accepts connections and does not answer.
    drop(nodes.others.remove(1));
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    nodes.own.learn(Peer::new(9, Address::Tcp(silent.local_addr().unwrap()))).unwrap();
    let mut answers = std::thread::scope(|scope| {
        let asks = scope.spawn(|| serving.domains_of(&[8, 9, 10], LIMIT));
        let mut silent = Some(silent);
        // Terminates: the command ends at its limit.
        while !asks.is_finished() {
            let Ok(Arrived { at, left, answer }) = nodes.calls[4].recv_timeout(TURN) else { continue };
            assert!(left <= LIMIT / 2, "id {at}, {left:?}");
            answer.reply(reply(&Report::Answer(Ok(Answer::Names(vec!["d0".into()])))));
            if at == 10 {
                // Nothing waits for node 9 any longer.
                drop(silent.take());
            }
        }
        asks.join().unwrap()
    });
    assert!(answers.remove(1).1.is_err());
    assert_eq!(answers, [8, 10].map(|id| (id, Ok(vec!["d0".into()]))));
}
