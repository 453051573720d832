//! The service thread: it stores changes before it answers, many of them together; and how the service ends.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::maps::Maps;
use bytes::Bytes;
use chained_gpc::{Id, Job};
use gpc_rendezvous::machine::{Change, Millis, ParentAction, ParentOutcome, StoredResource, StoredState};
use gpc_rendezvous::{
    Answer, Completion, Desk, Fault, FaultKind, Handle, Life, Limits, Parent, PendingRequest, RankChoice,
    Registration, Request, ResourceId, Scope, ServiceThread, Spec, Store, StoreError, Token, Unit,
};

type Outcome = Result<Answer, Fault>;

/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store that reports each write, and carries it out when it is allowed to.
struct Slow {
    maps: Arc<Mutex<Maps>>,
    /// Number of changes of each write.
    given: Sender<usize>,
    go: Receiver<Result<(), StoreError>>,
}

impl Store for Slow {
    fn load(&mut self) -> Result<StoredState, StoreError> {
        Ok(self.maps.lock().unwrap().load())
    }

    fn save(&mut self, _now: Millis, changes: &[Change]) -> Result<(), StoreError> {
        // At its end the service stores the time alone.
        if changes.is_empty() {
            return Ok(());
        }
        self.given.send(changes.len()).unwrap();
        self.go.recv_timeout(PATIENCE).unwrap()?;
        self.maps.lock().unwrap().save(changes);
        Ok(())
    }
}

/// A service with such a store, and a resource.
struct SlowService {
    service_thread: ServiceThread,
    given: Receiver<usize>,
    go: Sender<Result<(), StoreError>>,
    maps: Arc<Mutex<Maps>>,
    resource: ResourceId,
}

fn slow_service(spec: Spec) -> SlowService {
    let ((given, is_given), (go, may_go)) = (channel(), channel());
    let maps = Arc::<Mutex<Maps>>::default();
    let store = Slow { maps: Arc::clone(&maps), given, go: may_go };
    let service_thread = ServiceThread::start(Limits::default(), Some(Box::new(store)), |_, _| {}).unwrap();
    let created = create(service_thread.desk(), spec);
    assert_eq!(is_given.recv_timeout(PATIENCE), Ok(1));
    go.send(Ok(())).unwrap();
    let resource = created_by(&created);
    SlowService { service_thread, given: is_given, go, maps, resource }
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

fn plain() -> ServiceThread {
    ServiceThread::start(Limits::default(), None, |_, _| {}).unwrap()
}

fn ask(desk: &Desk, request: Request) -> (PendingRequest, Receiver<Outcome>) {
    let (told, outcome) = channel();
    // The receiver may be gone.
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
    Request::Register { resource, rank: RankChoice::Assign, token, data: name.to_owned().into(), life }
}

fn wait(resource: ResourceId) -> Request {
    Request::Wait { resource, of: Scope::Own, until: None, token: None }
}

fn waiting(desk: &Desk, resource: ResourceId) -> usize {
    match told(desk, Request::Properties(resource)) {
        Ok(Answer::Properties(properties)) => properties.waiting,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_during_a_write_are_stored_together() {
    let service = slow_service(Spec::new(1001));
    let (_first, outcome) =
        ask(service.service_thread.desk(), registration(service.resource, "first", Life::Unseen));
    assert_eq!(service.given.recv_timeout(PATIENCE), Ok(1));
    let asked: Vec<_> = (0..1000)
        .map(|number| {
            ask(
                service.service_thread.desk(),
                registration(service.resource, &format!("t{number}"), Life::Unseen),
            )
        })
        .collect();
    // Nothing is acknowledged before it is stored.
    assert!(outcome.try_recv().is_err());
    service.go.send(Ok(())).unwrap();
    assert!(outcome.recv_timeout(PATIENCE).unwrap().is_ok());
    assert_eq!(service.given.recv_timeout(PATIENCE), Ok(1000));
    assert!(asked.iter().all(|(_, outcome)| outcome.try_recv().is_err()));
    service.go.send(Ok(())).unwrap();
    for (_, outcome) in &asked {
        assert!(matches!(outcome.recv_timeout(PATIENCE), Ok(Ok(Answer::Registered(_)))));
    }
    assert!(matches!(told(service.service_thread.desk(), wait(service.resource)), Ok(Answer::Completed(_))));
    assert_eq!(service.maps.lock().unwrap().load().registrants.len(), 1001);
}

/// A store on a disk that is full at times.
struct Full {
    maps: Arc<Mutex<Maps>>,
    full: Arc<AtomicBool>,
    /// The state that it loads.
    begins: StoredState,
    /// Whether it takes changes although it reports a failure, as when syncing the file fails.
    takes: bool,
}

impl Store for Full {
    fn load(&mut self) -> Result<StoredState, StoreError> {
        Ok(self.begins.clone())
    }

    fn save(&mut self, _now: Millis, changes: &[Change]) -> Result<(), StoreError> {
        let full = self.full.load(Ordering::SeqCst);
        if !full || self.takes {
            self.maps.lock().unwrap().save(changes);
        }
        if full {
            return Err(StoreError { file: "/there".into(), why: "the disk is full".into() });
        }
        Ok(())
    }
}

/// A service with such a store.
fn on_a_disk(begins: StoredState) -> (ServiceThread, Arc<Mutex<Maps>>, Arc<AtomicBool>) {
    on_a_disk_that(begins, false)
}

fn on_a_disk_that(begins: StoredState, takes: bool) -> (ServiceThread, Arc<Mutex<Maps>>, Arc<AtomicBool>) {
    let (maps, full) = (Arc::<Mutex<Maps>>::default(), Arc::<AtomicBool>::default());
    let store = Full { maps: Arc::clone(&maps), full: Arc::clone(&full), begins, takes };
    let service_thread = ServiceThread::start(Limits::default(), Some(Box::new(store)), |_, _| {}).unwrap();
    (service_thread, maps, full)
}

/// Sends requests until the store is written again: the service retries by itself.
#[allow(clippy::disallowed_methods, reason = "a test that waits has a limit")]
fn recovered(desk: &Desk, resource: ResourceId) {
    let began = std::time::Instant::now();
    while desk.failed().is_some() {
        assert!(began.elapsed() < PATIENCE, "the store is not tried again");
        told(desk, Request::Properties(resource)).unwrap();
    }
}

fn refused(outcome: Outcome) {
    let fault = outcome.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unavailable);
    assert!(fault.message.contains("/there: the disk is full"), "{fault}");
    assert!(fault.message.contains("nothing was changed"), "{fault}");
}

fn listed(desk: &Desk) -> Answer {
    told(desk, Request::List { most: 9 }).unwrap()
}

/// The first change that could not be written was refused, and yet it was done: a refused registration took a rank, and
/// the last one completed its resource.
#[test]
fn what_cannot_be_written_is_not_done() {
    for takes in [false, true] {
        let (service_thread, maps, full) = on_a_disk_that(StoredState::default(), takes);
        let desk = service_thread.desk();
        let job = Job([7; 16]);
        let resource = created_by(&create(desk, Spec { job: Some(job), ..Spec::new(2) }));
        told(desk, registration(resource, "a", Life::Unseen)).unwrap();
        let control = |unit, name: &str| {
            let (token, name) = (Token::new(name).unwrap(), name.to_owned());
            Request::Control { resource, unit, name, token, life: Life::Unseen }
        };
        told(desk, control(Unit::Own, "c")).unwrap();
        let release = |lost: Option<&str>| {
            let (token, lost) = (Token::new("c").unwrap(), lost.map(str::to_owned));
            Request::Release { resource, unit: Unit::Own, token, lost }
        };
        let (_waits, outcome) = ask(desk, wait(resource));
        let (seen, kept) = (listed(desk), maps.lock().unwrap().clone());
        for request in [
            registration(resource, "b", Life::Unseen),
            Request::Withdraw { resource, rank: 0, token: Token::new("a").unwrap() },
            control(Unit::Rank(1), "d"),
            release(None),
            release(Some("it broke")),
            Request::Destroy(resource),
            Request::EndJob(job),
        ] {
            full.store(true, Ordering::SeqCst);
            refused(told(desk, request.clone()));
            assert_eq!(listed(desk), seen, "{request:?}");
            full.store(false, Ordering::SeqCst);
            recovered(desk, resource);
            assert_eq!(*maps.lock().unwrap(), kept, "{request:?}");
        }
        assert!(outcome.try_recv().is_err(), "it waits on");
        let registered = Registration { rank: 1, tally: 2, capacity: 2 };
        let second = told(desk, registration(resource, "b", Life::Unseen));
        assert_eq!(second, Ok(Answer::Registered(registered)));
        assert!(matches!(outcome.recv_timeout(PATIENCE).unwrap(), Ok(Answer::Completed(_))));
    }
}

/// A full disk ended the whole service: all waits and reads failed, and with them all tasks of all jobs.
#[test]
fn a_service_goes_on_while_its_disk_is_full() {
    let (service_thread, maps, full) = on_a_disk(StoredState::default());
    let desk = service_thread.desk();
    let resource = created_by(&create(desk, Spec::new(2)));
    let (_waits, of_wait) = ask(desk, wait(resource));
    let tally = || match told(desk, Request::Properties(resource)) {
        Ok(Answer::Properties(properties)) => properties.tally,
        other => panic!("{other:?}"),
    };
    full.store(true, Ordering::SeqCst);
    refused(told(desk, registration(resource, "a", Life::Unseen)));
    assert!(desk.failed().is_some());
    // Reads succeed, and requests whose changes could be lost are rejected.
    let before = tally();
    refused(told(desk, registration(resource, "b", Life::Unseen)));
    assert_eq!(tally(), before);
    refused(create(desk, Spec::new(1)).recv_timeout(PATIENCE).unwrap());
    refused(told(desk, Request::Destroy(resource)));
    assert!(matches!(told(desk, Request::List { most: 9 }), Ok(Answer::List(list)) if list.len() == 1));
    let until = Some(desk.now() + 1);
    let short = Request::Wait { resource, of: Scope::Own, until, token: None };
    assert_eq!(told(desk, short), Ok(Answer::NotYet));
    assert!(of_wait.try_recv().is_err(), "it waits on");
    full.store(false, Ordering::SeqCst);
    recovered(desk, resource);
    assert!(matches!(told(desk, registration(resource, "a", Life::Unseen)), Ok(Answer::Registered(_))));
    assert!(matches!(told(desk, registration(resource, "b", Life::Unseen)), Ok(Answer::Registered(_))));
    assert!(matches!(of_wait.recv_timeout(PATIENCE).unwrap(), Ok(Answer::Completed(_))));
    assert_eq!(maps.lock().unwrap().load().registrants.len(), 2);
}

/// If a creation was rejected, its resource stayed: retries on a full disk would have filled the service.
#[test]
fn a_creation_on_a_full_disk_leaves_nothing() {
    let (service_thread, maps, full) = on_a_disk(StoredState::default());
    let desk = service_thread.desk();
    let resource = created_by(&create(desk, Spec::new(2)));
    full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        refused(create(desk, Spec::new(1)).recv_timeout(PATIENCE).unwrap());
        assert!(matches!(told(desk, Request::List { most: 9 }), Ok(Answer::List(list)) if list.len() == 1));
    }
    full.store(false, Ordering::SeqCst);
    recovered(desk, resource);
    assert_eq!(maps.lock().unwrap().load().resources.len(), 1);
}

/// A completion is announced only when it is stored. Otherwise a registrant whose data others have received could be
/// missing after a crash.
#[test]
fn a_completion_is_reported_when_it_is_stored() {
    let (service_thread, maps, full) = on_a_disk(StoredState::default());
    let desk = service_thread.desk();
    let resource = created_by(&create(desk, Spec::new(1)));
    let (_early, early) = ask(desk, wait(resource));
    full.store(true, Ordering::SeqCst);
    refused(told(desk, registration(resource, "a", Life::Unseen)));
    let (_late, late) = ask(desk, wait(resource));
    let short = Request::Wait { resource, of: Scope::Own, until: Some(desk.now() + 20), token: None };
    assert_eq!(told(desk, short), Ok(Answer::NotYet));
    full.store(false, Ordering::SeqCst);
    recovered(desk, resource);
    assert!(early.try_recv().is_err() && late.try_recv().is_err());
    told(desk, registration(resource, "b", Life::Unseen)).unwrap();
    for outcome in [early, late] {
        assert!(matches!(outcome.recv_timeout(PATIENCE).unwrap(), Ok(Answer::Completed(_))));
    }
    assert_eq!(maps.lock().unwrap().load().registrants.len(), 1);
}

/// The ends of resources were stored by the machine's clock: if that jumped ahead while the service was down, all
/// resources ended. Now each keeps its remaining lifetime.
#[test]
fn a_clock_that_jumps_while_the_service_is_down_ends_nothing() {
    // Half a century ago.
    let then = 1_000_000;
    let (id, token) = (ResourceId([7; 16]), Token::new("t").unwrap());
    let (job, joint, parent, failed) = (None, None, None, None);
    let (capacity, level, created, expires) = (2, 1, then - 5, then + 3_600_000);
    let kept = StoredResource { capacity, level, created, expires, job, joint, parent, token, failed };
    let begins = StoredState { now: Some(then), resources: vec![(id, kept)], ..StoredState::default() };
    let (service_thread, maps, _) = on_a_disk(begins);
    let desk = service_thread.desk();
    let Ok(Answer::Properties(found)) = told(desk, Request::Properties(id)) else { panic!("it has ended") };
    assert!(found.expires > desk.now() && found.expires <= desk.now() + 3_600_000);
    // The store continues with its own time.
    let unit = Unit::Own;
    let token = Token::new("c").unwrap();
    let (name, life) = ("c".to_owned(), Life::Unseen);
    told(desk, Request::Control { resource: id, unit, name, token: token.clone(), life }).unwrap();
    let lost = Some("gone".to_owned());
    told(desk, Request::Release { resource: id, unit, token, lost }).unwrap();
    assert_eq!(maps.lock().unwrap().load().resources[0].1.expires, expires);
}

#[test]
fn waits_are_answered_when_the_service_ends() {
    let service_thread = plain();
    let desk = service_thread.desk().clone();
    let resource = created_by(&create(&desk, Spec::new(2)));
    let (_asked, outcome) = ask(&desk, wait(resource));
    drop(service_thread);
    let fault = outcome.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert_eq!((fault.kind, desk.failed()), (FaultKind::Unavailable, None));
    assert_eq!(told(&desk, wait(resource)).unwrap_err().kind, FaultKind::Unavailable);
}

/// Requests that arrived between the last read of the queue and the end of the service were dropped without an answer.
#[test]
fn requests_during_the_end_are_answered() {
    for _ in 0..50 {
        let service_thread = plain();
        let told = Arc::new(AtomicUsize::new(0));
        let asking: Vec<_> = (0..2)
            .map(|_| {
                let (desk, told) = (service_thread.desk().clone(), Arc::clone(&told));
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
        drop(service_thread);
        asking.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(told.load(Ordering::SeqCst), 1000);
    }
}

#[test]
fn cancelled_requests_are_removed() {
    let service_thread = plain();
    let desk = service_thread.desk();
    let resource = created_by(&create(desk, Spec::new(2)));
    let (asked, outcome) = ask(desk, wait(resource));
    let (_other, _) = ask(desk, wait(resource));
    assert_eq!(waiting(desk, resource), 2);
    drop(asked);
    // The cancellation takes effect in this request's turn at the latest, perhaps after its answer.
    waiting(desk, resource);
    assert_eq!(waiting(desk, resource), 1);
    assert!(outcome.recv_timeout(PATIENCE).is_err(), "its end of the channel is gone");
    let (detached, _outcome) = ask(desk, wait(resource));
    detached.detach();
    waiting(desk, resource);
    assert_eq!(waiting(desk, resource), 2);
}

/// A cancelled request was forgotten although it was still in the queue, and then taken from the queue: it waited until
/// its resource ended.
#[test]
fn requests_cancelled_in_the_queue_are_removed() {
    let service = slow_service(Spec::new(20_000));
    let desk = service.service_thread.desk();
    // The first request keeps the service busy; the others are more than it takes in one turn.
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

/// Dropping a cancelled request could drop another request that it owned, which deadlocked.
#[test]
fn one_that_is_let_go_may_let_go_another() {
    let service_thread = plain();
    let desk = service_thread.desk();
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
    let service = slow_service(Spec::new(9));
    let desk = service.service_thread.desk();
    let (_asked, outcome) = ask(desk, registration(service.resource, "a", Life::Unseen));
    assert_eq!(service.given.recv_timeout(PATIENCE), Ok(1));
    let told = Arc::new(AtomicUsize::new(0));
    let (full, is_full) = channel();
    let asked: Vec<PendingRequest> = (0..70_000)
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
    drop(service.service_thread);
    assert_eq!((told.load(Ordering::SeqCst), asked.len()), (70_000, 70_000));
}

/// Data that count how often they were dropped.
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

/// Data of a resource count once. So when a registrant's data have become a slice of the joined data, its own copy must
/// be gone. The changes to store hold the copy until the end of the turn, and nothing holds it longer.
#[test]
fn registrants_data_are_freed_when_they_are_joined() {
    let service_thread = plain();
    let (desk, gone) = (service_thread.desk(), Arc::new(AtomicUsize::new(0)));
    let resource = created_by(&create(desk, Spec::new(2)));
    for name in ["a", "b"] {
        let (rank, token) = (RankChoice::Assign, Token::new(name).unwrap());
        let data = Bytes::from_owner(Counted(Arc::clone(&gone))).into();
        told(desk, Request::Register { resource, rank, token, data, life: Life::Unseen }).unwrap();
        // Its turn is over when another request is answered.
        told(desk, Request::Properties(resource)).unwrap();
        assert_eq!(gone.load(Ordering::SeqCst), if name == "a" { 0 } else { 2 });
    }
    let Ok(Answer::Data(data)) = told(desk, Request::Registrant { resource, rank: 1 }) else {
        panic!("none")
    };
    assert_eq!(&data[..], b"data");
}

#[test]
fn waits_expire() {
    let service_thread = plain();
    let desk = service_thread.desk();
    let resource = created_by(&create(desk, Spec { lifetime: Some(50), ..Spec::new(2) }));
    let (_asked, outcome) = ask(desk, wait(resource));
    assert_eq!(outcome.recv_timeout(PATIENCE).unwrap().unwrap_err().kind, FaultKind::Expired);
}

#[test]
fn the_driver_gets_parent_actions_and_reports_their_outcome() {
    const MEMBER: Id = 3;
    let (said, ups) = channel();
    let on_parent_action = move |id, up| said.send((id, up)).unwrap();
    let service_thread = ServiceThread::start(Limits::default(), None, on_parent_action).unwrap();
    let desk = service_thread.desk();
    let handle = Handle::new("http://above", ResourceId([9; 16])).unwrap();
    let parent = Some(Parent { handle, rank: RankChoice::Rank(4) });
    let resource = created_by(&create(desk, Spec { parent, ..Spec::new(2) }));
    assert!(matches!(ups.recv_timeout(PATIENCE), Ok((id, ParentAction::Control { .. })) if id == resource));
    told(desk, registration(resource, "lost", Life::Member(MEMBER))).unwrap();
    assert!(desk.report_loss(MEMBER, "it is gone".into()));
    told(desk, registration(resource, "a", Life::Unseen)).unwrap();
    let (_asked, top) = ask(desk, Request::Wait { resource, of: Scope::Top, until: None, token: None });
    told(desk, registration(resource, "b", Life::Unseen)).unwrap();
    let Ok((_, ParentAction::Register { data, .. })) = ups.recv_timeout(PATIENCE) else { panic!("no data") };
    assert_eq!(&data[..], b"2 1 a1 b");
    let whole = Completion { level: 2, data: "1 2 1 a1 b".into(), joint: None };
    desk.report_outcome(resource, ParentOutcome::Completed(whole.clone()));
    assert_eq!(top.recv_timeout(PATIENCE).unwrap(), Ok(Answer::Completed(whole)));
    told(desk, Request::Destroy(resource)).unwrap();
    assert!(matches!(ups.recv_timeout(PATIENCE), Ok((_, ParentAction::Stop { .. }))));
}

#[test]
fn another_service_continues_with_the_stored_state() {
    let service = slow_service(Spec::new(2));
    let (_asked, outcome) =
        ask(service.service_thread.desk(), registration(service.resource, "a", Life::Unseen));
    service.go.send(Ok(())).unwrap();
    outcome.recv_timeout(PATIENCE).unwrap().unwrap();
    drop(service.service_thread);
    let ((given, _is_given), (go, may_go)) = (channel(), channel());
    go.send(Ok(())).unwrap();
    let store = Slow { maps: service.maps, given, go: may_go };
    let service_thread = ServiceThread::start(Limits::default(), Some(Box::new(store)), |_, _| {}).unwrap();
    // A retry changes nothing, so there is nothing to store.
    told(service_thread.desk(), registration(service.resource, "a", Life::Unseen)).unwrap();
    told(service_thread.desk(), registration(service.resource, "b", Life::Unseen)).unwrap();
    let Ok(Answer::Completed(completion)) = told(service_thread.desk(), wait(service.resource)) else {
        panic!("no")
    };
    assert_eq!(&completion.data[..], b"2 1 a1 b");
}
