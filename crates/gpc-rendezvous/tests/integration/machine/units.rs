//! The service as the controlling task of units: its outputs for the parent, and its handling of the outcome.

use gpc_rendezvous::machine::{Input, OVERHEAD, ParentAction, ParentOutcome};
use gpc_rendezvous::{
    Answer, Completion, Fault, FaultKind, Handle, Life, Limits, Parent, RankChoice, Request, ResourceId,
    Scope, Spec, Unit,
};

use crate::support::driven::{Driven, id, joint};

fn parent() -> Parent {
    let handle = Handle::new("http://above/rendezvous", id(200)).unwrap();
    Parent { handle, rank: RankChoice::Rank(3) }
}

fn unit(driven: &mut Driven) -> ResourceId {
    driven.create(Spec { parent: Some(parent()), joint: true, ..Spec::new(2) })
}

fn wait(driven: &mut Driven, resource: ResourceId, of: Scope) -> gpc_rendezvous::machine::Ticket {
    driven.ask(Request::Wait { resource, of, until: None, token: None })
}

fn top() -> Completion {
    Completion { level: 4, data: "the whole".into(), joint: None }
}

/// The actions at the parent, in short.
fn done(driven: &mut Driven) -> Vec<String> {
    let said = |(resource, up): (ResourceId, ParentAction)| {
        let short = match up {
            ParentAction::Control { handle, rank, token, .. } => {
                ("control", handle, rank, token, String::new())
            }
            ParentAction::Register { handle, rank, token, data, .. } => {
                ("register", handle, rank, token, String::from_utf8(data.to_vec()).unwrap())
            }
            ParentAction::Stop { handle, rank, token, why } => ("stop", handle, rank, token, why),
        };
        let (deed, handle, rank, token, rest) = short;
        assert_eq!((handle, rank, token.as_str()), (parent().handle, parent().rank, "above-1"));
        assert_eq!(resource, id(1));
        format!("{deed} {rest}").trim_end().to_owned()
    };
    std::mem::take(&mut driven.ups).into_iter().map(said).collect()
}

fn fill(driven: &mut Driven, resource: ResourceId) {
    for name in ["a", "b"] {
        driven.register(resource, RankChoice::Assign, name).unwrap();
    }
}

#[test]
fn a_unit_registers_above_when_it_is_complete_and_tells_of_the_top() {
    let mut driven = Driven::new(Limits::default());
    let resource = unit(&mut driven);
    assert_eq!(done(&mut driven), ["control"]);
    assert_eq!(driven.properties(resource).above.as_deref(), Some("http://above/rendezvous"));
    let (own, of_top) = (wait(&mut driven, resource, Scope::Own), wait(&mut driven, resource, Scope::Top));
    fill(&mut driven, resource);
    assert_eq!(done(&mut driven), ["register 2 1 a1 b"]);
    let Some(Ok(Answer::Completed(completion))) = driven.answer(own) else { panic!("it is complete") };
    assert_eq!((&completion.data[..], completion.joint), (&b"2 1 a1 b"[..], Some(joint())));
    assert_eq!(driven.answer(of_top), None);
    driven.input(Input::ParentOutcome(resource, ParentOutcome::Completed(top())));
    assert_eq!(driven.answer(of_top), Some(Ok(Answer::Completed(top()))));
    // The first outcome counts.
    driven.input(Input::ParentOutcome(
        resource,
        ParentOutcome::Failed(Fault::new(FaultKind::AboveFailed, "no")),
    ));
    let late = wait(&mut driven, resource, Scope::Top);
    assert_eq!(driven.answer(late), Some(Ok(Answer::Completed(top()))));
    assert_eq!(driven.completion(resource).unwrap().level, 1);
}

#[test]
fn where_nothing_is_above_the_top_is_the_resource_itself() {
    let mut driven = Driven::new(Limits::default());
    let resource = driven.create(Spec::new(1));
    let of_top = wait(&mut driven, resource, Scope::Top);
    driven.register(resource, RankChoice::Assign, "a").unwrap();
    assert_eq!(driven.answer(of_top), Some(Ok(Answer::Completed(driven.completion(resource).unwrap()))));
    assert!(driven.ups.is_empty());
}

#[test]
fn faults_of_the_parent_answer_the_waits_for_the_top() {
    let mut driven = Driven::new(Limits::default());
    let resource = unit(&mut driven);
    fill(&mut driven, resource);
    let of_top = wait(&mut driven, resource, Scope::Top);
    let fault = Fault::new(FaultKind::AboveFailed, "nobody answers there").of_rank(3);
    driven.input(Input::ParentOutcome(resource, ParentOutcome::Failed(fault.clone())));
    driven.input(Input::ParentOutcome(id(77), ParentOutcome::Failed(fault.clone())));
    assert_eq!(driven.answer(of_top), Some(Err(fault)));
    driven.completion(resource).unwrap();
}

#[test]
fn the_driver_stops_once_whatever_the_end_is() {
    let mut driven = Driven::new(Limits::default());
    let resource = unit(&mut driven);
    driven.control(resource, Unit::Own, "c", Life::Lease(50)).unwrap();
    driven.at(2000);
    let stops = done(&mut driven);
    assert_eq!(stops[0], "control");
    assert!(stops[1].starts_with("stop the controlling task of this unit, c, is lost"), "{stops:?}");
    // The report may have been lost with the process.
    driven.restart();
    assert_eq!(done(&mut driven), stops[1..]);
    driven.told(Request::Destroy(resource)).unwrap();
    assert_eq!(done(&mut driven), [""; 0]);
    driven.assert_empty();

    let mut driven = Driven::new(Limits::default());
    let resource = unit(&mut driven);
    fill(&mut driven, resource);
    driven.told(Request::Destroy(resource)).unwrap();
    let deeds = done(&mut driven);
    assert_eq!(deeds.len(), 3);
    assert!(deeds[2].starts_with("stop the resource was destroyed"), "{deeds:?}");
    driven.assert_empty();
}

#[test]
fn after_a_restart_the_driver_goes_on() {
    let mut driven = Driven::new(Limits::default());
    let resource = unit(&mut driven);
    driven.restart();
    assert_eq!(done(&mut driven), ["control", "control"]);
    fill(&mut driven, resource);
    assert_eq!(done(&mut driven), ["register 2 1 a1 b"]);
    driven.restart();
    assert_eq!(done(&mut driven), ["register 2 1 a1 b"]);
    let of_top = wait(&mut driven, resource, Scope::Top);
    driven.input(Input::ParentOutcome(resource, ParentOutcome::Completed(top())));
    assert_eq!(driven.answer(of_top), Some(Ok(Answer::Completed(top()))));
    driven.at(10_000_000);
    driven.assert_empty();
}

/// Data from the parent did not count, so another service decided how much memory this one used.
#[test]
fn the_completion_above_finds_room_or_is_refused() {
    let mut bounds = Limits::default();
    bounds.held = 7 * OVERHEAD + 1000;
    let mut driven = Driven::new(bounds);
    let units = [0, 1, 2].map(|_| driven.create(Spec { parent: Some(parent()), ..Spec::new(1) }));
    for (unit, name) in units.into_iter().zip(["a", "b", "c"]) {
        driven.register(unit, RankChoice::Assign, name).unwrap();
    }
    let before = driven.service.load().2;
    let top = Completion { level: 2, data: vec![b'x'; 900].into(), joint: None };
    // Two share a copy; the third has its own, for which there is no room.
    let other = Completion { data: top.data.to_vec().into(), ..top.clone() };
    for (unit, top) in units.into_iter().zip([top.clone(), top.clone(), other]) {
        driven.input(Input::ParentOutcome(unit, ParentOutcome::Completed(top)));
    }
    assert_eq!(driven.service.load().2, before + 900);
    let told = units.map(|unit| {
        let ticket = wait(&mut driven, unit, Scope::Top);
        driven.answer(ticket).unwrap()
    });
    assert_eq!((&told[0], &told[1]), (&Ok(Answer::Completed(top.clone())), &Ok(Answer::Completed(top))));
    let full = told[2].clone().unwrap_err();
    assert!(full.kind == FaultKind::ServiceFull && full.message.contains("900 bytes"), "{full}");
    for (unit, held) in units.into_iter().zip([before + 900 - OVERHEAD * 2 - 1, before - OVERHEAD * 4 - 2, 0])
    {
        driven.told(Request::Destroy(unit)).unwrap();
        assert_eq!(driven.service.load().2, held);
    }
    driven.assert_empty();
}

/// A resource of level 1 accepted a unit of level 1, and passed its data on as the bytes of a task: `2 12 2 3 ...`
/// instead of `2 2 3 ...`.
#[test]
fn the_level_of_a_unit_follows_from_what_is_above() {
    let mut driven = Driven::new(Limits::default());
    let tops = [1, 2, 3].map(|level| driven.create(Spec { level: Some(level), ..Spec::new(2) }));
    let below = |above: usize| {
        let handle = Handle::new("http://127.0.0.1:1/rendezvous", tops[above]).unwrap();
        Some(Parent { handle, rank: RankChoice::Rank(0) })
    };
    for (above, level) in [(1, 1), (2, 2)] {
        for said in [None, Some(u64::from(level))] {
            let unit = driven.create(Spec { level: said, parent: below(above), ..Spec::new(1) });
            assert_eq!(driven.properties(unit).level, level);
        }
    }
    for (above, said, expected) in [
        (0, None, "at which tasks register bytes: create it with a level of at least 2"),
        (0, Some(1), "at which tasks register bytes: create it with a level of at least 2"),
        (
            1,
            Some(2),
            "so a unit below it is of level 1, not 2: leave the level out, or create the resource above with level 3",
        ),
        (
            2,
            Some(1),
            "so a unit below it is of level 2, not 1: leave the level out, or create the resource above with level 2",
        ),
    ] {
        let fault =
            driven.try_create(Spec { level: said, parent: below(above), ..Spec::new(1) }).unwrap_err();
        assert_eq!(fault.kind, FaultKind::LevelOutOfRange);
        assert!(fault.message.contains(expected), "{fault}");
    }
    // The parent belongs to another service, so its level is unknown here.
    let unit = driven.create(Spec { parent: Some(parent()), ..Spec::new(1) });
    assert_eq!(driven.properties(unit).level, 1);
}

/// The memory for the completion above is counted again if the end of its resource is undone.
#[test]
fn an_end_that_is_undone_keeps_the_completion_above() {
    let mut driven = Driven::new(Limits::default());
    let resource = unit(&mut driven);
    fill(&mut driven, resource);
    driven.input(Input::ParentOutcome(resource, ParentOutcome::Completed(top())));
    let before = driven.service.load();
    driven.service.begin();
    driven.told(Request::Destroy(resource)).unwrap();
    driven.service.roll_back();
    driven.input(Input::Tick);
    assert_eq!(driven.service.load(), before);
    driven.told(Request::Destroy(resource)).unwrap();
    driven.assert_empty();
}
