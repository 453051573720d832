//! Waits, before and after the outcome is known.

use gpc_rendezvous::machine::Input;
use gpc_rendezvous::{Answer, FaultKind, Life, Limits, RankChoice, Request, Scope, Spec};

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

/// The clock of a driver may show an earlier time than its last input had.
#[test]
fn the_machine_takes_the_latest_time() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec { lifetime: Some(5000), ..Spec::new(1) });
    driven.at(4000);
    driven.properties(resource);
    driven.now = 2000;
    assert_eq!(driven.told(until(resource, 4000)), Ok(Answer::NotYet), "it is 4000");
    let later = driven.create(Spec { lifetime: Some(5000), ..Spec::new(1) });
    assert_eq!(driven.properties(later).created, 4000);
}

#[test]
fn a_list_begins_with_the_newest_resources() {
    let mut driven = Driven::new(Limits::default());
    let ids: Vec<_> = (0..4)
        .map(|at| {
            driven.at(2000 + at);
            driven.create(Spec::new(1))
        })
        .collect();
    let listed = |driven: &mut Driven, most| match driven.told(Request::List { most }) {
        Ok(Answer::List(list)) => list.into_iter().map(|found| found.id).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(listed(&mut driven, 2), [ids[3], ids[2]]);
    assert_eq!(listed(&mut driven, 9), [ids[3], ids[2], ids[1], ids[0]]);
    driven.told(Request::Destroy(ids[3])).unwrap();
    assert_eq!(listed(&mut driven, 1), [ids[2]]);
}

#[test]
fn a_timer_expires_at_its_time_and_not_before() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec { lifetime: Some(2000), ..Spec::new(2) });
    let ticket = driven.ask(until(resource, 1500));
    driven.register_with(resource, RankChoice::Assign, "a", b"", Life::Lease(700)).unwrap();
    let mut at = |now| {
        driven.now = now;
        driven.input(Input::Tick);
        let tally = driven.told(Request::Properties(resource)).map(|answer| match answer {
            Answer::Properties(properties) => properties.tally,
            other => panic!("{other:?}"),
        });
        (driven.answer(ticket), tally.map_err(|fault| fault.kind))
    };
    assert_eq!(at(1499), (None, Ok(1)));
    assert_eq!(at(1500), (Some(Ok(Answer::NotYet)), Ok(1)));
    assert_eq!(at(1699).1, Ok(1));
    assert_eq!(at(1700).1, Ok(0));
    assert_eq!(at(2999).1, Ok(0));
    assert_eq!(at(3000).1, Err(FaultKind::Expired));
}
