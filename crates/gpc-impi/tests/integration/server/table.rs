//! Every message in every state of a client, valid or not: `table.txt` beside this file has the server's outputs.

use std::fmt::Write;
use std::time::Duration;

use gpc_impi::server::{Event, Output};
use gpc_impi::wire::{Command, Frame, Key, Label, Reader, command};

use crate::server::driven::{Driven, bare, greeting, numbers, open, said};

/// The connection under test; its client has rank 0 of two.
const SUBJECT: u64 = 0;
/// The other client, of rank 1.
const OTHER: u64 = 1;

const KEY: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const BYTES_MAX: usize = 1000;

/// The name of a state, and the steps that lead to it.
type State = (&'static str, fn(&mut Driven));

/// The earlier input of each state. Unless stated otherwise, the other client has joined and waits for this one.
const STATES: [State; 12] = [
    ("connected: AUTH is next", |_| {}),
    ("the key is next", |driven| driven.say(SUBJECT, &command(Command::Auth, &[3]))),
    ("IMPI is next", |driven| driven.say(SUBJECT, &command(Command::Auth, &[1]))),
    ("joined, and the other is not", |driven| {
        driven.lose(OTHER);
        driven.say(SUBJECT, &greeting(1, None, 0));
    }),
    ("all have joined", |driven| driven.say(SUBJECT, &greeting(1, None, 0))),
    ("C_NHOSTS sent, and not by the other", |driven| {
        driven.say(SUBJECT, &greeting(1, None, 0));
        driven.say(SUBJECT, &numbers(Label::C_NHOSTS, &[1]));
    }),
    ("C_NHOSTS broadcast", |driven| {
        driven.say(SUBJECT, &greeting(1, None, 0));
        [SUBJECT, OTHER].into_iter().for_each(|conn| driven.say(conn, &numbers(Label::C_NHOSTS, &[1])));
    }),
    ("the other has sent H_PORT", |driven| {
        driven.say(SUBJECT, &greeting(1, None, 0));
        driven.say(OTHER, &numbers(Label::H_PORT, &[5]));
    }),
    ("done, and the other is not", |driven| {
        driven.say(SUBJECT, &greeting(1, None, 0));
        driven.say(SUBJECT, &bare(Command::Done));
    }),
    ("ended, and the other is not done", |driven| {
        driven.say(SUBJECT, &greeting(1, None, 0));
        driven.say(SUBJECT, &[bare(Command::Done), bare(Command::Fini)].concat());
    }),
    ("all are done", |driven| {
        driven.say(SUBJECT, &greeting(1, None, 0));
        [SUBJECT, OTHER].into_iter().for_each(|conn| driven.say(conn, &bare(Command::Done)));
    }),
    ("all are done, and this one has ended", |driven| {
        driven.say(SUBJECT, &greeting(1, None, 0));
        [SUBJECT, OTHER].into_iter().for_each(|conn| driven.say(conn, &bare(Command::Done)));
        driven.say(SUBJECT, &bare(Command::Fini));
    }),
];

enum What {
    Say(Vec<u8>),
    Lose,
    Pass(u64),
}

fn messages() -> Vec<(&'static str, What)> {
    let head = |what: Command, len: i32| [what.number().to_be_bytes(), len.to_be_bytes()].concat();
    let other = Command::Other(0x5858_5858);
    let say = |name, bytes: &[u8]| (name, What::Say(bytes.to_vec()));
    vec![
        say("AUTH none", &command(Command::Auth, &[1])),
        say("AUTH none or key", &command(Command::Auth, &[3])),
        say("AUTH, nothing in common", &command(Command::Auth, &[4])),
        say("AUTH, 8 bytes", &command(Command::Auth, &[1, 1])),
        say("the key", &KEY),
        say("another key", &[0; 8]),
        say("IMPI 0", &command(Command::Impi, &[0])),
        say("IMPI 1", &command(Command::Impi, &[1])),
        say("IMPI 2", &command(Command::Impi, &[2])),
        say("IMPI -1", &command(Command::Impi, &[u32::MAX])),
        say("IMPI, no bytes", &bare(Command::Impi)),
        say("COLL C_NHOSTS", &numbers(Label::C_NHOSTS, &[1])),
        say("COLL C_VERSION", &said(Label::C_VERSION, &[0; 8])),
        say("COLL H_PORT", &numbers(Label::H_PORT, &[7])),
        say("COLL 0x9000", &said(Label(0x9000), b"xyz")),
        say("COLL 0xffffffff", &said(Label(u32::MAX), b"")),
        say("COLL 0", &said(Label::NONE, b"xyz")),
        say("COLL C_DATALEN, no values", &said(Label::C_DATALEN, b"")),
        say("COLL without a label", &[&head(Command::Coll, 3)[..], &[1, 2, 3]].concat()),
        say("COLL that is too long", &head(Command::Coll, BYTES_MAX as i32 + 1)),
        say("COLL of 2147483647 bytes", &head(Command::Coll, i32::MAX)),
        say("COLL of -1 bytes", &head(Command::Coll, -1)),
        say("half a COLL", &numbers(Label::H_PORT, &[7])[..13]),
        say("DONE", &bare(Command::Done)),
        say("DONE with 4 bytes", &command(Command::Done, &[0])),
        say("FINI", &bare(Command::Fini)),
        say("FINI with 4 bytes", &command(Command::Fini, &[0])),
        say("DONE and FINI", &[bare(Command::Done), bare(Command::Fini)].concat()),
        say("DONE of 2147483647 bytes", &head(Command::Done, i32::MAX)),
        say("an unknown command", &command(other, &[0])),
        say("an unknown command of 65537 bytes", &head(other, 65_537)),
        ("the connection ends", What::Lose),
        ("10 seconds pass", What::Pass(10)),
        ("60 seconds pass", What::Pass(60)),
    ]
}

/// Describes an output; of the events, only those about faults and ignored input.
fn shown(output: &Output, raw: bool) -> Option<String> {
    let name = |conn: u64| if conn == SUBJECT { "it" } else { "the other" };
    Some(match output {
        Output::Send(conn, bytes) if raw && conn.0 == SUBJECT && bytes.len() == 8 => {
            format!("{} gets method {}", name(conn.0), bytes[3])
        }
        Output::Send(conn, bytes) => {
            let mut bytes = &bytes[..];
            let frame = Reader::new().take(&mut bytes, |_| usize::MAX).unwrap().unwrap();
            assert!(bytes.is_empty());
            let Frame::Command(what, payload) = frame else { panic!("{frame:?}") };
            let label = payload.first_chunk().map(|label| Label(u32::from_be_bytes(*label)));
            match (what, label) {
                (Command::Coll, Some(label)) => {
                    format!("{} gets COLL {label} {:?}", name(conn.0), &payload[4..])
                }
                _ => format!("{} gets {what} {payload:?}", name(conn.0)),
            }
        }
        Output::Close(conn) => format!("{} is closed", name(conn.0)),
        Output::Event(
            event @ (Event::Refused(..)
            | Event::Freed(..)
            | Event::Ignored(..)
            | Event::Doubted(..)
            | Event::Lost(..)),
        ) => format!("`{event}`"),
        Output::Event(_) => return None,
        Output::Ended(Ok(())) => "the session ends well".into(),
        Output::Ended(Err(failure)) => format!("the session FAILS: {failure}"),
    })
}

/// Describes the outputs. A broadcast is one line for both clients; broadcasts of known labels without values are only
/// counted.
fn outcome(driven: &Driven, raw: bool) -> String {
    let lines: Vec<String> = driven.last.iter().filter_map(|output| shown(output, raw)).collect();
    let mut short: Vec<String> = Vec::new();
    let mut empty = 0;
    for line in lines {
        if line.contains("gets COLL") && line.ends_with("[0, 0, 0, 0]") {
            empty += 1;
            continue;
        }
        if empty > 0 {
            short.push(format!("{empty} empty COLL"));
            empty = 0;
        }
        let both = line.strip_prefix("the other gets").map(|rest| format!("it gets{rest}"));
        match short.last_mut() {
            Some(last) if both.as_deref() == Some(last.as_str()) => {
                *last = line.replacen("the other gets", "both get", 1);
            }
            _ => short.push(line),
        }
    }
    if empty > 0 {
        short.push(format!("{empty} empty COLL"));
    }
    if short.is_empty() { "-".into() } else { short.join("; ") }
}

fn prepared(before: fn(&mut Driven)) -> Driven {
    let mut settings = open(2);
    settings.methods.key = Some(Key::from_bytes(KEY));
    (settings.bytes_max, settings.limit) = (BYTES_MAX, Duration::from_secs(60));
    let mut driven = Driven::new(settings);
    driven.join(OTHER, 1);
    driven.connect(SUBJECT);
    before(&mut driven);
    assert_eq!(driven.ended, None);
    driven
}

#[test]
fn every_message_in_every_state() {
    let mut table = String::new();
    for (number, (state, before)) in STATES.into_iter().enumerate() {
        writeln!(table, "# {state}").unwrap();
        for (name, what) in messages() {
            let mut driven = prepared(before);
            match what {
                What::Say(bytes) => driven.say(SUBJECT, &bytes),
                What::Lose => driven.lose(SUBJECT),
                What::Pass(seconds) => driven.tick(Duration::from_secs(seconds)),
            }
            writeln!(table, "{name}: {}", outcome(&driven, number == 0)).unwrap();
        }
        table.push('\n');
    }
    let (table, expected) = (table.trim_end(), include_str!("table.txt").trim_end());
    let differ = table.lines().zip(expected.lines()).find(|(now, before)| now != before);
    assert!(table == expected, "it differs first in {differ:?}; the whole table is now:\n{table}");
}

/// In pieces of one byte, every message has the same outcome.
#[test]
fn every_message_byte_by_byte() {
    for (state, before) in STATES {
        for (name, what) in messages() {
            let What::Say(bytes) = what else { continue };
            let mut whole = prepared(before);
            whole.say(SUBJECT, &bytes);
            let mut pieces = prepared(before);
            bytes.iter().for_each(|byte| pieces.say(SUBJECT, &[*byte]));
            assert_eq!(pieces.told(), whole.told(), "{state}: {name}");
            assert_eq!(pieces.sent, whole.sent, "{state}: {name}");
            assert_eq!((pieces.closed, pieces.ended), (whole.closed, whole.ended), "{state}: {name}");
        }
    }
}
