//! A call on the fast path is answered as one in the tables, and leaves the same state, whatever happens to it.

use std::time::Duration;

use bytes::BytesMut;
use chained_gpc::chain::{
    CallOrigin, ChildRequest, Config, FastResponse, FastResult, FastStart, Input, JobResult, Output, Outputs,
    Reply, RootReply, Sizes, Start, Time,
};
use chained_gpc::wire::message::{Answer, SubtreeReply};
use chained_gpc::wire::short::{KeyBuffer, Particulars, ShortRequest, ShortResponse, Template};
use chained_gpc::wire::{
    Body, Budget, CallId, CauseKind, Coverage, Message, Parts, Reason, ReplyLimits, Request, Response, Stage,
    Status,
};
use gpc_trees::{Id, Shape, Tree};
use proptest::prelude::*;

use super::one::{CALL, One, failed, leveled, request, show, start};

/// Reason of a func that fails: both paths carry all of it.
fn bad_luck() -> Box<Reason> {
    Box::new(Reason { kind: CauseKind::Panicked, code: -7, message: "bad luck".into(), detail: vec![7; 3] })
}

/// Stores func's reply in its buffer. If func fails, the buffer holds what func wrote before.
fn reply_into(room: &mut Reply, result: Result<Reply, Box<Reason>>) -> Result<(), Box<Reason>> {
    let failed = Reply { header: b"left".to_vec(), data: b"behind".to_vec(), ..Default::default() };
    *room = result.as_ref().map_or(failed, Reply::clone);
    result.map(drop)
}

/// A node that takes the fast path where it can, and the tables otherwise.
struct FastOne(One);

impl FastOne {
    fn new(config: Config) -> FastOne {
        FastOne(One::with(Config { plan_at_once: true, ..config }))
    }

    fn now(&self) -> Time {
        Time::default().plus(self.0.now)
    }

    /// Outputs of a request whose func has this result; `None` if the fast path does not take it.
    fn request(
        &mut self,
        from: Id,
        request: &Request,
        result: Result<Reply, Box<Reason>>,
    ) -> Option<Vec<String>> {
        let (mut room, data, now) = (KeyBuffer::default(), request.data.as_bytes()?, self.now());
        let short = ShortRequest::of(request, &data, &mut room)?;
        let begun = self.0.node.begin_fast(|| now, from, &short);
        if begun == FastStart::General {
            return None;
        }
        assert_eq!(begun == FastStart::Leaf, request.ids.len() == 1);
        let mut said = vec!["run func".to_string(), format!("consumed {from}")];
        match begun {
            FastStart::Leaf => said.push(self.run_alone(from, short.particulars.call, result)),
            _ => said.extend(self.run(CallOrigin::Parent(from), &short.particulars, result)),
        }
        Some(said)
    }

    fn run_alone(&mut self, from: Id, call: CallId, result: Result<Reply, Box<Reason>>) -> String {
        let node = &mut self.0.node;
        let (_, room) = node.leaf_room().expect("it has begun");
        assert_eq!(*room, Reply::default());
        let result = reply_into(room, result);
        let answer = match node.leaf_ran(call, result) {
            Ok((head, answer)) => {
                let mut frame = BytesMut::new();
                answer.emit_start(&mut frame);
                answer.emit_rest(&mut frame);
                assert_eq!(
                    (head.call, frame.len() as u64),
                    (call, head.body_len()),
                    "a frame says how long it is"
                );
                let reply = answer.reply();
                let long = reply.iter().flat_map(|reply| [&reply.header, &reply.data]);
                assert_eq!(long.flat_map(|part| part.to_bytes()).collect::<Vec<u8>>(), frame);
                reply.map_or(Answer::Completed, Answer::Reply)
            }
            Err(answer) => *answer,
        };
        node.leaf_answered();
        end(CallOrigin::Parent(from), call, answer)
    }

    fn start(&mut self, start: &Start, result: Result<Reply, Box<Reason>>) -> Option<Vec<String>> {
        let (mut room, now, data) = (KeyBuffer::default(), self.now(), start.data.as_bytes()?);
        let short = start.short(self.0.node.next_name(), &data, &mut room)?;
        if !self.0.node.start_fast(now, &short, start.watch) {
            return None;
        }
        assert_eq!(short.particulars.call, CALL);
        let mut said = vec!["run func".to_string()];
        said.extend(self.run(
            CallOrigin::Application { ticket: 1, watch: false },
            &short.particulars,
            result,
        ));
        Some(said)
    }

    fn run(
        &mut self,
        origin: CallOrigin,
        of: &Particulars<'_>,
        result: Result<Reply, Box<Reason>>,
    ) -> Vec<String> {
        let (mut said, mut outputs) = (Vec::new(), Outputs::new());
        let send = |child: ChildRequest<'_>| {
            let request = child.request().expect("a plan of a good tree");
            if let Some(frame) = child.frame {
                let (mut shared, mut own) = (BytesMut::new(), BytesMut::new());
                let alone = child.alone.expect("of one id");
                Template::copy(frame, alone, child.particulars.position, &mut shared);
                child.template.fill(child.particulars, child.alone, &mut own);
                assert_eq!(shared, own, "what several children get is what each of them would");
            }
            said.push(show(Output::Send { to: child.to, message: Message::Request(request.into()) }));
        };
        let (me, now) = (self.0.node.config().me, self.now());
        let (ids, room) = self.0.node.reply_room().expect("it has begun");
        assert_eq!((ids.first(), &*room), (Some(me), &Reply::default()));
        let result = reply_into(room, result);
        let ran = self.0.node.func_ran(origin, of, result, || now, send, &mut outputs);
        said.extend(outputs.into_iter().map(show));
        let answer = match ran {
            FastResult::Waits => return said,
            FastResult::Answered(answer) => answer,
        };
        said.push(end(origin, of.call, answer));
        said
    }

    fn response(&mut self, from: Id, answer: &Answer) -> Option<Vec<String>> {
        let (now, node) = (self.now(), &mut self.0.node);
        let (level, header, data) = match answer {
            Answer::Reply(reply) => (reply.level, reply.header.to_bytes(), reply.data.to_bytes()),
            Answer::Completed => Default::default(),
            Answer::Failed(_) | Answer::Partial(_) | Answer::Arriving(_) => return None,
        };
        let reply = matches!(answer, Answer::Reply(_)).then_some((&header[..], &data[..]));
        let place = match node.fast_response(|| now, from, &ShortResponse { call: CALL, level, reply }) {
            FastResponse::General => return None,
            FastResponse::Waits => return Some(Vec::new()),
            FastResponse::Complete(place) => place,
        };
        if let Some((to, head, answer)) = node.fast_answer(place) {
            let answer = answer.reply(&head).map_or(Answer::Completed, Answer::Reply);
            node.end_fast(place);
            return Some(vec![end(CallOrigin::Parent(to), CALL, answer)]);
        }
        let mut outputs = Outputs::new();
        let ended = node.finish_fast(|| now, place, &mut outputs);
        let mut said: Vec<String> = outputs.into_iter().map(show).collect();
        said.extend(ended.map(|ended| {
            let reply = ended.reply.map(RootReply::aggregated);
            let answer = reply.map_or(Answer::Completed, Answer::Reply);
            end(CallOrigin::Application { ticket: ended.ticket, watch: false }, ended.call, answer)
        }));
        Some(said)
    }
}

fn end(origin: CallOrigin, call: CallId, answer: Answer) -> String {
    match origin {
        CallOrigin::Parent(to) => {
            show(Output::Send { to, message: Message::Response(Response { call, answer }) })
        }
        CallOrigin::Application { ticket, .. } => {
            let result = match answer {
                Answer::Completed => Ok(None),
                Answer::Reply(reply) => Ok(Some(reply)),
                Answer::Failed(failure) => Err(failure),
                Answer::Partial(_) | Answer::Arriving(_) => {
                    panic!("a call on the fast path is neither partial nor streamed")
                }
            };
            show(Output::Finished { ticket, call, result, report: None })
        }
    }
}

/// An event of a call with the name [`CALL`].
#[derive(Clone, Debug)]
enum Happens {
    Answers(usize, u8),
    Lost(usize),
    ParentLost,
    Cancelled,
    Again(Id),
    Expires,
    TimePasses,
    GivenUp,
}

fn happenings() -> impl Strategy<Value = Vec<Happens>> {
    let one = prop_oneof![
        12 => (0usize..6, prop::sample::select(vec![0u8, 0, 0, 0, 0, 1, 2, 3, 4])).prop_map(|(child, how)| Happens::Answers(child, how)),
        1 => (0usize..6).prop_map(Happens::Lost),
        1 => Just(Happens::ParentLost),
        1 => Just(Happens::Cancelled),
        1 => prop::sample::select(vec![0, 50]).prop_map(Happens::Again),
        1 => Just(Happens::Expires),
        1 => Just(Happens::TimePasses),
        1 => Just(Happens::GivenUp),
    ];
    prop::collection::vec(one, 0..16)
}

/// Answers of a child, in many forms.
fn answer(child: Id, how: u8) -> Answer {
    match how {
        0 => leveled((child % 3) as u16, "0 ", &format!("{child}")),
        1 => Answer::Completed,
        2 => failed(child, Stage::Func, Coverage::all(Status::Failed, 1)),
        // A long one, and one of a high level.
        3 => leveled(1, "", &"x".repeat(9000)),
        _ => Answer::Reply(SubtreeReply { level: 2000, ..SubtreeReply::default() }),
    }
}

fn sorted(mut said: Vec<String>) -> Vec<String> {
    said.sort_unstable();
    said
}

proptest! {
    #[test]
    fn it_goes_as_on_the_long_way(
        here: bool, reply_wanted: bool, forward_first: bool, fails in prop::bool::weighted(0.2), list in prop::sample::select(vec!["1", "1-2", "1-9", "1-40", "1,7,3,30-33"]),
        flat: bool, header in prop::collection::vec(b'a'..=b'z', 0..40), data in prop::collection::vec(b'a'..=b'z', 0..300), happenings in happenings(),
    ) {
        let tree = if flat { Tree::Flat } else { Tree::Binomial };
        let me = if here { 0 } else { 1 };
        let config = || Config { reply_max: 30_000, ..Config::new(me, 5) };
        let list = if here { list.replacen('1', "0", 1) } else { list.to_string() };
        let asked = Request { tree: Ok(tree.clone()), reply_wanted, forward_first, ..request(&list) };
        let begin = Start { tree: tree.clone(), reply_wanted, forward_first, ..start(&list) };
        let reply = || if fails { Err(bad_luck()) } else { Ok(Reply { header: header.clone(), data: data.clone(), ..Default::default() }) };
        let (mut long, mut short) = (One::with(config()), FastOne::new(config()));
        let mut said = if here { long.start(begin.clone()) } else { long.request(9999, asked.clone()) };
        said.extend(long.ran(reply().map_or_else(JobResult::Failed, JobResult::Replied)));
        let on_fast_path = if here { short.start(&begin, reply()) } else { short.request(9999, &asked, reply()) };
        prop_assert_eq!(on_fast_path.map(sorted), Some(sorted(said)));
        let groups = tree.split(asked.ids.len()).unwrap();
        let child = |index: usize| groups.get(index).map_or(77, |group| asked.ids.id(group.start).unwrap());
        // After every event both give the same outputs.
        for happens in happenings {
            let input = match happens {
                Happens::Answers(index, how) => {
                    let from = child(index);
                    let (expected, answer) = (long.response(from, answer(from, how)), answer(from, how));
                    let said = short.response(from, &answer).unwrap_or_else(|| short.0.response(from, answer));
                    prop_assert_eq!(sorted(said), sorted(expected));
                    continue;
                }
                Happens::Again(from) => {
                    let from = if from == 0 { 9999 } else { from };
                    prop_assert_eq!(short.request(from, &asked, reply()), None, "it does not run again");
                    Input::Message { from, message: Message::Request(asked.clone().into()) }
                }
                Happens::Expires => {
                    let Some(deadline) = long.node.next_deadline() else { continue };
                    (long.now, short.0.now) = (deadline.since(Time::default()), deadline.since(Time::default()));
                    Input::Tick
                }
                Happens::TimePasses => {
                    // The node does not receive the time. Only the root decides by itself that a call took too long.
                    let Some(deadline) = long.node.next_deadline().filter(|_| here) else { continue };
                    (long.now, short.0.now) = (deadline.since(Time::default()), deadline.since(Time::default()));
                    continue;
                }
                Happens::Lost(index) => Input::LinkLost { peer: child(index), kind: CauseKind::LinkLost, why: "gone".into(), unreached: index % 2 == 0 },
                Happens::ParentLost => Input::LinkLost { peer: 9999, kind: CauseKind::LinkLost, why: "gone".into(), unreached: false },
                Happens::Cancelled => Input::Message { from: 9999, message: Message::Cancel(CALL) },
                Happens::GivenUp => Input::GiveUp { ticket: 1 },
            };
            let again = match &input {
                Input::LinkLost { peer, kind, why, unreached } => Input::LinkLost { peer: *peer, kind: *kind, why: why.clone(), unreached: *unreached },
                Input::Message { from, message } => Input::Message { from: *from, message: message.clone() },
                Input::GiveUp { ticket } => Input::GiveUp { ticket: *ticket },
                _ => Input::Tick,
            };
            prop_assert_eq!(sorted(short.0.feed(input)), sorted(long.feed(again)));
            prop_assert_eq!(short.0.node.calls(), long.node.calls());
            prop_assert!((0..6).all(|index| short.0.node.awaits(child(index), CALL) == long.node.awaits(child(index), CALL)));
        }
        // Its deadline is known until the end, and no state is left.
        while long.node.calls() > 0 {
            prop_assert!(short.0.node.next_deadline() <= long.node.next_deadline());
            let expected = sorted(long.expire());
            short.0.now = long.now;
            prop_assert_eq!(sorted(short.0.feed(Input::Tick)), expected);
        }
        prop_assert!(long.is_quiet() && short.0.is_quiet());
    }

    /// With a callback, an id without children replies with its own value.
    #[test]
    fn an_id_alone_answers_as_on_the_long_way(
        callback in prop::option::of(Just(9u64)), reply_wanted: bool, fails: bool,
        header in prop::collection::vec(b'a'..=b'z', 0..40), data in prop::collection::vec(b'a'..=b'z', 0..5000),
    ) {
        let asked = Request { callback, reply_wanted, ..request("1") };
        let config = || Config { reply_max: 4000, ..Config::new(1, 5) };
        let reply = || if fails { Err(bad_luck()) } else { Ok(Reply { header: header.clone(), data: data.clone(), ..Default::default() }) };
        let mut long = One::with(config());
        let mut said = long.request(0, asked.clone());
        said.extend(long.ran(reply().map_or_else(JobResult::Failed, JobResult::Replied)));
        let mut short = FastOne::new(config());
        prop_assert_eq!(short.request(0, &asked, reply()), Some(said));
        prop_assert!(long.is_quiet() && short.0.is_quiet());
        // A repeated request is refused by both, and does not run.
        prop_assert_eq!(short.request(0, &asked, reply()), None);
        prop_assert_eq!(short.0.request(0, asked.clone()), long.request(0, asked));
    }
}

#[test]
fn what_is_unusual_goes_the_long_way() {
    let config = || Config { data_max: 3, calls_max: 1, ..Config::new(1, 5) };
    let may = |one: &mut FastOne, request: &Request| one.request(0, request, Ok(Reply::default())).is_some();
    let fresh = |request: Request| may(&mut FastOne::new(config()), &request);
    assert!(fresh(request("1")) && fresh(request("1-2")));
    let shape = Shape::from_sizes(vec![1]).unwrap();
    let limits = ReplyLimits { header_max: 1 << 40, ..ReplyLimits::UNLIMITED };
    for (what, unusual) in [
        ("is another's", request("2")),
        ("has replies to merge", Request { callback: Some(9), ..request("1-2") }),
        ("has too many children", Request { tree: Ok(Tree::Flat), ..request("1-2000") }),
        ("is partial", Request { partial: true, ..request("1") }),
        ("has limits for replies", Request { reply_limits: limits, ..request("1") }),
        ("has parts", Request { parts: Parts::of_lengths([0].into_iter()).map(Box::new), ..request("1") }),
        ("may have been sent before", Request { adopted: true, ..request("1") }),
        ("comes from an adopter", Request { skipped: 1, ..request("1") }),
        ("has a tree that is not known here", Request { tree: Err(77), ..request("1") }),
        ("has a shape", Request { tree: Ok(Tree::Explicit(shape)), ..request("1") }),
        ("has no time left", Request { limit: Duration::ZERO, ..request("1") }),
        ("has too much data", Request { data: Body::whole("1234"), ..request("1") }),
        ("has data that are still to come", Request { data: Body::arriving(2).0, ..request("1") }),
        ("lies beyond its tree", Request { position: request("1").total, ..request("1") }),
        ("has this id's own name", Request { call: CallId { root: 1, sequence: 9 }, ..request("1") }),
    ] {
        assert!(!fresh(unusual), "one that {what}");
    }
    let begins = |begin: Start| FastOne::new(Config::new(0, 5)).start(&begin, Ok(Reply::default())).is_some();
    assert!(begins(start("0-1")) && !begins(Start { reply_limits: limits, ..start("0-1") }));
    let parts = Parts::of_lengths([0, 0].into_iter()).map(Box::new);
    assert!(!begins(Start { parts, ..start("0-1") }) && !begins(Start { follow: true, ..start("0-1") }));
    // While a function runs, others wait.
    let mut one = FastOne::new(Config { calls_max: 9, ..config() });
    one.0.request(0, request("1"));
    let other = Request { call: CallId { root: 0, sequence: 6 }, ..request("1") };
    assert!(!may(&mut one, &request("1")) && !may(&mut one, &other));
    one.0.replied("");
    assert!(!may(&mut one, &request("1")) && may(&mut one, &other));
    one.0.node.close();
    assert!(!may(&mut one, &Request { call: CallId { root: 0, sequence: 7 }, ..request("1") }));
    // The limit of children for this time is reached.
    let sizes = Sizes { work: 1, ..Sizes::default() };
    let mut busy = FastOne::new(Config { calls_max: 9, sizes, ..config() });
    let next = |sequence| Request { call: CallId { root: 0, sequence }, ..request("1-2") };
    assert!(may(&mut busy, &next(6)) && !may(&mut busy, &next(7)));
    busy.0.now += Duration::from_micros(1);
    assert!(may(&mut busy, &next(7)));
    // The largest number of calls is in flight.
    let mut full = FastOne::new(config());
    assert!(may(&mut full, &Request { call: CallId { root: 0, sequence: 6 }, ..request("1-2") }));
    assert!(!may(&mut full, &request("1")));
    assert_eq!(full.0.request(0, request("1")).len(), 2, "it is consumed and refused");
}

/// A single call of its kind gets no plan.
#[test]
fn the_first_call_of_a_kind_goes_the_long_way() {
    let mut one = FastOne(One::with(Config::new(1, 5)));
    let call = |sequence| Request { call: CallId { root: 0, sequence }, ..request("1-9") };
    let mut goes = |sequence| one.request(0, &call(sequence), Ok(Reply::default())).is_some();
    assert_eq!([goes(1), goes(2), goes(3)], [false, true, true]);
}

#[test]
fn a_reply_over_the_limit_fails_and_says_so() {
    let mut one = FastOne::new(Config { reply_max: 10, ..Config::new(1, 5) });
    let reply = Reply { data: vec![b'x'; 20], ..Default::default() };
    let said = one.request(0, &request("1"), Ok(reply)).unwrap();
    assert!(said[2].contains("the subtree's reply of 25 bytes is over the limit of 10"), "{said:?}");
}

/// Calls of many roots and kinds at once, more than there are places and plans for.
#[test]
fn many_calls_at_once_are_all_answered() {
    let config = Config { plan_at_once: true, ..Config::new(1, 5) };
    let mut one = FastOne::new(config);
    let (mut short, mut long) = (0, 0);
    for root in 2..200u32 {
        for sequence in 0..40u64 {
            let request = Request {
                call: CallId { root, sequence: u64::from(root) << 32 | sequence },
                func: u64::from(root) % 90,
                ..request("1,900")
            };
            one.0.now += Duration::from_nanos(1);
            match one.request(root, &request, Ok(Reply::default())) {
                Some(_) => short += 1,
                None => {
                    one.0.request(root, request.clone());
                    one.0.feed(Input::Ran {
                        call: request.call,
                        result: JobResult::Replied(Reply::default()),
                    });
                    long += 1;
                }
            }
        }
    }
    assert!(short > 3000 && long > 3000, "{short} and {long}");
    assert_eq!(one.0.node.calls(), 198 * 40);
    let lost = one.0.lost(900);
    assert_eq!(lost.iter().filter(|said| said.contains("gone")).count(), 198 * 40);
    assert!(one.0.is_quiet());
}

/// The bytes that a failed func had written were still there for the next one.
#[test]
fn what_a_failed_func_has_written_is_nobodys() {
    for (forward_first, list) in [(false, "1-9"), (true, "1-9"), (false, "1")] {
        let mut one = FastOne::new(Config::new(1, 5));
        let call = |sequence| Request { call: CallId { root: 0, sequence }, forward_first, ..request(list) };
        // Each of them finds an empty reply, or this panics.
        for sequence in [1, 2, 3, 4] {
            let result = if sequence % 2 == 1 { Err(bad_luck()) } else { Ok(Reply::default()) };
            assert!(one.request(0, &call(sequence), result).is_some(), "{forward_first} {list} {sequence}");
        }
    }
}

/// A func's long reply was in its place when the call had taken it, without a request for memory: the reply waited
/// uncounted.
#[test]
fn a_long_reply_that_finds_no_memory_fails_its_call_as_on_the_long_way() {
    for (forward_first, fits) in [(false, false), (true, false), (false, true)] {
        let node = || {
            let memory = Budget::new(100 << 10, "this node");
            (Config { memory: memory.clone(), ..Config::new(1, 5) }, memory)
        };
        let ((config, used_short), (other, used_long)) = (node(), node());
        let (mut short, mut long) = (FastOne::new(config), One::with(other));
        let asked = Request { forward_first, ..request("1-9") };
        let len = if fits { 60 << 10 } else { 101 << 10 };
        let reply = || Reply { data: vec![b'x'; len], ..Default::default() };
        let on_fast_path = short.request(0, &asked, Ok(reply())).unwrap();
        let mut said = long.request(0, asked.clone());
        said.extend(long.ran(JobResult::Replied(reply())));
        assert_eq!((said.iter().any(|said| said.contains("no-memory")), used_long.used() > 0), (!fits, fits));
        assert_eq!(used_short.used() >= len as u64, fits, "counted, or given back");
        assert_eq!(sorted(on_fast_path), sorted(said));
        // Its func has run, whatever became of its reply: a second parent must not ask for it.
        assert_eq!(short.request(7, &asked, Ok(reply())), None);
        let refused = short.0.request(7, asked);
        assert!(refused.iter().any(|said| said.contains("second-parent")), "{refused:?}");
    }
}
