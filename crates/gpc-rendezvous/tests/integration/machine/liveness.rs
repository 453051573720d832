//! Liveness of registrants and controlling tasks.

use chained_gpc::Id;
use gpc_rendezvous::machine::{Input, Ticket};
use gpc_rendezvous::{
    Answer, FaultKind, Life, Limits, RankChoice, Request, ResourceId, Scope, Spec, Token, Unit,
};

use crate::support::driven::{Driven, token};

const LEASE: Life = Life::Lease(100);
const MEMBER: Id = 5;

fn wait_as(driven: &mut Driven, resource: ResourceId, until: u64, token: Token) -> Ticket {
    driven.ask(Request::Wait { resource, of: Scope::Own, until: Some(until), token: Some(token) })
}

#[test]
fn a_registrant_that_is_not_heard_of_is_withdrawn() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.register_with(resource, RankChoice::Assign, "a", b"1", LEASE).unwrap();
    driven.at(1099);
    assert_eq!(driven.properties(resource).tally, 1);
    driven.at(1100);
    assert_eq!(driven.properties(resource).tally, 0);
    // The registrant returns after another has taken its place.
    driven.register(resource, RankChoice::Rank(0), "b").unwrap();
    let again = driven.register_with(resource, RankChoice::Assign, "a", b"1", LEASE).unwrap();
    assert_eq!((again.rank, again.tally), (1, 2));
}

#[test]
fn who_asks_again_or_waits_lives() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.register_with(resource, RankChoice::Assign, "a", b"1", LEASE).unwrap();
    driven.at(1090);
    driven.register_with(resource, RankChoice::Assign, "a", b"1", LEASE).unwrap();
    driven.at(1180);
    let ticket = wait_as(&mut driven, resource, 5000, token("a"));
    let second = wait_as(&mut driven, resource, 6000, token("a"));
    driven.at(5500);
    assert_eq!((driven.answer(ticket), driven.properties(resource).tally), (Some(Ok(Answer::NotYet)), 1));
    driven.input(Input::Cancelled(second));
    driven.at(5599);
    assert_eq!(driven.properties(resource).tally, 1);
    driven.at(5600);
    assert_eq!(driven.properties(resource).tally, 0);
}

/// A wait whose time limit had already passed was answered without renewing the lease of its token. A registrant that
/// only polled was withdrawn.
#[test]
fn who_only_asks_how_it_stands_lives() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.register_with(resource, RankChoice::Assign, "a", b"1", LEASE).unwrap();
    for step in 1..=5 {
        driven.at(1000 + 90 * step);
        let ticket = wait_as(&mut driven, resource, 0, token("a"));
        assert_eq!(driven.answer(ticket), Some(Ok(Answer::NotYet)));
    }
    assert_eq!(driven.properties(resource).tally, 1);
}

/// A controlling task registers its unit with its own token, but that did not renew its lease.
#[test]
fn who_registers_with_its_token_lives_as_a_controlling_task() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.control(resource, Unit::Rank(0), "a", LEASE).unwrap();
    for step in 1..=5 {
        driven.at(1000 + 90 * step);
        driven.register_with(resource, RankChoice::Rank(0), "a", b"1", LEASE).unwrap();
    }
    assert_eq!(driven.properties(resource).failed, None);
}

/// A controlling task renews its lease by the same request that has begun it.
#[test]
fn a_controlling_task_that_asks_again_lives() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    for step in 0..=5 {
        driven.at(1000 + 90 * step);
        driven.control(resource, Unit::Own, "c", LEASE).unwrap();
    }
    driven.at(1549);
    assert_eq!(driven.properties(resource).failed, None);
    driven.at(1550);
    assert_eq!(driven.properties(resource).failed.map(|fault| fault.kind), Some(FaultKind::ControllerLost));
}

#[test]
fn the_wait_of_another_token_keeps_nobody_alive() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.register_with(resource, RankChoice::Assign, "a", b"1", LEASE).unwrap();
    wait_as(&mut driven, resource, 5000, token("b"));
    driven.at(1100);
    assert_eq!(driven.properties(resource).tally, 0);
}

#[test]
fn the_last_liveness_requested_counts() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(3));
    driven.register_with(resource, RankChoice::Assign, "a", b"1", LEASE).unwrap();
    driven.register_with(resource, RankChoice::Assign, "a", b"1", Life::Lease(300)).unwrap();
    driven.at(1299);
    assert_eq!(driven.properties(resource).tally, 1);
    driven.register_with(resource, RankChoice::Assign, "a", b"1", Life::Unseen).unwrap();
    driven.at(9000);
    driven.register_with(resource, RankChoice::Assign, "a", b"1", Life::Member(MEMBER)).unwrap();
    driven.lost(MEMBER + 1);
    assert_eq!(driven.properties(resource).tally, 1);
    // It no longer lives by this node.
    driven.register_with(resource, RankChoice::Assign, "a", b"1", Life::Member(MEMBER + 2)).unwrap();
    driven.lost(MEMBER);
    assert_eq!(driven.properties(resource).tally, 1);
    driven.lost(MEMBER + 2);
    assert_eq!(driven.properties(resource).tally, 0);
}

/// When the process of a service ended, all links were lost. A node that repeated its request over a new link was not
/// tracked afterwards.
#[test]
fn a_node_that_asks_after_a_restart_is_tracked_again() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(3));
    driven.register_with(resource, RankChoice::Assign, "a", b"1", Life::Member(MEMBER)).unwrap();
    driven.control(resource, Unit::Own, "c", Life::Member(MEMBER + 1)).unwrap();
    driven.restart();
    driven.register_with(resource, RankChoice::Assign, "a", b"1", Life::Member(MEMBER)).unwrap();
    driven.control(resource, Unit::Own, "c", Life::Member(MEMBER + 1)).unwrap();
    driven.lost(MEMBER);
    assert_eq!(driven.properties(resource).tally, 0);
    driven.lost(MEMBER + 1);
    assert_eq!(driven.properties(resource).failed.map(|fault| fault.kind), Some(FaultKind::ControllerLost));
}

#[test]
fn all_that_belongs_to_a_node_is_lost_with_it() {
    let mut driven = Driven::new(Limits::default());
    let (first, second) = (driven.create(Spec::new(4)), driven.create(Spec::new(2)));
    for (resource, name) in [(first, "a"), (first, "b"), (second, "c")] {
        driven.register_with(resource, RankChoice::Assign, name, b"1", Life::Member(MEMBER)).unwrap();
    }
    driven.register(first, RankChoice::Assign, "d").unwrap();
    driven.control(second, Unit::Own, "e", Life::Member(MEMBER)).unwrap();
    let (at_first, at_second) = (driven.wait(first), driven.wait(second));
    driven.lost(MEMBER);
    assert_eq!((driven.properties(first).tally, driven.properties(first).missing), (1, vec![0, 1, 3]));
    assert_eq!(driven.answer(at_first), None);
    let fault = driven.answer(at_second).unwrap().unwrap_err();
    assert_eq!((fault.kind, fault.task.as_deref()), (FaultKind::ControllerLost, Some("e")));
    assert!(fault.message.contains("id 5") && !fault.message.contains('\n'), "{fault}");
    driven.lost(MEMBER);
    for resource in [first, second] {
        driven.told(Request::Destroy(resource)).unwrap();
    }
    driven.assert_empty();
}

#[test]
fn who_is_part_of_a_complete_rendezvous_may_go() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.register_with(resource, RankChoice::Assign, "a", b"1", LEASE).unwrap();
    driven.register_with(resource, RankChoice::Assign, "b", b"2", Life::Member(MEMBER)).unwrap();
    driven.control(resource, Unit::Own, "c", LEASE).unwrap();
    // No lease is left.
    let expires = driven.properties(resource).expires;
    assert_eq!(driven.service.deadline(), Some(expires));
    driven.lost(MEMBER);
    driven.at(2000);
    assert_eq!(&driven.completion(resource).unwrap().data[..], b"2 1 11 2");
    assert_eq!(driven.service.deadline(), Some(driven.properties(resource).expires));
}

#[test]
fn the_loss_of_a_controlling_task_ends_the_rendezvous_with_its_name() {
    for (unit, rank) in [(Unit::Own, None), (Unit::Rank(1), Some(1))] {
        let mut driven = Driven::new(Limits::default());
        let resource = driven.create(Spec::new(2));
        driven.register(resource, RankChoice::Assign, "a").unwrap();
        driven.control(resource, unit, "node-7", LEASE).unwrap();
        let waiting = driven.wait(resource);
        driven.at(1100);
        let fault = driven.answer(waiting).unwrap().unwrap_err();
        assert_eq!((fault.kind, fault.rank), (FaultKind::ControllerLost, rank));
        assert_eq!(fault.task.as_deref(), Some("node-7"));
        // Later requests get the same fault, also after a restart.
        driven.restart();
        assert_eq!(driven.completion(resource), Err(fault.clone()));
        assert_eq!(driven.register(resource, RankChoice::Assign, "b"), Err(fault.clone()));
        assert_eq!(driven.control(resource, unit, "node-7", LEASE), Err(fault.clone()));
        let withdraw = Request::Withdraw { resource, rank: 0, token: token("a") };
        assert_eq!(driven.told(withdraw), Err(fault.clone()));
        assert_eq!(driven.properties(resource).failed, Some(fault));
        driven.told(Request::Destroy(resource)).unwrap();
        driven.assert_empty();
    }
}

#[test]
fn a_unit_has_one_controlling_task_and_a_task_one_unit() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    let kind = |outcome: Result<Answer, gpc_rendezvous::Fault>| outcome.unwrap_err().kind;
    driven.control(resource, Unit::Rank(0), "a", Life::Unseen).unwrap();
    driven.control(resource, Unit::Rank(0), "a", Life::Unseen).unwrap();
    let taken = driven.control(resource, Unit::Rank(0), "b", Life::Unseen).unwrap_err();
    assert_eq!((taken.kind, taken.task.as_deref()), (FaultKind::ControllerTaken, Some("a")));
    assert_eq!(kind(driven.control(resource, Unit::Own, "a", Life::Unseen)), FaultKind::TokenReused);
    assert_eq!(kind(driven.control(resource, Unit::Rank(2), "b", Life::Unseen)), FaultKind::RankOutOfRange);
    driven.control(resource, Unit::Own, "b", Life::Unseen).unwrap();
    let release = |unit, name, lost: Option<&str>| Request::Release {
        resource,
        unit,
        token: token(name),
        lost: lost.map(Into::into),
    };
    assert_eq!(kind(driven.told(release(Unit::Rank(0), "b", None))), FaultKind::NotRegistered);
    driven.told(release(Unit::Rank(0), "a", None)).unwrap();
    assert_eq!(kind(driven.told(release(Unit::Rank(0), "a", None))), FaultKind::NotRegistered);
    driven.control(resource, Unit::Rank(0), "c", Life::Unseen).unwrap();
    driven.told(release(Unit::Own, "b", Some("no \x1b more"))).unwrap();
    let fault = driven.properties(resource).failed.unwrap();
    assert_eq!((fault.kind, fault.task.as_deref()), (FaultKind::ControllerLost, Some("b")));
    assert!(!fault.message.contains('\x1b'), "{fault}");
}

#[test]
fn leases_of_any_length_are_understood() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(3));
    driven.register_with(resource, RankChoice::Rank(0), "a", b"", Life::Lease(0)).unwrap();
    driven.register_with(resource, RankChoice::Rank(1), "b", b"", Life::Lease(u64::MAX)).unwrap();
    // The shortest lease lasts for a millisecond.
    assert_eq!(driven.properties(resource).missing, [2]);
    driven.at(1001);
    assert_eq!(driven.properties(resource).missing, [0, 2]);
    driven.now = u64::MAX;
    driven.input(Input::Tick);
    driven.assert_empty();
}
