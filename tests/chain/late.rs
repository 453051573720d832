//! Time limits on a busy machine: processes are scheduled late, and so are requests, timers and reports.
//!
//! Eight programs of eight processes ran at the same time, with one function that exceeded the limit. Each of them
//! blamed the root's child, which only waited, and partial calls lost the results of all ids in between. The share of
//! the limit that a hop withheld, 5 ms at most, was less than a single scheduling delay.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use chained_gpc::chain::{Config, Input, JobResult, Node, Output, Outputs, Reply, Start, Time, Work};
use chained_gpc::wire::message::SubtreeReply;
use chained_gpc::wire::{CauseKind, Failure, Message, Report, Stage};
use gpc_trees::{Id, IdList, Tree};
use proptest::prelude::*;

use super::model::letters;

/// The tree: its ids, the parent of each, and the levels below each.
const IDS: u32 = 8;
const PARENTS: [usize; 8] = [0, 0, 1, 2, 1, 0, 5, 5];
const HEIGHTS: [u64; 8] = [3, 2, 1, 0, 0, 1, 0, 0];

const LIMIT_MS: u64 = 1_000;

/// Extra time of a call with this limit.
const EXTRA_US: u64 = 110_000;

/// Fault at one id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    /// Its func exceeds the limit.
    Outlasts,
    /// It reads nothing, as if a function blocked its event loop.
    Silent,
}

/// Delays in microseconds.
#[derive(Clone, Debug)]
struct Delays {
    /// Indexed by id: of a request to it, of its timers, of an answer from it.
    down: Vec<u64>,
    timer: Vec<u64>,
    up: Vec<u64>,
}

impl Delays {
    /// Delay from a parent to an id and back.
    fn round(&self, id: usize) -> u64 {
        self.down[id] + self.timer[id] + self.up[id]
    }

    /// Whether reports of this id reach each id above it in time. A silent id is reported by its parent, which waits
    /// first.
    fn fit(&self, of: usize, wrong: Wrong) -> bool {
        let (mut at, mut took) = match wrong {
            Wrong::Outlasts => (of, 0),
            Wrong::Silent => (PARENTS[of], waits_us(PARENTS[of])),
        };
        while at != 0 {
            took += self.round(at);
            at = PARENTS[at];
            if took + 100 > waits_us(at) {
                return false;
            }
        }
        true
    }
}

/// Time that an id waits for reports: seven eighths of the extra time for all, and the rest by levels.
fn waits_us(id: usize) -> u64 {
    if HEIGHTS[id] == 0 { 0 } else { EXTRA_US / 8 * 7 + EXTRA_US / 8 * HEIGHTS[id] / HEIGHTS[0] }
}

enum Event {
    Message(Id, Message),
    Tick,
    Ran(chained_gpc::wire::CallId),
}

type Ended = (u64, Result<Option<SubtreeReply>, Box<Failure>>, Option<Box<Report>>);

struct World {
    nodes: Vec<Node>,
    delays: Delays,
    wrong: (Id, Wrong),
    now_us: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, (Id, Event)>,
    pushed: u64,
    ended: Option<Ended>,
}

impl World {
    fn new(delays: &Delays, wrong: (Id, Wrong)) -> World {
        let nodes = (0..IDS).map(|id| Node::new(Config::new(id, 1000))).collect();
        let (queue, events) = Default::default();
        World { nodes, delays: delays.clone(), wrong, now_us: 0, queue, events, pushed: 0, ended: None }
    }

    fn push(&mut self, after_us: u64, at: Id, event: Event) {
        self.pushed += 1;
        self.queue.push(Reverse((self.now_us + after_us, self.pushed)));
        self.events.insert(self.pushed, (at, event));
    }

    fn input(&mut self, at: Id, input: Input) {
        let mut outputs = Outputs::new();
        self.nodes[at as usize].input(Time::from_nanos(self.now_us * 1000), input, &mut outputs);
        for output in outputs {
            match output {
                Output::Send { to, message } => {
                    let delay = match message {
                        Message::Request(_) => self.delays.down[to as usize],
                        _ => self.delays.up[at as usize],
                    };
                    self.push(delay + 10, to, Event::Message(at, message));
                }
                Output::Run(job) => {
                    let outlasts = self.wrong == (at, Wrong::Outlasts) && matches!(job.work, Work::Func);
                    let takes = if outlasts { 2 * LIMIT_MS * 1000 } else { 10 };
                    self.push(takes, at, Event::Ran(job.call));
                }
                Output::Finished { result, report, .. } => self.ended = Some((self.now_us, result, report)),
                _ => {}
            }
        }
        if let Some(due) = self.nodes[at as usize].next_deadline() {
            let late = if at == 0 { 0 } else { self.delays.timer[at as usize] };
            let after = (due.as_nanos().div_ceil(1000) + late).saturating_sub(self.now_us);
            self.push(after, at, Event::Tick);
        }
    }

    /// Runs a call to its end.
    fn call(mut self, partial: bool, callback: bool) -> Ended {
        let limit = Duration::from_millis(LIMIT_MS);
        let start = Start {
            ids: IdList::range(0..IDS),
            tree: Tree::Binary,
            partial,
            limit,
            callback: callback.then_some(9),
            ..Start::new(7)
        };
        self.input(0, Input::Start { ticket: 1, start: start.into() });
        loop {
            if let Some(ended) = self.ended.take() {
                return ended;
            }
            let Reverse((at_us, number)) = self.queue.pop().expect("the call ends");
            self.now_us = at_us;
            let (at, event) = self.events.remove(&number).expect("it was pushed");
            if self.wrong == (at, Wrong::Silent) {
                continue;
            }
            match event {
                Event::Message(from, message) => self.input(at, Input::Message { from, message }),
                Event::Tick if self.nodes[at as usize].next_deadline().is_none() => {}
                Event::Tick => self.input(at, Input::Tick),
                Event::Ran(call) => {
                    let result = JobResult::Replied(Reply { data: vec![at as u8], ..Reply::default() });
                    self.input(at, Input::Ran { call, result });
                }
            }
        }
    }
}

/// Delays of which none exceeds `most_us`.
fn delays(most_us: u64) -> impl Strategy<Value = Delays> {
    let each = || prop::collection::vec(0..most_us, IDS as usize);
    (each(), each(), each()).prop_map(|(down, timer, up)| Delays { down, timer, up })
}

fn names_the_right_one(delays: &Delays, id: Id, wrong: Wrong, partial: bool, callback: bool) {
    let (took_us, result, report) = World::new(delays, (id, wrong)).call(partial, callback);
    assert!(took_us <= LIMIT_MS * 1000 + EXTRA_US, "it took {took_us} us");
    let stage = if wrong == Wrong::Outlasts { Stage::Func } else { Stage::Reply };
    let says = |cause: &chained_gpc::wire::Cause| (cause.id, cause.stage, cause.kind);
    match partial {
        false => {
            let cause = result.expect_err("it has outlasted its limit").cause;
            assert_eq!(says(&cause), (id, stage, CauseKind::TimeLimit), "{cause}");
        }
        true => {
            result.expect("a partial call has what there is");
            let report = report.expect("a partial call has a report");
            let causes: Vec<_> = report.causes.iter().map(says).collect();
            assert_eq!(causes, [(id, stage, CauseKind::TimeLimit)]);
            let below = |place: usize| {
                let mut at = place;
                while at > id as usize {
                    at = PARENTS[at];
                }
                at == id as usize && place != at
            };
            let expected: String = (0..IDS as usize)
                .map(|place| match place == id as usize {
                    true if wrong == Wrong::Outlasts => 'f',
                    true => '?',
                    false if below(place) && wrong == Wrong::Outlasts => '-',
                    false if below(place) => '?',
                    false => 'd',
                })
                .collect();
            assert_eq!(letters(&report.coverage), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tens of milliseconds at each hop, in both directions, as long as they fit into the time for reports.
    #[test]
    fn whoever_outlasts_the_limit_is_named_and_the_others_are_done(delays in delays(30_000), id in 1u32..IDS, partial: bool, callback: bool) {
        prop_assume!(delays.fit(id as usize, Wrong::Outlasts));
        names_the_right_one(&delays, id, Wrong::Outlasts, partial, callback);
    }

    /// Its parent waits for it, and the ids above wait longer.
    #[test]
    fn whoever_is_silent_is_named_and_the_others_are_done(delays in delays(2_000), id in 1u32..IDS, partial: bool, callback: bool) {
        prop_assume!(delays.fit(id as usize, Wrong::Silent));
        names_the_right_one(&delays, id, Wrong::Silent, partial, callback);
    }
}

/// One hop may take most of the extra time.
#[test]
fn one_slow_hop_is_waited_for() {
    let none = || vec![0; IDS as usize];
    let mut delays = Delays { down: none(), timer: none(), up: none() };
    (delays.down[3], delays.up[3]) = (30_000, 40_000);
    for partial in [false, true] {
        names_the_right_one(&delays, 3, Wrong::Outlasts, partial, true);
    }
}

/// A call in which every id was done ended well although it had taken five times its limit.
#[test]
fn a_call_that_took_longer_than_its_limit_is_not_done() {
    let none = || vec![0; IDS as usize];
    // The answer of id 2 reaches id 1 in time, and that of id 1 does not reach the root.
    let mut delays = Delays { down: none(), timer: none(), up: none() };
    delays.up[1] = LIMIT_MS * 1000 + EXTRA_US / 2;
    for callback in [false, true] {
        let (took_us, result, _) = World::new(&delays, (1, Wrong::Silent)).unharmed().call(false, callback);
        let failure = result.expect_err("it took longer than its limit");
        assert!((LIMIT_MS * 1000..=LIMIT_MS * 1000 + EXTRA_US).contains(&took_us));
        assert_eq!((failure.cause.id, failure.cause.kind), (1, CauseKind::TimeLimit), "{}", failure.cause);
        assert!(failure.cause.message.contains("came to id 0 after the time limit"), "{}", failure.cause);
        assert_eq!(letters(&failure.coverage), "dddddddd");
        let (_, result, report) = World::new(&delays, (1, Wrong::Silent)).unharmed().call(true, callback);
        result.expect("a partial call has what there is");
        let report = report.expect("a partial call has a report");
        assert_eq!((letters(&report.coverage), report.causes.len()), ("dddddddd".into(), 1));
        assert_eq!(report.causes[0].kind, CauseKind::TimeLimit);
    }
}

impl World {
    /// Without a fault at any id.
    fn unharmed(mut self) -> World {
        self.wrong.0 = IDS;
        self
    }
}
