//! The thread that a service lives on: answers after what is kept, many of them at once; ends, and who is told of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::Id;
use gpc_rendezvous::machine::{Above, Change, Kept, Up};
use gpc_rendezvous::{
    Answer, Asked, Completion, Desk, Fault, FaultKind, Handle, Keeper, Life, Limits, Of, Parent, Request,
    ResourceId, Spec, Store, StoreError, Token, Wanted,
};
use maps::Maps;

#[path = "support/maps.rs"]
mod maps;

type Outcome = Result<Answer, Fault>;

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store that says how often it keeps something, and does so when it is let.
struct Slow {
    maps: Arc<Mutex<Maps>>,
    /// How many changes it was given at a time.
    given: Sender<usize>,
    go: Receiver<Result<(), StoreError>>,
}

impl Store for Slow {
    fn load(&mut self) -> Result<Kept, StoreError> {
        Ok(self.maps.lock().unwrap().load())
    }

    fn keep(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.given.send(changes.len()).unwrap();
        self.go.recv_timeout(PATIENCE).unwrap()?;
        self.maps.lock().unwrap().keep(changes);
        Ok(())
    }
}

/// A service with such a store, which has a resource.
struct Held {
    keeper: Keeper,
    given: Receiver<usize>,
    go: Sender<Result<(), StoreError>>,
    maps: Arc<Mutex<Maps>>,
    resource: ResourceId,
}

fn held(spec: Spec) -> Held {
    let ((given, is_given), (go, may_go)) = (channel(), channel());
    let maps = Arc::<Mutex<Maps>>::default();
    let store = Slow { maps: Arc::clone(&maps), given, go: may_go };
    let keeper = Keeper::start(Limits::default(), Some(Box::new(store)), |_, _| {}).unwrap();
    let created = create(keeper.desk(), spec);
    assert_eq!(is_given.recv_timeout(PATIENCE), Ok(1));
    go.send(Ok(())).unwrap();
    let resource = created_by(&created);
    Held { keeper, given: is_given, go, maps, resource }
}

fn create(desk: &Desk, spec: Spec) -> Receiver<Outcome> {
    let (told, outcome) = channel();
    desk.create(spec, move |answer| told.send(answer).unwrap()).unwrap().detach();
    outcome
}

fn created_by(outcome: &Receiver<Outcome>) -> ResourceId {
    match outcome.recv_timeout(PATIENCE).unwrap() {
        Ok(Answer::Created(id)) => id,
        other => panic!("{other:?}"),
    }
}

fn plain() -> Keeper {
    Keeper::start(Limits::default(), None, |_, _| {}).unwrap()
}

fn ask(desk: &Desk, request: Request) -> (Asked, Receiver<Outcome>) {
    let (told, outcome) = channel();
    // Nobody may listen any more.
    (desk.ask(request, move |answer| drop(told.send(answer))), outcome)
}

fn told(desk: &Desk, request: Request) -> Outcome {
    let (asked, outcome) = ask(desk, request);
    let outcome = outcome.recv_timeout(PATIENCE).unwrap();
    drop(asked);
    outcome
}

fn registration(resource: ResourceId, name: &str, life: Life) -> Request {
    let token = Token::new(name).unwrap();
    Request::Register { resource, rank: Wanted::Assign, token, data: name.to_owned().into(), life }
}

fn wait(resource: ResourceId) -> Request {
    Request::Wait { resource, of: Of::Own, until: None, token: None }
}

fn waiting(desk: &Desk, resource: ResourceId) -> usize {
    match told(desk, Request::Properties(resource)) {
        Ok(Answer::Properties(properties)) => properties.waiting,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_many_ask_meanwhile_is_kept_at_once() {
    let service = held(Spec::new(1001));
    let (_first, outcome) = ask(service.keeper.desk(), registration(service.resource, "first", Life::Unseen));
    assert_eq!(service.given.recv_timeout(PATIENCE), Ok(1));
    let asked: Vec<_> = (0..1000)
        .map(|number| {
            ask(service.keeper.desk(), registration(service.resource, &format!("t{number}"), Life::Unseen))
        })
        .collect();
    // Nobody is told of what is not kept.
    assert!(outcome.try_recv().is_err());
    service.go.send(Ok(())).unwrap();
    assert!(outcome.recv_timeout(PATIENCE).unwrap().is_ok());
    assert_eq!(service.given.recv_timeout(PATIENCE), Ok(1000));
    assert!(asked.iter().all(|(_, outcome)| outcome.try_recv().is_err()));
    service.go.send(Ok(())).unwrap();
    for (_, outcome) in &asked {
        assert!(matches!(outcome.recv_timeout(PATIENCE), Ok(Ok(Answer::Registered(_)))));
    }
    assert!(matches!(told(service.keeper.desk(), wait(service.resource)), Ok(Answer::Completed(_))));
    assert_eq!(service.maps.lock().unwrap().load().registrants.len(), 1001);
}

#[test]
fn a_store_that_fails_ends_the_service_and_everybody_is_told() {
    let service = held(Spec::new(9));
    let desk = service.keeper.desk().clone();
    let (_waits, of_wait) = ask(&desk, wait(service.resource));
    assert_eq!(waiting(&desk, service.resource), 1);
    let (_asks, of_registration) = ask(&desk, registration(service.resource, "a", Life::Unseen));
    assert_eq!(service.given.recv_timeout(PATIENCE), Ok(1));
    let (_queued, of_queued) = ask(&desk, Request::Properties(service.resource));
    assert_eq!(desk.failed(), None);
    let error = StoreError { file: "/there".into(), why: "the disk is full".into() };
    service.go.send(Err(error.clone())).unwrap();
    for outcome in [of_wait, of_registration, of_queued] {
        let fault = outcome.recv_timeout(PATIENCE).unwrap().unwrap_err();
        assert_eq!(fault.kind, FaultKind::Unavailable);
        assert!(fault.message.contains("/there: the disk is full"), "{fault}");
    }
    assert_eq!(desk.failed(), Some(error));
    let late = told(&desk, wait(service.resource)).unwrap_err();
    assert!(late.kind == FaultKind::Unavailable && late.message.contains("the disk is full"), "{late}");
    // What was acknowledged is kept, the other thing is not.
    let kept = service.maps.lock().unwrap().load();
    assert_eq!((kept.resources.len(), kept.registrants.len()), (1, 0));
    drop(service.keeper);
}

#[test]
fn who_waits_when_the_service_ends_is_told() {
    let keeper = plain();
    let desk = keeper.desk().clone();
    let resource = created_by(&create(&desk, Spec::new(2)));
    let (_asked, outcome) = ask(&desk, wait(resource));
    drop(keeper);
    let fault = outcome.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert_eq!((fault.kind, desk.failed()), (FaultKind::Unavailable, None));
    assert_eq!(told(&desk, wait(resource)).unwrap_err().kind, FaultKind::Unavailable);
}

/// Requests that came between the last look into the queue and its end were dropped, and nobody told who had asked.
#[test]
fn whoever_asks_while_the_service_ends_is_told() {
    for _ in 0..50 {
        let keeper = plain();
        let told = Arc::new(AtomicUsize::new(0));
        let asking: Vec<_> = (0..2)
            .map(|_| {
                let (desk, told) = (keeper.desk().clone(), Arc::clone(&told));
                std::thread::spawn(move || {
                    for _ in 0..500 {
                        let told = Arc::clone(&told);
                        let count = move |_| {
                            told.fetch_add(1, Ordering::SeqCst);
                        };
                        desk.ask(Request::List { most: 0 }, count).detach();
                    }
                })
            })
            .collect();
        drop(keeper);
        asking.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(told.load(Ordering::SeqCst), 1000);
    }
}

#[test]
fn who_no_longer_waits_is_let_go() {
    let keeper = plain();
    let desk = keeper.desk();
    let resource = created_by(&create(desk, Spec::new(2)));
    let (asked, outcome) = ask(desk, wait(resource));
    let (_other, _) = ask(desk, wait(resource));
    assert_eq!(waiting(desk, resource), 2);
    drop(asked);
    // It is noticed in the turn of this question at the latest, which may be answered before.
    waiting(desk, resource);
    assert_eq!(waiting(desk, resource), 1);
    assert!(outcome.recv_timeout(PATIENCE).is_err(), "its end of the channel is gone");
    let (detached, _outcome) = ask(desk, wait(resource));
    detached.detach();
    waiting(desk, resource);
    assert_eq!(waiting(desk, resource), 2);
}

/// A request that was taken back before the service had taken it up was forgotten, and taken up later: it waited until its resource ended, for nobody.
#[test]
fn who_no_longer_waits_when_it_is_taken_up_is_let_go() {
    let service = held(Spec::new(20_000));
    let desk = service.keeper.desk();
    // The first keeps the service busy, the others are more than it takes up in one turn.
    let busy = |number: u32| {
        ask(desk, registration(service.resource, &format!("t{number}"), Life::Unseen)).0.detach();
    };
    busy(0);
    assert_eq!(service.given.recv_timeout(PATIENCE), Ok(1));
    (1..10_000).for_each(busy);
    drop(ask(desk, wait(service.resource)));
    drop(service.go.send(Ok(())));
    let (_last, outcome) = ask(desk, Request::Properties(service.resource));
    let (mut given, mut turns) = (1, 1);
    while given < 10_000 {
        given += service.given.recv_timeout(PATIENCE).unwrap();
        turns += 1;
        service.go.send(Ok(())).unwrap();
    }
    assert!((3..10).contains(&turns), "{turns} turns");
    let Ok(Answer::Properties(properties)) = outcome.recv_timeout(PATIENCE).unwrap() else { panic!("none") };
    assert_eq!((properties.tally, properties.waiting), (10_000, 0));
}

/// What is let go may have asked for something itself, which is let go with it: that waited for itself.
#[test]
fn one_that_is_let_go_may_let_go_another() {
    let keeper = plain();
    let desk = keeper.desk();
    let resource = created_by(&create(desk, Spec::new(2)));
    let (inner, _) = ask(desk, wait(resource));
    let outer = desk.ask(wait(resource), move |_| drop(inner));
    assert_eq!(waiting(desk, resource), 2);
    drop(outer);
    waiting(desk, resource);
    waiting(desk, resource);
    assert_eq!(waiting(desk, resource), 0);
}

#[test]
fn too_many_at_once_are_refused() {
    let service = held(Spec::new(9));
    let desk = service.keeper.desk();
    let (_asked, outcome) = ask(desk, registration(service.resource, "a", Life::Unseen));
    assert_eq!(service.given.recv_timeout(PATIENCE), Ok(1));
    let told = Arc::new(AtomicUsize::new(0));
    let (full, is_full) = channel();
    let asked: Vec<Asked> = (0..70_000)
        .map(|_| {
            let (full, told) = (full.clone(), Arc::clone(&told));
            desk.ask(Request::List { most: 0 }, move |answer| {
                told.fetch_add(1, Ordering::SeqCst);
                let _ = answer.map_err(|fault| full.send(fault.kind));
            })
        })
        .collect();
    let refused = is_full.try_iter().inspect(|kind| assert_eq!(*kind, FaultKind::ServiceFull)).count();
    assert_eq!(refused, 70_000 - (1 << 16));
    service.go.send(Ok(())).unwrap();
    assert!(outcome.recv_timeout(PATIENCE).unwrap().is_ok());
    drop(service.keeper);
    assert_eq!((told.load(Ordering::SeqCst), asked.len()), (70_000, 70_000));
}

/// Data that say when nobody has them any more.
struct Counted(Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        b"data"
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What resources hold is counted once, so what registrants brought must be gone when it has become a part of the whole: what is to be kept has it until the end of the turn, and nothing has it for longer.
#[test]
fn what_registrants_brought_is_gone_when_it_is_a_part_of_the_whole() {
    let keeper = plain();
    let (desk, gone) = (keeper.desk(), Arc::new(AtomicUsize::new(0)));
    let resource = created_by(&create(desk, Spec::new(2)));
    for name in ["a", "b"] {
        let (rank, token) = (Wanted::Assign, Token::new(name).unwrap());
        let data = Bytes::from_owner(Counted(Arc::clone(&gone))).into();
        told(desk, Request::Register { resource, rank, token, data, life: Life::Unseen }).unwrap();
        // Its turn is over when that of another request is.
        told(desk, Request::Properties(resource)).unwrap();
        assert_eq!(gone.load(Ordering::SeqCst), if name == "a" { 0 } else { 2 });
    }
    let Ok(Answer::Data(data)) = told(desk, Request::Registrant { resource, rank: 1 }) else {
        panic!("none")
    };
    assert_eq!(&data[..], b"data");
}

#[test]
fn time_passes_for_who_waits() {
    let keeper = plain();
    let desk = keeper.desk();
    let resource = created_by(&create(desk, Spec { lifetime: Some(50), ..Spec::new(2) }));
    let (_asked, outcome) = ask(desk, wait(resource));
    assert_eq!(outcome.recv_timeout(PATIENCE).unwrap().unwrap_err().kind, FaultKind::Expired);
}

#[test]
fn the_driver_is_told_what_to_do_above_and_tells_how_it_went() {
    const MEMBER: Id = 3;
    let (said, ups) = channel();
    let upward = move |id, up| said.send((id, up)).unwrap();
    let keeper = Keeper::start(Limits::default(), None, upward).unwrap();
    let desk = keeper.desk();
    let handle = Handle::new("http://above", ResourceId([9; 16])).unwrap();
    let parent = Some(Parent { handle, rank: Wanted::Rank(4) });
    let resource = created_by(&create(desk, Spec { parent, ..Spec::new(2) }));
    assert!(matches!(ups.recv_timeout(PATIENCE), Ok((id, Up::Control { .. })) if id == resource));
    told(desk, registration(resource, "lost", Life::Member(MEMBER))).unwrap();
    assert!(desk.lost(MEMBER, "it is gone".into()));
    told(desk, registration(resource, "a", Life::Unseen)).unwrap();
    let (_asked, top) = ask(desk, Request::Wait { resource, of: Of::Top, until: None, token: None });
    told(desk, registration(resource, "b", Life::Unseen)).unwrap();
    let Ok((_, Up::Register { data, .. })) = ups.recv_timeout(PATIENCE) else { panic!("no data") };
    assert_eq!(&data[..], b"2 1 a1 b");
    let whole = Completion { level: 2, data: "1 2 1 a1 b".into(), joint: None };
    desk.above(resource, Above::Completed(whole.clone()));
    assert_eq!(top.recv_timeout(PATIENCE).unwrap(), Ok(Answer::Completed(whole)));
    told(desk, Request::Destroy(resource)).unwrap();
    assert!(matches!(ups.recv_timeout(PATIENCE), Ok((_, Up::Stop { .. }))));
}

#[test]
fn another_service_goes_on_with_what_was_kept() {
    let service = held(Spec::new(2));
    let (_asked, outcome) = ask(service.keeper.desk(), registration(service.resource, "a", Life::Unseen));
    service.go.send(Ok(())).unwrap();
    outcome.recv_timeout(PATIENCE).unwrap().unwrap();
    drop(service.keeper);
    let ((given, _is_given), (go, may_go)) = (channel(), channel());
    go.send(Ok(())).unwrap();
    let store = Slow { maps: service.maps, given, go: may_go };
    let keeper = Keeper::start(Limits::default(), Some(Box::new(store)), |_, _| {}).unwrap();
    // A retry changes nothing, so nothing is to be kept.
    told(keeper.desk(), registration(service.resource, "a", Life::Unseen)).unwrap();
    told(keeper.desk(), registration(service.resource, "b", Life::Unseen)).unwrap();
    let Ok(Answer::Completed(completion)) = told(keeper.desk(), wait(service.resource)) else { panic!("no") };
    assert_eq!(&completion.data[..], b"2 1 a1 b");
}
