//! Plausibility checks of values, and what follows from a doubt.

use gpc_impi::server::{Check, Event};
use gpc_impi::wire::{Command, Label, Version};

use crate::server::driven::{Driven, bare, numbers, open, said};

/// The doubt about the last of these values, when one client sends them in this order, and then DONE.
fn doubts(colls: &[(Label, &[u8])]) -> Option<String> {
    let mut driven = Driven::joined(open(1));
    for (number, (label, values)) in colls.iter().enumerate() {
        let before = driven.events.len();
        driven.say(0, &said(*label, values));
        if number + 1 == colls.len() {
            driven.say(0, &bare(Command::Done));
        }
        let doubt = driven.events[before..].iter().find_map(|event| match event {
            Event::Doubted(0, of, why) => Some((*of, why.clone())),
            _ => None,
        });
        match doubt {
            Some((of, why)) if number + 1 == colls.len() => {
                assert_eq!(of, *label);
                return Some(why);
            }
            Some(doubt) => panic!("{doubt:?} comes before the last"),
            None => {}
        }
    }
    None
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[track_caller]
fn doubted(colls: &[(Label, &[u32])], expected: &str) {
    let colls: Vec<(Label, Vec<u8>)> = colls.iter().map(|(label, values)| (*label, words(values))).collect();
    let colls: Vec<(Label, &[u8])> = colls.iter().map(|(label, values)| (*label, &values[..])).collect();
    assert_eq!(doubts(&colls).as_deref().unwrap_or(""), expected);
}

const MINUS_ONE: u32 = u32::MAX;
const MINUS_TWO: u32 = u32::MAX - 1;

#[test]
fn ranges() {
    for (label, low, high, below, above) in [
        (Label::C_NHOSTS, 1, 2_147_483_647, Some((0, "0")), Some((1 << 31, "2147483648"))),
        (Label::C_NPROCS, 1, u32::MAX, Some((0, "0")), None),
        (Label::C_DATALEN, 1, u32::MAX, Some((0, "0")), None),
        (Label::C_TAGUB, 32_767, 2_147_483_647, Some((32_766, "32766")), Some((MINUS_ONE, "-1"))),
        (Label::C_COLL_XSIZE, MINUS_ONE, 2_147_483_647, Some((MINUS_TWO, "-2")), None),
        (Label::C_COLL_MAXLINEAR, MINUS_ONE, 2_147_483_647, Some((MINUS_TWO, "-2")), None),
        (Label::H_PORT, 1, 65_535, Some((0, "0")), Some((65_536, "65536"))),
        (Label::H_ACKMARK, 1, u32::MAX, Some((0, "0")), None),
        (Label::H_HIWATER, 1, u32::MAX, Some((0, "0")), None),
        (Label::H_NPROCS, 0, u32::MAX, None, None),
    ] {
        let after = |value: u32, expected: &str| match label < Label::H_IPV6 {
            true => doubted(&[(label, &[value])], expected),
            false => doubted(&[(Label::C_NHOSTS, &[1]), (label, &[value])], expected),
        };
        after(low, "");
        after(high, "");
        let signed = if low == MINUS_ONE { "-1".into() } else { low.to_string() };
        let whose = if label < Label::H_IPV6 { "its value" } else { "that of host 0" };
        for (value, shown) in below.into_iter().chain(above) {
            after(value, &format!("{whose} is {shown}, and {signed} to {high} are allowed"));
        }
    }
    doubted(
        &[(Label::C_NHOSTS, &[4]), (Label::H_PORT, &[5, 5, 70_000, 0])],
        "that of host 2 is 70000, and 1 to 65535 are allowed",
    );
}

#[test]
fn lengths_fit_the_hosts_and_the_processes() {
    let hosts: (Label, &[u32]) = (Label::C_NHOSTS, &[2]);
    let procs: (Label, &[u32]) = (Label::C_NPROCS, &[3]);
    doubted(&[(Label::C_NHOSTS, &[1, 1])], "it has 8 bytes, and its value has 4");
    doubted(&[(Label::C_DATALEN, &[])], "it has 0 bytes, and its value has 4");
    doubted(&[hosts, (Label::H_PORT, &[1, 2])], "");
    doubted(&[hosts, (Label::H_PORT, &[1, 2, 3])], "it has 12 bytes, and 2 hosts with 4 bytes each have 8");
    doubted(&[hosts, (Label::H_IPV6, &[0; 7])], "it has 28 bytes, and 2 hosts with 16 bytes each have 32");
    doubted(&[procs, (Label::P_IPV6, &[0; 12])], "");
    // Four bytes, as in the text of the source.
    doubted(
        &[procs, (Label::P_PID, &[1, 2, 3])],
        "it has 12 bytes, and 3 processes with 8 bytes each have 24",
    );
    doubted(&[procs, (Label::P_PORT, &[1, 2])], "it has 8 bytes, and 3 processes with 4 bytes each have 12");
    // Without C_NPROCS the sum of H_NPROCS counts.
    doubted(
        &[hosts, (Label::H_NPROCS, &[1, 1]), (Label::P_PID, &[0, 1])],
        "it has 8 bytes, and 2 processes with 8 bytes each have 16",
    );
    doubted(&[(Label::H_IPV6, &[0; 5])], "it has 20 bytes, which are no values of 16 bytes each");
    assert_eq!(
        doubts(&[(Label::H_PORT, &[0, 1, 2])]).unwrap(),
        "it has 3 bytes, which are no values of 4 bytes each"
    );
    // More than any length can express.
    doubted(
        &[(Label::C_NPROCS, &[u32::MAX]), (Label::P_IPV6, &[])],
        "it has 0 bytes, and 4294967295 processes with 16 bytes each have 68719476720",
    );
    // An unknown label accepts any values.
    doubted(&[(Label(0x9000), &[])], "");
}

/// These values were accepted, although the boundary to the next client's values was unknown.
#[test]
fn values_of_hosts_and_processes_whose_number_is_not_known() {
    doubted(&[(Label::H_IPV6, &[0; 8])], "the client has not said how many hosts it has");
    doubted(
        &[(Label::C_NPROCS, &[2]), (Label::H_PORT, &[5, 5])],
        "the client has not said how many hosts it has",
    );
    doubted(&[(Label::P_IPV6, &[0; 40])], "the client has not said how many processes it has");
    doubted(
        &[(Label::C_NHOSTS, &[1]), (Label::P_PID, &[0, 4])],
        "the client has not said how many processes it has",
    );
}

#[test]
fn what_labels_say_of_each_other() {
    let two: (Label, &[u32]) = (Label::C_NHOSTS, &[2]);
    let four: (Label, &[u32]) = (Label::C_NPROCS, &[4]);
    doubted(&[two, (Label::C_NPROCS, &[5]), (Label::H_NPROCS, &[2, 3])], "");
    doubted(
        &[two, (Label::C_NPROCS, &[5]), (Label::H_NPROCS, &[2, 4])],
        "its hosts have 6 processes in all, and by C_NPROCS there are 5",
    );
    doubted(
        &[two, (Label::C_NPROCS, &[5]), (Label::H_NPROCS, &[u32::MAX, 6])],
        "its hosts have 4294967301 processes in all, and by C_NPROCS there are 5",
    );
    doubted(&[two, (Label::H_ACKMARK, &[1, 7]), (Label::H_HIWATER, &[1, 7])], "");
    doubted(
        &[two, (Label::H_ACKMARK, &[1, 8]), (Label::H_HIWATER, &[1, 7])],
        "that of host 1 is 7, and it is at least its H_ACKMARK, 8",
    );
    let one: [u32; 4] = [0, 0, 0, 1];
    let other: [u32; 4] = [0, 0, 0xFFFF, 1];
    let addresses = [one, other, one, other].concat();
    doubted(&[four, (Label::P_IPV6, &addresses), (Label::P_PID, &[0, 5, 0, 5, 0, 6, 0, 6])], "");
    doubted(
        &[four, (Label::P_IPV6, &addresses), (Label::P_PID, &[0, 5, 0, 7, 0, 6, 0, 7])],
        "processes 1 and 3 have the same P_IPV6 and both are 7, and those of one address differ",
    );
    doubted(&[(Label::C_NPROCS, &[2]), (Label::P_PID, &[0, 5, 0, 5])], "");
}

/// Millions of numbers were sorted while all clients waited.
#[test]
fn numbers_of_very_many_processes_are_not_compared() {
    for (processes, compared) in [(1 << 17, true), ((1 << 17) + 1, false)] {
        let mut driven = Driven::joined(open(1));
        driven.say(0, &numbers(Label::C_NPROCS, &[processes as u32]));
        driven.say(0, &said(Label::P_IPV6, &vec![7; 16 * processes]));
        driven.say(0, &said(Label::P_PID, &vec![9; 8 * processes]));
        let told = driven.told();
        assert_eq!(told.contains("processes 0 and 1 have the same P_IPV6"), compared);
        assert_eq!(
            told.contains("131073 processes are too many to be compared with each other"),
            !compared,
            "{told}"
        );
    }
}

#[test]
fn versions() {
    let version = |major, minor| Version { major, minor };
    let doubts = |versions: &[Version]| doubts(&[(Label::C_VERSION, &Version::to_bytes(versions))]);
    assert_eq!(doubts(&[Version::MANDATORY]), None);
    assert_eq!(doubts(&[Version::MANDATORY, version(0, 1), Version::OWN]), None);
    assert!(doubts(&[version(0, 1)]).unwrap().contains("begins with version 0.1, not with 0.0"));
    assert!(doubts(&[Version::MANDATORY, Version::MANDATORY]).unwrap().contains("0.0 comes after 0.0"));
    assert!(doubts(&[]).unwrap().contains("it has no version, and 0.0"));
}

/// If a client sent C_NHOSTS after its hosts' labels, each of those was doubted ("the client has not said how many
/// hosts it has", "labels ascend"). With [`Check::Refuse`] that ended the session. In any order, the same values must
/// be doubted.
#[test]
fn values_are_compared_in_any_order() {
    let good: [(Label, &[u32]); 8] = [
        (Label::C_NHOSTS, &[2]),
        (Label::C_NPROCS, &[2]),
        (Label::H_PORT, &[5, 5]),
        (Label::H_NPROCS, &[1, 1]),
        (Label::H_ACKMARK, &[1, 7]),
        (Label::H_HIWATER, &[1, 7]),
        (Label::P_IPV6, &[7; 8]),
        (Label::P_PID, &[0, 1, 0, 2]),
    ];
    let doubts = |wrong: Option<usize>, instead: &[u32], order: &[usize]| {
        let mut driven = Driven::joined(open(1));
        for i in order {
            let (label, values) = good[*i];
            driven.say(0, &numbers(label, if wrong == Some(*i) { instead } else { values }));
        }
        driven.say(0, &bare(Command::Done));
        let doubts = driven.events.iter().filter(|event| matches!(event, Event::Doubted(..)));
        doubts.map(Event::to_string).collect::<Vec<String>>()
    };
    let wrongs: [(usize, &[u32], &str); 5] = [
        (2, &[5], "client 0: COLL H_PORT: it has 4 bytes, and 2 hosts with 4 bytes each have 8"),
        (
            3,
            &[1, 2],
            "client 0: COLL H_NPROCS: its hosts have 3 processes in all, and by C_NPROCS there are 2",
        ),
        (4, &[1, 8], "client 0: COLL H_HIWATER: that of host 1 is 7, and it is at least its H_ACKMARK, 8"),
        (6, &[7; 12], "client 0: COLL P_IPV6: it has 48 bytes, and 2 processes with 16 bytes each have 32"),
        (
            7,
            &[0, 1, 0, 1],
            "client 0: COLL P_PID: processes 0 and 1 have the same P_IPV6 and both are 1, and those of one address differ",
        ),
    ];
    let ascending: Vec<usize> = (0..good.len()).collect();
    let rotated = |by: usize| [&ascending[by..], &ascending[..by]].concat();
    let orders = (0..good.len()).map(rotated);
    let orders: Vec<Vec<usize>> =
        orders.flat_map(|order| [order.clone(), order.into_iter().rev().collect()]).collect();
    for order in &orders {
        assert_eq!(doubts(None, &[], order), Vec::<String>::new(), "{order:?}");
        for (wrong, instead, expected) in wrongs {
            assert_eq!(doubts(Some(wrong), instead, order), [expected], "{order:?}");
        }
    }
}

/// Values are compared with those of the same client only.
#[test]
fn clients_are_apart() {
    let mut driven = Driven::joined(open(2));
    driven.say(0, &numbers(Label::C_NHOSTS, &[1]));
    driven.say(1, &numbers(Label::C_NHOSTS, &[2]));
    driven.say(0, &numbers(Label::H_PORT, &[7]));
    driven.say(1, &numbers(Label::H_PORT, &[7, 8]));
    assert!(!driven.events.iter().any(|event| matches!(event, Event::Doubted(..))), "{}", driven.told());
}

/// LAM's client then reads beyond the values, and this was not reported. One report is enough.
#[test]
fn a_known_label_that_some_clients_omit_is_reported_once() {
    for (check, told) in [(Check::Off, 0), (Check::Warn, 1), (Check::Refuse, 1)] {
        let mut settings = open(3);
        settings.check = check;
        let mut driven = Driven::joined(settings);
        for conn in [0, 1, 2] {
            driven.say(conn, &numbers(Label::C_NHOSTS, &[1]));
        }
        driven.say(1, &numbers(Label::C_DATALEN, &[8]));
        driven.say(1, &numbers(Label::C_TAGUB, &[40_000]));
        driven.say(1, &said(Label(0x9000), &[]));
        for conn in [0, 1, 2] {
            driven.say(conn, &bare(Command::Done));
        }
        let partial: Vec<&Event> =
            driven.events.iter().filter(|event| matches!(event, Event::Partial { .. })).collect();
        assert_eq!(partial.len(), told, "{check:?}");
        for event in partial {
            let (label, left_out, unsent) = (Label::C_DATALEN, vec![0, 2], vec![]);
            assert_eq!(event, &Event::Partial { label, left_out, unsent });
            assert!(
                event.to_string().starts_with("COLL C_DATALEN: clients 0, 2 left it out, and some clients")
            );
        }
    }
}

/// The report said that a client had left a label out, and this client sent the label later. Only a client that is done
/// has left it out.
#[test]
fn a_client_that_may_still_send_a_label_has_not_left_it_out() {
    let mut driven = Driven::joined(open(4));
    driven.say(0, &numbers(Label::C_NHOSTS, &[1]));
    [1, 2].into_iter().for_each(|conn| driven.say(conn, &numbers(Label::C_NPROCS, &[1])));
    driven.say(3, &bare(Command::Done));
    driven.tick(driven.server.deadline().unwrap());
    let said = "COLL C_NHOSTS: client 3 left it out, clients 1, 2 have not sent it yet, and some clients";
    assert!(driven.told().contains(said), "{}", driven.told());
    let mut driven = Driven::joined(open(2));
    driven.say(0, &numbers(Label::C_NHOSTS, &[1]));
    driven.say(1, &numbers(Label::C_NPROCS, &[1]));
    driven.tick(driven.server.deadline().unwrap());
    let said = "COLL C_NHOSTS: client 1 has not sent it yet, and some clients";
    assert!(driven.told().contains(said), "{}", driven.told());
}

/// The same wrong value in each mode.
#[test]
fn what_becomes_of_them() {
    for check in [Check::Off, Check::Warn, Check::Refuse] {
        let mut settings = open(1);
        settings.check = check;
        let mut driven = Driven::joined(settings);
        driven.say(0, &numbers(Label::C_VERSION, &[0, 0]));
        driven.take(0);
        driven.say(0, &numbers(Label::C_NPROCS, &[0]));
        let told = driven.told().contains("COLL C_NPROCS: its value is 0");
        assert_eq!(told, check == Check::Warn, "{check:?}");
        match check {
            Check::Refuse => assert_eq!(
                driven.failure(),
                "client 0 broke the protocol at label C_VERSION: COLL C_NPROCS: its value is 0, and 1 to 4294967295 are allowed"
            ),
            _ => assert!(driven.take(0).ends_with(b"\0\0\x12\0\0\0\0\x01\0\0\0\0")),
        }
    }
}

/// If a client is rejected before all have joined, another can take its place.
#[test]
fn who_is_refused_before_all_have_joined_may_come_again() {
    let mut settings = open(2);
    settings.check = Check::Refuse;
    let mut driven = Driven::new(settings);
    driven.join(0, 0);
    driven.say(0, &numbers(Label::H_PORT, &[0]));
    assert!(driven.told().contains("client 0 is lost before all have joined"), "{}", driven.told());
    assert!(driven.closed.contains(&0));
    driven.join(1, 0);
    driven.join(2, 1);
    [1, 2]
        .into_iter()
        .for_each(|conn| driven.say(conn, &[bare(Command::Done), bare(Command::Fini)].concat()));
    // The rejected values are gone.
    assert!(!driven.told().contains("mask 0x1"), "{}", driven.told());
    assert_eq!(driven.ended, Some(Ok(())));
}

/// The values of hosts arrive before the number of hosts. The doubt must not wait for DONE, which a client may never
/// send.
#[test]
fn values_are_checked_as_soon_as_their_count_arrives() {
    let mut settings = open(2);
    settings.check = Check::Refuse;
    let mut driven = Driven::joined(settings);
    driven.say(0, &numbers(Label::H_PORT, &[4000, 4001]));
    assert_eq!(driven.ended, None);
    driven.say(0, &numbers(Label::C_NHOSTS, &[3]));
    let failure = driven.failure();
    assert!(
        failure.ends_with("COLL H_PORT: it has 8 bytes, and 3 hosts with 4 bytes each have 12"),
        "{failure}"
    );
}
