//! Peers whose requests make much work, and other peers beside them.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::chain::{Config, Input, JobResult, Node, Output, Outputs, Sizes, Time};
use chained_gpc::wire::body::Spare;
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{Body, BodyUse, Budget, CallId, CauseKind, Message, Request, Response, Status};
use gpc_trees::{Id, IdList, Tree};

use super::one::reply;

const ME: Id = 1;
const FLOODER: Id = 8;
const OTHER: Id = 9;

/// Ids below this one can be reached.
const KNOWN: Id = 10_000;

/// Node 1 with its driver: it runs functions at once, and has no address for most ids.
struct Driven {
    node: Node,
    now: Duration,
    /// Requests that left, with their receivers.
    asked: Vec<(Id, CallId)>,
    /// Number of requests without an address.
    unreachable: usize,
    answers: Vec<(Id, CallId, Answer)>,
    consumed: Vec<Id>,
    cancelled: Vec<Id>,
}

impl Driven {
    fn new(config: Config) -> Driven {
        let (asked, answers, consumed, cancelled) = Default::default();
        let now = Duration::from_secs(10);
        Driven { node: Node::new(config), now, asked, unreachable: 0, answers, consumed, cancelled }
    }

    /// Gives one input, and handles all its consequences at this time.
    fn feed(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        // This loop ends: the consequences of an input are bounded.
        while let Some(input) = inputs.pop_front() {
            let mut outputs = Outputs::new();
            self.node.input(Time::default().plus(self.now), input, &mut outputs);
            for output in outputs {
                match output {
                    Output::Run(job) => {
                        let result = JobResult::Replied(reply("x"));
                        inputs.push_back(Input::Ran { call: job.call, result });
                    }
                    Output::Send { to, message: Message::Request(request) } if to >= KNOWN => {
                        self.unreachable += 1;
                        let why = "no address".into();
                        inputs.push_back(Input::Unreachable { peer: to, call: request.call, why });
                    }
                    Output::Send { to, message: Message::Request(request) } => {
                        self.asked.push((to, request.call));
                    }
                    Output::Send { to, message: Message::Response(Response { call, answer }) } => {
                        self.answers.push((to, call, answer));
                    }
                    Output::Send { to, message: Message::Cancel(_) } => self.cancelled.push(to),
                    Output::Consumed { from } => self.consumed.push(from),
                    _ => {}
                }
            }
        }
    }

    fn request(&mut self, from: Id, request: &Request) {
        self.feed(Input::Message { from, message: Message::Request(Arc::new(request.clone())) });
    }

    /// The next turn: time advances by a microsecond. Returns whether anything was due.
    fn turn(&mut self) -> bool {
        self.now += Duration::from_micros(1);
        let due = self.node.next_deadline().is_some_and(|at| at <= Time::default().plus(self.now));
        if due {
            self.feed(Input::Tick);
        }
        due
    }

    fn answered(&self, to: Id) -> usize {
        self.answers.iter().filter(|(parent, ..)| *parent == to).count()
    }
}

fn named(root: Id, sequence: u64) -> CallId {
    CallId { root, sequence }
}

fn request(call: CallId, ids: IdList) -> Request {
    let minute = Duration::from_secs(60);
    Request { total: u32::MAX, reply_wanted: true, limit: minute, left: minute, ..Request::new(call, ids) }
}

/// This id, and four billion ids that do not exist.
fn unknown_ids() -> IdList {
    IdList::range(KNOWN..u32::MAX - 1).with_first(ME)
}

fn flood(sequence: u64) -> Request {
    Request { partial: true, ..request(named(FLOODER, sequence), unknown_ids()) }
}

fn kary(k: u32) -> Result<Tree, u64> {
    Ok(Tree::Kary(NonZeroU32::new(k).expect("some children")))
}

/// 250 requests of 116 bytes over four billion ids that do not exist made another peer wait for 29 s. Each adopted
/// 65,536 ids, one after the other, before any other work. A turn must take a bounded number of children, and peers
/// that request less must not wait.
#[test]
fn a_flood_of_requests_over_unknown_ids_leaves_each_turn_to_others() {
    let mut one = Driven::new(Config::new(ME, 5));
    let Sizes { work, batch, .. } = Sizes::default();
    (0..250).for_each(|sequence| one.request(FLOODER, &flood(sequence)));
    assert!(one.unreachable <= usize::from(work + batch), "{} children in one turn", one.unreachable);
    for turn in 0..100 {
        let before = one.unreachable;
        // Another peer's echo is answered in the turn in which it arrives.
        one.request(OTHER, &request(named(OTHER, turn), IdList::range(ME..ME + 1)));
        assert_eq!(one.answered(OTHER) as u64, turn + 1);
        assert!(one.turn(), "work waits, and it is due at once");
        let made = one.unreachable - before;
        assert!((1..=usize::from(work / 8 + batch)).contains(&made), "{made} children in turn {turn}");
    }
    // A request that is forwarded to children waits no longer than until its parent's turn.
    one.request(OTHER, &request(named(OTHER, 100), "1,2,3".parse().unwrap()));
    while one.asked.len() < 2 && one.turn() {}
    assert_eq!(one.asked.iter().filter(|(_, call)| call.root == OTHER).count(), 2);
}

/// After the link to the peer that had sent the requests was lost, the node processed all of them for half a minute,
/// and was unresponsive meanwhile. Requests that have not begun are dropped with their link.
#[test]
fn what_has_not_begun_goes_with_its_link() {
    let mut one = Driven::new(Config::new(ME, 5));
    (0..250).for_each(|sequence| one.request(FLOODER, &flood(sequence)));
    let begun = one.consumed.len();
    assert!(begun < 100, "{begun} of 250 have begun");
    let why = "gone".to_string();
    one.feed(Input::LinkLost { peer: FLOODER, kind: CauseKind::LinkLost, why, unreached: false });
    assert!(one.node.calls() <= begun);
    let turns = (0..10_000).take_while(|_| one.turn()).count();
    assert_eq!((one.node.calls(), one.consumed.len()), (0, begun), "after {turns} turns");
    assert_eq!(one.node.leaks(), 0);
    // The id has not executed it: another parent may ask for it again.
    one.request(OTHER, &Request { skipped: 1, adopted: true, age: Duration::from_secs(1), ..flood(249) });
    assert_eq!(one.consumed.last(), Some(&OTHER));
}

/// Each request of a peer could have 65,536 ids adopted, whatever other requests of the same peer had.
#[test]
fn what_one_peer_has_adopted_is_bounded_over_all_of_its_calls() {
    let mut one = Driven::new(Config { adopted_max: 100, ..Config::new(ME, 5) });
    let of = |root: Id, sequence| Request {
        partial: true,
        tree: kary(60),
        ..request(named(root, sequence), IdList::range(2..3_700).with_first(ME))
    };
    one.request(FLOODER, &of(FLOODER, 1));
    one.request(FLOODER, &of(FLOODER, 2));
    one.request(OTHER, &of(OTHER, 1));
    assert_eq!(one.asked.len(), 3 * 60);
    let why = "gone".to_string();
    one.feed(Input::LinkLost { peer: 2, kind: CauseKind::LinkLost, why, unreached: false });
    while one.turn() {}
    let adopted = |call: CallId| one.asked.iter().filter(|(_, asked)| *asked == call).count() - 60;
    let calls = [named(FLOODER, 1), named(FLOODER, 2), named(OTHER, 1)];
    assert_eq!(calls.map(adopted), [60, 0, 60]);
    // The peer receives the reason.
    one.now += Duration::from_secs(61);
    one.turn();
    let of_second = one.answers.iter().find(|(_, call, _)| *call == named(FLOODER, 2));
    let Some((_, _, Answer::Partial(partial))) = of_second else { panic!("{of_second:?}") };
    let cause = partial.report.cause_of(2).expect("the lost id has a cause");
    let refusal =
        "the children of id 2 are not adopted: more than 100 ids of the calls of id 8 would be adopted";
    assert!(cause.message.contains(refusal), "{cause}");
    assert_eq!(one.node.leaks(), 0);
}

/// A request of a peer for many children was sent to all of them before any other work.
#[test]
fn a_request_for_many_children_reaches_them_in_batches() {
    let batch = usize::from(Sizes::default().batch);
    for partial in [false, true] {
        let wide = Request {
            partial,
            tree: Ok(Tree::Flat),
            ..request(named(FLOODER, 1), IdList::range(ME..ME + 301))
        };
        let mut one = Driven::new(Config::new(ME, 5));
        one.request(FLOODER, &wide);
        assert_eq!(one.asked.len(), batch);
        while one.turn() {}
        let asked: Vec<Id> = one.asked.iter().map(|(id, _)| *id).collect();
        assert_eq!(asked, (ME + 1..ME + 301).collect::<Vec<Id>>());
        // A call that ends before that has asked no more children, and reports that.
        let mut one = Driven::new(Config::new(ME, 5));
        one.request(FLOODER, &wide);
        one.now += Duration::from_secs(61);
        one.feed(Input::Heartbeat(OTHER));
        // The time for reports of a partial call is over, too.
        let turned = one.turn();
        let coverage = match &one.answers[0] {
            (_, _, Answer::Partial(partial)) => &partial.report.coverage,
            (_, _, Answer::Failed(failure)) => &failure.coverage,
            other => panic!("{other:?}"),
        };
        let of =
            [(Status::Done, 1), (Status::Unknown, batch as u32), (Status::Unreached, 300 - batch as u32)];
        assert_eq!(coverage.runs(), of);
        assert_eq!((one.cancelled.len(), turned), (batch, true));
        assert_eq!((one.asked.len(), one.node.calls()), (batch, 0), "the rest is not asked any more");
    }
}

/// A waiting request counts as not arrived: it can be cancelled, and its parent gets its credit back.
#[test]
fn a_request_that_waits_can_be_cancelled() {
    let mut one = Driven::new(Config::new(ME, 5));
    (0..250).for_each(|sequence| one.request(FLOODER, &flood(sequence)));
    let begun = one.consumed.len();
    let calls = (0..250).rev().map(|sequence| named(FLOODER, sequence));
    calls.for_each(|call| one.feed(Input::Message { from: FLOODER, message: Message::Cancel(call) }));
    assert_eq!((one.node.calls(), one.consumed.len()), (0, 250), "{begun} had begun");
    while one.turn() {}
    assert_eq!((one.node.leaks(), one.answers.len()), (0, 0));
}

/// All calls that a node accepts could have one deadline, and all of them ended in one turn.
#[test]
fn calls_of_one_deadline_end_over_several_turns() {
    let mut one = Driven::new(Config::new(ME, 5));
    for sequence in 0..3_000 {
        one.now += Duration::from_nanos(1);
        let until = Duration::from_secs(20) - one.now;
        let waits = Request { limit: until, ..request(named(FLOODER, sequence), "1,2".parse().unwrap()) };
        one.request(FLOODER, &waits);
    }
    while one.node.calls() < 3_000 {
        assert!(one.turn(), "{} calls wait for their child", one.node.calls());
    }
    one.now = Duration::from_secs(21);
    let ended = [(); 3].map(|()| {
        let before = one.answers.len();
        one.feed(Input::Tick);
        one.answers.len() - before
    });
    assert_eq!((ended, one.node.calls()), ([1024, 1024, 952], 0));
}

/// Requests of a parent that arrive at the same time wait for its first one, and begin with later ticks. A waiting
/// request without memory for its data is refused.
#[test]
fn a_request_that_waits_begins_with_a_later_tick_or_is_refused() {
    let sizes = Sizes { work: 1, batch: 1, ..Sizes::default() };
    let mut one = Driven::new(Config { sizes, ..Config::new(ME, 5) });
    let flat = |sequence| Request {
        tree: Ok(Tree::Flat),
        ..request(named(FLOODER, sequence), IdList::range(ME..ME + 4))
    };
    let spare = Spare::default().within(&Budget::new(9, "a link"));
    let (data, mut writer) = Body::arriving_in(20, BodyUse::Whole, &spare);
    let with_data = Request { data, ..flat(3) };
    [flat(1), flat(2), with_data].iter().for_each(|request| one.request(FLOODER, request));
    assert_eq!((one.asked.len(), one.consumed.len(), one.node.calls()), (1, 1, 1), "two requests wait");

    writer.push(&[7; 10]);
    one.feed(Input::DataRefused { call: named(FLOODER, 3), why: "no memory".into() });
    let Some((FLOODER, refused, Answer::Failed(failure))) = one.answers.pop() else { panic!("no answer") };
    assert_eq!((refused, failure.cause.kind), (named(FLOODER, 3), CauseKind::NoMemory));
    assert_eq!(failure.coverage.runs(), [(Status::Failed, 1), (Status::Unreached, 3)]);
    assert_eq!((one.consumed.len(), one.node.calls()), (2, 1), "the parent has its credit back");

    while one.turn() {}
    let asked = |sequence| one.asked.iter().filter(|(_, call)| *call == named(FLOODER, sequence)).count();
    assert_eq!([1, 2, 3].map(asked), [3, 3, 0]);
    assert_eq!((one.node.calls(), one.node.leaks()), (2, 0));
}
