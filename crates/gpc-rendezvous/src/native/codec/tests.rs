//! Tests that every request and answer is decoded as it was encoded, and that other bytes are rejected.

use chained_gpc::Secret;
use proptest::prelude::*;

use super::*;
use crate::machine::Handle;

/// The caller in these tests.
const FROM: Id = 7;

fn resource() -> impl Strategy<Value = ResourceId> {
    any::<[u8; 16]>().prop_map(ResourceId)
}

fn token() -> impl Strategy<Value = Token> {
    "[!-~]{1,128}".prop_map(|text| Token::new(&text).unwrap())
}

fn job() -> impl Strategy<Value = Job> {
    any::<[u8; 16]>().prop_map(Job)
}

fn wanted() -> impl Strategy<Value = RankChoice> {
    prop_oneof![Just(RankChoice::Assign), any::<u64>().prop_map(RankChoice::Rank)]
}

fn unit() -> impl Strategy<Value = Unit> {
    prop_oneof![Just(Unit::Own), any::<u32>().prop_map(Unit::Rank)]
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![Just(Life::Unseen), any::<u64>().prop_map(Life::Lease), Just(Life::Member(FROM))]
}

fn data() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..100).prop_map(Bytes::from)
}

fn spec() -> impl Strategy<Value = Spec> {
    let parent = ("[!->@-~]{1,60}", resource(), wanted())
        .prop_map(|(url, id, rank)| Parent { handle: Handle::new(url, id).unwrap(), rank });
    let numbers = (any::<u64>(), any::<Option<u64>>(), any::<Option<u64>>(), any::<bool>());
    (numbers, prop::option::of(job()), prop::option::of(parent)).prop_map(
        |((capacity, level, lifetime, joint), job, parent)| Spec {
            capacity,
            level,
            lifetime,
            job,
            joint,
            parent,
        },
    )
}

fn ask() -> impl Strategy<Value = WireRequest> {
    prop_oneof![
        spec().prop_map(WireRequest::Create),
        (resource(), wanted(), token(), data(), life()).prop_map(|(resource, rank, token, data, life)| {
            WireRequest::Register { resource, rank, token, data, life }
        }),
        (resource(), any::<u64>(), token()).prop_map(|(resource, rank, token)| WireRequest::Withdraw {
            resource,
            rank,
            token
        }),
        (resource(), any::<bool>(), any::<u64>(), prop::option::of(token())).prop_map(
            |(resource, top, limit, token)| {
                WireRequest::Wait { resource, of: if top { Scope::Top } else { Scope::Own }, limit, token }
            }
        ),
        resource().prop_map(WireRequest::Properties),
        (resource(), any::<u64>()).prop_map(|(resource, rank)| WireRequest::Registrant { resource, rank }),
        (resource(), unit(), "\\PC{0,80}", token(), life()).prop_map(
            |(resource, unit, name, token, life)| {
                WireRequest::Control { resource, unit, name, token, life }
            }
        ),
        (resource(), unit(), token(), prop::option::of("\\PC{0,80}"))
            .prop_map(|(resource, unit, token, lost)| WireRequest::Release { resource, unit, token, lost }),
        resource().prop_map(WireRequest::Destroy),
        job().prop_map(WireRequest::EndJob),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let kind = prop::sample::select(FaultKind::ALL);
    (kind, "\\PC{0,80}", any::<Option<u64>>(), prop::option::of("\\PC{0,80}"))
        .prop_map(|(kind, message, rank, task)| Fault { rank, task, ..Fault::new(kind, message) })
}

fn properties() -> impl Strategy<Value = Properties> {
    let numbers = (any::<u16>(), any::<u32>(), any::<u32>(), any::<[u64; 4]>());
    let missing = prop::collection::vec(any::<u32>(), 0..=MISSING_MAX);
    let rest = (any::<bool>(), prop::option::of(fault()), prop::option::of(job()), any::<Option<String>>());
    (resource(), numbers, missing, rest).prop_map(|(id, numbers, missing, rest)| {
        let (level, capacity, tally, [bytes, waiting, created, expires]) = numbers;
        let (completed, failed, job, above) = rest;
        let waiting = waiting as usize;
        Properties {
            id,
            level,
            capacity,
            tally,
            missing,
            bytes,
            completed,
            failed,
            waiting,
            created,
            expires,
            job,
            above,
        }
    })
}

fn answer() -> impl Strategy<Value = Result<Answer, Fault>> {
    let secret = prop::collection::vec(any::<u8>(), 32..100).prop_map(|bytes| Secret::new(&bytes).unwrap());
    let joint = (job(), secret).prop_map(|(job, secret)| Joint { job, secret });
    prop_oneof![
        fault().prop_map(Err),
        resource().prop_map(|id| Ok(Answer::Created(id))),
        any::<[u32; 3]>().prop_map(|[rank, tally, capacity]| {
            Ok(Answer::Registered(Registration { rank, tally, capacity }))
        }),
        (any::<u16>(), data(), prop::option::of(joint))
            .prop_map(|(level, data, joint)| Ok(Answer::Completed(Completion { level, data, joint }))),
        Just(Ok(Answer::NotYet)),
        properties().prop_map(|properties| Ok(Answer::Properties(Box::new(properties)))),
        data().prop_map(|data| Ok(Answer::Data(data))),
        Just(Ok(Answer::Done)),
        any::<usize>().prop_map(|count| Ok(Answer::Ended(count))),
    ]
}

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_written(ask in ask(), more: u8) {
        let (mut header, data) = ask.encode();
        let decode = |header: &[u8]| WireRequest::decode(ask.operation(), header, data.clone(), FROM);
        prop_assert_eq!(decode(&header), Ok(ask.clone()));
        prop_assert!(decode(&header[..header.len() - 1]).is_err());
        header.push(more);
        prop_assert!(decode(&header).is_err());
        header[0] = VERSION + 1;
        prop_assert_eq!(decode(&header), Err(CodecError::Version { found: VERSION + 1, known: VERSION }));
    }

    #[test]
    fn an_answer_is_read_as_it_was_written(answer in answer(), more: u8) {
        let (mut header, data) = encode_answer(&answer);
        prop_assert_eq!(decode_answer(&header, data.clone()), Ok(answer));
        prop_assert!(decode_answer(&header[..header.len() - 1], data.clone()).is_err());
        header.push(more);
        prop_assert!(decode_answer(&header, data).is_err());
    }

    #[test]
    fn any_bytes_are_a_request_or_refused(
        operation in prop::sample::select(Operation::ALL),
        rest in prop::collection::vec(prop_oneof![0..3_u8, any::<u8>()], 0..80),
    ) {
        let header = [&[VERSION], &rest[..]].concat();
        if let Ok(ask) = WireRequest::decode(operation, &header, Bytes::new(), FROM) {
            prop_assert_eq!(ask.encode().0, header);
        }
    }

    #[test]
    fn any_bytes_are_an_answer_or_refused(rest in prop::collection::vec(prop_oneof![0..9_u8, any::<u8>()], 0..80)) {
        let header = [&[VERSION], &rest[..]].concat();
        if let Ok(answer) = decode_answer(&header, Bytes::new()) {
            prop_assert_eq!(decode_answer(&encode_answer(&answer).0, Bytes::new()), Ok(answer));
        }
    }
}

/// If the bytes could name the link, a node could have the registrations of another node withdrawn.
#[test]
fn a_caller_is_identified_by_its_link() {
    let token = Token::new("t").unwrap();
    let life = Life::Member(1);
    let ask = WireRequest::Register {
        resource: ResourceId([0; 16]),
        rank: RankChoice::Assign,
        token,
        data: Bytes::new(),
        life,
    };
    let (header, data) = ask.encode();
    let Ok(WireRequest::Register { life, .. }) = WireRequest::decode(Operation::Register, &header, data, 2)
    else {
        panic!("it is a registration")
    };
    assert_eq!(life, Life::Member(2));
}

/// Only a completion and a registrant's data have data, and only a registration brings them.
#[test]
fn data_where_none_belong_are_refused() {
    let data = || Bytes::from_static(b"x");
    for (header, has) in [(&[2, 4][..], false), (&[2, 6], true), (&[2, 7], false), (&[2, 3, 1, 0, 0], true)] {
        assert!(decode_answer(header, Bytes::new()).is_ok());
        assert_eq!(decode_answer(header, data()).is_ok(), has, "{header:?}");
    }
    let (header, _) = WireRequest::Destroy(ResourceId([1; 16])).encode();
    assert!(WireRequest::decode(Operation::Destroy, &header, Bytes::new(), FROM).is_ok());
    assert!(WireRequest::decode(Operation::Destroy, &header, data(), FROM).is_err());
}
