//! Tests of the encodings against `docs/bnr-wire.md`: decoding reverses encoding also if two fields have changed
//! places, or two variants their numbers.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use super::bytes::Coded;
use super::*;
use crate::exit::{Death, Exit};
use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::names::{GroupId, Member, Set};
use crate::order::{Brought, Choice, Entry, Meeting, Purpose, Stamp};
use crate::request::{Answer, Client, GroupState, GroupStatus, Identity, MemberStatus, Pair, Request};
use crate::roster::{Roster, Span};
use crate::spec::{Block, Layout, Mpi, OnDeath, PmixHost, PmixNeed, PmixPlan, Readers, Spec};
use crate::start_error::StartError;

/// Bytes from words: `5` is a byte, `5w` has 4 bytes, `5l` has 8, and `abc` is a text with its length.
fn bytes(words: &str) -> Vec<u8> {
    let word = |word: &str| match word.split_at(word.len() - 1) {
        (number, "w") if number.parse::<i64>().is_ok() => {
            (number.parse::<i64>().unwrap() as u32).to_le_bytes().to_vec()
        }
        (number, "l") if number.parse::<u64>().is_ok() => {
            number.parse::<u64>().unwrap().to_le_bytes().to_vec()
        }
        _ => match word.parse::<u8>() {
            Ok(byte) => vec![byte],
            Err(_) => [&(word.len() as u32).to_le_bytes()[..], word.as_bytes()].concat(),
        },
    };
    words.split_whitespace().flat_map(word).collect()
}

#[track_caller]
fn is<T: Coded + PartialEq + Debug>(value: T, words: &str) {
    let mut out = Writer::default();
    value.put(&mut out);
    assert_eq!(out.0, bytes(words), "{value:?}");
    assert_eq!(whole::<T>(Fields::new(&out.0)), Ok(value));
}

fn member(group: u32, rank: u32) -> Member {
    Member { group: GroupId(group), rank }
}

fn death() -> Death {
    Death { member: member(1, 2), exit: Exit::Signal(9), finalized: true }
}

fn pair() -> Pair {
    Pair { key: b"key".to_vec(), value: b"value".to_vec() }
}

fn set() -> Set {
    Set::Members(BTreeSet::from([member(1, 2), member(3, 4)]))
}

fn meeting() -> Meeting {
    Meeting { set: Set::Group(GroupId(6)), tag: b"tag".to_vec(), epoch: 5 }
}

const SET: &str = "1 2w 1w 2w 3w 4w ";
const MEETING: &str = "0 6w tag 5l ";
const DEATH: &str = "1w 2w 1 9 1 ";
const SPEC: &str = "2w program 1w argument 1w name environment 1w info data ";

fn spec() -> Spec {
    Spec {
        count: 2,
        program: b"program".to_vec(),
        args: vec![b"argument".to_vec()],
        env: vec![(b"name".to_vec(), b"environment".to_vec())],
        info: vec![("info".into(), b"data".to_vec())],
    }
}

#[test]
fn values_stand_as_documented() {
    is(set(), SET);
    is(Set::Group(GroupId(7)), "0 7w");
    let exits = [Exit::Code(3), Exit::Signal(4), Exit::Node(5), Exit::Never, Exit::OutOfMemory];
    for (exit, words) in exits.into_iter().zip(["0 3", "1 4", "2 5w", "3", "4"]) {
        is(exit, words);
    }
    is(death(), DEATH);
    let why = StartError { errno: -2, status: 127, host: "host".into(), why: "why".into() };
    is(why, "-2w 127 host why");
    let (deaths, missing) = (vec![death()], vec![member(8, 9)]);
    let fault = Fault { kind: FaultKind::TooLarge, message: "text".into(), deaths, node: Some(5), missing };
    is(fault, &format!("10w text 1w {DEATH} 1 5w 1w 8w 9w"));
    is(pair(), "key value");
    is(spec(), SPEC);
    is(OnDeath::Kill, "0");
    is(OnDeath::Notify, "1");
    is(Readers::None, "0");
    is(Readers::All, "2");
    is(Readers::Rank(7), "3 7w");
    is(meeting(), MEETING);
    is(Purpose::Merge(GroupId(1), GroupId(2)), "3 1w 2w");
    is(Purpose::Split, "4");
    is(Purpose::Close(GroupId(1)), "2 1w");
    is(Purpose::Open, "1");
    is(Purpose::Fence, "0");
    let stamp = Stamp { clock: 1, member: member(2, 3), number: 4 };
    let entry = Entry { database: "db".into(), pair: pair(), stamp };
    let brought =
        Brought { entries: vec![entry], after: BTreeSet::from([meeting()]), data: b"data".to_vec() };
    is(brought, &format!("1w db key value 1l 2w 3w 4l 1w {MEETING} data"));
    is(Client::Process(member(1, 2)), "0 1w 2w");
    is(Client::Tool(3), "1 3l");
    let blocks =
        vec![Block { node: 7, spec: 0, first: 0, count: 2 }, Block { node: 8, spec: 0, first: 2, count: 1 }];
    let layout = Layout {
        group: GroupId(4),
        parent: Some(GroupId(3)),
        database: "db".into(),
        specs: vec![spec()],
        blocks,
        on_death: OnDeath::Notify,
        preputs: vec![(b"key".to_vec(), b"value".to_vec())],
        input: Readers::First,
        pmix: Some(PmixPlan {
            required: true,
            hosts: vec![PmixHost { node: 7, name: "host".into(), before: 2 }],
        }),
    };
    is(
        layout,
        &format!("4w 1 3w db 1w {SPEC} 2w 7w 0w 0w 2w 8w 0w 2w 1w 1 1w key value 1 1 1 1w 7w host 2w"),
    );
}

fn limits() -> (Limits, &'static str) {
    let mut limits = Limits::default();
    (limits.key, limits.value, limits.name, limits.database) = (1, 2, 3, 4);
    (limits.databases, limits.names, limits.group, limits.groups) = (5, 6, 7, 8);
    (limits.spawn, limits.waiting) = (9, 10);
    (limits.fence, limits.ask, limits.grace) =
        (Duration::from_nanos(11), Duration::from_nanos(12), Duration::from_nanos(13));
    (limits, "1l 2l 3l 4l 5l 6l 7w 8l 9l 10l 11l 12l 13l ")
}

fn status() -> (GroupStatus, String) {
    let one = MemberStatus { rank: 1, node: 2, pid: Some(3), death: Some(death()) };
    let status = GroupStatus {
        group: GroupId(4),
        parent: Some(GroupId(5)),
        state: GroupState::Killed,
        database: "db".into(),
        program: b"program".to_vec(),
        age: Duration::from_nanos(6),
        members: vec![one],
    };
    (status, format!("4w 1 5w 3 db program 6l 1w 1w 2w 1 3w 1 {DEATH} "))
}

#[test]
fn requests_stand_as_documented() {
    let (group, database) = (GroupId(4), String::from("db"));
    let limit = Some(Duration::from_nanos(8));
    let (over, specs, preputs) = (set(), vec![spec()], vec![pair()]);
    is(Request::Init, "0");
    is(Request::Finalize, "1");
    is(Request::Size(group), "2 4w");
    is(Request::Open { over: over.clone(), limit }, &format!("3 {SET} 1 8l"));
    let spawn = Request::Spawn {
        group,
        specs: specs.clone(),
        preputs: preputs.clone(),
        on_death: Some(OnDeath::Notify),
    };
    is(spawn, &format!("4 4w 1w {SPEC} 1w key value 1 1"));
    is(Request::Close { over: over.clone(), group, limit: None }, &format!("5 {SET} 4w 0"));
    let multiple = Request::SpawnMultiple { specs, preputs, on_death: OnDeath::Kill, input: Readers::First };
    is(multiple, &format!("6 1w {SPEC} 1w key value 0 1"));
    is(Request::Merge { first: group, second: GroupId(5), limit }, "7 4w 5w 1 8l");
    is(Request::Free(group), "8 4w");
    is(Request::Kill(group), "9 4w");
    is(Request::Status(group), "10 4w");
    is(Request::Groups, "11");
    is(Request::Subscribe(group), "12 4w");
    is(Request::Create(Some(database.clone())), "13 1 db");
    is(Request::Destroy(database.clone()), "14 db");
    is(Request::Databases, "15");
    is(Request::Put { database: database.clone(), pair: pair(), advice: Some(7) }, "16 db key value 1 7w");
    is(Request::Get { database: database.clone(), key: b"key".to_vec() }, "17 db key");
    is(Request::Iterate(database), "18 db");
    is(Request::Deposit(pair()), "19 key value");
    is(Request::Withdraw(b"name".to_vec()), "20 name");
    is(Request::Lookup { name: b"name".to_vec(), wait: None }, "21 name 0");
    is(Request::Lookup { name: b"name".to_vec(), wait: Some(Duration::from_nanos(8)) }, "21 name 1 8l");
    is(Request::Fence { over, limit, tag: b"tag".to_vec() }, &format!("22 {SET} 1 8l tag"));
    is(Request::Abort { code: 7, message: "text".into() }, "23 7 text");
    is(Request::Limits, "24");
    let exchange =
        Request::Exchange { over: set(), limit: None, tag: b"tag".to_vec(), data: b"data".to_vec() };
    is(exchange, &format!("25 {SET} 0 tag data"));
    is(Request::Fetch(member(1, 2)), "26 1w 2w");
    is(Request::Layout(group), "27 4w");
    is(Request::Members(group), "28 4w");
    is(Request::Split { group, color: Some(5), key: -6, limit }, "29 4w 1 5w -6w 1 8l");
}

#[test]
fn answers_stand_as_documented() {
    is(Answer::Done, "0");
    let identity = Identity {
        member: member(1, 2),
        size: 3,
        parent: None,
        database: "db".into(),
        spec: 4,
        neighbours: vec![2, 5],
    };
    is(Answer::Identity(identity), "1 1w 2w 3w 0 db 4w 2w 2w 5w");
    is(Answer::Number(5), "2 5l");
    is(Answer::Group(GroupId(6)), "3 6w");
    let spawned = Answer::Spawned { group: GroupId(6), errors: vec![0, 2, -1], same_domain: true };
    is(spawned, "4 6w 3w 0w 2w -1w 1");
    is(Answer::Name("name".into()), "5 name");
    is(Answer::Names(vec!["one".into(), "two".into()]), "6 2w one two");
    is(Answer::Value(b"value".to_vec()), "7 value");
    is(Answer::Pairs(vec![pair()]), "8 1w key value");
    let (group, words) = status();
    is(Answer::Groups(vec![group]), &format!("9 1w {words}"));
    let (bounds, words) = limits();
    is(Answer::Limits(bounds), &format!("10 {words}"));
    let layout = Layout {
        group: GroupId(4),
        parent: None,
        database: "db".into(),
        specs: Vec::new(),
        blocks: Vec::new(),
        on_death: OnDeath::Kill,
        preputs: Vec::new(),
        input: Readers::None,
        pmix: None,
    };
    is(Answer::Layout(layout.into()), "11 4w 0 db 0w 0w 0 0w 0 0");
    let spans =
        [(1, 2, 3), (4, 0, 5)].map(|(group, first, count)| Span { group: GroupId(group), first, count });
    let roster = Roster { group: GroupId(6), database: "db".into(), spans: spans.to_vec() };
    is(Answer::Rosters(vec![roster]), "12 1w 6w db 2w 1w 2w 3w 4w 0w 5w");
    let states = [
        GroupState::Open,
        GroupState::Starting,
        GroupState::Running,
        GroupState::Killed,
        GroupState::Ended,
        GroupState::Derived,
    ];
    for (number, state) in states.into_iter().enumerate() {
        is(state, &number.to_string());
    }
    is(Down::Answer(5, Ok(Answer::Done)), "0 5l 1 0");
    is(Down::Notice(death()), &format!("1 {DEATH}"));
}

#[test]
fn orders_and_reports_stand_as_documented() {
    let group = GroupId(4);
    let (bounds, words) = limits();
    is(Order::Begin { nodes: vec![1, 2], limits: bounds }, &format!("0 2w 1w 2w {words}"));
    is(Order::Watch, "1");
    let purpose = || Purpose::Open;
    is(Order::Enter { meeting: meeting(), purpose: purpose() }, &format!("2 {MEETING} 1"));
    is(Order::Collect { meeting: meeting(), purpose: purpose() }, &format!("3 {MEETING} 1"));
    let outcome = Err(Fault::new(FaultKind::TooLarge, "text"));
    let release = Order::Release { meeting: meeting(), deaths: vec![death()], outcome };
    is(release, &format!("4 {MEETING} 1w {DEATH} 0 10w text 0w 0 0w"));
    let fault = Fault::new(FaultKind::TooLarge, "text");
    is(Order::Fail { meeting: meeting(), fault }, &format!("5 {MEETING} 10w text 0w 0 0w"));
    is(Order::Kill(group), "7 4w");
    is(Order::Signal(group, 9), "8 4w 9");
    is(Order::Forget(group), "9 4w");
    is(Order::Died(vec![death()]), &format!("10 1w {DEATH}"));
    is(Order::Lost(vec![3]), "11 1w 3w");
    is(Order::Find { database: "db".into(), key: b"key".to_vec() }, "12 db key");
    is(Order::List("db".into()), "13 db");
    is(Order::Destroyed("db".into()), "14 db");
    let client = Client::Tool(3);
    is(Order::AtHead { client, request: Request::Size(group) }, "15 1 3l 2 4w");
    is(Order::Status(Some(group)), "16 1 4w");
    is(Order::End, "17");
    is(Order::Missing { meeting: meeting(), purpose: purpose() }, &format!("19 {MEETING} 1"));
    is(Order::Fetch(member(1, 2)), "20 1w 2w");
    is(Report::Done, "0");
    let choices = vec![
        Choice { member: member(1, 2), color: Some(3), key: -4 },
        Choice { member: member(1, 3), color: None, key: 5 },
    ];
    let words = "1 0w 0w 0w 2w 1w 2w 1 3w -4w 1w 3w 0 5w";
    is(Report::Entries(Brought::default(), choices), words);
    is(Report::Started(vec![(1, Ok(2)), (3, Err(-4))]), "2 2w 1w 1 2w 3w 0 -4w");
    is(Report::Found(Some(b"value".to_vec())), "3 1 value");
    is(Report::Pairs(vec![pair()]), "4 1w key value");
    is(Report::Answer(Ok(Answer::Done)), "5 1 0");
    let (status, words) = status();
    is(Report::Groups(vec![status]), &format!("6 1w {words}"));
    let why = StartError { errno: 2, status: 127, host: "host".into(), why: "why".into() };
    is(Report::NotStarted(vec![(vec![1], why)]), "7 1w 1w 1w 2w 127 host why");
    is(Report::Missing(vec![member(1, 2)], 3), "8 1w 1w 2w 3l");
    is(Report::Host("host".into()), "9 host");
    for (number, need) in [PmixNeed::No, PmixNeed::Maybe, PmixNeed::Sure].into_iter().enumerate() {
        let checked = |mpi| Report::Checked { port: Some(0x201), pmix: need, mpi };
        is(checked(None), &format!("11 1 1 2 {number} 0"));
        let mpi = Mpi { open: true, library: "lib".into() };
        is(checked(Some(mpi)), &format!("11 1 1 2 {number} 1 1 lib"));
    }
}
