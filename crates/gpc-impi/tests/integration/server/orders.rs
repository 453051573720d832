//! Labels in different orders: a value is collected by its label, at whatever time a client sends it.

use std::time::Duration;

use gpc_impi::wire::{Command, Label};

use crate::server::driven::{Driven, bare, numbers, open};

/// The broadcast of a label with 4-byte values.
fn answered(label: Label, mask: u32, values: &[u32]) -> Vec<u8> {
    let head = [0x434F_4C4C, 8 + 4 * values.len() as u32, label.0, mask];
    head.iter().chain(values).flat_map(|word| word.to_be_bytes()).collect()
}

/// Advances the time to the next deadline: the patience has passed.
fn pause(driven: &mut Driven) {
    driven.tick(driven.server.deadline().unwrap());
}

/// Client 0 sent C_NHOSTS and C_NPROCS, client 1 sent C_NPROCS and C_NHOSTS. At client 1's first label the server
/// assumed that this client had moved past C_NHOSTS. It broadcast that label without client 1, and ended the session
/// when the value arrived.
#[test]
fn two_clients_send_labels_in_different_order() {
    let mut driven = Driven::joined(open(2));
    driven.say(0, &numbers(Label::C_NHOSTS, &[3]));
    driven.say(0, &numbers(Label::C_NPROCS, &[4]));
    driven.say(1, &numbers(Label::C_NPROCS, &[6]));
    assert_eq!(driven.take(0), answered(Label::C_NPROCS, 3, &[4, 6]));
    driven.say(1, &numbers(Label::C_NHOSTS, &[5]));
    assert_eq!(driven.take(0), answered(Label::C_NHOSTS, 3, &[3, 5]));
    (0..2).for_each(|conn| driven.say(conn, &[bare(Command::Done), bare(Command::Fini)].concat()));
    assert_eq!(driven.ended, Some(Ok(())));
}

/// The same clients, but each waits for the broadcast of its first label before it sends the second. No order of
/// broadcasts lets both continue with all values. So the label is broadcast without the missing value, and again when
/// that arrives.
#[test]
fn two_clients_that_wait_send_labels_in_different_order() {
    let mut driven = Driven::joined(open(2));
    driven.say(0, &numbers(Label::C_NHOSTS, &[3]));
    driven.say(1, &numbers(Label::C_NPROCS, &[6]));
    assert!(driven.sent.is_empty());
    pause(&mut driven);
    assert_eq!(driven.take(0), answered(Label::C_NHOSTS, 1, &[3]));
    driven.say(0, &numbers(Label::C_NPROCS, &[4]));
    assert_eq!(driven.take(0), answered(Label::C_NPROCS, 3, &[4, 6]));
    driven.say(0, &bare(Command::Done));
    driven.say(1, &numbers(Label::C_NHOSTS, &[5]));
    assert_eq!(driven.take(0), answered(Label::C_NHOSTS, 3, &[3, 5]));
    driven.say(1, &[bare(Command::Done), bare(Command::Fini)].concat());
    driven.say(0, &bare(Command::Fini));
    assert_eq!((driven.ended.clone(), driven.server.held()), (Some(Ok(())), 0));
}

/// A client whose turn it is to send has until the end of the session. A label is broadcast early only if all clients
/// wait for each other.
#[test]
fn a_client_that_is_slow_loses_nothing() {
    let mut driven = Driven::joined(open(2));
    driven.say(0, &numbers(Label::C_NHOSTS, &[3]));
    driven.tick(Duration::from_secs(599));
    assert!(driven.sent.is_empty());
    // Its command is in progress.
    let late = numbers(Label::C_NHOSTS, &[5]);
    let mut driven = Driven::joined(open(2));
    driven.say(0, &numbers(Label::C_NHOSTS, &[3]));
    driven.say(1, &numbers(Label::C_NPROCS, &[6]));
    driven.say(1, &late[..5]);
    driven.tick(Duration::from_secs(599));
    assert!(driven.sent.is_empty());
    driven.say(1, &late[5..]);
    assert_eq!(driven.take(0), answered(Label::C_NHOSTS, 3, &[3, 5]));
}

/// Values that were broadcast without a client are held until it has sent its own value or DONE.
#[test]
fn values_are_retained_as_long_as_another_client_may_join() {
    for client_2_sends in [true, false] {
        let mut driven = Driven::joined(open(3));
        driven.say(0, &numbers(Label::C_TAGUB, &[40_000]));
        [1, 2].into_iter().for_each(|conn| driven.say(conn, &numbers(Label::C_COLL_XSIZE, &[7])));
        pause(&mut driven);
        assert_eq!(driven.take(0), answered(Label::C_TAGUB, 1, &[40_000]));
        assert_eq!(driven.server.held(), 12);
        driven.say(1, &numbers(Label::C_TAGUB, &[50_000]));
        assert!(driven.sent[&1].len() == 20, "client 2 is not done");
        if client_2_sends {
            driven.say(2, &numbers(Label::C_TAGUB, &[60_000]));
            assert_eq!(driven.take(0), answered(Label::C_TAGUB, 7, &[40_000, 50_000, 60_000]));
        } else {
            driven.say(2, &bare(Command::Done));
            assert_eq!(driven.take(0), answered(Label::C_TAGUB, 3, &[40_000, 50_000]));
        }
        assert_eq!(driven.server.held(), 8, "C_COLL_XSIZE waits for client 0");
        driven.say(0, &bare(Command::Done));
        assert_eq!(driven.server.held(), 0);
    }
}

/// The patience counts from the last byte of a client, and anew from each broadcast without all values: the clients
/// need time to answer it.
#[test]
fn the_patience_begins_anew_with_each_byte_and_each_broadcast() {
    let mut driven = Driven::joined(open(2));
    let at = Duration::from_millis;
    // Client 0 does not wait for its broadcasts.
    driven.say(0, &numbers(Label::C_NHOSTS, &[3]));
    driven.say(0, &numbers(Label::C_DATALEN, &[8]));
    driven.tick(at(400));
    driven.say(1, &numbers(Label::C_NPROCS, &[6]));
    driven.tick(at(899));
    assert!(driven.sent.is_empty());
    driven.tick(at(900));
    assert_eq!(driven.take(1), answered(Label::C_NHOSTS, 1, &[3]));
    driven.tick(at(1_399));
    assert!(driven.take(1).is_empty());
    driven.tick(at(1_400));
    assert_eq!(driven.take(1), answered(Label::C_NPROCS, 2, &[6]));
}
