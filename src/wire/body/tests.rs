//! Tests of bodies: complete, arriving, following another, and passing.

use proptest::prelude::*;

use super::*;
use crate::wire::Budget;

#[test]
fn a_body_grows_by_what_arrives_and_can_be_read_meanwhile() {
    let (body, mut writer) = Body::arriving(10);
    assert_eq!((body.len(), body.arrived(), body.bytes()), (10, 0, None));
    assert_eq!(writer.push(b"0123"), 4);
    assert_eq!(body.read(2, 100).as_ref(), b"23");
    assert_eq!(body.read(9, 100).as_ref(), b"");
    assert_eq!(writer.missing(), 6);
    assert_eq!(writer.push(b"456789and too much"), 6);
    assert_eq!(body.bytes().unwrap().as_ref(), b"0123456789");
    assert_eq!(writer.push(b"x"), 0);
    assert_eq!(body.read(u64::MAX, 3).as_ref(), b"");
}

#[test]
fn an_announced_length_takes_no_memory() {
    let (body, mut writer) = Body::arriving(u64::MAX);
    assert_eq!(writer.push(&[7; 100]), 100);
    assert_eq!(body.arrived(), 100);
}

#[test]
fn a_body_goes_on_with_the_one_that_it_follows() {
    let (body, mut writer) = Body::arriving(10);
    writer.push(b"0123");
    let (second, mut other) = Body::arriving(10);
    other.push(b"01");
    body.follow(&second);
    assert_eq!((body.arrived(), body.read(2, 100).as_ref()), (4, &b"23"[..]));
    assert_eq!(body.read(4, 100).as_ref(), b"");
    other.push(b"234567");
    assert_eq!((body.arrived(), body.read(4, 2).as_ref(), body.bytes()), (8, &b"45"[..], None));
    // The second sender stops too; a third body is complete, and a body of another length is ignored.
    body.follow(&Body::whole("x"));
    body.follow(&Body::whole("0123456789"));
    assert_eq!(body.bytes().unwrap().as_ref(), b"0123456789");
    assert_eq!((body.read(8, 9).as_ref(), second.read(0, 2).as_ref()), (&b"89"[..], &b"01"[..]));
    // Bytes from the first sender are ignored and do no harm.
    assert_eq!((writer.missing(), writer.push(b"4567"), body.arrived()), (6, 4, 10));
    body.follow(&Body::whole("9876543210"));
    assert_eq!(body.bytes().unwrap().as_ref(), b"0123456789");
}

/// If the first sender of a body had found no memory, the refused bytes counted as arrived. A reader that took the data
/// as they arrived never got the bytes of the adopter, and its call waited for its time limit.
#[test]
fn what_was_refused_is_had_of_the_body_that_is_followed() {
    let spare = Spare::default().within(&Budget::new(9, "a link"));
    let (body, mut writer) = Body::arriving_in(20, BodyUse::Retained, &spare);
    writer.push(&[1; 5]);
    body.passed(5);
    let (second, mut other) = Body::arriving_for(20, BodyUse::Retained);
    body.follow(&second);
    writer.push(&[1; 10]);
    assert!(writer.is_refused() && !body.is_refused() && !body.is_due() && body.arrived() == 0);
    assert!(other.push(&[1; 7]) == 7 && body.is_due());
    assert_eq!((body.arrived(), body.read(5, 100).as_ref()), (7, &[1; 2][..]));
    body.passed(7);
    assert!(!body.is_due());
    assert!(other.push(&[1; 13]) == 13 && body.is_due());
    assert_eq!((body.read(7, 100).as_ref(), body.is_whole()), (&[1; 13][..], true));
}

#[test]
fn an_empty_body_is_whole_at_once() {
    let (body, writer) = Body::arriving(0);
    assert_eq!((body.bytes(), writer.missing()), (Some(Bytes::new()), 0));
}

fn passing(len: u64) -> (Body, BodyWriter) {
    Body::arriving_for(len, BodyUse::Passing)
}

/// Bytes that a passing body holds.
fn buffered(body: &Body) -> u64 {
    let Repr::Arriving(reader) = &body.0 else { panic!("it is whole") };
    match &*reader.body.received() {
        Received::Passing(passing) => passing.buffered(),
        Received::Part(part) => part.bytes.len() as u64,
        Received::Laid(room) => room.bytes.filled() as u64,
        Received::Refused(_) => 0,
        Received::Whole(bytes) => bytes.len() as u64,
        Received::Parts(payload) => payload.len() as u64,
    }
}

#[test]
fn what_every_reader_has_is_dropped_and_no_more() {
    let (body, mut writer) = passing(100);
    let (one, two) = (body.fork(), body.fork());
    writer.push(&[1; 10]);
    writer.push(&[2; 10]);
    body.passed(20);
    one.passed(15);
    assert_eq!((buffered(&body), two.read(0, 100).as_ref()), (20, &[1; 10][..]), "one piece at a time");
    two.passed(12);
    assert_eq!((buffered(&body), two.read(5, 100).len(), one.read(15, 100).as_ref()), (10, 0, &[2; 5][..]));
    drop(two);
    drop(one);
    assert_eq!((buffered(&body), body.arrived(), writer.missing()), (0, 20, 80));
    // No reader is left: arriving bytes are only counted.
    drop(body);
    assert_eq!((writer.push(&[3; 90]), writer.missing()), (80, 0));
}

#[test]
fn clones_are_one_reader_and_going_back_changes_nothing() {
    let (body, mut writer) = passing(30);
    let clone = body.clone();
    writer.push(&[1; 10]);
    assert!(body.is_due());
    clone.passed(10);
    clone.passed(3);
    assert!(!body.is_due() && buffered(&body) == 0);
    drop(body);
    writer.push(&[2; 20]);
    assert!(clone.is_due() && buffered(&clone) == 20);
    clone.passed(u64::MAX);
    assert!(clone.is_due() && buffered(&clone) == 0 && clone.bytes().is_none(), "it is at its end, and gone");
}

#[test]
fn a_sender_may_go_on_a_window_beyond_the_slowest_reader() {
    let len = 2 * WINDOW + 5;
    let (body, mut writer) = passing(len);
    let child = body.fork();
    assert_eq!((writer.allowed(), writer.grant(), writer.will_grant()), (WINDOW, None, true));
    writer.push(&vec![0; WINDOW as usize]);
    assert_eq!((writer.allowed(), writer.grant()), (0, None));
    body.passed(WINDOW);
    assert_eq!(writer.grant(), None, "the child's link has nothing yet");
    child.passed(WINDOW / 4 - 1);
    assert_eq!(writer.grant(), None, "that is little news");
    child.passed(WINDOW / 4);
    assert_eq!((writer.grant(), writer.allowed()), (Some(WINDOW + WINDOW / 4), WINDOW / 4));
    assert_eq!(writer.grant(), None, "it was said already");
    // The sender does not wait for a reader that waits for permission to begin, but the bytes are retained for it.
    let other = body.fork();
    other.waits(true);
    assert_eq!(writer.grant(), Some(2 * WINDOW));
    writer.push(&vec![0; WINDOW as usize]);
    assert_eq!((writer.grant(), writer.will_grant()), (Some(len), false), "the last news, however little");
    other.waits(false);
    assert_eq!(writer.grant(), None, "what was granted stays so");
}

#[test]
fn a_body_that_is_kept_is_granted_whole() {
    for usage in [BodyUse::Whole, BodyUse::Retained] {
        let (body, mut writer) = Body::arriving_for(9 * WINDOW, usage);
        assert_eq!((writer.grant(), writer.grant(), writer.will_grant()), (Some(9 * WINDOW), None, false));
        writer.push(b"abc");
        assert_eq!((body.is_due(), writer.chunk().is_some()), (usage == BodyUse::Retained, false));
        body.passed(3);
        assert!(!body.is_due() && body.read(0, 2) == "ab");
    }
}

#[test]
fn one_who_waits_and_goes_holds_up_nobody() {
    let (body, mut writer) = passing(9 * WINDOW);
    let child = body.fork();
    child.waits(true);
    drop(child);
    writer.push(&vec![0; WINDOW as usize]);
    assert_eq!(writer.grant(), None);
    body.passed(WINDOW);
    assert_eq!(writer.grant(), Some(2 * WINDOW));
}

#[test]
fn chunks_are_appended_without_a_copy_and_their_memory_is_used_again() {
    let (body, mut writer) = passing(10);
    let mut memory = Vec::new();
    for part in [&b"abc"[..], b"defg"] {
        let mut chunk = writer.chunk().unwrap();
        memory.push(chunk.room().as_ptr());
        chunk.room()[..part.len()].copy_from_slice(part);
        chunk.fill(part.len());
        writer.append(chunk);
        let at = body.arrived() - part.len() as u64;
        assert_eq!((body.read(at, 9).as_ref(), body.read(at, 9).as_ptr()), (part, *memory.last().unwrap()));
        body.passed(body.arrived());
    }
    assert_eq!(memory[0], memory[1]);
    let mut chunk = writer.chunk().unwrap();
    chunk.fill(7);
    writer.append(chunk);
    assert_eq!((body.arrived(), writer.missing()), (10, 0), "no more than was announced");
}

proptest! {
    /// For any parts, reads and order, each reader gets the bytes that were sent. The body holds only the needed bytes
    /// and the rest of a part.
    #[test]
    fn every_reader_gets_what_was_sent(
        steps in prop::collection::vec((0usize..4, 1usize..50), 1..200),
    ) {
        let bytes: Vec<u8> = (0..2000u32).map(|at| (at % 251) as u8).collect();
        let (body, mut writer) = passing(bytes.len() as u64);
        let readers = [body.fork(), body.fork(), body];
        let (mut sent, mut places) = (0, [0usize; 3]);
        for (who, count) in steps {
            if who == 3 {
                sent += writer.push(&bytes[sent..bytes.len().min(sent + count)]);
                continue;
            }
            let (reader, place) = (&readers[who], &mut places[who]);
            let piece = reader.read(*place as u64, count);
            prop_assert_eq!(&piece[..], &bytes[*place..*place + piece.len()]);
            prop_assert_eq!(piece.is_empty(), *place == sent);
            *place += piece.len();
            reader.passed(*place as u64);
            let needed = sent - places.iter().min().unwrap();
            prop_assert!((needed..needed + 50).contains(&(buffered(reader) as usize)));
        }
    }
}

#[test]
fn a_body_is_filled_at_once_or_not_at_all() {
    for (payload, came, fits) in
        [(&b"12345"[..], 0, true), (b"1234", 0, false), (b"123456", 0, false), (b"12345", 1, false)]
    {
        let (body, mut writer) = Body::arriving(5);
        writer.push(&b"1"[..came]);
        assert_eq!(writer.fill(Payload::copy_from_slice(payload)), fits, "{payload:?}");
        assert_eq!((body.is_whole(), body.arrived()), (fits, if fits { 5 } else { came as u64 }));
    }
}
