//! The end of a resource: on request, by its lifetime, or with its job; and requests that arrive afterwards.

use chained_gpc::{Id, Job};
use gpc_rendezvous::{Answer, FaultKind, Life, Limits, RankChoice, Request, Scope, Spec, Unit};

use crate::support::driven::{Driven, token};

const JOB: Job = Job([3; 16]);
const MEMBER: Id = 5;

#[test]
fn waits_end_when_the_resource_is_destroyed() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.register(resource, RankChoice::Assign, "a").unwrap();
    let ticket = driven.wait(resource);
    assert_eq!(driven.told(Request::Destroy(resource)), Ok(Answer::Done));
    assert_eq!(driven.answer(ticket).unwrap().unwrap_err().kind, FaultKind::Destroyed);
    driven.assert_empty();
}

#[test]
fn the_end_is_remembered_for_who_comes_late() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.told(Request::Destroy(resource)).unwrap();
    let wait = Request::Wait { resource, of: Scope::Top, until: None, token: None };
    for request in [wait, Request::Properties(resource), Request::Destroy(resource)] {
        assert_eq!(driven.told(request).unwrap_err().kind, FaultKind::Destroyed);
    }
    let fault = driven.register(resource, RankChoice::Assign, "a").unwrap_err();
    assert_eq!(fault.kind, FaultKind::Destroyed);
}

/// The memory for ends is bounded.
#[test]
fn old_ends_are_forgotten() {
    let mut driven = Driven::new(Limits::default());
    let first = driven.create(Spec::new(1));
    driven.told(Request::Destroy(first)).unwrap();
    let mut last = first;
    for number in 0..4096_u32 {
        let mut bytes = [9; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        last = gpc_rendezvous::ResourceId(bytes);
        let random = gpc_rendezvous::machine::RandomValues { id: last, token: token("t"), joint: None };
        driven.told(Request::Create { spec: Spec::new(1), random }).unwrap();
        driven.told(Request::Destroy(last)).unwrap();
    }
    assert_eq!(driven.told(Request::Properties(first)).unwrap_err().kind, FaultKind::UnknownResource);
    assert_eq!(driven.told(Request::Properties(last)).unwrap_err().kind, FaultKind::Destroyed);
}

#[test]
fn a_resource_lives_for_its_lifetime_complete_or_not() {
    let mut driven = Driven::new(Limits::default());
    let open = driven.create(Spec { lifetime: Some(500), ..Spec::new(2) });
    let complete = driven.create(Spec { lifetime: Some(800), ..Spec::new(1) });
    driven.register(complete, RankChoice::Assign, "a").unwrap();
    let ticket = driven.wait(open);
    driven.at(1499);
    assert_eq!(driven.answer(ticket), None);
    driven.at(1500);
    assert_eq!(driven.answer(ticket).unwrap().unwrap_err().kind, FaultKind::Expired);
    driven.completion(complete).unwrap();
    driven.at(1800);
    assert_eq!(driven.told(Request::Properties(complete)).unwrap_err().kind, FaultKind::Expired);
    driven.assert_empty();
}

#[test]
fn the_resources_of_a_job_end_with_it() {
    let mut driven = Driven::new(Limits::default());
    let of_job = Spec { job: Some(JOB), ..Spec::new(1) };
    let (first, second) = (driven.create(of_job.clone()), driven.create(of_job));
    let other = driven.create(Spec { job: Some(Job([4; 16])), ..Spec::new(1) });
    let ticket = driven.wait(first);
    driven.register(second, RankChoice::Assign, "a").unwrap();
    assert_eq!(driven.told(Request::EndJob(JOB)), Ok(Answer::Ended(2)));
    assert_eq!(driven.told(Request::EndJob(JOB)), Ok(Answer::Ended(0)));
    let fault = driven.answer(ticket).unwrap().unwrap_err();
    assert_eq!(fault.kind, FaultKind::JobEnded);
    assert_eq!(driven.told(Request::Properties(second)).unwrap_err().kind, FaultKind::JobEnded);
    driven.properties(other);
    driven.told(Request::Destroy(other)).unwrap();
    driven.assert_empty();
}

/// At the end of a resource, waits with tokens stopped, which restarted their leases and assigned them to their nodes
/// again, although the resource had gone. These entries stayed until the node was lost.
#[test]
fn nothing_is_left_of_who_waited_when_it_ended() {
    for end in [Request::EndJob(JOB), Request::Destroy(crate::support::driven::id(1))] {
        let mut driven = Driven::new(Limits::default());
        let resource = driven.create(Spec { job: Some(JOB), ..Spec::new(9) });
        let lives = [Life::Unseen, Life::Lease(700), Life::Member(MEMBER)];
        for (life, name) in lives.into_iter().zip(["a", "b", "c"]) {
            driven.register_with(resource, RankChoice::Assign, name, b"x", life).unwrap();
        }
        for (life, (unit, name)) in
            lives.into_iter().zip([(Unit::Own, "d"), (Unit::Rank(1), "e"), (Unit::Rank(2), "f")])
        {
            driven.control(resource, unit, name, life).unwrap();
        }
        for name in ["a", "b", "c", "d", "e", "f"] {
            let token = Some(token(name));
            driven.ask(Request::Wait { resource, of: Scope::Own, until: Some(9000), token });
        }
        driven.told(end).unwrap();
        driven.assert_empty();
    }
}
