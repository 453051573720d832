//! Requests that a service rejects because of its limits, or because they are invalid.

use gpc_rendezvous::machine::{NAME_MAX, OVERHEAD, TOKEN_MAX};
use gpc_rendezvous::{Answer, FaultKind, Life, Limits, RankChoice, Request, Spec, Token, Unit};

use crate::support::driven::{Driven, token};

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

#[test]
fn resources_that_could_not_be_are_refused() {
    let bounds = limits(|limits| {
        (limits.capacity, limits.level) = (10, 3);
        (limits.lifetime, limits.lifetime_max) = (4000, 5000);
    });
    let mut driven = Driven::new(bounds);
    let mut kind = |spec| driven.try_create(spec).map_err(|fault| fault.kind);
    assert_eq!(kind(Spec::new(0)), Err(FaultKind::CapacityZero));
    assert_eq!(kind(Spec::new(11)), Err(FaultKind::CapacityOver));
    assert_eq!(kind(Spec::new(u64::MAX)), Err(FaultKind::CapacityOver));
    for level in [0, 4, 65_537, u64::MAX] {
        assert_eq!(kind(Spec { level: Some(level), ..Spec::new(1) }), Err(FaultKind::LevelOutOfRange));
    }
    for lifetime in [0, 5001, u64::MAX] {
        let spec = Spec { lifetime: Some(lifetime), ..Spec::new(1) };
        assert_eq!(kind(spec), Err(FaultKind::LifetimeOutOfRange));
    }
    driven.assert_empty();
    let resource = driven.create(Spec { level: Some(3), lifetime: Some(5000), ..Spec::new(10) });
    assert_eq!(driven.properties(resource).expires, 6000);
    let resource = driven.create(Spec::new(1));
    assert_eq!(driven.properties(resource).expires, 5000);
}

#[test]
fn resources_are_counted() {
    let mut driven = Driven::new(limits(|limits| limits.resources = 2));
    let first = driven.create(Spec::new(1));
    driven.create(Spec::new(1));
    assert_eq!(driven.try_create(Spec::new(1)).unwrap_err().kind, FaultKind::ServiceFull);
    driven.told(Request::Destroy(first)).unwrap();
    driven.create(Spec::new(1));
}

#[test]
fn an_id_that_is_there_is_not_drawn_again() {
    let mut driven = Driven::new(Limits::default());
    let id = driven.create(Spec::new(1));
    let random = gpc_rendezvous::machine::RandomValues { id, token: token("t"), joint: None };
    let again = driven.told(Request::Create { spec: Spec::new(2), random }).unwrap_err();
    assert_eq!((again.kind, driven.properties(id).capacity), (FaultKind::Unavailable, 1));
}

#[test]
fn data_over_the_limit_are_refused() {
    let mut driven = Driven::new(limits(|limits| limits.data = 3));
    let resource = driven.create(Spec::new(2));
    let long = driven.register(resource, RankChoice::Assign, "four").unwrap_err();
    assert_eq!(long.kind, FaultKind::DataTooLong);
    assert_eq!(driven.properties(resource).tally, 0);
    driven.register(resource, RankChoice::Assign, "two").unwrap();
}

#[test]
fn the_memory_of_all_is_bounded() {
    let mut driven = Driven::new(limits(|limits| limits.held = 3 * OVERHEAD + 10));
    let resource = driven.create(Spec::new(9));
    let register = |driven: &mut Driven, name: &str, length| {
        driven.register_with(resource, RankChoice::Assign, name, &vec![0; length], Life::Unseen)
    };
    assert_eq!(register(&mut driven, "a", 2 * OVERHEAD as usize).unwrap_err().kind, FaultKind::ServiceFull);
    register(&mut driven, "a", 10).unwrap();
    assert_eq!(register(&mut driven, "b", 1).unwrap_err().kind, FaultKind::ServiceFull);
    register(&mut driven, "b", 0).unwrap();
    assert_eq!(driven.service.load(), (1, 0, 3 * OVERHEAD + 10));
    // There is no room for another resource or controlling task; a retry needs none.
    assert_eq!(driven.try_create(Spec::new(1)).unwrap_err().kind, FaultKind::ServiceFull);
    let controller = driven.control(resource, Unit::Own, "c", Life::Unseen);
    assert_eq!(controller.unwrap_err().kind, FaultKind::ServiceFull);
    register(&mut driven, "a", 10).unwrap();
    driven.told(Request::Withdraw { resource, rank: 0, token: token("a") }).unwrap();
    driven.control(resource, Unit::Own, "c", Life::Unseen).unwrap();
    driven.told(Request::Destroy(resource)).unwrap();
    driven.assert_empty();
}

#[test]
fn those_who_wait_are_counted() {
    let mut driven = Driven::new(limits(|limits| limits.waiting = 2));
    let resource = driven.create(Spec::new(1));
    let (first, second, third) = (driven.wait(resource), driven.wait(resource), driven.wait(resource));
    assert_eq!((driven.answer(first), driven.answer(second)), (None, None));
    assert_eq!(driven.answer(third).unwrap().unwrap_err().kind, FaultKind::ServiceFull);
    driven.input(gpc_rendezvous::machine::Input::Cancelled(first));
    let fourth = driven.wait(resource);
    assert_eq!(driven.answer(fourth), None);
    // A known outcome is returned without a wait.
    driven.register(resource, RankChoice::Assign, "a").unwrap();
    driven.completion(resource).unwrap();
    assert_eq!(driven.service.load().1, 0);
}

#[test]
fn above_level_one_data_are_checked() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec { level: Some(2), ..Spec::new(2) });
    let register = |driven: &mut Driven, name: &str, data: &[u8]| {
        driven.register_with(resource, RankChoice::Assign, name, data, Life::Unseen)
    };
    for bad in [&b""[..], b"1", b"1 ", b"2 1 a", b"1 1 ab", b"01 1 a", b"1 18446744073709551615 a"] {
        let fault = register(&mut driven, "a", bad).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Malformed, "{bad:?}");
        assert!(fault.message.contains("level-1 data"), "{fault}");
    }
    assert_eq!(driven.properties(resource).tally, 0);
    register(&mut driven, "a", b"2 1 a0 ").unwrap();
    register(&mut driven, "b", b"0 ").unwrap();
    let completion = driven.completion(resource).unwrap();
    assert_eq!((completion.level, &completion.data[..]), (2, &b"2 2 1 a0 0 "[..]));
}

#[test]
fn names_and_tokens_have_lengths() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(1));
    for name in [String::new(), "n".repeat(NAME_MAX + 1)] {
        let request =
            Request::Control { resource, unit: Unit::Own, name, token: token("t"), life: Life::Unseen };
        assert_eq!(driven.told(request).unwrap_err().kind, FaultKind::BadRequest);
    }
    for text in ["", " ", "a b", "ä", "a\n", &"t".repeat(TOKEN_MAX + 1)] {
        assert_eq!(Token::new(text), None, "{text:?}");
    }
    let name = "n".repeat(NAME_MAX);
    let request = Request::Control {
        resource,
        unit: Unit::Own,
        name,
        token: token(&"t".repeat(TOKEN_MAX)),
        life: Life::Unseen,
    };
    assert_eq!(driven.told(request), Ok(Answer::Done));
}
