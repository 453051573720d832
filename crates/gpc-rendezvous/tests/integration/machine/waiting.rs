//! Waits, before and after the outcome is known.

use gpc_rendezvous::machine::Input;
use gpc_rendezvous::{Answer, FaultKind, Limits, RankChoice, Request, Scope, Spec};

use crate::support::driven::{Driven, id};

fn until(resource: gpc_rendezvous::ResourceId, until: u64) -> Request {
    Request::Wait { resource, of: Scope::Own, until: Some(until), token: None }
}

#[test]
fn all_waits_get_the_same_answer_and_late_ones_at_once() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    let early: Vec<_> = (0..5).map(|_| driven.wait(resource)).collect();
    driven.register(resource, RankChoice::Rank(1), "b").unwrap();
    assert!(early.iter().all(|ticket| driven.answer(*ticket).is_none()));
    driven.register(resource, RankChoice::Rank(0), "a").unwrap();
    let late = driven.completion(resource).unwrap();
    assert_eq!(&late.data[..], b"2 1 a1 b");
    for ticket in early {
        assert_eq!(driven.answer(ticket), Some(Ok(Answer::Completed(late.clone()))));
    }
    assert_eq!(driven.service.load().1, 0);
}

#[test]
fn a_wait_ends_at_its_time() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(1));
    let ticket = driven.ask(until(resource, 1500));
    driven.at(1499);
    assert_eq!(driven.answer(ticket), None);
    driven.at(1500);
    assert_eq!(driven.answer(ticket), Some(Ok(Answer::NotYet)));
    // A wait whose time has passed returns the present state.
    assert_eq!(driven.told(until(resource, 1500)), Ok(Answer::NotYet));
    driven.register(resource, RankChoice::Assign, "a").unwrap();
    assert!(matches!(driven.told(until(resource, 0)), Ok(Answer::Completed(_))));
}

#[test]
fn a_cancelled_wait_gets_no_answer() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(1));
    let ticket = driven.ask(until(resource, 1500));
    driven.input(Input::Cancelled(ticket));
    driven.input(Input::Cancelled(ticket));
    assert_eq!(driven.service.load().1, 0);
    driven.at(2000);
    driven.register(resource, RankChoice::Assign, "a").unwrap();
    assert_eq!(driven.answer(ticket), None);
}

#[test]
fn nobody_waits_for_what_is_not_there() {
    let mut driven = Driven::new(Limits::default());
    let fault = driven.told(until(id(9), 5000)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::UnknownResource);
    driven.assert_empty();
}

/// A service that was stopped for a while resumes when waits, leases and lifetimes have all passed.
#[test]
fn time_may_pass_in_one_step() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec { lifetime: Some(1000), ..Spec::new(2) });
    let (short, long) = (driven.ask(until(resource, 1500)), driven.ask(until(resource, 9000)));
    driven.now = 50_000;
    driven.input(Input::Tick);
    assert_eq!(driven.answer(short), Some(Ok(Answer::NotYet)));
    assert_eq!(driven.answer(long).unwrap().unwrap_err().kind, FaultKind::Expired);
    driven.assert_empty();
    // If the clock is set back, the service's time stands still.
    driven.now = 2000;
    let resource = driven.create(Spec::new(1));
    assert_eq!(driven.properties(resource).created, 50_000);
}
