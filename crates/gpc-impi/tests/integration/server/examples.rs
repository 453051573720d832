//! The worked examples of the source, byte for byte: three clients with 3, 2 and 2 hosts.

use gpc_impi::wire::{Command, Label};

use crate::server::driven::{Driven, bare, numbers, open};

/// A message of 4-byte words.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

const COLL: u32 = 0x434F_4C4C;

/// Checks what all three have received since the last call.
#[track_caller]
fn all_received(driven: &mut Driven, expected: &[u32]) {
    for conn in 0..3 {
        assert_eq!(driven.take(conn), words(expected), "client {conn}");
    }
}

/// AUTH and IMPI in the bytes that known clients send, followed by DONE and FINI.
#[test]
fn a_whole_session_in_bytes() {
    let mut driven = Driven::new(open(1));
    driven.connect(7);
    driven.say(7, b"AUTH\0\0\0\x04\0\0\0\x01");
    assert_eq!(driven.take(7), [0; 8]);
    driven.say(7, b"IMPI\0\0\0\x04\0\0\0\0");
    assert_eq!(driven.take(7), b"IMPI\0\0\0\x04\0\0\0\x01");
    driven.say(7, b"COLL\0\0\0\x0c\0\0\x10\0\0\0\0\0\0\0\0\0");
    assert_eq!(driven.take(7), b"COLL\0\0\0\x10\0\0\x10\0\0\0\0\x01\0\0\0\0\0\0\0\0");
    driven.say(7, b"DONE\0\0\0\0");
    let rest = driven.take(7);
    // The other known labels, which have no values: 16 bytes each.
    assert_eq!(rest.len(), 13 * 16 + 8);
    assert_eq!(rest[..16], *b"COLL\0\0\0\x08\0\0\x11\0\0\0\0\0");
    assert!(rest.ends_with(b"DONE\0\0\0\0"));
    driven.say(7, b"FINI\0\0\0\0");
    assert_eq!((driven.take(7).len(), driven.ended.clone()), (0, Some(Ok(()))));
}

#[test]
fn nhosts_of_three_clients() {
    let mut driven = Driven::joined(open(3));
    for (conn, hosts) in [(2, 2), (0, 3)] {
        driven.say(conn, &numbers(Label::C_NHOSTS, &[hosts]));
        assert!(driven.sent.is_empty(), "client 1 has not sent it");
    }
    driven.say(1, &numbers(Label::C_NHOSTS, &[2]));
    all_received(&mut driven, &[COLL, 20, 0x1100, 0x7, 3, 2, 2]);
}

/// The order is independent of the order of joining, and of the connections.
#[test]
fn values_are_in_the_order_of_ranks() {
    let mut driven = Driven::new(open(3));
    [(1, 2), (2, 0), (3, 1)].into_iter().for_each(|(conn, rank)| driven.join(conn, rank));
    driven.sent.clear();
    for (conn, version) in [(3, 11), (1, 12), (2, 10)] {
        driven.say(conn, &numbers(Label::C_VERSION, &[0, 0, 1, version]));
    }
    let expected = words(&[COLL, 56, 0x1000, 0x7, 0, 0, 1, 10, 0, 0, 1, 11, 0, 0, 1, 12]);
    (1..4).for_each(|conn| assert_eq!(driven.take(conn), expected));
}

fn at_pktlen() -> Driven {
    let mut driven = Driven::joined(open(3));
    (0..3).for_each(|conn| driven.say(conn, &numbers(Label::C_NPROCS, &[1])));
    (0..3).for_each(|conn| assert_eq!(driven.take(conn).len(), 28));
    driven
}

#[test]
fn pktlen_of_three_clients() {
    let mut driven = at_pktlen();
    for (conn, length) in [(1, 4000), (2, 4000), (0, 8000)] {
        driven.say(conn, &numbers(Label::C_DATALEN, &[length]));
    }
    all_received(&mut driven, &[COLL, 20, 0x1300, 0x7, 8000, 4000, 4000]);
}

/// Client 1 leaves the label out. It is broadcast when that client sends DONE, or when that client waits for another
/// label while the others wait for this one.
#[test]
fn pktlen_that_one_client_leaves_out() {
    for moves_past in [numbers(Label::C_COLL_MAXLINEAR, &[4]), bare(Command::Done)] {
        let mut driven = at_pktlen();
        driven.say(0, &numbers(Label::C_DATALEN, &[8000]));
        driven.say(2, &numbers(Label::C_DATALEN, &[4000]));
        assert!(driven.sent.is_empty());
        driven.say(1, &moves_past);
        if moves_past != bare(Command::Done) {
            assert!(driven.sent.is_empty());
            driven.tick(driven.server.deadline().unwrap());
        }
        all_received(&mut driven, &[COLL, 16, 0x1300, 0x5, 8000, 4000]);
    }
}

#[test]
fn ports_of_seven_hosts() {
    let mut driven = Driven::joined(open(3));
    (0..3).for_each(|conn| driven.say(conn, &numbers(Label::C_NHOSTS, &[if conn == 0 { 3 } else { 2 }])));
    (0..3).for_each(|conn| {
        driven.say(conn, &numbers(Label::H_IPV6, &[7; 12][..if conn == 0 { 12 } else { 8 }]))
    });
    driven.sent.clear();
    driven.say(0, &numbers(Label::H_PORT, &[5001, 5002, 5003]));
    driven.say(1, &numbers(Label::H_PORT, &[6001, 6002]));
    driven.say(2, &numbers(Label::H_PORT, &[7001, 7002]));
    all_received(&mut driven, &[COLL, 36, 0x2100, 0x7, 5001, 5002, 5003, 6001, 6002, 7001, 7002]);
    assert!(
        !driven.told().contains("are allowed") && !driven.told().contains("bytes each"),
        "{}",
        driven.told()
    );
}

/// Labels that the source does not define are collected and broadcast like the others, in their place.
#[test]
fn labels_that_are_not_known() {
    let mut driven = Driven::joined(open(3));
    driven.say(1, &numbers(Label(0x0900), &[1]));
    driven.say(1, &numbers(Label(0x9000), &[9]));
    driven.say(1, &bare(Command::Done));
    driven.say(0, &numbers(Label::P_PID, &[0, 5]));
    driven.say(0, &bare(Command::Done));
    assert!(driven.sent.is_empty());
    driven.say(2, &bare(Command::Done));
    let mut expected = vec![COLL, 12, 0x0900, 0x2, 1];
    for label in &Label::KNOWN[..13] {
        expected.extend([COLL, 8, label.0, 0]);
    }
    expected.extend([COLL, 16, 0x3100, 0x1, 0, 5, COLL, 12, 0x9000, 0x2, 9, 0x444F_4E45, 0]);
    all_received(&mut driven, &expected);
}
