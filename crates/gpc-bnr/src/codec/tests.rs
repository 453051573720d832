//! Tests of the encoding: decoding reverses encoding, and accepts nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

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

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..6)
}

fn text() -> impl Strategy<Value = String> {
    ".{0,4}"
}

fn group() -> impl Strategy<Value = GroupId> {
    any::<u32>().prop_map(GroupId)
}

fn member() -> impl Strategy<Value = Member> {
    (group(), any::<u32>()).prop_map(|(group, rank)| Member { group, rank })
}

fn set() -> impl Strategy<Value = Set> {
    prop_oneof![group().prop_map(Set::Group), btree_set(member(), 0..4).prop_map(Set::Members),]
}

fn death() -> impl Strategy<Value = Death> {
    let exit = prop_oneof![
        any::<u8>().prop_map(Exit::Code),
        any::<u8>().prop_map(Exit::Signal),
        any::<u32>().prop_map(Exit::Node),
        Just(Exit::Never),
        Just(Exit::OutOfMemory),
    ];
    (member(), exit, any::<bool>()).prop_map(|(member, exit, finalized)| Death { member, exit, finalized })
}

fn fault() -> impl Strategy<Value = Fault> {
    let who = (vec(death(), 0..3), vec(member(), 0..3));
    (select(&FaultKind::ALL[..]), text(), who, option::of(any::<u32>()))
        .prop_map(|(kind, message, (deaths, missing), node)| Fault { kind, message, deaths, node, missing })
}

fn pair() -> impl Strategy<Value = Pair> {
    (bytes(), bytes()).prop_map(|(key, value)| Pair { key, value })
}

/// Any number of nanoseconds that fits into 8 bytes.
fn time() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn limit() -> impl Strategy<Value = Option<Duration>> {
    option::of(time())
}

fn spec() -> impl Strategy<Value = Spec> {
    let env = vec((bytes(), bytes()), 0..2);
    let info = vec((text(), bytes()), 0..2);
    (any::<u32>(), bytes(), vec(bytes(), 0..3), env, info)
        .prop_map(|(count, program, args, env, info)| Spec { count, program, args, env, info })
}

fn on_death() -> impl Strategy<Value = OnDeath> {
    prop_oneof![Just(OnDeath::Kill), Just(OnDeath::Notify)]
}

fn readers() -> impl Strategy<Value = Readers> {
    prop_oneof![
        Just(Readers::None),
        Just(Readers::First),
        Just(Readers::All),
        any::<u32>().prop_map(Readers::Rank),
    ]
}

fn layout() -> impl Strategy<Value = Layout> {
    let blocks = vec((any::<u32>(), any::<prop::sample::Index>(), 1..1000_u32), 0..4);
    let preputs = vec((bytes(), bytes()), 0..3);
    let host = (any::<u32>(), text(), any::<u32>());
    let host = host.prop_map(|(node, name, before)| PmixHost { node, name, before });
    let plan = (any::<bool>(), vec(host, 0..3));
    let plan = option::of(plan.prop_map(|(required, hosts)| PmixPlan { required, hosts }));
    let rest = (on_death(), preputs, readers(), plan);
    (group(), option::of(group()), text(), vec(spec(), 1..3), blocks, rest).prop_map(
        |(group, parent, database, specs, blocks, (on_death, preputs, input, pmix))| {
            let mut first = 0;
            let block = |(node, spec, count): (u32, prop::sample::Index, u32)| {
                let block = Block { node, spec: spec.index(specs.len()) as u32, first, count };
                first += count;
                block
            };
            let blocks = blocks.into_iter().map(block).collect();
            Layout { group, parent, database, specs, blocks, on_death, preputs, input, pmix }
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let spawn = (group(), vec(spec(), 0..2), vec(pair(), 0..2), option::of(on_death()))
        .prop_map(|(group, specs, preputs, on_death)| Request::Spawn { group, specs, preputs, on_death });
    let multiple = (vec(spec(), 0..2), vec(pair(), 0..2), on_death(), readers()).prop_map(
        |(specs, preputs, on_death, input)| Request::SpawnMultiple { specs, preputs, on_death, input },
    );
    prop_oneof![
        select(vec![Request::Init, Request::Finalize, Request::Groups, Request::Databases, Request::Limits]),
        group().prop_map(Request::Size),
        (set(), limit()).prop_map(|(over, limit)| Request::Open { over, limit }),
        spawn,
        (set(), group(), limit()).prop_map(|(over, group, limit)| Request::Close { over, group, limit }),
        multiple,
        (group(), group(), limit()).prop_map(|(first, second, limit)| Request::Merge {
            first,
            second,
            limit
        }),
        group().prop_map(Request::Free),
        group().prop_map(Request::Kill),
        group().prop_map(Request::Status),
        group().prop_map(Request::Subscribe),
        option::of(text()).prop_map(Request::Create),
        text().prop_map(Request::Destroy),
        (text(), pair(), option::of(any::<u32>())).prop_map(|(database, pair, advice)| Request::Put {
            database,
            pair,
            advice
        }),
        (text(), bytes()).prop_map(|(database, key)| Request::Get { database, key }),
        text().prop_map(Request::Iterate),
        pair().prop_map(Request::Deposit),
        bytes().prop_map(Request::Withdraw),
        (bytes(), limit()).prop_map(|(name, wait)| Request::Lookup { name, wait }),
        (set(), limit(), bytes()).prop_map(|(over, limit, tag)| Request::Fence { over, limit, tag }),
        (any::<u8>(), text()).prop_map(|(code, message)| Request::Abort { code, message }),
        (set(), limit(), bytes(), bytes()).prop_map(|(over, limit, tag, data)| Request::Exchange {
            over,
            limit,
            tag,
            data
        }),
        member().prop_map(Request::Fetch),
        group().prop_map(Request::Layout),
        group().prop_map(Request::Members),
        (group(), option::of(any::<u32>()), any::<i32>(), limit())
            .prop_map(|(group, color, key, limit)| Request::Split { group, color, key, limit }),
    ]
}

fn group_status() -> impl Strategy<Value = GroupStatus> {
    let member = (any::<u32>(), any::<u32>(), option::of(any::<u32>()), option::of(death()))
        .prop_map(|(rank, node, pid, death)| MemberStatus { rank, node, pid, death });
    let state = select(vec![
        GroupState::Open,
        GroupState::Starting,
        GroupState::Running,
        GroupState::Killed,
        GroupState::Ended,
        GroupState::Derived,
    ]);
    (group(), option::of(group()), state, text(), bytes(), time(), vec(member, 0..3)).prop_map(
        |(group, parent, state, database, program, age, members)| GroupStatus {
            group,
            parent,
            state,
            database,
            program,
            age,
            members,
        },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    let counts = proptest::array::uniform9(any::<usize>());
    (counts, any::<u32>(), time(), time(), time()).prop_map(|(counts, group, fence, ask, grace)| {
        let [key, value, name, database, databases, names, groups, spawn, waiting] = counts;
        Limits {
            key,
            value,
            name,
            database,
            databases,
            names,
            group,
            groups,
            spawn,
            waiting,
            fence,
            ask,
            grace,
        }
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    let neighbours = vec(any::<u32>(), 0..4);
    let identity = (member(), any::<u32>(), option::of(group()), text(), any::<u32>(), neighbours).prop_map(
        |(member, size, parent, database, spec, neighbours)| {
            Answer::Identity(Identity { member, size, parent, database, spec, neighbours })
        },
    );
    prop_oneof![
        Just(Answer::Done),
        identity,
        any::<u64>().prop_map(Answer::Number),
        group().prop_map(Answer::Group),
        (group(), vec(any::<i32>(), 0..4), any::<bool>())
            .prop_map(|(group, errors, same_domain)| { Answer::Spawned { group, errors, same_domain } }),
        text().prop_map(Answer::Name),
        vec(text(), 0..3).prop_map(Answer::Names),
        bytes().prop_map(Answer::Value),
        vec(pair(), 0..3).prop_map(Answer::Pairs),
        vec(group_status(), 0..2).prop_map(Answer::Groups),
        limits().prop_map(Answer::Limits),
        layout().prop_map(|layout| Answer::Layout(layout.into())),
        vec(roster(), 0..3).prop_map(Answer::Rosters),
    ]
}

fn roster() -> impl Strategy<Value = Roster> {
    let members = btree_set((0..3_u32, 0..9_u32), 0..9)
        .prop_map(|members| members.into_iter().map(|(group, rank)| Member { group: GroupId(group), rank }));
    let members = members.prop_map(Iterator::collect::<Vec<_>>).prop_shuffle();
    (group(), text(), members).prop_map(|(group, database, members)| Roster::new(group, database, members))
}

fn answered() -> impl Strategy<Value = Result<Answer, Fault>> {
    prop_oneof![answer().prop_map(Ok), fault().prop_map(Err)]
}

fn meeting() -> impl Strategy<Value = Meeting> {
    (set(), bytes(), any::<u64>()).prop_map(|(set, tag, epoch)| Meeting { set, tag, epoch })
}

fn brought() -> impl Strategy<Value = Brought> {
    let stamp = (any::<u64>(), member(), any::<u64>());
    let stamp = stamp.prop_map(|(clock, member, number)| Stamp { clock, member, number });
    let entry = (text(), pair(), stamp).prop_map(|(database, pair, stamp)| Entry { database, pair, stamp });
    let after = proptest::collection::btree_set(meeting(), 0..3);
    (vec(entry, 0..3), after, bytes()).prop_map(|(entries, after, data)| Brought { entries, after, data })
}

fn choice() -> impl Strategy<Value = Choice> {
    (member(), option::of(any::<u32>()), any::<i32>()).prop_map(|(member, color, key)| Choice {
        member,
        color,
        key,
    })
}

fn order() -> impl Strategy<Value = Order> {
    let purpose = || {
        prop_oneof![
            Just(Purpose::Fence),
            Just(Purpose::Open),
            group().prop_map(Purpose::Close),
            (group(), group()).prop_map(|(first, second)| Purpose::Merge(first, second)),
            Just(Purpose::Split),
        ]
    };
    let client = prop_oneof![member().prop_map(Client::Process), any::<u64>().prop_map(Client::Tool)];
    let outcome = prop_oneof![(brought(), answer()).prop_map(Ok), fault().prop_map(Err)];
    prop_oneof![
        (vec(any::<u32>(), 0..4), limits()).prop_map(|(nodes, limits)| Order::Begin { nodes, limits }),
        select(vec![Order::Watch, Order::End]),
        (meeting(), purpose()).prop_map(|(meeting, purpose)| Order::Enter { meeting, purpose }),
        (meeting(), purpose()).prop_map(|(meeting, purpose)| Order::Collect { meeting, purpose }),
        (meeting(), vec(death(), 0..3), outcome).prop_map(|(meeting, deaths, outcome)| Order::Release {
            meeting,
            deaths,
            outcome
        }),
        (meeting(), fault()).prop_map(|(meeting, fault)| Order::Fail { meeting, fault }),
        layout().prop_map(|layout| Order::Start(layout.into())),
        layout().prop_map(|layout| Order::Check(layout.into())),
        group().prop_map(Order::Kill),
        (group(), any::<u8>()).prop_map(|(group, signal)| Order::Signal(group, signal)),
        group().prop_map(Order::Forget),
        vec(death(), 0..3).prop_map(Order::Died),
        vec(any::<u32>(), 0..3).prop_map(Order::Lost),
        (text(), bytes()).prop_map(|(database, key)| Order::Find { database, key }),
        text().prop_map(Order::List),
        text().prop_map(Order::Destroyed),
        (client, request()).prop_map(|(client, request)| Order::AtHead { client, request }),
        option::of(group()).prop_map(Order::Status),
        (meeting(), purpose()).prop_map(|(meeting, purpose)| Order::Missing { meeting, purpose }),
        member().prop_map(Order::Fetch),
    ]
}

fn start_error() -> impl Strategy<Value = StartError> {
    (any::<i32>(), any::<u8>(), text(), text()).prop_map(|(errno, status, host, why)| StartError {
        errno,
        status,
        host,
        why,
    })
}

fn report() -> impl Strategy<Value = Report> {
    let started = prop_oneof![any::<u32>().prop_map(Ok), any::<i32>().prop_map(Err)];
    let need = select(vec![PmixNeed::No, PmixNeed::Maybe, PmixNeed::Sure]);
    let mpi = (any::<bool>(), text()).prop_map(|(open, library)| Mpi { open, library });
    prop_oneof![
        Just(Report::Done),
        (brought(), vec(choice(), 0..3)).prop_map(|(brought, choices)| Report::Entries(brought, choices)),
        vec((any::<u32>(), started), 0..4).prop_map(Report::Started),
        vec((vec(any::<u32>(), 0..4), start_error()), 0..3).prop_map(Report::NotStarted),
        option::of(bytes()).prop_map(Report::Found),
        vec(pair(), 0..3).prop_map(Report::Pairs),
        answered().prop_map(Report::Answer),
        vec(group_status(), 0..2).prop_map(Report::Groups),
        (vec(member(), 0..3), any::<u64>()).prop_map(|(members, more)| Report::Missing(members, more)),
        text().prop_map(Report::Host),
        (option::of(any::<u16>()), need, option::of(mpi)).prop_map(|(port, pmix, mpi)| Report::Checked {
            port,
            pmix,
            mpi
        }),
    ]
}

fn down() -> impl Strategy<Value = Down> {
    prop_oneof![
        (any::<u64>(), answered()).prop_map(|(serial, answer)| Down::Answer(serial, answer)),
        death().prop_map(Down::Notice),
    ]
}

/// Valid bytes become invalid when cut anywhere, or when one byte is appended.
fn spoilt<T: std::fmt::Debug + PartialEq>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, CodecError>,
) -> Result<(), TestCaseError> {
    for length in 0..bytes.len() {
        prop_assert_eq!(decode(&bytes[..length]), Err(CodecError::Short));
    }
    prop_assert_eq!(decode(&[bytes, &[0]].concat()), Err(CodecError::Long));
    Ok(())
}

/// The body of a frame, without the length.
fn body(frame: &[u8]) -> &[u8] {
    let (length, body) = frame.split_first_chunk().unwrap();
    assert_eq!(u32::from_le_bytes(*length) as usize, body.len());
    body
}

proptest! {
    #[test]
    fn an_order_is_what_was_said(order in order(), at: prop::sample::Index, byte: u8) {
        let bytes = encode_order(&order);
        let again = decode_order(&bytes);
        prop_assert_eq!(again.as_ref(), Ok(&order));
        spoilt(&bytes, decode_order)?;
        let mut changed = bytes.to_vec();
        changed[at.index(bytes.len())] = byte;
        if let Ok(other) = decode_order(&changed) {
            prop_assert_eq!(encode_order(&other), changed);
        }
    }

    #[test]
    fn a_report_is_what_was_said(report in report(), at: prop::sample::Index, byte: u8) {
        let bytes = encode_report(&report);
        let again = decode_report(&bytes);
        prop_assert_eq!(again.as_ref(), Ok(&report));
        spoilt(&bytes, decode_report)?;
        let mut changed = bytes.to_vec();
        changed[at.index(bytes.len())] = byte;
        if let Ok(other) = decode_report(&changed) {
            prop_assert_eq!(encode_report(&other), changed);
        }
    }

    #[test]
    fn a_request_is_what_was_asked(serial: u64, request in request()) {
        let frame = encode_up(serial, &request).unwrap();
        prop_assert_eq!(decode_up(body(&frame)), Ok((serial, request)));
        spoilt(body(&frame), decode_up)?;
    }

    #[test]
    fn an_answer_is_what_was_said(down in down()) {
        let frame = encode_down(&down);
        let again = decode_down(body(&frame));
        prop_assert_eq!(again.as_ref(), Ok(&down));
        spoilt(body(&frame), decode_down)?;
    }

    /// Any bytes are invalid, or the only encoding of their value.
    #[test]
    fn any_bytes(bytes in vec(prop_oneof![0..4_u8, any::<u8>()], 0..200)) {
        let versioned = [&[VERSION][..], &bytes].concat();
        if let Ok(order) = decode_order(&versioned) {
            prop_assert_eq!(encode_order(&order), &versioned);
        }
        if let Ok(report) = decode_report(&versioned) {
            prop_assert_eq!(encode_report(&report), &versioned);
        }
        if let Ok((serial, request)) = decode_up(&bytes) {
            let frame = encode_up(serial, &request).unwrap();
            prop_assert_eq!(body(&frame), &bytes);
        }
        if let Ok(down) = decode_down(&bytes) {
            let frame = encode_down(&down);
            prop_assert_eq!(body(&frame), &bytes);
        }
    }
}

/// The example in `docs/bnr-wire.md`.
#[test]
fn the_bytes_of_an_order() {
    let meeting = Meeting { set: Set::Group(GroupId(3)), tag: b"A".to_vec(), epoch: 2 };
    let bytes = encode_order(&Order::Collect { meeting, purpose: Purpose::Close(GroupId(4)) });
    let expected = [
        &[VERSION, 3][..],
        &[0, 3, 0, 0, 0],
        &[1, 0, 0, 0, b'A'],
        &[2, 0, 0, 0, 0, 0, 0, 0],
        &[2, 4, 0, 0, 0],
    ];
    assert_eq!(bytes, expected.concat());
    let put = Request::Put {
        database: "d".into(),
        pair: Pair { key: b"k".to_vec(), value: b"vw".to_vec() },
        advice: Some(7),
    };
    let frame = encode_up(9, &put).unwrap();
    let expected = [
        &[30, 0, 0, 0][..],
        &[9, 0, 0, 0, 0, 0, 0, 0, 16],
        &[1, 0, 0, 0, b'd', 1, 0, 0, 0, b'k', 2, 0, 0, 0, b'v', b'w'],
        &[1, 7, 0, 0, 0],
    ];
    assert_eq!(frame, expected.concat());
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(decode_order(&[1, 1]), Err(CodecError::Version { found: 1, known: VERSION }));
    assert_eq!(decode_order(&[VERSION, 99]), Err(CodecError::Field("there is no such order")));
    // A text, a flag, a fault, members out of order, and a duplicate member.
    assert_eq!(decode_order(&[VERSION, 13, 1, 0, 0, 0, 255]), Err(CodecError::Field("a text is no UTF-8")));
    assert_eq!(decode_order(&[VERSION, 16, 2]), Err(CodecError::Field("a flag is 0 or 1")));
    let of_fault = decode_report(&[VERSION, 5, 0, 22, 0, 0, 0]);
    assert_eq!(of_fault, Err(CodecError::Field("there is no such fault")));
    let member = |rank: u8| [1, 0, 0, 0, rank, 0, 0, 0];
    for (one, two) in [(2, 1), (2, 2)] {
        let bytes = [&[VERSION, 2, 1, 2, 0, 0, 0][..], &member(one), &member(two)].concat();
        assert_eq!(
            decode_order(&bytes),
            Err(CodecError::Field("elements of a set are not in ascending order"))
        );
    }
}

/// A list that announces 4 GiB and has no elements allocates nothing.
#[test]
fn a_length_is_not_believed() {
    for bytes in [&[VERSION, 10, 255, 255, 255, 255][..], &[VERSION, 13, 255, 255, 255, 255, b'x']] {
        assert_eq!(decode_order(bytes), Err(CodecError::Short));
    }
}

#[test]
fn the_ranks_of_a_group_have_no_gap() {
    let layout = |blocks: &[(u32, u32, u32)]| {
        let block = |&(spec, first, count): &(u32, u32, u32)| Block { node: 0, spec, first, count };
        let layout = Layout {
            group: GroupId(1),
            parent: None,
            database: String::new(),
            specs: vec![Spec::default()],
            blocks: blocks.iter().map(block).collect(),
            on_death: OnDeath::Kill,
            preputs: Vec::new(),
            input: Readers::None,
            pmix: None,
        };
        decode_order(&encode_order(&Order::Start(layout.into())))
    };
    assert!(layout(&[(0, 0, 2), (0, 2, 1)]).is_ok());
    let follow = Err(CodecError::Field("the blocks of a group do not follow each other"));
    for wrong in [&[(0, 1, 2)][..], &[(0, 0, 2), (0, 3, 1)], &[(0, 0, 0)], &[(1, 0, 1)]] {
        assert_eq!(layout(wrong), follow, "{wrong:?}");
    }
    let many = layout(&[(0, 0, u32::MAX), (0, u32::MAX, 1)]);
    assert_eq!(many, Err(CodecError::Field("a group has too many ranks")));
}

/// Each list of processes has one encoding, and its ranks can be counted.
#[test]
fn the_processes_of_a_group_occur_once() {
    let roster = |spans: &[(u32, u32, u32)]| {
        let span = |&(group, first, count): &(u32, u32, u32)| Span { group: GroupId(group), first, count };
        let spans = spans.iter().map(span).collect();
        let roster = Roster { group: GroupId(9), database: String::new(), spans };
        decode_down(body(&encode_down(&Down::Answer(0, Ok(Answer::Rosters(vec![roster]))))))
    };
    assert!(roster(&[(1, 2, 2), (1, 0, 2), (2, 2, 1)]).is_ok() && roster(&[]).is_ok());
    for (spans, why) in [
        (&[(1, 0, 0)][..], "a span of ranks has none, or too many"),
        (&[(1, 0, 2), (1, 2, 1)], "a span of ranks continues the one before"),
        (&[(1, 0, 2), (2, 0, 1), (1, 1, 2)], "a process occurs twice in a group"),
    ] {
        assert_eq!(roster(spans), Err(CodecError::Field(why)));
    }
}

#[test]
fn a_time_that_is_too_long_is_the_longest() {
    let request = Request::Open { over: Set::Members(BTreeSet::new()), limit: Some(Duration::MAX) };
    let frame = encode_up(0, &request).unwrap();
    let (_, Request::Open { limit, .. }) = decode_up(body(&frame)).unwrap() else { panic!("{frame:?}") };
    assert_eq!(limit, Some(Duration::from_nanos(u64::MAX)));
}

#[test]
fn what_is_too_large_is_a_fault() {
    let value = vec![0; UP_MAX];
    let pair = Pair { key: Vec::new(), value };
    let fault = encode_up(1, &Request::Deposit(pair)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::TooLarge);
    let down = Down::Answer(5, Ok(Answer::Value(vec![0; DOWN_MAX])));
    let said = decode_down(body(&encode_down(&down))).unwrap();
    let Down::Answer(5, Err(fault)) = said else { panic!("{said:?}") };
    assert_eq!(fault.kind, FaultKind::TooLarge);
}

#[test]
fn frames_are_taken_as_they_come() {
    let mut come = ::bytes::BytesMut::new();
    let stream = [&[3, 0, 0, 0][..], b"abc", &[0, 0, 0, 0], &[4, 0, 0, 0], b"x"].concat();
    let mut taken = Vec::new();
    for byte in stream {
        come.extend_from_slice(&[byte]);
        while let Frame::Whole(body) = take_frame(&mut come, 4).unwrap() {
            taken.push(body);
        }
    }
    assert_eq!(taken, [&b"abc"[..], b""]);
    assert_eq!(&come[..], [4, 0, 0, 0, b'x']);
    // A frame without a body is complete with its length.
    let mut empty = ::bytes::BytesMut::from(&[0; 4][..]);
    assert_eq!(take_frame(&mut empty, 0), Ok(Frame::Whole(Bytes::new())));
    assert_eq!(take_frame(&mut come, 3), Err(FrameError { length: 4, max: 3 }));
}
