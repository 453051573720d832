//! Invalid bytes from a peer: each is refused with the wrong field, and none causes a panic.

use std::sync::Arc;

use crate::wire_support::{AROUND, Around, Beside, HELLO, Plain, drain, greeted, read};
use bytes::Bytes;
use chained_gpc::link::{BODIES_MAX, Event, Inbox, Outbox};
use chained_gpc::wire::body::Extent;
use chained_gpc::wire::frame::{FrameError, HelloError, Kind, REPORT_MAX};
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{Cause, CauseKind, Coverage, Failure, Report, Stage, Status};
use proptest::prelude::*;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..], &[kind, flags, 0, 0], payload].concat()
}

/// Replaces bytes at offsets.
fn with(bytes: &[u8], changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (offset, change) in changes {
        bytes[*offset..][..change.len()].copy_from_slice(change);
    }
    bytes
}

/// Payload of a request of call 3#2 to ids 4 and 5, without header and data.
fn request() -> Vec<u8> {
    let fixed = with(&[0; 92], &[(0, &[3]), (8, &[2]), (48, &[1]), (88, &[9])]);
    [&fixed[..], &[4, 0, 0, 0, 2, 0, 0, 0]].concat()
}

fn request_with(changes: &[(usize, &[u8])]) -> Vec<u8> {
    frame(2, 0, &with(&request(), changes))
}

/// A request with other ids (form 1) and a shape.
fn request_of(ids: &[u32], shape: &[u32], tree: u32) -> Vec<u8> {
    let counts = [ids.len() as u8, shape.len() as u8];
    let changes: [(usize, &[u8]); 4] =
        [(32, &tree.to_le_bytes()), (44, &[1]), (48, &counts[..1]), (72, &counts[1..])];
    let fixed = with(&request()[..92], &changes);
    let words = ids.iter().chain(shape).flat_map(|word| word.to_le_bytes());
    frame(2, 0, &fixed.into_iter().chain(words).collect::<Vec<u8>>())
}

/// Payload of a response to call 3#2.
fn response(status: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
    let (header_len, data_len) = ((header.len() as u64).to_le_bytes(), (data.len() as u64).to_le_bytes());
    let fixed = with(&[0; 40], &[(0, &[3]), (6, &[status]), (8, &[2]), (16, &header_len), (24, &data_len)]);
    [&fixed[..], header, data].concat()
}

/// Payload of a response with only a report.
fn reported(status: u8, report: &[u8]) -> Vec<u8> {
    let fixed = with(&response(status, b"", b""), &[(32, &(report.len() as u32).to_le_bytes())]);
    [&fixed[..], report].concat()
}

/// A failure with one cause.
fn failure(cause: &[u8], coverage: &[u8]) -> Vec<u8> {
    frame(3, 0, &reported(2, &[&[1, 0, 0, 0], cause, coverage].concat()))
}

/// Id 9, failed, at stage func, without code and message.
const CAUSE: [u8; 28] = [9, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const CALL_REF: [u8; 16] = [3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];

/// A segment of call 3#2.
fn segment(flags: u8, bytes: &[u8]) -> Vec<u8> {
    frame(4, flags, &[&CALL_REF[..], bytes].concat())
}

/// Returns the error for these bytes after a hello; checks that it is the same in one read and byte by byte.
fn refused(bytes: &[u8]) -> FrameError {
    let error = read(bytes).expect_err("bad bytes");
    let (mut inbox, mut events) = (greeted(), Vec::new());
    let mut bytewise = bytes.iter().map(|byte| inbox.feed(&[*byte], &AROUND, &mut events));
    let Some(found) = bytewise.find_map(Result::err) else { panic!("{error} is not found byte by byte") };
    assert_eq!(std::mem::discriminant(&found), std::mem::discriminant(&error), "{found} or {error}");
    error
}

#[track_caller]
fn bad_field(bytes: &[u8], expected_kind: Kind, expected_field: &str, expected_value: u64) {
    let error = refused(bytes);
    let FrameError::BadField { kind, field, value, .. } = error else { panic!("{error:?}") };
    assert_eq!((kind, field, value), (expected_kind, expected_field, expected_value));
}

#[track_caller]
fn too_much(bytes: &[u8], kind: Kind, extra: u64) {
    assert_eq!(refused(bytes), FrameError::TooMuch { kind, extra });
}

#[track_caller]
fn out_of_place(bytes: &[u8], kind: Kind, when: &'static str) {
    assert_eq!(refused(bytes), FrameError::OutOfPlace { kind, when });
}

#[test]
fn frame_headers() {
    assert_eq!(refused(&[1, 0, 0x10, 0, 2, 0, 0, 0]), FrameError::TooLong { length: 0x10_0001 });
    assert_eq!(refused(&[0; 8]), FrameError::UnknownKind { kind: 0 });
    assert_eq!(refused(&frame(16, 0, &[])), FrameError::UnknownKind { kind: 16 });
    let known = [3u8, 127, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    for (kind, known) in (1u8..).zip(known) {
        for bit in (0..8).map(|bit| 1u8 << bit).filter(|bit| bit & known == 0) {
            let error = refused(&frame(kind, bit, &[]));
            assert!(matches!(error, FrameError::UnknownFlags { flags, .. } if flags == bit), "{error}");
        }
    }
    for place in [6, 7] {
        let error = refused(&with(&frame(5, 0, &CALL_REF), &[(place, &[1])]));
        assert_eq!(error, FrameError::UnknownFlags { kind: Kind::Cancel, flags: 0 });
    }
}

#[test]
fn payloads_shorter_than_their_fixed_part() {
    let kinds =
        [(2, Kind::Request, 92), (3, Kind::Response, 40), (4, Kind::Segment, 17), (5, Kind::Cancel, 16)];
    let small = [
        (6, Kind::Credit, 4),
        (7, Kind::Goodbye, 1),
        (8, Kind::Release, 16),
        (9, Kind::Moved, 16),
        (12, Kind::Window, 24),
        (13, Kind::Extent, 24),
        (14, Kind::Pause, 4),
    ];
    for (number, kind, needed) in kinds.into_iter().chain(small) {
        for length in [0, needed - 1] {
            assert_eq!(
                refused(&frame(number, 0, &vec![0; length])),
                FrameError::TooShort { kind, length, needed }
            );
        }
    }
    let short_cause = failure(&CAUSE[..27], &[]);
    assert_eq!(refused(&short_cause), FrameError::TooShort { kind: Kind::Response, length: 27, needed: 28 });
    let short_count = frame(3, 0, &reported(3, &[0; 3]));
    assert_eq!(refused(&short_count), FrameError::TooShort { kind: Kind::Response, length: 3, needed: 4 });
}

#[test]
fn payloads_longer_than_announced() {
    too_much(&frame(2, 0, &[request(), vec![0]].concat()), Kind::Request, 1);
    too_much(&frame(3, 0, &[response(1, b"a", b"b"), vec![0; 3]].concat()), Kind::Response, 3);
    too_much(&frame(5, 0, &[0; 17]), Kind::Cancel, 1);
    too_much(&frame(6, 0, &[1, 0, 0, 0, 0]), Kind::Credit, 1);
    too_much(&frame(8, 0, &[0; 18]), Kind::Release, 2);
    too_much(&frame(9, 0, &[0; 17]), Kind::Moved, 1);
    too_much(&frame(10, 0, &[0; 1]), Kind::Ping, 1);
    too_much(&frame(11, 0, &[0; 5]), Kind::Pong, 5);
    too_much(&frame(12, 0, &[0; 25]), Kind::Window, 1);
    too_much(&frame(13, 0, &[0; 26]), Kind::Extent, 2);
    too_much(&frame(14, 0, &[0; 5]), Kind::Pause, 1);

    let begun = request_with(&[(56, &[10])]);
    too_much(&[begun, segment(0, &[0; 12])].concat(), Kind::Segment, 2);
    let begun = frame(3, 0, &with(&response(1, b"", b""), &[(24, &[10])]));
    too_much(&[begun, segment(1, &[0; 11])].concat(), Kind::Segment, 1);
}

#[test]
fn fields_of_requests() {
    bad_field(&request_with(&[(44, &[2])]), Kind::Request, "ids form", 2);
    bad_field(&request_with(&[(52, &[0, 0, 1, 0])]), Kind::Request, "header length", 65_536);
    let prefix = "length of limits, ids, shape, header and lengths of parts";
    bad_field(&request_with(&[(48, &[0xff; 4])]), Kind::Request, prefix, 8 * u64::from(u32::MAX));
    bad_field(&request_with(&[(72, &[0xff; 4])]), Kind::Request, prefix, 4 * u64::from(u32::MAX) + 8);
    bad_field(&request_with(&[(48, &[0, 0, 0x80, 0]), (52, &[1])]), Kind::Request, prefix, (64 << 20) + 1);
    let explicit = with(&request_of(&[4], &[1], 0x8000_0005), &[(8 + 40, &[1])]);
    bad_field(&explicit, Kind::Request, "tree param of an explicit shape", 1);
    // The total number of positions as announced, and as this request needs it.
    bad_field(&request_with(&[(88, &[2, 0, 0, 0]), (4, &[2, 0, 0, 0])]), Kind::Request, "total", 2);
    bad_field(&request_with(&[(4, &[0xff; 4])]), Kind::Request, "total", 9);
}

/// The length of an EXTENT, and the states in which one may arrive; its memory is checked after these.
#[test]
fn data_by_descriptor() {
    let extent = |length: u64| frame(13, 0, &[&CALL_REF[..], &length.to_le_bytes()].concat());
    for length in [0, 262_143, 2_097_153, u64::MAX] {
        bad_field(&extent(length), Kind::Extent, "length", length);
    }
    let (kind, when) = (Kind::Extent, "on a link that takes no descriptors");
    assert_eq!(refused(&extent(262_144)), FrameError::OutOfPlace { kind, when });
    let piece = |length: usize| -> Extent { Arc::new(Plain(vec![0; length].into())) };
    let told = |begun: &[u8], length: usize| {
        let beside = Beside::default();
        beside.extents.borrow_mut().push_back(piece(length));
        let (mut inbox, mut events) = (greeted(), Vec::new());
        inbox.feed(begun, &beside, &mut events).unwrap();
        inbox.feed(&extent(length as u64), &beside, &mut events)
    };
    // For an unknown call the memory is taken, and dropped.
    assert_eq!(told(&[], 1 << 20), Ok(()));
    let begun = |data_len: u64| request_with(&[(56, &data_len.to_le_bytes())]);
    assert_eq!(told(&begun(1 << 20), 1 << 20), Ok(()));
    assert_eq!(told(&begun((1 << 20) - 2), 1 << 20), Err(FrameError::TooMuch { kind, extra: 2 }));
    let long = begun(u64::MAX);
    let half = segment(0, &[0; 1 << 19]).repeat(4);
    let begun = [long, half].concat();
    assert_eq!(told(&begun, 2 << 20), Ok(()));
    let further = [begun, segment(0, &[0; 17])].concat();
    let when = "beyond the window of its body";
    assert_eq!(told(&further, 2 << 20), Err(FrameError::OutOfPlace { kind, when }));
    // Its header has not arrived.
    let begun = request_with(&[(52, &[10]), (56, &(1u64 << 20).to_le_bytes())]);
    let when = "before the header of its request";
    assert_eq!(told(&begun, 1 << 20), Err(FrameError::OutOfPlace { kind, when }));
}

#[test]
fn ids_and_shapes() {
    let ids = |bytes: &[u8]| match refused(bytes) {
        FrameError::Ids(text) => text,
        other => panic!("{other:?}"),
    };
    assert!(ids(&request_of(&[], &[], 0)).contains("empty"));
    assert!(ids(&request_of(&[4, 5, 4], &[], 0)).contains("id 4 is listed twice"));
    assert!(ids(&request_with(&[(92, &[0xff; 4])])).contains("past the highest id"));
    assert!(ids(&request_with(&[(96, &[0; 4])])).contains("holds no id"));
    let shape = |bytes: &[u8]| match refused(bytes) {
        FrameError::Shape(text) => text,
        other => panic!("{other:?}"),
    };
    assert!(shape(&request_of(&[4, 5], &[2, 1], 0)).contains("not an explicit one"));
    assert!(shape(&request_of(&[4, 5, 6], &[2, 1], 0x8000_0005)).contains("2 places for 3 ids"));
    shape(&request_of(&[4, 5], &[], 0x8000_0005));
    shape(&request_of(&[4, 5], &[2, 2], 0x8000_0005));
    shape(&request_of(&[4, 5], &[2, 0], 0x8000_0005));
}

/// An unknown tree, or an invalid parameter of a tree, fails the call and not the link.
#[test]
fn unknown_trees_are_for_the_call_to_refuse() {
    for (tree, param) in [(2u64, 0u8), (0, 1), (0x8000_0001, 0), (0x8000_0002, 1), (0x1000_0000, 0)] {
        let bytes = request_with(&[(32, &tree.to_le_bytes()), (40, &[param])]);
        let events = read(&bytes).unwrap();
        assert!(
            matches!(&events[..], [Event::Request(request)] if request.tree.as_ref().err() == Some(&tree))
        );
    }
}

#[test]
fn fields_of_responses() {
    let reply = |changes: &[(usize, &[u8])]| frame(3, 0, &with(&response(1, b"", b""), changes));
    bad_field(&reply(&[(6, &[4])]), Kind::Response, "status", 4);
    bad_field(&reply(&[(36, &[0, 1])]), Kind::Response, "length of the trace", 256);
    bad_field(&reply(&[(32, &[1])]), Kind::Response, "length of the report", 1);
    let long = with(&reported(3, &[]), &[(32, &[1, 0, 0, 4])]);
    bad_field(&frame(3, 0, &long), Kind::Response, "length of the report", (64 << 20) + 1);
    bad_field(&reply(&[(7, &[1])]), Kind::Response, "reserved", 1);
    let lengths = "length of header and data";
    bad_field(&reply(&[(16, &[1]), (24, &[0xff; 8])]), Kind::Response, lengths, u64::MAX);
    bad_field(&frame(3, 0, &response(0, b"", b"x")), Kind::Response, lengths, 1);
    bad_field(&frame(3, 0, &response(2, b"x", b"")), Kind::Response, lengths, 1);
}

#[test]
fn reports() {
    bad_field(&frame(3, 0, &reported(2, &[0; 4])), Kind::Response, "number of causes", 0);
    bad_field(&frame(3, 0, &reported(3, &[1, 4, 0, 0])), Kind::Response, "number of causes", 1025);
    read(&frame(3, 0, &reported(3, &[0; 4]))).unwrap();
    let beyond = failure(&with(&CAUSE, &[(16, &[1])]), &[]);
    bad_field(&beyond, Kind::Response, "length of a cause's message", 1);
    bad_field(&failure(&with(&CAUSE, &[(6, &[0])]), &[]), Kind::Response, "stage", 0);
    bad_field(&failure(&with(&CAUSE, &[(6, &[8])]), &[]), Kind::Response, "stage", 8);
    bad_field(&failure(&with(&CAUSE, &[(7, &[1])]), &[]), Kind::Response, "length of a cause's detail", 1);
    let novel = [&with(&CAUSE, &[(16, &[1, 4])])[..], &[b'x'; 1025]].concat();
    bad_field(&failure(&novel, &[]), Kind::Response, "length of a cause's message", 1025);

    let ended = failure(&with(&CAUSE, &[(18, &[11])]), &[]);
    bad_field(&ended, Kind::Response, "state of a straggler", 11);
    bad_field(&frame(15, 0, &[]), Kind::Stragglers, "length of the payload", 0);
    bad_field(&frame(15, 0, &[0; 24]), Kind::Stragglers, "state of a straggler", 0);
    let beyond = with(&[0; 24], &[(16, &70_000u32.to_le_bytes())]);
    bad_field(&frame(15, 0, &beyond), Kind::Stragglers, "state of a straggler", 70_000);

    bad_field(&failure(&CAUSE, &[0; 9]), Kind::Response, "length of the coverage", 9);
    let run = [0u8, 0, 0, 0, 1, 0, 0, 0];
    bad_field(&failure(&CAUSE, &with(&run, &[(0, &[4])])), Kind::Response, "status of an id", 4);
    bad_field(
        &failure(&CAUSE, &with(&run, &[(1, &[1])])),
        Kind::Response,
        "reserved bytes of the coverage",
        1,
    );
    let most = with(&run, &[(4, &[0xff; 4])]);
    read(&failure(&CAUSE, &most)).unwrap();
    // Two runs of one status were joined, cut to the highest count, and passed.
    bad_field(&failure(&CAUSE, &[&most[..], &run].concat()), Kind::Response, "ids covered", 1 << 32);
}

#[test]
fn fields_of_small_frames() {
    bad_field(&frame(5, 0, &with(&CALL_REF, &[(4, &[1])])), Kind::Cancel, "reserved", 1);
    bad_field(&with(&segment(0, b"x"), &[(8 + 7, &[1])]), Kind::Segment, "reserved", 1 << 24);
    bad_field(&frame(6, 0, &[0; 4]), Kind::Credit, "count", 0);
    bad_field(&frame(7, 0, &[5]), Kind::Goodbye, "reason", 5);
    bad_field(&frame(7, 0, &[0; 257]), Kind::Goodbye, "text length", 256);
}

#[test]
fn hellos() {
    let first = |payload: &[u8]| {
        let mut inbox = Inbox::new();
        inbox.feed(&frame(1, 0, payload), &AROUND, &mut Vec::new()).unwrap_err()
    };
    let hello = HELLO.emit();
    assert_eq!(first(&with(&hello, &[(0, b"HTTP")])), HelloError::Magic(*b"HTTP").into());
    assert_eq!(first(&with(&hello, &[(4, &[9])])), HelloError::Version(9).into());
    let error = first(&with(&hello, &[(6, &[32])]));
    assert!(matches!(error, FrameError::BadField { kind: Kind::Hello, field: "zero", value: 32, .. }));
    assert_eq!(first(&hello[..47]), FrameError::TooShort { kind: Kind::Hello, length: 47, needed: 48 });
    assert_eq!(first(&[&hello[..], &[0]].concat()), FrameError::TooMuch { kind: Kind::Hello, extra: 1 });
    let error = first(&with(&hello, &[(28, &[0])]));
    assert!(matches!(error, FrameError::BadField { kind: Kind::Hello, field: "hiwater", value: 0, .. }));
}

#[test]
fn a_hello_is_first_and_only_once() {
    out_of_place(&frame(1, 0, &HELLO.emit()), Kind::Hello, "a second time");
    let frames = [frame(2, 0, &request()), frame(3, 0, &response(0, &[], &[])), segment(0, b"x")];
    for frame in frames.into_iter().chain([frame(5, 0, &CALL_REF), frame(6, 0, &[1, 0, 0, 0])]) {
        // The header suffices: the payload of an unknown peer is not stored.
        let header = Bytes::copy_from_slice(&frame[..8]);
        let error = Inbox::new().feed(&header, &AROUND, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, FrameError::OutOfPlace { when: "before the hello", .. }), "{error}");
    }
    let mut events = Vec::new();
    Inbox::new().feed(&frame(7, 0, &[1]), &AROUND, &mut events).unwrap();
    assert!(matches!(events[..], [Event::Goodbye(_)]));
}

/// The second request replaced the first, whose data never became complete.
#[test]
fn a_second_request_while_the_first_arrives() {
    let when = "for a call whose request is still arriving";
    for begun in [request_with(&[(56, &[10])]), frame(2, 0, &request()[..98])] {
        out_of_place(&[begun.clone(), frame(2, 0, &request())].concat(), Kind::Request, when);
        out_of_place(&[begun.clone(), begun].concat(), Kind::Request, when);
    }
    let begun = frame(3, 0, &with(&response(1, b"", b""), &[(24, &[10])]));
    let when = "for a call whose response is still arriving";
    out_of_place(&[begun.clone(), begun.clone()].concat(), Kind::Response, when);
    out_of_place(&[begun, frame(3, 0, &response(1, b"", b""))].concat(), Kind::Response, when);
}

#[test]
fn too_many_bodies() {
    let begun =
        |call: usize| frame(2, 0, &with(&request(), &[(8, &(call as u64).to_le_bytes()), (56, &[1])]));
    let (mut inbox, mut events) = (greeted(), Vec::new());
    let all: Vec<u8> = (0..BODIES_MAX).flat_map(begun).collect();
    inbox.feed(&all, &AROUND, &mut events).unwrap();
    assert_eq!(events.len(), BODIES_MAX);
    let error = inbox.feed(&begun(BODIES_MAX), &AROUND, &mut events).unwrap_err();
    let when = "with too many bodies still arriving";
    assert_eq!(error, FrameError::OutOfPlace { kind: Kind::Request, when });
}

#[test]
fn segments_of_unknown_calls_are_dropped() {
    let bytes = [segment(0, &[1; 5000]), segment(1, &[1; 5000]), frame(5, 0, &CALL_REF)].concat();
    let (mut inbox, mut events) = (greeted(), Vec::new());
    inbox.feed(&bytes, &AROUND, &mut events).unwrap();
    assert!(matches!(events[..], [Event::Cancel(_)]) && inbox.is_idle());
}

#[test]
fn a_long_response_that_is_not_awaited_is_dropped() {
    let odd = (8usize, &[3u8][..]);
    let begun = frame(3, 0, &with(&response(1, b"", b""), &[odd, (24, &[0xff; 8])]));
    let more = with(&segment(1, &[1; 5000]), &[(8 + odd.0, odd.1)]);
    let (mut inbox, mut events) = (greeted(), Vec::new());
    inbox.feed(&[begun, more].concat(), &Around { reply_max: 10 }, &mut events).unwrap();
    let [Event::UnawaitedReply(unwanted)] = &events[..] else {
        panic!("the sender expects a window: {events:?}")
    };
    assert!(unwanted.sequence % 2 == 1 && inbox.is_idle());
}

/// A reply over the limit once closed the link, and so failed every other call on it.
#[test]
fn a_reply_over_the_limit_fails_its_call_and_leaves_the_link() {
    let even = (8usize, &[4u8][..]);
    for announced in [&[11u8, 0, 0, 0][..], &[0xff; 8]] {
        let begun = frame(3, 0, &with(&response(1, b"", b""), &[even, (24, announced)]));
        let more = with(&segment(1, &[1; 5000]), &[(8 + even.0, even.1)]);
        let (mut inbox, mut events) = (greeted(), Vec::new());
        inbox.feed(&[begun, more].concat(), &Around { reply_max: 10 }, &mut events).unwrap();
        let waits = announced.len() == 8;
        match &events[..] {
            [Event::Oversized { .. }] => assert!(!waits),
            [Event::Oversized { .. }, Event::UnawaitedReply(_)] => {
                assert!(waits, "it may all come by itself")
            }
            _ => panic!("{events:?}"),
        }
        assert!(inbox.is_idle());
    }
}

/// 1,024 bytes that are not UTF-8 became 3,072 bytes of replacement characters, which the reader's parent refused by
/// closing the link.
#[test]
fn a_cause_that_is_no_text_can_be_sent_on() {
    let cause = with(&CAUSE, &[(16, &[0, 4])]);
    let events = read(&failure(&[&cause[..], &[0xff; 1024]].concat(), &[])).unwrap();
    let [Event::Response(response)] = &events[..] else { panic!("{events:?}") };
    let Answer::Failed(failure) = &response.answer else { panic!("a failure") };
    assert!(failure.cause.message.starts_with('\u{fffd}') && failure.cause.message.len() <= 1024);
    let report = Report::from(Failure::clone(failure));
    assert_eq!(Report::parse(&report.emit()).unwrap(), report);

    let mut long = Cause::new(1, Stage::Func, CauseKind::Failed, "");
    long.message = "é".repeat(600);
    let long = Report { causes: vec![long; 2], coverage: Coverage::new() };
    assert_eq!(long.emitted_len(), long.emit().len());
    let cut = Report::parse(&long.emit()).unwrap();
    assert!(cut.causes.len() == 2 && cut.causes.iter().all(|cause| cause.message == "é".repeat(512)));
}

/// An unknown kind of failure closes no link and is passed on unchanged: a program above that knows it receives it.
#[test]
fn a_kind_that_nobody_knows_is_kept_with_its_code() {
    for kind in [0u16, 24, 0x8000, u16::MAX] {
        let (number, code) = (kind.to_le_bytes(), i64::MIN.to_le_bytes());
        let events = read(&failure(&with(&CAUSE, &[(4, &number), (8, &code)]), &[])).unwrap();
        let [Event::Response(response)] = &events[..] else { panic!("{events:?}") };
        let Answer::Failed(failure) = &response.answer else { panic!("a failure") };
        assert_eq!((failure.cause.kind.number(), failure.cause.code), (kind, i64::MIN));
        assert_eq!(failure.cause.kind.name(), "other");
        assert_eq!(
            failure.cause.to_string(),
            format!("id 9 failed at stage func (kind-{kind}, code {}): ", i64::MIN)
        );
        let report = Report::from(Failure::clone(failure));
        assert_eq!(Report::parse(&report.emit()).unwrap(), report);
    }
}

/// So many ids with different statuses would make a report that no receiver accepts, and that closes the link.
#[test]
fn a_failure_of_too_many_runs_says_less_and_nothing_untrue() {
    let mut coverage = Coverage::new();
    let runs = REPORT_MAX as u32 / 8;
    for run in 0..runs {
        coverage.push(if run % 2 == 0 { Status::Done } else { Status::Failed }, 1);
    }
    let failure = Failure { cause: Cause::new(1, Stage::Func, CauseKind::Failed, "no"), coverage };
    let report = Report::from(failure);
    assert!(report.emitted_len() < 100 && report.causes.len() == 1);
    assert_eq!(report.coverage, Coverage::all(Status::Unknown, runs));
}

/// A hello and some valid frames: the start of every mutation.
fn good() -> Vec<u8> {
    let mut outbox = Outbox::new();
    outbox.push_hello(&HELLO);
    let mut bytes = drain(&mut outbox, usize::MAX).to_vec();
    for part in [
        frame(2, 3, &request()),
        request_with(&[(8, &[9]), (56, &[10])]),
        with(&segment(0, &[7; 6]), &[(16, &[9])]),
        frame(2, 0, &with(&request()[..98], &[(8, &[11])])),
        request_of(&[4, 5, 6], &[3, 2, 1], 0x8000_0005),
        frame(3, 0, &response(1, b"0 ", b"3 abc")),
        frame(3, 0, &with(&response(1, b"", b"abc"), &[(24, &[10])])),
        segment(1, &[7; 7]),
        failure(&CAUSE, &[0, 0, 0, 0, 1, 0, 0, 0]),
        frame(5, 0, &with(&CALL_REF, &[(8, &[11])])),
        with(&segment(0, &[7; 4]), &[(16, &[9])]),
        frame(3, 0, &reported(3, &[0; 12])),
        frame(8, 0, &CALL_REF),
        frame(9, 0, &CALL_REF),
        frame(10, 0, &[]),
        frame(11, 0, &[]),
        frame(6, 0, &[5, 0, 0, 0]),
        frame(7, 0, b"\0bye"),
    ] {
        bytes.extend(part);
    }
    bytes
}

/// Feeds everything in reads of the given sizes, and continues after errors, unlike a driver.
fn feed_all(bytes: &[u8], reads: &[usize]) -> (usize, Option<FrameError>) {
    let (mut inbox, mut events, mut error, mut at) = (Inbox::new(), Vec::new(), None, 0);
    for read in 0.. {
        let end = bytes.len().min(at + reads[read % reads.len()]);
        if at == end {
            break;
        }
        error = error.or(inbox.feed(&bytes[at..end], &AROUND, &mut events).err());
        at = end;
    }
    (events.len(), error)
}

#[test]
fn good_bytes_are_good_however_they_are_cut() {
    for reads in [&[usize::MAX >> 1][..], &[1], &[7], &[8], &[9], &[24, 1], &[100, 3]] {
        assert_eq!(feed_all(&good(), reads).1, None, "{reads:?}");
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(
        garbage in prop::collection::vec(any::<u8>(), 0..3000),
        reads in prop::collection::vec(1usize..400, 1..4),
        known in any::<bool>(),
    ) {
        let start = if known { good() } else { vec![] };
        feed_all(&[start, garbage].concat(), &reads);
    }

    #[test]
    fn garbage_in_good_frames_never_panics(
        frames in prop::collection::vec((1u8..12, 0u8..16, prop::collection::vec(prop_oneof![4 => 0u8..4, 1 => any::<u8>()], 0..120)), 1..30),
        reads in prop::collection::vec(1usize..400, 1..4),
    ) {
        let bytes = frames.iter().flat_map(|(kind, flags, payload)| frame(*kind, *flags, payload));
        let hello = frame(1, 0, &HELLO.emit());
        feed_all(&hello.into_iter().chain(bytes).collect::<Vec<u8>>(), &reads);
    }

    #[test]
    fn changed_bytes_never_panic_and_do_not_depend_on_the_reads(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![0u8..4, any::<u8>()]), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        reads in prop::collection::vec(1usize..90, 1..4),
    ) {
        let mut bytes = good();
        for (place, byte) in changes {
            *place.get_mut(&mut bytes) = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let whole = feed_all(&bytes, &[usize::MAX >> 1]).1;
        let pieces = feed_all(&bytes, &reads).1;
        prop_assert_eq!(whole.is_none(), pieces.is_none(), "{:?} {:?}", whole, pieces);
    }
}
