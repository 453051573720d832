//! Tests of the encoding: frames survive any cuts, and any other bytes are an error.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn member() -> impl Strategy<Value = Member> {
    (any::<u32>(), any::<u32>()).prop_map(|(group, rank)| Member { group: GroupId(group), rank })
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..20)
}

fn sent() -> impl Strategy<Value = SupervisorMessage> {
    let to = prop_oneof![
        Just(BindTo::Nothing),
        Just(BindTo::Core),
        Just(BindTo::Socket),
        Just(BindTo::Numa),
        "[0-9,-]{0,9}".prop_map(BindTo::Cpus),
    ];
    let order = proptest::sample::select(vec![BindOrder::Object, BindOrder::Core, BindOrder::Socket]);
    let bind = (to, order, any::<usize>(), any::<bool>());
    let bind = bind.prop_map(|(to, order, index, report)| Binding { to, order, index, report });
    let bind = option::of(bind);
    let start = (
        member(),
        text(),
        vec(text(), 0..5),
        vec((text(), text()), 0..5),
        option::of(text()),
        bind,
        option::of(text()),
    );
    prop_oneof![
        start.prop_map(|(member, program, args, env, wdir, bind, image)| {
            let start = SupervisorOrder::Start { member, program, args, env, wdir, bind, image };
            SupervisorMessage::Order(start, 4)
        }),
        (any::<u32>(), any::<u8>(), any::<bool>()).prop_map(|(group, signal, all)| {
            let to = if all { Recipients::All } else { Recipients::NotJoined };
            SupervisorMessage::Order(SupervisorOrder::Signal { group: GroupId(group), signal, to }, 0)
        }),
        (member(), any::<u32>()).prop_map(|(member, process_group)| {
            SupervisorMessage::Order(SupervisorOrder::Join { member, process_group }, 0)
        }),
        (any::<u32>(), option::of(any::<u64>())).prop_map(|(group, grace)| {
            let grace = grace.map(Duration::from_millis);
            SupervisorMessage::Order(SupervisorOrder::Kill { group: GroupId(group), grace }, 0)
        }),
        (member(), any::<i32>()).prop_map(|(member, errno)| SupervisorMessage::Refused(member, errno)),
    ]
}

fn event() -> impl Strategy<Value = SupervisorEvent> {
    let exit = prop_oneof![
        any::<u8>().prop_map(Exit::Code),
        any::<u8>().prop_map(Exit::Signal),
        any::<u32>().prop_map(Exit::Node),
        Just(Exit::Never),
        Just(Exit::OutOfMemory),
    ];
    prop_oneof![
        (member(), any::<u32>()).prop_map(|(member, pid)| SupervisorEvent::Started(member, pid)),
        (member(), any::<i32>(), any::<u8>(), ".{0,9}", ".{0,9}").prop_map(
            |(member, errno, status, host, why)| {
                SupervisorEvent::NotStarted(member, StartError { errno, status, host, why })
            }
        ),
        (member(), exit).prop_map(|(member, exit)| SupervisorEvent::Ended(member, exit)),
        any::<u32>().prop_map(|group| SupervisorEvent::Emptied(GroupId(group))),
    ]
}

/// The bodies decoded from bytes that arrive in parts of these lengths.
fn bodies(mut bytes: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let mut frames = Frames::default();
    let mut found = Vec::new();
    let mut cuts = cuts.iter().copied().cycle();
    while !bytes.is_empty() {
        let (part, rest) = bytes.split_at(cuts.next().unwrap().min(bytes.len()));
        frames.push(part);
        bytes = rest;
        while let Some(body) = frames.next().unwrap() {
            found.push(body);
        }
    }
    assert!(frames.bytes.is_empty());
    found
}

proptest! {
    #[test]
    fn orders_come_as_they_were_sent(all in vec(sent(), 0..8), cuts in vec(1..64_usize, 1..8)) {
        let mut bytes = BytesMut::new();
        for sent in &all {
            assert!(put_message(&mut bytes, sent));
        }
        let got: Vec<SupervisorMessage> = bodies(&bytes, &cuts).into_iter().map(|body| get_message(body).unwrap()).collect();
        prop_assert_eq!(got, all);
    }

    #[test]
    fn events_come_as_they_were_sent(all in vec(event(), 0..20), cuts in vec(1..20_usize, 1..8)) {
        let mut bytes = BytesMut::new();
        all.iter().for_each(|event| put_event(&mut bytes, event));
        let got: Vec<SupervisorEvent> =
            bodies(&bytes, &cuts).into_iter().map(|body| get_event(body).unwrap()).collect();
        prop_assert_eq!(got, all);
    }

    #[test]
    fn a_body_that_is_cut_or_longer_is_an_error(sent in sent(), cut in any::<prop::sample::Index>(), more in 1..9_usize) {
        let mut bytes = BytesMut::new();
        put_message(&mut bytes, &sent);
        let body = bytes.split_off(4).freeze();
        prop_assert!(get_message(body.slice(..cut.index(body.len()))).is_err());
        let longer: Vec<u8> = body.iter().copied().chain(std::iter::repeat_n(0, more)).collect();
        prop_assert!(get_message(longer.into()).is_err());
    }

    #[test]
    fn bytes_that_are_nothing_are_refused_or_read(body in vec(any::<u8>(), 0..64), kind in 0..6_u8) {
        let body: Bytes = std::iter::once(kind).chain(body).collect();
        if let Ok(sent) = get_message(body.clone()) {
            let mut bytes = BytesMut::new();
            put_message(&mut bytes, &sent);
            prop_assert_eq!(get_message(bytes.split_off(4).freeze()), Ok(sent));
        }
        if let Ok(event) = get_event(body) {
            let mut bytes = BytesMut::new();
            put_event(&mut bytes, &event);
            prop_assert_eq!(get_event(bytes.split_off(4).freeze()), Ok(event));
        }
    }
}

#[test]
fn what_is_too_long_is_not_appended_and_not_awaited() {
    let mut order = SupervisorOrder::Start {
        member: Member { group: GroupId(0), rank: 0 },
        program: vec![b'x'; FRAME_MAX / 2],
        args: vec![vec![b'y'; FRAME_MAX / 2 - 100]],
        env: Vec::new(),
        wdir: None,
        bind: None,
        image: None,
    };
    let mut bytes = BytesMut::from(&b"before"[..]);
    assert!(put_message(&mut bytes, &SupervisorMessage::Order(order.clone(), 4)));
    bytes.truncate(6);
    if let SupervisorOrder::Start { env, .. } = &mut order {
        env.push((vec![b'z'; 60], vec![b'z'; 60]));
    }
    assert!(!put_message(&mut bytes, &SupervisorMessage::Order(order, 4)));
    assert_eq!(bytes, &b"before"[..]);
    let mut frames = Frames::default();
    frames.push(&u32::try_from(FRAME_MAX + 1).unwrap().to_le_bytes());
    assert!(frames.next().is_err());
}

/// An announced count reserves no memory.
#[test]
fn a_count_that_nothing_follows_is_an_error() {
    let mut body = BytesMut::new();
    body.put_slice(&[1, 4]);
    put_member(&mut body, Member { group: GroupId(1), rank: 2 });
    put_bytes(&mut body, b"program");
    body.put_u32_le(u32::MAX);
    assert_eq!(get_message(body.freeze()), Err(SHORT));
}

#[test]
fn the_largest_frame_is_taken_and_no_larger_one() {
    for (length, is_taken) in [(FRAME_MAX, true), (FRAME_MAX + 1, false)] {
        let mut frames = Frames::default();
        frames.push(&(length as u32).to_le_bytes());
        assert_eq!(frames.next().is_ok(), is_taken);
        assert_eq!(frames.next().ok().flatten(), None);
    }
}
