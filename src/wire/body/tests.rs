//! Bodies whole, arriving, followed, passing through.

use super::*;

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
    // The second stops too; a third is whole, and one of another length is none of this data.
    body.follow(&Body::whole("x"));
    body.follow(&Body::whole("0123456789"));
    assert_eq!(body.bytes().unwrap().as_ref(), b"0123456789");
    assert_eq!((body.read(8, 9).as_ref(), second.read(0, 2).as_ref()), (&b"89"[..], &b"01"[..]));
    // The first sender is heard no more, and breaks nothing.
    assert_eq!((writer.missing(), writer.push(b"4567"), body.arrived()), (6, 4, 10));
    body.follow(&Body::whole("9876543210"));
    assert_eq!(body.bytes().unwrap().as_ref(), b"0123456789");
}

#[test]
fn an_empty_body_is_whole_at_once() {
    let (body, writer) = Body::arriving(0);
    assert_eq!((body.bytes(), writer.missing()), (Some(Bytes::new()), 0));
}
