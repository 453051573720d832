//! Limits of bytes, labels, connections and time; and the messages of failed sessions.

use std::time::Duration;

use gpc_impi::server::{Check, Event, Failure, Server, Settings, SettingsError};
use gpc_impi::wire::{Command, Key, Label, Methods, VALUES_MAX, command};

use crate::server::driven::{Driven, bare, greeting, numbers, open, said};

/// If the values of all clients under one label exceeded 2 GiB, the server panicked, because the length field cannot
/// express that. This test uses a lower limit.
#[test]
fn the_values_of_all_clients_are_too_long_together() {
    let mut settings = open(3);
    (settings.broadcast_max, settings.check) = (1000, Check::Off);
    let mut driven = Driven::joined(settings.clone());
    for (conn, len) in [(0, 333), (1, 333), (2, 334)] {
        driven.say(conn, &said(Label::C_VERSION, &vec![0; len]));
    }
    assert_eq!(driven.ended, None);
    for (conn, len) in [(0, 300), (2, 401), (1, 300)] {
        driven.say(conn, &said(Label::H_IPV6, &vec![0; len]));
    }
    assert_eq!(
        driven.failure(),
        "the values of label H_IPV6 are 1001 bytes in all, of which client 2 sent 401; a broadcast has 1000 at most"
    );
    // No setting allows more than the length field can express.
    settings.broadcast_max = usize::MAX;
    assert!(
        format!("{:?}", Server::new(settings).unwrap()).contains(&format!("broadcast_max: {VALUES_MAX}"))
    );
}

#[test]
fn no_memory_is_taken_on_the_word_of_a_length() {
    let mut settings = open(1);
    settings.bytes_max = usize::MAX;
    let mut driven = Driven::joined(settings);
    driven.say(0, b"COLL\x7f\xff\xff\xff");
    assert_eq!(driven.server.held(), 0);
    driven.say(0, b"\0\0\x90\0abc");
    assert_eq!(driven.server.held(), 7);
    driven.lose(0);
    assert_eq!(driven.server.held(), 0);
}

/// The server holds values until they are broadcast. After that it holds only those that later values are compared
/// with.
#[test]
fn what_is_broadcast_is_let_go() {
    let mut driven = Driven::joined(open(2));
    let held = |driven: &Driven| driven.server.held();
    driven.say(0, &numbers(Label::H_IPV6, &[0; 400]));
    driven.say(0, &numbers(Label::H_ACKMARK, &[1; 100]));
    assert_eq!(held(&driven), 1600 + 400);
    driven.say(1, &numbers(Label::H_ACKMARK, &[1; 50]));
    assert_eq!(held(&driven), 1600 + 400 + 200, "the ackmarks, for the hiwaters");
    driven.say(0, &numbers(Label::H_HIWATER, &[1; 100]));
    assert_eq!(held(&driven), 1600 + 400 + 200, "the hiwaters, for client 1");
    driven.say(1, &numbers(Label::P_IPV6, &[1; 40]));
    assert_eq!(held(&driven), 2200 + 160);
    driven.say(0, &bare(Command::Done));
    assert_eq!(held(&driven), 2200 + 160, "the addresses, for the pids");
    driven.say(1, &numbers(Label::P_PID, &[1; 2]));
    assert_eq!(held(&driven), 2200);
    driven.say(1, &numbers(Label::P_PORT, &[1; 2]));
    assert_eq!(held(&driven), 2200);
    driven.say(1, &bare(Command::Done));
    assert_eq!(held(&driven), 0);
}

#[test]
fn a_client_may_send_so_many_bytes() {
    let mut settings = open(2);
    settings.bytes_max = 100;
    let mut driven = Driven::joined(settings);
    driven.say(0, &said(Label(0x9000), &[0; 38]));
    driven.say(0, &said(Label(0x9001), &[0; 38]));
    assert_eq!(driven.ended, None);
    driven.say(0, &said(Label(0x9002), &[]));
    assert!(driven.failure().contains("COLL with a length of 4; allowed are 0 to 0"), "{}", driven.failure());
}

/// Only labels that other clients had yet to send were counted. Each label of a single client was broadcast
/// immediately, and a client that did not read made the server queue any number of them.
#[test]
fn a_client_may_send_so_many_labels_and_unknown_commands() {
    for clients in [1, 2] {
        let mut driven = Driven::joined(open(clients));
        (0..4096).for_each(|number| driven.say(0, &said(Label(0x9000 + number), &[])));
        assert_eq!(driven.ended, None);
        driven.say(0, &said(Label(0xFFFF), &[]));
        assert!(driven.failure().contains("more than 4096 labels"));
    }

    let mut driven = Driven::joined(open(1));
    (0..1000).for_each(|_| driven.say(0, &command(Command::Other(1), &[2, 3])));
    assert_eq!(driven.ended, None);
    driven.say(0, &command(Command::Other(1), &[]));
    assert!(driven.failure().contains("more than 1000 commands that are not known"));
}

/// Bytes after FINI were read without limit.
#[test]
fn little_is_read_after_fini() {
    let mut driven = Driven::joined(open(2));
    driven.say(0, &[bare(Command::Done), bare(Command::Fini)].concat());
    driven.say(0, &[7; 4096]);
    assert!(driven.closed.is_empty());
    driven.say(0, &[7]);
    assert!(driven.closed.contains(&0) && driven.ended.is_none());
    driven.say(1, &[bare(Command::Done), bare(Command::Fini)].concat());
    assert_eq!(driven.ended, Some(Ok(())));
}

/// If a client was closed for this before all had joined, its seat stayed, with its values but without a connection. No
/// other client could take its place.
#[test]
fn who_goes_on_after_fini_before_all_have_joined_makes_room() {
    let mut driven = Driven::new(open(2));
    driven.join(0, 0);
    driven.say(0, &[numbers(Label::C_NHOSTS, &[1]), bare(Command::Done), bare(Command::Fini)].concat());
    driven.say(0, &[7; 4097]);
    assert!(driven.closed.contains(&0) && driven.server.held() == 0);
    driven.join(1, 0);
    driven.join(2, 1);
    assert!(driven.events.contains(&Event::Complete));
}

/// A client that had sent everything and closed its sending side got no broadcasts.
#[test]
fn who_has_said_everything_may_close_its_side_and_read_on() {
    let all = [numbers(Label::C_NHOSTS, &[1]), bare(Command::Done), bare(Command::Fini)].concat();
    // Before all have joined, and afterwards.
    for early in [true, false] {
        let mut driven = Driven::new(open(2));
        driven.join(0, 0);
        if early {
            driven.say(0, &all);
            driven.close_side(0);
        }
        driven.join(1, 1);
        if !early {
            driven.say(0, &all);
            driven.close_side(0);
        }
        driven.say(1, &all);
        let got = driven.take(0);
        assert!(got.ends_with(b"DONE\0\0\0\0") && got == driven.take(1), "{got:?}");
        assert_eq!(driven.ended, Some(Ok(())));
    }
    // A client without FINI is lost.
    let mut driven = Driven::joined(open(2));
    driven.say(0, &bare(Command::Done));
    driven.close_side(0);
    assert_eq!(driven.failure(), "client 0 was lost after its DONE: it has closed the connection");
    let mut driven = Driven::new(open(2));
    driven.connect(0);
    driven.close_side(0);
    driven.join(1, 0);
    driven.close_side(1);
    assert!(driven.told().contains("client 0 is lost before all have joined") && driven.closed.len() == 2);
}

/// After the broadcast of a label of all ones, the session did not end.
#[test]
fn the_highest_label_of_all() {
    let mut driven = Driven::joined(open(2));
    (0..2).for_each(|conn| driven.say(conn, &said(Label(u32::MAX), b"x")));
    assert!(driven.take(1).ends_with(b"COLL\0\0\0\x0a\xff\xff\xff\xff\0\0\0\x03xx"));
    (0..2).for_each(|conn| driven.say(conn, &bare(Command::Done)));
    let rest = driven.take(1);
    assert!(rest.len() == 14 * 16 + 8 && rest.ends_with(b"DONE\0\0\0\0"));
    (0..2).for_each(|conn| driven.say(conn, &bare(Command::Fini)));
    assert_eq!(driven.ended, Some(Ok(())));
}

/// If a client violated the protocol after all were done, the session of the others ended immediately.
#[test]
fn failures_after_all_are_done_are_reported_at_the_end() {
    let mut driven = Driven::joined(open(3));
    (0..3).for_each(|conn| driven.say(conn, &bare(Command::Done)));
    driven.say(1, &bare(Command::Done));
    assert!(driven.closed.contains(&1));
    driven.lose(0);
    assert_eq!(driven.ended, None);
    driven.tick(Duration::from_secs(1 << 30));
    assert_eq!((driven.ended.clone(), driven.server.deadline()), (None, None));
    driven.say(2, &bare(Command::Fini));
    let failure = "client 1 broke the protocol after all were done, before its FINI: DONE a second time";
    assert_eq!(driven.failure(), failure);
}

#[test]
fn who_has_not_named_its_rank_in_time_is_closed() {
    let mut driven = Driven::new(open(2));
    driven.connect(0);
    driven.tick(Duration::from_secs(4));
    driven.connect(1);
    driven.say(1, &command(Command::Auth, &[1]));
    driven.join(2, 0);
    assert_eq!(driven.server.deadline(), Some(Duration::from_secs(10)));
    driven.tick(Duration::from_millis(9999));
    assert!(driven.closed.is_empty());
    driven.tick(Duration::from_secs(10));
    assert_eq!(driven.closed.iter().collect::<Vec<_>>(), [&0]);
    driven.tick(Duration::from_secs(14));
    assert_eq!(driven.closed.iter().collect::<Vec<_>>(), [&0, &1]);
    assert_eq!(driven.server.deadline(), Some(Duration::from_secs(600)));
}

/// Silent connections delay no client. If there are too many, the oldest is closed; once all clients have joined, all
/// are closed.
#[test]
fn silent_connections_delay_nobody() {
    let mut driven = Driven::new(open(2));
    driven.join(1000, 0);
    (0..64).for_each(|conn| driven.connect(conn));
    assert!(driven.closed.is_empty());
    driven.connect(64);
    assert_eq!(driven.closed.iter().collect::<Vec<_>>(), [&0]);
    driven.say(64, &greeting(1, None, 1));
    assert_eq!(driven.take(1000).len(), 8 + 12);
    assert_eq!(driven.closed.len(), 64, "all the others");
    driven.connect(2000);
    assert!(driven.closed.contains(&2000));
    driven.say(2000, &greeting(1, None, 1));
    assert!(driven.take(2000).is_empty() && driven.ended.is_none());
}

/// Many connections without the key could displace those that were authenticated by it.
#[test]
fn who_cannot_prove_it_does_not_displace_who_can() {
    const KEY: [u8; 8] = *b"12345678";
    let mut settings = open(2);
    settings.methods = Methods { none: false, key: Some(Key::from_bytes(KEY)) };
    let mut driven = Driven::new(settings);
    let proof = [&command(Command::Auth, &[2])[..], &KEY].concat();
    driven.connect(0);
    driven.say(0, &proof);
    driven.connect(1);
    driven.say(1, &proof[..12]);
    // As many silent connections as there are slots, all later than the first two.
    (2..200).for_each(|conn| driven.connect(conn));
    assert_eq!(driven.closed.iter().copied().collect::<Vec<u64>>(), (2..138).collect::<Vec<u64>>());
    // If all the others have sent bytes, the oldest is closed, except for those authenticated by the key.
    (138..200).for_each(|conn| driven.say(conn, &proof[..12]));
    (200..300).for_each(|conn| {
        driven.connect(conn);
        driven.say(conn, &proof[..12]);
    });
    assert!(driven.closed.contains(&1) && !driven.closed.contains(&0));
    driven.say(0, &command(Command::Impi, &[0]));
    // If all are authenticated, the new one is closed.
    driven.connect(300);
    driven.say(300, &proof[..12]);
    (237..301).for_each(|conn| driven.say(conn, &proof[12..]));
    driven.connect(301);
    assert!(driven.closed.contains(&301) && driven.closed.len() == 237, "{:?}", driven.closed);
    driven.say(299, &command(Command::Impi, &[1]));
    assert!(driven.told().contains("all clients have joined"));
}

#[test]
fn a_system_that_is_short_of_room_costs_strangers_their_places() {
    let mut driven = Driven::new(open(2));
    driven.crowd();
    driven.join(0, 0);
    driven.crowd();
    assert!(driven.closed.is_empty(), "a client stays");
    (1..4).for_each(|conn| driven.connect(conn));
    driven.say(1, &greeting(1, None, 1)[..5]);
    for expected in [2, 3, 1] {
        driven.crowd();
        assert!(driven.closed.contains(&expected), "{:?}", driven.closed);
    }
    driven.crowd();
    assert_eq!((driven.closed.len(), &driven.ended), (3, &None));
}

#[test]
fn a_session_that_is_late_says_whom_it_waits_for() {
    let late = |prepare: &dyn Fn(&mut Driven)| {
        let mut driven = Driven::new(open(4));
        prepare(&mut driven);
        driven.tick(Duration::from_secs(600));
        driven.failure().strip_prefix("the session was not over within 600s: ").unwrap().to_owned()
    };
    let joined = |driven: &mut Driven| (0..4).for_each(|rank| driven.join(rank.into(), rank));
    assert_eq!(
        late(&|driven| [0, 3].into_iter().for_each(|rank| driven.join(rank.into(), rank))),
        "clients 1, 2 did not join; is each started, with this address and its rank?"
    );
    assert_eq!(
        late(&|driven| {
            joined_but_one(driven);
            driven.lose(1);
            driven.lose(0);
            driven.join(9, 0);
        }),
        "clients 1, 3 did not join; is each started, with this address and its rank? Client 1 had joined and was lost: its connection has ended."
    );
    assert_eq!(late(&joined), "all have joined, and clients 0, 1, 2, 3 have sent neither a label nor DONE");
    // The first client has left H_PORT out and is past it, the second is at it, the fourth is done.
    assert_eq!(
        late(&|driven| {
            joined(driven);
            (0..4).for_each(|conn| driven.say(conn, &numbers(Label::C_NHOSTS, &[1])));
            driven.say(0, &numbers(Label::H_NPROCS, &[1]));
            driven.say(1, &numbers(Label::H_PORT, &[1]));
            driven.say(3, &bare(Command::Done));
        }),
        "it waits for client 2 to come to label H_PORT"
    );
    assert_eq!(
        late(&|driven| {
            joined(driven);
            (0..4).for_each(|conn| driven.say(conn, &numbers(Label::H_PORT, &[1])));
            driven.say(2, &bare(Command::Done));
        }),
        "after label H_PORT, clients 0, 1, 3 have sent neither another label nor DONE"
    );
}

/// A stopped session reports the same.
#[test]
fn whom_a_session_waits_for_at_any_time() {
    let mut driven = Driven::joined(open(3));
    let waits = |driven: &Driven| driven.server.waits().to_string();
    assert_eq!(waits(&driven), "all have joined, and clients 0, 1, 2 have sent neither a label nor DONE");
    (0..3).for_each(|conn| driven.say(conn, &bare(Command::Done)));
    driven.say(1, &bare(Command::Fini));
    assert_eq!(waits(&driven), "all are done, and clients 0, 2 have not sent FINI");
    driven.lose(0);
    assert_eq!(waits(&driven), "all are done, and client 2 has not sent FINI");
}

fn joined_but_one(driven: &mut Driven) {
    (0..3).for_each(|rank| driven.join(rank.into(), rank));
}

#[test]
fn the_failure_has_the_client_and_the_stage() {
    let mut driven = Driven::joined(open(2));
    driven.say(1, &numbers(Label::C_NHOSTS, &[1]));
    driven.lose(1);
    let Some(Err(Failure::Lost { rank: 1, stage, why })) = driven.ended else { panic!("{:?}", driven.ended) };
    assert_eq!((stage.to_string().as_str(), why.as_str()), ("at label C_NHOSTS", "its connection has ended"));
    assert_eq!(driven.closed.iter().collect::<Vec<_>>(), [&0]);
}

/// A key is never displayed: whether right, wrong, or sent without a request.
#[test]
fn keys_are_told_nowhere() {
    let mut settings = open(1);
    settings.methods.key = Some(Key::from_bytes(*b"JQWXJQWX"));
    let mut driven = Driven::new(settings);
    driven.connect(0);
    driven.say(0, &[&command(Command::Auth, &[2])[..], b"QZXWQZXW"].concat());
    driven.connect(1);
    driven.say(1, &[&command(Command::Auth, &[1])[..], b"QZXWQZXW"].concat());
    driven.connect(2);
    driven.say(2, b"QZXWQZXW");
    driven.join(3, 0);
    let told = format!("{}{:?}{:?}", driven.told(), driven.server, driven.events).to_lowercase();
    assert!(told.contains("the key is another one"));
    for part in ["qzxw", "jqwx", "515a", "4a51", "1364875351", "81, 90", "1246844760", "74, 81"] {
        assert!(!told.contains(part), "{part} is in {told}");
    }
}

#[test]
fn settings_that_no_session_can_have() {
    let none = Methods { none: true, key: None };
    for clients in [0, 33, u32::MAX] {
        let error = Server::new(Settings::new(clients, none.clone())).unwrap_err();
        assert_eq!(error, SettingsError::Clients(clients));
    }
    assert_eq!(Server::new(Settings::new(1, Methods::default())).unwrap_err(), SettingsError::Methods);
    let mut settings = Settings::new(32, none);
    assert!(Server::new(settings.clone()).is_ok());
    settings.limit = Duration::ZERO;
    assert_eq!(Server::new(settings).unwrap_err(), SettingsError::Limit);
}

/// The time to name a rank counts from the connection. If it counted from the last byte, a connection that sends a byte
/// now and then would keep one of the few places for ever.
#[test]
fn bytes_do_not_extend_the_time_to_name_a_rank() {
    let mut driven = Driven::new(open(2));
    driven.connect(0);
    let greeting = greeting(1, None, 0);
    for (second, byte) in (1..10).zip(&greeting) {
        driven.tick(Duration::from_secs(second));
        driven.say(0, &[*byte]);
    }
    assert!(driven.closed.is_empty());
    driven.tick(Duration::from_secs(10));
    assert!(driven.closed.contains(&0));
}

/// The driver of a session that has ended waits until all connections are closed: each one needs its order to close,
/// also those without a rank.
#[test]
fn the_end_of_a_session_closes_every_connection() {
    let mut driven = Driven::new(open(2));
    driven.join(0, 0);
    driven.tick(Duration::from_secs(595));
    driven.connect(1);
    driven.say(1, &command(Command::Auth, &[1]));
    driven.connect(2);
    driven.tick(Duration::from_secs(600));
    assert!(driven.ended.is_some());
    assert_eq!(driven.closed.iter().collect::<Vec<_>>(), [&0, &1, &2]);
}

/// Both sides of the time limit.
#[test]
fn a_session_lasts_until_its_limit_and_then_ends_at_once() {
    let mut driven = Driven::joined(open(2));
    driven.tick(Duration::from_millis(599_999));
    assert_eq!((driven.ended.clone(), driven.server.deadline()), (None, Some(Duration::from_secs(600))));
    driven.tick(Duration::from_secs(600));
    assert!(matches!(driven.ended, Some(Err(Failure::Late { .. }))));
}

/// Values that were broadcast without a client are dropped as soon as that client can no longer send its own, although
/// nobody waits for another broadcast.
#[test]
fn values_that_nobody_can_complete_are_dropped() {
    let mut driven = Driven::joined(open(3));
    driven.say(0, &numbers(Label::C_TAGUB, &[40_000]));
    [1, 2].into_iter().for_each(|conn| driven.say(conn, &numbers(Label::C_COLL_XSIZE, &[7])));
    driven.tick(driven.server.deadline().unwrap());
    assert_eq!(driven.server.held(), 12);
    driven.say(1, &bare(Command::Done));
    assert_eq!(driven.server.held(), 12, "client 2 may still send C_TAGUB");
    driven.say(2, &bare(Command::Done));
    assert_eq!(driven.server.held(), 8, "C_COLL_XSIZE waits for client 0");
}

/// Unknown commands count as bytes of their client, with their heads.
#[test]
fn unknown_commands_count_against_the_bytes_of_a_client() {
    let mut settings = open(1);
    settings.bytes_max = 100;
    let unknown = |words: usize| command(Command::Other(1), &vec![0; words]);
    let mut driven = Driven::joined(settings.clone());
    driven.say(0, &unknown(10));
    driven.say(0, &unknown(11));
    assert_eq!(driven.ended, None);
    driven.say(0, &unknown(1));
    assert!(driven.failure().contains("with a length of 4; allowed are 0 to 0"), "{}", driven.failure());
    let mut driven = Driven::joined(settings);
    driven.say(0, &unknown(10));
    driven.say(0, &unknown(12));
    assert!(driven.failure().contains("with a length of 48; allowed are 0 to 44"), "{}", driven.failure());
}

/// An unknown command is read and ignored, as long as it is not too long to be one.
#[test]
fn an_unknown_command_has_a_longest_length() {
    let unknown = |words: usize| command(Command::Other(7), &vec![0; words]);
    let mut driven = Driven::joined(open(1));
    driven.say(0, &unknown(1 << 14));
    assert!(driven.ended.is_none() && driven.told().contains("with 65536 bytes is ignored"));
    driven.say(0, &unknown((1 << 14) + 1)[..8]);
    assert!(
        driven.failure().contains("with a length of 65540; allowed are 0 to 65536"),
        "{}",
        driven.failure()
    );
}

/// Labels may be broadcast in any order: the stage names the one that was broadcast last.
#[test]
fn the_stage_is_the_label_that_was_broadcast_last() {
    let mut driven = Driven::joined(open(2));
    for label in [Label::H_PORT, Label::C_NHOSTS] {
        (0..2).for_each(|conn| driven.say(conn, &numbers(label, &[1])));
        let waits = driven.server.waits().to_string();
        assert!(waits.starts_with(&format!("after label {label}, clients 0, 1 have sent")), "{waits}");
    }
}
