//! Restart of a service: the stored state is restored.

use gpc_rendezvous::machine::{
    Change, Input, Output, ParentAction, RandomValues, Service, StoredRegistrant, StoredResource,
    StoredState, Ticket,
};
use gpc_rendezvous::{
    Answer, FaultKind, Handle, Life, Limits, Parent, RankChoice, Request, ResourceId, Spec, Unit,
};

use crate::support::driven::{Driven, joint, token};

#[test]
fn a_registration_is_there_after_a_restart_and_its_retry_is_no_second_one() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec { joint: true, ..Spec::new(3) });
    let first = driven.register(resource, RankChoice::Rank(2), "c").unwrap();
    let before = driven.properties(resource);
    driven.restart();
    assert_eq!(driven.properties(resource), before);
    assert_eq!(driven.register(resource, RankChoice::Rank(2), "c"), Ok(first));
    driven.register(resource, RankChoice::Assign, "b").unwrap();
    driven.register(resource, RankChoice::Assign, "a").unwrap();
    let completion = driven.completion(resource).unwrap();
    assert_eq!((&completion.data[..], &completion.joint), (&b"3 1 a1 b1 c"[..], &Some(joint())));
    driven.restart();
    assert_eq!(driven.completion(resource), Ok(completion));
    assert_eq!(driven.told(Request::Registrant { resource, rank: 1 }), Ok(Answer::Data("b".into())));
    driven.told(Request::Destroy(resource)).unwrap();
    driven.assert_empty();
}

#[test]
fn leases_begin_anew() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(3));
    driven.register_with(resource, RankChoice::Assign, "a", b"", Life::Lease(100)).unwrap();
    driven.control(resource, Unit::Own, "c", Life::Lease(500)).unwrap();
    // Time passes while the service is down.
    driven.now += 5000;
    driven.restart();
    driven.at(6099);
    assert_eq!(driven.properties(resource).tally, 1);
    driven.at(6100);
    assert_eq!(driven.properties(resource).tally, 0);
    driven.at(6500);
    assert_eq!(driven.properties(resource).failed.map(|fault| fault.kind), Some(FaultKind::ControllerLost));
}

#[test]
fn a_changed_lease_is_stored_and_ended_resources_stay_ended() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(3));
    driven.register(resource, RankChoice::Assign, "a").unwrap();
    driven.register_with(resource, RankChoice::Assign, "a", b"a", Life::Lease(100)).unwrap();
    driven.register(resource, RankChoice::Assign, "b").unwrap();
    driven.told(Request::Withdraw { resource, rank: 1, token: token("b") }).unwrap();
    driven.control(resource, Unit::Own, "c", Life::Lease(100)).unwrap();
    let release = Request::Release { resource, unit: Unit::Own, token: token("c"), lost: None };
    driven.told(release).unwrap();
    driven.restart();
    assert_eq!(driven.properties(resource).missing, [1, 2]);
    driven.at(1100);
    assert_eq!((driven.properties(resource).tally, driven.properties(resource).failed), (0, None));
}

/// Each change of a lease wrote the registrant's data, up to 64 MiB, to disk.
#[test]
fn a_changed_lease_is_stored_without_the_data() {
    let mut service = Service::new(Limits::default());
    let mut changes = |number, request| {
        service.handle(1000, Input::Ask(Ticket(number), request));
        let outputs = std::iter::from_fn(|| service.next_output());
        let kept = outputs.filter_map(|output| match output {
            Output::Store(change) => Some(change),
            _ => None,
        });
        kept.collect::<Vec<Change>>()
    };
    let (resource, of_resource) = (ResourceId([1; 16]), token("above"));
    let random = RandomValues { id: resource, token: of_resource, joint: None };
    changes(1, Request::Create { spec: Spec::new(2), random });
    let register = |life| {
        let (rank, token, data) = (RankChoice::Rank(1), token("a"), "data".into());
        Request::Register { resource, rank, token, data, life }
    };
    let kept = |lease| StoredRegistrant { token: token("a"), lease };
    assert_eq!(
        changes(2, register(Life::Unseen)),
        [Change::Registrant(resource, 1, kept(None), "data".into())]
    );
    for lease in [7, 8] {
        let changed = changes(lease, register(Life::Lease(lease)));
        assert_eq!(changed, [Change::Lease(resource, 1, kept(Some(lease)))]);
    }
}

#[test]
fn what_has_ended_meanwhile_ends_now() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec { lifetime: Some(1000), ..Spec::new(1) });
    driven.register(resource, RankChoice::Assign, "a").unwrap();
    driven.now = 2000;
    driven.restart();
    assert_eq!(driven.told(Request::Properties(resource)).unwrap_err().kind, FaultKind::Expired);
    driven.assert_empty();
}

/// What was admitted under other limits stays.
#[test]
fn limits_are_for_what_is_new() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(20));
    driven.register(resource, RankChoice::Assign, "long-enough").unwrap();
    driven.limits.capacity = 10;
    driven.limits.data = 1;
    driven.limits.held = 1;
    driven.restart();
    assert_eq!(driven.properties(resource).tally, 1);
    assert_eq!(driven.register(resource, RankChoice::Assign, "b").unwrap_err().kind, FaultKind::ServiceFull);
}

/// Registrants and controlling tasks whose resource is missing are dropped.
#[test]
fn registrants_without_a_resource_are_left_out() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(2));
    driven.register_with(resource, RankChoice::Assign, "a", b"1", Life::Lease(10)).unwrap();
    driven.control(resource, Unit::Own, "c", Life::Lease(10)).unwrap();
    let kept = StoredState { resources: Vec::<(_, StoredResource)>::new(), ..driven.kept.load() };
    let service = Service::restored(Limits::default(), kept, 1000);
    assert!(service.is_empty(), "{service:?}");
}

/// The service may have crashed before its parent learned of the failure.
#[test]
fn a_restored_failure_is_reported_above() {
    let mut driven = Driven::new(Limits::default());
    let handle = Handle::new("http://above", ResourceId([9; 16])).unwrap();
    let parent = Some(Parent { handle, rank: RankChoice::Rank(2) });
    let resource = driven.create(Spec { parent, ..Spec::new(2) });
    driven.control(resource, Unit::Own, "c", Life::Member(4)).unwrap();
    driven.lost(4);
    driven.ups.clear();
    driven.restart();
    let ups = std::mem::take(&mut driven.ups);
    assert!(
        matches!(&ups[..], [(id, ParentAction::Stop { why, .. })] if *id == resource && why.contains("is lost")),
        "{ups:?}"
    );
}
