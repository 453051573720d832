//! docs/wire.md and the code agree: the code writes and reads every example of the document, byte by byte.

use std::sync::Arc;
use std::time::Duration;

use crate::wire_support::{
    AROUND, Beside, Content, HELLO, Seen, drain, drain_beside, greeted, read, written,
};
use bytes::Bytes;
use chained_gpc::chain::PAUSE_MAX;
use chained_gpc::link::{BODIES_MAX, Event, Inbox, Outbox};
use chained_gpc::wire::frame::{
    EXTENT_MAX, EXTENT_MIN, FRAME_HEADER, FRAME_MAX, HEADER_MAX, PREFIX_MAX, REPORT_MAX, WINDOW,
};
use chained_gpc::wire::head::{Goodbye, GoodbyeReason, ResponseHead, WindowRef};
use chained_gpc::wire::message::{Answer, Local, Partial, SubtreeReply};
use chained_gpc::wire::report::CAUSES_MAX;
use chained_gpc::wire::trace::IdTimes;
use chained_gpc::wire::{
    Body, CallId, CallState, Cause, CauseKind, Coverage, Failure, Hello, Message, Parts, Payload, Reason,
    ReplyLimits, Report, Request, Response, Span, Stage, Status, Straggler,
};
use gpc_trees::{IdList, Run, Shape, Tree};

const DOCUMENT: &str = include_str!("../../docs/wire.md");

const CALL: CallId = CallId { root: 3, sequence: 258 };

const LATE: Straggler = Straggler { id: 37, state: CallState::Func, since: Duration::from_secs(58) };

/// The examples of the document: each begins with its name, and `#` begins a remark.
fn examples() -> Vec<(&'static str, Bytes)> {
    let blocks =
        DOCUMENT.split("```hex\n").skip(1).map(|rest| rest.split_once("```").expect("a block ends").0);
    let example = |block: &'static str| {
        let (name, lines) = block.split_once('\n').expect("a block has lines");
        let digits = lines.lines().flat_map(|line| line.split('#').next().unwrap_or(line).split_whitespace());
        let bytes = digits.map(|byte| u8::from_str_radix(byte, 16).expect("two hexadecimal digits"));
        (name.strip_prefix("# ").expect("a name"), bytes.collect())
    };
    blocks.map(example).collect()
}

/// The example with this name.
fn example(name: &str) -> Bytes {
    let found = examples().into_iter().find(|(there, _)| *there == name);
    found.unwrap_or_else(|| panic!("docs/wire.md has no example {name:?}")).1
}

fn only(events: Vec<Event>) -> Event {
    let [event] = <[Event; 1]>::try_from(events).expect("one event");
    event
}

/// Checks that the code writes the example for `request`, and reads it as `request`.
fn holds_request(name: &str, request: Request) {
    let (seen, data) = (Seen::of(&request), request.data.bytes());
    let Event::Request(back) = only(read(&example(name)).expect(name)) else { panic!("{name} is a request") };
    assert_eq!((Seen::of(&back), back.data.bytes()), (seen, data), "{name}");
    assert_eq!(written(Message::Request(Arc::new(request))), example(name), "{name}");
}

/// Checks that the code writes the example for `answer`, and reads it as `answer`.
fn holds_response(name: &str, answer: Answer) {
    let response = Response { call: CALL, answer };
    let Event::Response(back) = only(read(&example(name)).expect(name)) else {
        panic!("{name} is a response")
    };
    assert_eq!(Content::of(&back), Content::of(&response), "{name}");
    assert_eq!(written(Message::Response(response)), example(name), "{name}");
}

fn request() -> Request {
    Request {
        call: CALL,
        position: 2,
        total: 9,
        func: 0x0123_4567_89ab_cdef,
        callback: None,
        local: Default::default(),
        reply_wanted: true,
        reply_limits: Default::default(),
        forward_first: false,
        partial: false,
        adopted: false,
        skipped: 0,
        age: Duration::ZERO,
        left: Duration::from_secs(1),
        limit: Duration::from_secs(1),
        tree: Ok(Tree::Binary),
        ids: IdList::range(4..7),
        header: Bytes::new(),
        data: Body::default(),
        parts: None,
    }
}

fn runs_request(data: Body) -> Request {
    let runs = [Run { first: 4, count: 3 }, Run { first: 9, count: 1 }];
    Request {
        callback: Some(0x1122_3344_5566_7788),
        forward_first: true,
        tree: Ok(Tree::from_wire(0x8000_0001, 8).expect("a tree of the wire")),
        ids: IdList::from_runs(runs).expect("distinct ids"),
        header: Bytes::from_static(b"hi"),
        data,
        ..request()
    }
}

#[test]
fn hello() {
    let taking = Hello { from: HELLO.to, to: HELLO.from, rings: true, extents: true, ..HELLO };
    for (name, hello) in [("HELLO", HELLO), ("HELLO that takes rings", taking)] {
        let mut outbox = Outbox::new();
        outbox.push_hello(&hello);
        assert_eq!(drain(&mut outbox, usize::MAX), example(name));
        let mut events = Vec::new();
        Inbox::new().feed(&example(name), &AROUND, &mut events).unwrap();
        assert!(matches!(only(events), Event::Hello(heard) if heard == hello));
    }
}

#[test]
fn data_by_descriptor() {
    let (mut outbox, mut beside) = (Outbox::new(), Beside::default());
    outbox.add_credit(1);
    let data = Body::whole(vec![5; 1 << 20]);
    outbox.push(Message::Request(Arc::new(Request { data, ..request() })));
    let bytes = drain_beside(&mut outbox, usize::MAX, &mut beside);
    assert!(bytes.ends_with(&example("EXTENT")) && outbox.is_idle());
    let (mut inbox, mut events) = (greeted(), Vec::new());
    inbox.feed(&bytes, &beside, &mut events).unwrap();
    let [Event::Request(back), Event::DataArrived(CALL)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(back.data.bytes().unwrap(), vec![5; 1 << 20]);
}

#[test]
fn requests() {
    holds_request("REQUEST with runs", runs_request(Body::whole("abc")));
    let listed = Request {
        call: CallId { sequence: 259, ..CALL },
        reply_wanted: false,
        limit: Duration::from_micros(1),
        ids: IdList::from_ids([9, 4, 7]).unwrap(),
        ..request()
    };
    holds_request("REQUEST with listed ids", listed);
    let shape = Shape::from_sizes(vec![3, 2, 1]).unwrap();
    let call = CallId { sequence: 260, ..CALL };
    holds_request(
        "REQUEST with an explicit shape",
        Request { call, tree: Ok(Tree::Explicit(shape)), ..request() },
    );
    let call = CallId { sequence: 261, ..CALL };
    let reply_limits = ReplyLimits { header_max: 16, ..ReplyLimits::UNLIMITED };
    let callback = Some(0x1122_3344_5566_7788);
    holds_request("REQUEST with limits for replies", Request { call, reply_limits, callback, ..request() });
    let call = CallId { sequence: 264, ..CALL };
    let local = Local { trace: true, ..Local::default() };
    holds_request("REQUEST of a traced call", Request { call, local, ..request() });
    let call = CallId { sequence: 263, ..CALL };
    let parts = Parts::of_lengths([2, 0, 1].into_iter()).map(Box::new);
    let scatter = Request { call, parts, ..request() }.with_body(Body::whole("abc"));
    assert_eq!(scatter.data.bytes().unwrap(), "ab");
    holds_request("REQUEST of a scatter call", scatter);
    let call = CallId { sequence: 262, ..CALL };
    // A part of a millisecond counts as one.
    let age = Duration::from_micros(299_001);
    let adopted = Request { call, partial: true, adopted: true, skipped: 2, age, ..request() };
    let bytes = written(Message::Request(Arc::new(adopted.clone())));
    assert_eq!(bytes, example("REQUEST from an adopter"));
    holds_request("REQUEST from an adopter", Request { age: Duration::from_millis(300), ..adopted });
}

#[test]
fn responses() {
    holds_response("RESPONSE completed", Answer::Completed);
    let payload = |bytes: &'static [u8]| Payload::from(Bytes::from_static(bytes));
    let reply =
        SubtreeReply { level: 1, header: payload(b"0 "), data: payload(b"3 abc"), ..SubtreeReply::default() };
    holds_response("RESPONSE with a reply", Answer::Reply(reply));
    let span = Span::of_nanos;
    let times = IdTimes {
        began: span(1000),
        func: span(5_000_000),
        callbacks: span(0),
        total: span(151_400_016_000),
        answered: Span::NONE,
    };
    let trace = [times.emit(), IdTimes::NONE.emit()].concat().into();
    let reply = SubtreeReply { level: 0, header: payload(b"hi"), data: payload(b"abc"), trace };
    holds_response("RESPONSE with a trace", Answer::Reply(reply));
    let mut coverage = Coverage::all(Status::Done, 3);
    coverage.push(Status::Failed, 1);
    let reason = Reason { code: -7, detail: vec![7, 0, 255], ..Reason::from("no") };
    let failure = Failure { cause: Cause::of(9, Stage::Func, reason), coverage };
    holds_response("RESPONSE with a failure", Answer::Failed(Box::new(failure)));
    let reply =
        SubtreeReply { level: 0, header: payload(b"hi"), data: payload(b"abc"), ..SubtreeReply::default() };
    let mut late = Cause::new(9, Stage::Reply, CauseKind::TimeLimit, "late");
    late.straggler = Some(Box::new(LATE));
    let causes = vec![late, Cause::new(10, Stage::Func, CauseKind::from_number(60_000), "n")];
    let report = Report { causes, coverage: Coverage::all(Status::Unknown, 1) };
    assert_eq!(report.emitted_len(), report.emit().len());
    holds_response("RESPONSE that is partial", Answer::Partial(Box::new(Partial { reply, report })));
}

#[test]
fn a_segment_of_a_request_is_what_came_since() {
    let (data, mut writer) = Body::arriving(5);
    let mut outbox = Outbox::new();
    outbox.add_credit(1);
    outbox.push(Message::Request(Arc::new(runs_request(data))));
    writer.push(b"abc");
    let first = drain(&mut outbox, usize::MAX);
    let mut announced = example("REQUEST with runs").to_vec();
    announced[8 + 56] = 5;
    assert_eq!(first, announced);
    assert!(!outbox.is_idle() && !outbox.prepare());
    writer.push(b"de");
    let second = drain(&mut outbox, usize::MAX);
    assert_eq!(second, example("SEGMENT of a request"));
    assert!(outbox.is_idle());

    let (mut inbox, mut events) = (greeted(), Vec::new());
    inbox.feed(&first, &AROUND, &mut events).unwrap();
    let [Event::Request(back), Event::DataGrew] = &events[..] else { panic!("{events:?}") };
    let data = back.data.clone();
    assert_eq!((data.len(), data.arrived(), data.bytes()), (5, 3, None));
    events.clear();
    inbox.feed(&example("SEGMENT of a request"), &AROUND, &mut events).unwrap();
    assert!(matches!(events[..], [Event::DataArrived(CALL)]) && inbox.is_idle());
    assert_eq!(data.bytes().unwrap(), "abcde");
}

#[test]
fn a_segment_of_a_response_completes_it() {
    let mut announced = example("RESPONSE with a reply").to_vec();
    announced[8 + 24] = 7;
    let (mut inbox, mut events) = (greeted(), Vec::new());
    inbox.feed(&announced, &AROUND, &mut events).unwrap();
    assert!(events.is_empty() && !inbox.is_idle());
    inbox.feed(&example("SEGMENT of a response"), &AROUND, &mut events).unwrap();
    let Event::Response(back) = only(events) else { panic!("a response") };
    let Answer::Reply(reply) = back.answer else { panic!("a reply") };
    assert_eq!(reply.data.to_bytes(), "3 abcde");

    // The last part of a long reply: two bytes more than fill a frame's share of the body.
    let share = chained_gpc::wire::frame::SEGMENT;
    let data = Bytes::from([vec![b'x'; share], b"de".to_vec()].concat());
    let reply =
        SubtreeReply { level: 0, header: Payload::new(), data: data.into(), ..SubtreeReply::default() };
    let bytes = written(Message::Response(Response { call: CALL, answer: Answer::Reply(reply) }));
    assert_eq!(bytes.slice(8 + 40 + share..), example("SEGMENT of a response"));
}

#[test]
fn small_frames() {
    assert_eq!(written(Message::Cancel(CALL)), example("CANCEL"));
    assert!(matches!(only(read(&example("CANCEL")).unwrap()), Event::Cancel(CALL)));
    assert_eq!(written(Message::Release(CALL)), example("RELEASE"));
    assert!(matches!(only(read(&example("RELEASE")).unwrap()), Event::Release(CALL)));
    assert_eq!(written(Message::Moved(CALL)), example("MOVED"));
    assert!(matches!(only(read(&example("MOVED")).unwrap()), Event::Moved(CALL)));
    assert_eq!(written(Message::Ping), example("PING"));
    assert!(matches!(only(read(&example("PING")).unwrap()), Event::Ping));
    assert_eq!(written(Message::Pong), example("PONG"));
    assert!(matches!(only(read(&example("PONG")).unwrap()), Event::Pong));
    assert_eq!(written(Message::Stragglers(vec![(CALL, LATE)])), example("STRAGGLERS"));
    let Event::Stragglers(calls) = only(read(&example("STRAGGLERS")).unwrap()) else { panic!("stragglers") };
    assert_eq!(calls, [(CALL, LATE)]);
    let minute = Duration::from_secs(60);
    assert_eq!(written(Message::Pause(minute)), example("PAUSE"));
    assert!(matches!(only(read(&example("PAUSE")).unwrap()), Event::Pause(length) if length == minute));
    // A short pause is rounded up, since zero ends it; a long one is cut to the maximum.
    for (length, said) in [(Duration::ZERO, 0u32), (Duration::from_nanos(1), 1), (Duration::MAX, u32::MAX)] {
        assert_eq!(written(Message::Pause(length))[8..], said.to_le_bytes());
    }

    let mut outbox = Outbox::new();
    outbox.push_credit(0);
    outbox.push_credit(5);
    assert_eq!(drain(&mut outbox, usize::MAX), example("CREDIT"));
    assert!(matches!(only(read(&example("CREDIT")).unwrap()), Event::Credit(5)));

    for (name, of_response) in [("WINDOW of a request", false), ("WINDOW of a response", true)] {
        let window = WindowRef { call: CALL, of_response, limit: 5 << 20 };
        outbox.push_window(&window);
        assert_eq!(drain(&mut outbox, usize::MAX), example(name));
        assert!(matches!(only(read(&example(name)).unwrap()), Event::Window(back) if back == window));
    }

    let goodbye = Goodbye { reason: GoodbyeReason::Duplicate, text: "id 3 led".into() };
    outbox.push_goodbye(&goodbye);
    assert_eq!(drain(&mut outbox, usize::MAX), example("GOODBYE"));
    let Event::Goodbye(back) = only(read(&example("GOODBYE")).unwrap()) else { panic!("a goodbye") };
    assert_eq!(back, goodbye);
}

/// A reply of a callback has no bytes for its header if it has none, and none for absent data.
#[test]
fn half_a_reply_costs_nothing_for_the_other_half() {
    for (header, data) in [("", "abc"), ("abc", ""), ("", "")] {
        let [header, data] = [header, data].map(|text| Payload::from(Bytes::from_static(text.as_bytes())));
        let length = header.len() + data.len();
        let answer = Answer::Reply(SubtreeReply { level: 0, header, data, ..SubtreeReply::default() });
        let bytes = written(Message::Response(Response { call: CALL, answer }));
        assert_eq!(bytes.len(), FRAME_HEADER + ResponseHead::LENGTH + length);
    }
}

/// Checks that the table of the document equals the set of the code.
#[test]
fn the_kinds_of_the_document_are_those_of_the_code() {
    let (_, table) = DOCUMENT.split_once("| kind | name | what happened |").expect("a table of kinds");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| -> Vec<String> { row.split('|').map(|cell| cell.trim().to_owned()).collect() };
    let documented: Vec<(u16, String)> =
        rows.map(cells).map(|cells| (cells[1].parse().unwrap(), cells[2].clone())).collect();
    let known = CauseKind::KNOWN.iter().map(|kind| (kind.number(), kind.name().to_owned()));
    assert_eq!(documented, known.collect::<Vec<_>>());
}

/// Each example is tested above; a new example in the document needs a test here.
#[test]
fn the_document_has_no_other_examples() {
    assert_eq!(examples().len(), 28);
    let kinds: Vec<u8> = examples().iter().map(|(_, bytes)| bytes[4]).collect();
    assert!((1..=15).all(|kind| kinds.contains(&kind)), "{kinds:?}");
}

#[test]
fn the_limits_of_the_document_are_those_of_the_code() {
    assert!(DOCUMENT.contains("at most 1,048,576 (`FRAME_MAX`)") && FRAME_MAX == 1_048_576);
    assert!(
        DOCUMENT.contains("above 600,000 (ten minutes, `PAUSE_MAX`)") && PAUSE_MAX.as_millis() == 600_000
    );
    assert!(DOCUMENT.contains("at most 64 MiB (`PREFIX_MAX`)") && PREFIX_MAX == 64 << 20);
    assert!(DOCUMENT.contains("the header at most 65,535 bytes") && HEADER_MAX == 65_535);
    assert!(DOCUMENT.contains("its detail (at most 255 bytes)") && chained_gpc::wire::DETAIL_MAX == 255);
    assert!(DOCUMENT.contains("at most 1,024 bytes") && chained_gpc::wire::failure::MESSAGE_MAX == 1024);
    assert!(DOCUMENT.contains("At most 512 requests (`BODIES_MAX`)") && BODIES_MAX == 512);
    assert!(DOCUMENT.contains("sends 4,194,304 (`WINDOW`)") && WINDOW == 4_194_304);
    assert!(DOCUMENT.contains("262,144 (`EXTENT_MIN`) to 2,097,152 (`EXTENT_MAX`)"));
    assert_eq!((EXTENT_MIN, EXTENT_MAX), (262_144, 2_097_152));
    assert!(DOCUMENT.contains("at most 64 MiB (`REPORT_MAX`)") && REPORT_MAX == 64 << 20);
    assert!(DOCUMENT.contains("at most 1,024 causes (`CAUSES_MAX`)") && CAUSES_MAX == 1024);
    assert!(DOCUMENT.contains("at most 255 bytes") && Goodbye::TEXT_MAX == 255);
}
