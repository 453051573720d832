//! Registration: assigned and chosen ranks, and rejected requests.

use gpc_rendezvous::machine::RandomValues;
use gpc_rendezvous::{Answer, FaultKind, Life, Limits, RankChoice, Registration, Request, Spec};

use crate::support::driven::{Driven, id, joint, token};

fn registered(rank: u32, tally: u32, capacity: u32) -> Registration {
    Registration { rank, tally, capacity }
}

/// The example of the source: capacity 7, with the chosen ranks 0, 1, 3 and 5 taken.
#[test]
fn ranks_are_assigned_as_the_source_does() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(7));
    for rank in [0, 1, 3, 5] {
        driven.register(resource, RankChoice::Rank(rank), &format!("task-{rank}")).unwrap();
    }
    assert_eq!(driven.properties(resource).missing, [2, 4, 6]);
    let assigned = ["a", "b", "c"].map(|name| driven.register(resource, RankChoice::Assign, name).unwrap());
    assert_eq!(assigned, [registered(4, 5, 7), registered(2, 6, 7), registered(6, 7, 7)]);
    let completion = driven.completion(resource).unwrap();
    assert_eq!((completion.level, completion.joint), (1, None));
    assert_eq!(&completion.data[..], b"7 6 task-06 task-11 b6 task-31 a6 task-51 c");
}

#[test]
fn one_registrant_is_enough_where_the_capacity_is_one() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec { joint: true, ..Spec::new(1) });
    let waiting = driven.wait(resource);
    assert_eq!(driven.register(resource, RankChoice::Assign, "x"), Ok(registered(0, 1, 1)));
    let Some(Ok(Answer::Completed(completion))) = driven.answer(waiting) else { panic!("{waiting:?}") };
    assert_eq!((&completion.data[..], completion.joint), (&b"1 1 x"[..], Some(joint())));
}

#[test]
fn data_may_be_empty() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    for name in ["a", "b"] {
        driven.register_with(resource, RankChoice::Assign, name, b"", Life::Unseen).unwrap();
    }
    assert_eq!(&driven.completion(resource).unwrap().data[..], b"2 0 0 ");
}

#[test]
fn who_asks_again_gets_the_same_answer_and_is_no_second_registrant() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(3));
    assert_eq!(driven.register(resource, RankChoice::Assign, "a"), Ok(registered(0, 1, 3)));
    assert_eq!(driven.register(resource, RankChoice::Assign, "a"), Ok(registered(0, 1, 3)));
    assert_eq!(driven.register(resource, RankChoice::Rank(0), "a"), Ok(registered(0, 1, 3)));
    driven.register(resource, RankChoice::Rank(2), "c").unwrap();
    assert_eq!(driven.register(resource, RankChoice::Rank(2), "c"), Ok(registered(2, 2, 3)));
    driven.register(resource, RankChoice::Assign, "b").unwrap();
    // The resource is complete, but the answer may have been lost.
    assert_eq!(driven.register(resource, RankChoice::Assign, "a"), Ok(registered(0, 3, 3)));
    assert_eq!(&driven.completion(resource).unwrap().data[..], b"3 1 a1 b1 c");
}

#[test]
fn a_token_is_for_one_registrant() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(3));
    driven.register(resource, RankChoice::Rank(1), "a").unwrap();
    let other_rank = driven.register(resource, RankChoice::Rank(2), "a").unwrap_err();
    let other_data =
        driven.register_with(resource, RankChoice::Rank(1), "a", b"z", Life::Unseen).unwrap_err();
    assert_eq!((other_rank.kind, other_rank.rank), (FaultKind::TokenReused, Some(1)));
    assert_eq!((other_data.kind, other_data.rank), (FaultKind::TokenReused, Some(1)));
    assert!(other_rank.message.contains("another rank"), "{other_rank}");
    assert!(other_data.message.contains("other data"), "{other_data}");
    assert_eq!(driven.properties(resource).tally, 1);
    // The same token may register at another resource.
    let second = driven.create(Spec::new(1));
    driven.register_with(second, RankChoice::Assign, "a", b"z", Life::Unseen).unwrap();
}

#[test]
fn a_rejected_registration_names_the_reason() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.register(resource, RankChoice::Rank(1), "b").unwrap();
    let taken = driven.register(resource, RankChoice::Rank(1), "c").unwrap_err();
    assert_eq!((taken.kind, taken.rank), (FaultKind::RankTaken, Some(1)));
    for rank in [2, u64::from(u32::MAX), u64::MAX] {
        let outside = driven.register(resource, RankChoice::Rank(rank), "c").unwrap_err();
        assert_eq!((outside.kind, outside.rank), (FaultKind::RankOutOfRange, Some(rank)));
        assert!(outside.message.ends_with("0 to 1"), "{outside}");
    }
    driven.register(resource, RankChoice::Assign, "a").unwrap();
    let late = driven.register(resource, RankChoice::Assign, "c").unwrap_err();
    assert_eq!(late.kind, FaultKind::CapacityReached);
    assert_eq!(
        driven.register(id(99), RankChoice::Assign, "c").unwrap_err().kind,
        FaultKind::UnknownResource
    );
}

#[test]
fn a_registration_is_taken_back_by_its_own_token_alone() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.register(resource, RankChoice::Rank(0), "a").unwrap();
    let withdraw = |rank, name| Request::Withdraw { resource, rank, token: token(name) };
    let kind = |driven: &mut Driven, rank, name| driven.told(withdraw(rank, name)).unwrap_err().kind;
    assert_eq!(kind(&mut driven, 0, "b"), FaultKind::NotRegistered);
    assert_eq!(kind(&mut driven, 1, "a"), FaultKind::NotRegistered);
    assert_eq!(kind(&mut driven, 2, "a"), FaultKind::RankOutOfRange);
    assert_eq!(driven.told(withdraw(0, "a")), Ok(Answer::Done));
    assert_eq!((driven.properties(resource).tally, driven.properties(resource).bytes), (0, 0));
    // The rank is free, and so is the token.
    driven.register(resource, RankChoice::Rank(0), "b").unwrap();
    driven.register_with(resource, RankChoice::Assign, "a", b"other", Life::Unseen).unwrap();
    assert_eq!(kind(&mut driven, 0, "b"), FaultKind::Complete);
    assert_eq!(&driven.completion(resource).unwrap().data[..], b"2 1 b5 other");
}

#[test]
fn what_a_registrant_has_brought_can_be_read() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    let read = |driven: &mut Driven, rank| driven.told(Request::Registrant { resource, rank });
    driven.register(resource, RankChoice::Rank(1), "second").unwrap();
    assert_eq!(read(&mut driven, 1), Ok(Answer::Data("second".into())));
    assert_eq!(read(&mut driven, 0).unwrap_err().kind, FaultKind::NotRegistered);
    assert_eq!(read(&mut driven, 2).unwrap_err().kind, FaultKind::RankOutOfRange);
    driven.register(resource, RankChoice::Rank(0), "first").unwrap();
    // The data are slices of the joined data by now.
    assert_eq!(read(&mut driven, 1), Ok(Answer::Data("second".into())));
    assert_eq!(driven.properties(resource).bytes, 11);
}

#[test]
fn the_properties_say_how_it_fills() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec { lifetime: Some(5000), ..Spec::new(40) });
    driven.register(resource, RankChoice::Rank(1), "one").unwrap();
    driven.wait(resource);
    let properties = driven.properties(resource);
    assert_eq!((properties.id, properties.level, properties.capacity), (resource, 1, 40));
    assert_eq!((properties.tally, properties.bytes, properties.waiting), (1, 3, 1));
    assert_eq!((properties.created, properties.expires), (1000, 6000));
    assert_eq!((properties.completed, properties.failed), (false, None));
    assert_eq!(properties.missing, [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    assert_eq!(driven.told(Request::List { most: 0 }), Ok(Answer::List(Vec::new())));
    driven.at(2000);
    let second = driven.create(Spec::new(1));
    let Ok(Answer::List(listed)) = driven.told(Request::List { most: 9 }) else { panic!("no list") };
    assert_eq!(listed.iter().map(|listed| listed.id).collect::<Vec<_>>(), [second, resource]);
}

/// The driver draws a secret for each resource; only those that ask for it get it.
#[test]
fn a_secret_is_for_those_who_ask_for_it() {
    for asks in [false, true] {
        let mut driven = Driven::new(Limits::default());
        let random = RandomValues { id: id(9), token: token("above"), joint: Some(joint()) };
        let spec = Spec { joint: asks, ..Spec::new(1) };
        driven.told(Request::Create { spec, random }).unwrap();
        driven.register(id(9), RankChoice::Assign, "a").unwrap();
        assert_eq!(driven.completion(id(9)).unwrap().joint.is_some(), asks);
    }
}
