//! One node among peers that send any message at any time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::chain::{Config, Heartbeat, Input, JobResult, Node, Output, Outputs, Start, Time};
use chained_gpc::wire::message::{Answer, Partial, SubtreeReply};
use chained_gpc::wire::{
    Body, BodyWriter, CallId, Cause, CauseKind, Coverage, Failure, Message, Report, Request, Response, Stage,
    Status,
};
use gpc_trees::{Id, Tree};
use proptest::prelude::*;

use super::model::ids;
use super::one::{reply, request, start};

const ME: Id = 1;

/// An action of a peer, a driver or an application; the numbers are few, so that they collide.
#[derive(Clone, Debug)]
enum Deed {
    Request {
        from: Id,
        call: CallId,
        list: Vec<Id>,
        options: (bool, bool, bool),
        /// For a partial call: the number of skipped parents, and whether one of them may have sent it.
        partial: Option<(u32, bool)>,
        limit_ms: u64,
        arriving: bool,
    },
    Response {
        from: Id,
        call: CallId,
        answer: u8,
    },
    Cancel(Id, CallId),
    Release(Id, CallId),
    Moved(Id, CallId),
    Ping(Id),
    Pause(Id, u64),
    Lost(Id, bool),
    Answered(CallId, bool),
    /// The n-th running job ends.
    Ran(usize, u8),
    /// All data of the n-th arriving body are there.
    Arrived(usize),
    Start {
        list: Vec<Id>,
        watch: bool,
        partial: bool,
        merged: bool,
        limit_ms: u64,
    },
    GiveUp(u64),
    Wait(u64),
}

fn deeds() -> impl Strategy<Value = Deed> {
    let id = || 0u32..5;
    let call = || (id(), 5u64..9).prop_map(|(root, sequence)| CallId { root, sequence });
    let list = || {
        let any = (Just((0..5).collect::<Vec<Id>>()).prop_shuffle(), 0usize..6, 0u8..4);
        any.prop_map(|(mut list, len, mine)| {
            if mine > 0 {
                list.retain(|id| *id != ME);
                list.insert(0, ME);
            }
            list.truncate(len);
            list
        })
    };
    let options = || (any::<bool>(), any::<bool>(), any::<bool>());
    let partial = || prop::option::weighted(0.6, (0u32..3, any::<bool>()));
    prop_oneof![
        6 => (id(), call(), list(), options(), partial(), 0u64..100, any::<bool>()).prop_map(
            |(from, call, list, options, partial, limit_ms, arriving)| {
                Deed::Request { from, call, list, options, partial, limit_ms, arriving }
            }
        ),
        8 => (id(), call(), 0u8..10).prop_map(|(from, call, answer)| Deed::Response { from, call, answer }),
        1 => (id(), call()).prop_map(|(from, call)| Deed::Cancel(from, call)),
        1 => (id(), call()).prop_map(|(from, call)| Deed::Release(from, call)),
        1 => (id(), call()).prop_map(|(from, call)| Deed::Moved(from, call)),
        1 => id().prop_map(Deed::Ping),
        1 => (id(), 0u64..100).prop_map(|(from, ms)| Deed::Pause(from, ms)),
        1 => (id(), any::<bool>()).prop_map(|(peer, unreached)| Deed::Lost(peer, unreached)),
        2 => (call(), any::<bool>()).prop_map(|(call, good)| Deed::Answered(call, good)),
        8 => (0usize..3, 0u8..5).prop_map(|(place, result)| Deed::Ran(place, result)),
        3 => (0usize..3).prop_map(Deed::Arrived),
        2 => (list(), options(), 0u64..100).prop_map(|(list, (watch, partial, merged), limit_ms)| {
            Deed::Start { list, watch, partial, merged, limit_ms }
        }),
        1 => (0u64..4).prop_map(Deed::GiveUp),
        2 => (0u64..50).prop_map(Deed::Wait),
    ]
}

struct Besieged {
    node: Node,
    now: Duration,
    running: Vec<CallId>,
    bodies: Vec<(CallId, BodyWriter)>,
    /// Requests of each peer that have not been consumed.
    owed: BTreeMap<Id, u32>,
    /// Tickets of calls in flight.
    open: Vec<u64>,
    started: u64,
}

/// An answer to a partial call, of which only the first kind can be right.
fn partial(kind: u8) -> Answer {
    let coverage = Coverage::all(Status::Done, if kind == 9 { 2 } else { 1 });
    let causes = vec![Cause::new(4, Stage::Func, CauseKind::Failed, ""); usize::from(kind == 8)];
    let (level, text) = match kind {
        5 => (0, "0 "),
        6 => (1, "2 0 1 x"),
        7 => (1, "3 no"),
        _ => (7, ""),
    };
    let text = || text.as_bytes().to_vec().into();
    let reply = SubtreeReply { level, header: text(), data: text(), ..SubtreeReply::default() };
    Answer::Partial(Box::new(Partial { reply, report: Report { causes, coverage } }))
}

impl Besieged {
    fn input(&mut self, input: Input) {
        let mut outputs = Outputs::new();
        self.node.input(Time::default().plus(self.now), input, &mut outputs);
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Run(job) => {
                    assert!(!self.running.contains(&job.call), "two jobs of one call");
                    assert!(job.request.data.bytes().is_some(), "a job without its data");
                    self.running.push(job.call);
                }
                Output::Consumed { from } => {
                    let owed = self.owed.get_mut(&from).expect("a request came from it");
                    *owed = owed.checked_sub(1).expect("a request of this link");
                }
                Output::Finished { ticket, .. } => {
                    let place = self.open.iter().position(|open| *open == ticket).expect("it ends once");
                    self.open.swap_remove(place);
                }
                Output::Abandon { peer } => {
                    self.owed.remove(&peer);
                }
                Output::Send { .. } | Output::Stopped(_) | Output::ChildReply { .. } => {}
            }
        }
        assert_eq!(self.node.jobs_running(), self.running.len());
        assert!(
            self.running.len() <= self.node.config().workers
                && self.node.calls() <= self.node.config().calls_max
                && self.node.retained_answers() <= self.node.config().calls_max
        );
        let now = Time::default().plus(self.now);
        assert!(
            self.node.next_deadline().is_none_or(|next| next > now),
            "a deadline that has passed is left"
        );
    }

    fn message(&mut self, from: Id, message: Message) {
        self.input(Input::Message { from, message });
    }

    fn suffer(&mut self, deed: Deed) {
        match deed {
            Deed::Request { from, call, list, options, partial, limit_ms, arriving } => {
                let (reply_wanted, forward_first, merged) = options;
                let callback = merged.then_some(9);
                let (body, writer) = Body::arriving(u64::from(arriving) * 3);
                self.bodies.push((call, writer));
                let (limit, tree) = (Duration::from_millis(limit_ms), Ok(Tree::Flat));
                let known = request("1");
                let (skipped, adopted) = partial.unwrap_or_default();
                let request = Request {
                    partial: partial.is_some(),
                    skipped,
                    adopted,
                    left: 2 * limit,
                    call,
                    callback,
                    local: Default::default(),
                    reply_wanted,
                    forward_first,
                    limit,
                    tree,
                    ids: ids(&list),
                    data: body,
                    ..known
                };
                *self.owed.entry(from).or_default() += 1;
                self.message(from, Message::Request(Arc::new(request)));
            }
            Deed::Response { from, call, answer } => {
                let reply = |level, text: &str| {
                    let data = text.as_bytes().to_vec();
                    Answer::Reply(SubtreeReply {
                        level,
                        header: data.clone().into(),
                        data: data.into(),
                        ..SubtreeReply::default()
                    })
                };
                let answer = match answer {
                    0 => Answer::Completed,
                    1 => {
                        let coverage = Coverage::all(Status::Failed, 1);
                        Answer::Failed(Box::new(Failure {
                            cause: Cause::new(from, Stage::Link, CauseKind::LinkLost, ""),
                            coverage,
                        }))
                    }
                    2 => reply(u16::MAX, "not level-n data"),
                    5.. => partial(answer),
                    _ => reply(0, "0 "),
                };
                self.message(from, Message::Response(Response { call, answer }));
            }
            Deed::Cancel(from, call) => self.message(from, Message::Cancel(call)),
            Deed::Release(from, call) => self.message(from, Message::Release(call)),
            Deed::Moved(from, call) => self.message(from, Message::Moved(call)),
            Deed::Ping(from) => self.message(from, Message::Ping),
            Deed::Pause(from, ms) => self.message(from, Message::Pause(Duration::from_millis(ms))),
            Deed::Lost(peer, unreached) => {
                self.owed.remove(&peer);
                self.input(Input::LinkLost {
                    peer,
                    kind: CauseKind::LinkLost,
                    why: "gone".into(),
                    unreached,
                });
            }
            Deed::Answered(call, good) => {
                let result = if good { Ok(reply("x")) } else { Err("dropped".into()) };
                self.input(Input::Answered { call, result });
            }
            Deed::Ran(place, result) if place < self.running.len() => {
                let call = self.running.swap_remove(place);
                let result = match result {
                    0 => JobResult::Failed("no".into()),
                    1 => JobResult::Deferred,
                    _ => JobResult::Replied(reply("y")),
                };
                self.input(Input::Ran { call, result });
            }
            Deed::Arrived(place) if place < self.bodies.len() => {
                let (call, mut writer) = self.bodies.swap_remove(place);
                writer.push(b"abc");
                self.input(Input::DataArrived(call));
            }
            Deed::Ran(..) | Deed::Arrived(_) => {}
            Deed::Start { list, watch, partial, merged, limit_ms } => {
                let limit = Duration::from_millis(limit_ms);
                let callback = merged.then_some(9);
                let start = Start { ids: ids(&list), watch, partial, callback, limit, ..start("1") };
                self.open.push(self.started);
                self.started += 1;
                self.input(Input::Start { ticket: self.started - 1, start: start.into() });
            }
            Deed::GiveUp(ticket) => self.input(Input::GiveUp { ticket }),
            Deed::Wait(ms) => {
                self.now += Duration::from_millis(ms);
                self.input(Input::Tick);
            }
        }
    }

    /// Time passes and running jobs end: no state may be left.
    fn end(&mut self) {
        self.suffer(Deed::Wait(1000));
        while !self.running.is_empty() {
            self.suffer(Deed::Ran(0, 2));
        }
        // Retained answers expire.
        self.suffer(Deed::Wait(10_000));
        let left = (self.node.calls(), self.node.retained_answers(), self.node.next_deadline());
        assert_eq!(left, (0, 0, None));
        assert!(self.open.is_empty(), "calls that never ended: {:?}", self.open);
        assert!(self.owed.values().all(|&owed| owed == 0), "requests never consumed: {:?}", self.owed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_peers_say_nothing_is_left_of_it(
        deeds in prop::collection::vec(deeds(), 0..150),
        workers in 1usize..4,
        calls_max in 1usize..6,
        watched in any::<bool>(),
    ) {
        let (every, dead_after) = (Duration::from_millis(10), Duration::from_millis(40));
        let heartbeat = watched.then_some(Heartbeat { every, dead_after });
        let restart_margin = Duration::from_millis(20);
        let node = Node::new(Config { workers, calls_max, heartbeat, restart_margin, ..Config::new(ME, 5) });
        let (running, bodies, owed, open) = Default::default();
        let mut besieged = Besieged { node, now: Duration::ZERO, running, bodies, owed, open, started: 0 };
        deeds.into_iter().for_each(|deed| besieged.suffer(deed));
        besieged.end();
    }
}
