//! Tests of output on its way to the head.

use std::sync::mpsc::{self, Receiver, Sender};

use proptest::prelude::*;

use super::*;
use crate::names::{GroupId, Member};
use crate::streams::Stream;

fn piece(rank: u32, text: &str) -> Piece {
    let member = Member { group: GroupId(1), rank };
    Piece { member, stream: Stream::Out, bytes: Bytes::copy_from_slice(text.as_bytes()) }
}

fn head() -> (Outflow, Receiver<Writing>) {
    let (writer, writings) = mpsc::sync_channel(4);
    (Outflow::new(0, (0..20).collect(), Destination::Written(writer)), writings)
}

fn node(id: Id) -> Outflow {
    Outflow::new(id, (0..20).collect(), Destination::Sent)
}

fn callback() -> (ArrivalCallback, Receiver<Result<(), String>>) {
    let (sender, arrived) = mpsc::channel();
    (Box::new(move |result| sender.send(result).unwrap()), arrived)
}

#[test]
fn output_of_a_node_is_answered_for_when_the_head_has_written_it() {
    let ((mut head, writings), mut between, mut leaf) = (head(), node(1), node(9));
    leaf.take(piece(5, "hello\n"));
    let (up, data) = leaf.next_call().unwrap();
    assert_eq!((up, leaf.next_call().is_none()), (1, true), "one call at a time");
    let (answer, at_leaf) = callback();
    between.relay(data, answer);
    between.take(piece(1, "own\n"));
    let (up, data) = between.next_call().unwrap();
    assert_eq!(up, 0);
    let (answer, at_between) = callback();
    head.relay(data, answer);
    head.write();
    let texts: Vec<Bytes> = writings.try_iter().flatten().map(|piece| piece.bytes).collect();
    assert_eq!(texts, ["hello\n", "own\n"]);
    assert!(at_between.try_recv().is_err() && at_leaf.try_recv().is_err(), "not yet written");
    head.written();
    assert!(at_between.try_recv().is_err(), "only its first part is written");
    head.written();
    between.called(at_between.recv().unwrap());
    leaf.called(at_leaf.recv().unwrap());
    assert!(head.is_empty() && between.is_empty() && leaf.is_empty());
}

#[test]
fn what_goes_another_way_since_a_node_was_lost_is_written_once() {
    let ((mut head, writings), mut leaf) = (head(), node(9));
    leaf.take(piece(5, "once\n"));
    let (_, data) = leaf.next_call().unwrap();
    // The output came through node 1, which was lost before it could reply.
    head.relay(data, Box::new(|_| {}));
    leaf.lost(1);
    leaf.called(Err("node 1 is lost".into()));
    let (up, data) = leaf.next_call().unwrap();
    assert_eq!(up, 0);
    let (answer, arrived) = callback();
    head.relay(data, answer);
    head.write();
    assert_eq!(writings.try_iter().flatten().count(), 1);
    assert!(arrived.try_recv().is_err(), "it is still at the writer");
    head.written();
    assert_eq!(arrived.try_recv().unwrap(), Ok(()));
}

#[test]
fn what_never_arrives_is_dropped_in_the_end_and_said_to_be() {
    let mut node = node(1);
    node.relay(node_data(), Box::new(|_| {}));
    node.take(piece(1, "lost\n"));
    for _ in 0..=AGAIN_MAX {
        assert!(node.next_call().is_some());
        node.called(Err("busy".into()));
    }
    assert!(node.next_call().is_none() && node.is_empty() && node.has_room());
}

/// Failures were counted over the whole life of a node, so output was dropped after a day of some lost nodes.
#[test]
fn only_failures_in_a_row_count() {
    let mut node = node(1);
    for _ in 0..2 {
        node.take(piece(1, "line\n"));
        for _ in 0..AGAIN_MAX {
            assert!(node.next_call().is_some());
            node.called(Err("busy".into()));
        }
        assert!(node.next_call().is_some(), "the last attempt");
        node.called(Ok(()));
        assert!(node.is_empty());
    }
}

fn node_data() -> Bytes {
    let mut node = node(9);
    node.take(piece(9, "relayed\n"));
    node.next_call().unwrap().1
}

#[test]
fn a_writer_that_is_slow_holds_up_who_writes() {
    let (mut head, writings) = head();
    let line = "x".repeat(60_000);
    let mut taken = 0;
    // Terminates: the window is finite.
    while head.has_room() {
        head.take(piece(0, &line));
        head.write();
        taken += line.len();
    }
    assert!((WINDOW..WINDOW + line.len()).contains(&taken));
    writings.recv().unwrap();
    head.written();
    assert!(head.has_room());
}

/// A node counted only the output of its last call: it read on while earlier output waited.
#[test]
fn own_output_in_later_calls_counts_until_it_is_written() {
    let mut node = node(1);
    // A call that is full without this node's own output.
    let mut below = Outflow::new(9, (0..20).collect(), Destination::Sent);
    for _ in 0..20 {
        below.take(piece(9, &"r".repeat(60_000)));
    }
    node.relay(below.next_call().unwrap().1, Box::new(|_| {}));
    while node.has_room() {
        node.take(piece(1, &"o".repeat(60_000)));
    }
    // The own output waits behind that call.
    assert!(node.next_call().is_some());
    node.called(Ok(()));
    assert!(!node.has_room(), "nothing of its own has left the node");
    assert!(node.next_call().is_some());
    assert!(!node.has_room(), "it is in transit");
    node.called(Ok(()));
    assert!(node.has_room() && node.is_empty());
}

/// Two parts of a call came again. The first was still at the writer when the second, which had been written, was
/// answered for both.
#[test]
fn output_that_arrives_again_is_answered_when_all_of_it_is_written() {
    let (mut head, writings) = head();
    let (mut one, mut two) = (node(9), node(10));
    one.take(piece(9, "one\n"));
    two.take(piece(10, "two\n"));
    let (one, two) = (one.next_call().unwrap().1, two.next_call().unwrap().1);
    head.relay(two.clone(), Box::new(|_| {}));
    head.write();
    head.written();
    head.relay(one.clone(), Box::new(|_| {}));
    head.write();
    let (answer, arrived) = callback();
    head.relay([one, two].concat().into(), answer);
    head.write();
    assert_eq!(writings.try_iter().flatten().count(), 2);
    assert!(arrived.try_recv().is_err(), "the first part is still at the writer");
    head.written();
    assert_eq!(arrived.try_recv().unwrap(), Ok(()));
    assert!(head.is_empty());
}

/// Output that reached a head without a writer was never answered, so the processes that wrote it were stuck.
#[test]
fn a_head_without_a_writer_drops_output_and_answers() {
    let mut head = Outflow::new(0, (0..20).collect(), Destination::Dropped);
    head.take(piece(0, "own\n"));
    let (answer, arrived) = callback();
    head.relay(node_data(), answer);
    head.write();
    assert_eq!(arrived.try_recv().unwrap(), Ok(()));
    assert!(head.is_empty() && head.has_room());
    // The same if the writer is gone.
    let (mut head, writings) = self::head();
    let (answer, before) = callback();
    head.relay(node_data(), answer);
    drop(writings);
    head.write();
    let (answer, after) = callback();
    head.relay(node_data(), answer);
    assert_eq!((before.try_recv().unwrap(), after.try_recv().unwrap()), (Ok(()), Ok(())));
    assert!(head.is_empty());
}

/// Other nodes filled the writer, and the head's own processes never got a turn; or the other way round.
#[test]
fn the_head_and_the_other_nodes_take_turns() {
    let (mut head, writings) = head();
    for number in 0..6 {
        let mut node = node(9 + number);
        node.take(piece(9 + number, "below\n"));
        head.relay(node.next_call().unwrap().1, Box::new(|_| {}));
    }
    head.take(piece(0, "own\n"));
    head.write();
    let mut ranks = Vec::new();
    for _ in 0..10 {
        let Ok(pieces) = writings.try_recv() else { break };
        ranks.push(pieces[0].member.rank);
        head.written();
        head.take(piece(0, "own\n"));
        head.write();
    }
    // The writer takes four batches at first.
    assert!(ranks[3..].windows(2).all(|pair| (pair[0] == 0) != (pair[1] == 0)), "{ranks:?}");
}

/// What a test does with some nodes of a domain.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(usize, usize),
    /// A node begins its next call.
    Call(usize),
    /// The call arrives.
    Arrive(usize),
    /// The call fails; it may have arrived.
    Fail(usize),
    /// The head's writer writes a batch.
    Writer,
    /// The nodes below node 1 take it for lost.
    Lose,
}

/// The nodes, the head first. The second one stands between the head and the others.
const IDS: [Id; 4] = [0, 1, 9, 10];

/// Most failures of a run: fewer than a node takes before it drops output.
const FAILURES_MAX: usize = 12;

/// The node, the number of its call, and the result.
type CallAnswer = (usize, u64, Result<(), String>);

struct World {
    nodes: Vec<Outflow>,
    writings: Receiver<Writing>,
    /// The number of each node's call, where it goes, what it carries, and whether it has arrived.
    calls: Vec<Option<(u64, Id, Bytes, bool)>>,
    next_call: u64,
    answers: (Sender<CallAnswer>, Receiver<CallAnswer>),
    /// Lines that each node's process has written, and those that the head has.
    made: Vec<usize>,
    written: Vec<Vec<usize>>,
    failures: usize,
}

impl World {
    fn new() -> World {
        let (head, writings) = head();
        let nodes = [head].into_iter().chain(IDS[1..].iter().map(|id| node(*id))).collect();
        World {
            nodes,
            writings,
            calls: vec![None; IDS.len()],
            next_call: 0,
            answers: mpsc::channel(),
            made: vec![0; IDS.len()],
            written: vec![Vec::new(); IDS.len()],
            failures: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write(at, size) if self.nodes[at].has_room() => {
                let line = format!("{} {}\n", self.made[at], "x".repeat(size));
                self.made[at] += 1;
                self.nodes[at].take(piece(at as u32, &line));
            }
            Step::Call(at) if self.calls[at].is_none() => {
                if let Some((up, data)) = self.nodes[at].next_call() {
                    self.next_call += 1;
                    self.calls[at] = Some((self.next_call, up, data, false));
                }
            }
            Step::Arrive(at) => self.arrive(at),
            Step::Fail(at) if self.failures < FAILURES_MAX && self.calls[at].take().is_some() => {
                self.failures += 1;
                self.nodes[at].called(Err("busy".into()));
            }
            Step::Writer => {
                if let Ok(pieces) = self.writings.try_recv() {
                    for piece in pieces {
                        let text = String::from_utf8(piece.bytes.to_vec()).unwrap();
                        let number = text.split(' ').next().unwrap().parse().unwrap();
                        self.written[piece.member.rank as usize].push(number);
                    }
                    self.nodes[0].written();
                }
            }
            Step::Lose => [2, 3].iter().for_each(|at| self.nodes[*at].lost(IDS[1])),
            _ => {}
        }
        self.nodes[0].write();
        while let Ok((at, number, result)) = self.answers.1.try_recv() {
            // The answer to a call that has failed arrives nowhere.
            if self.calls[at].as_ref().is_some_and(|call| call.0 == number) {
                self.calls[at] = None;
                self.nodes[at].called(result);
            }
        }
        for (id, node) in IDS.iter().zip(&self.nodes) {
            let own = node.unsent + node.in_flight;
            assert!(own < WINDOW + (70 << 10), "node {id} holds {own} bytes of its own");
        }
    }

    fn arrive(&mut self, at: usize) {
        let Some((number, up, data, arrived @ false)) = &mut self.calls[at] else { return };
        *arrived = true;
        let (number, sender) = (*number, self.answers.0.clone());
        let up = IDS.iter().position(|id| id == up).unwrap();
        let answer = Box::new(move |result| sender.send((at, number, result)).unwrap());
        let data = data.clone();
        self.nodes[up].relay(data, answer);
    }

    fn is_empty(&self) -> bool {
        self.nodes.iter().all(Outflow::is_empty) && self.calls.iter().all(Option::is_none)
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..IDS.len(), prop_oneof![3 => 0..100_usize, 1 => 50_000..60_000_usize]).prop_map(|(at, size)| Step::Write(at, size)),
        3 => (1..IDS.len()).prop_map(Step::Call),
        3 => (1..IDS.len()).prop_map(Step::Arrive),
        1 => (1..IDS.len()).prop_map(Step::Fail),
        3 => Just(Step::Writer),
        1 => Just(Step::Lose),
    ]
}

proptest! {
    /// Output that was sent again came in reverse, twice, or not at all.
    #[test]
    fn each_line_is_written_once_and_in_order(steps in proptest::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.step(step));
        for _ in 0..400 {
            for at in 1..IDS.len() {
                world.step(Step::Call(at));
                world.step(Step::Arrive(at));
            }
            world.step(Step::Writer);
            if world.is_empty() {
                break;
            }
        }
        prop_assert!(world.is_empty(), "output is left");
        for (id, (written, made)) in IDS.iter().zip(world.written.iter().zip(&world.made)) {
            prop_assert_eq!(written, &(0..*made).collect::<Vec<_>>(), "of node {}", id);
        }
    }

    #[test]
    fn any_bytes_of_another_node_are_output_or_refused(
        parts in proptest::collection::vec((0..3_u32, 0..3_u64, any::<bool>(), 0..4_u32), 0..5),
        rest: Vec<u8>,
    ) {
        let (mut head, writings) = head();
        let mut data = BytesMut::new();
        for (origin, number, is_valid, tail) in parts {
            let batch = if is_valid { encode_batch(&[piece(origin, "line\n")]) } else { Bytes::from(rest.clone()) };
            data.put_u32_le(origin);
            data.put_u64_le(number);
            // Mostly the true length.
            data.put_u32_le(batch.len() as u32 + tail / 3);
            data.extend_from_slice(&batch);
        }
        let (answer, arrived) = callback();
        head.relay(data.freeze(), answer);
        // Terminates: each iteration writes a batch.
        loop {
            head.write();
            if writings.try_recv().is_err() {
                break;
            }
            head.written();
        }
        prop_assert!(head.is_empty());
        prop_assert_eq!(arrived.try_iter().count(), 1);
    }
}
