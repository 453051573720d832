//! Units and their parents at one service, and the work of a driver that nothing runs.

use std::pin::pin;
use std::sync::mpsc;

use super::*;
use crate::machine::{OVERHEAD, Parent, Spec};
use crate::service_thread::ServiceThread;

const OWN: &str = "http://127.0.0.1:9/rendezvous";

/// A time limit that is long enough for any machine: it passes only if something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    service_thread: ServiceThread,
    parent_driver: ParentDriver,
    /// Dropping it ends the runtime's thread.
    _going: oneshot::Sender<()>,
}

impl World {
    fn new() -> World {
        World::with(Limits::default())
    }

    fn with(limits: Limits) -> World {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (going, ended) = oneshot::channel();
        let (on_parent_action, parent_driver) =
            new(runtime.handle().clone(), OWN, &limits, &ClientOptions::default(), &[]).unwrap();
        let service_thread = ServiceThread::start(limits, None, on_parent_action).unwrap();
        parent_driver.begin(service_thread.desk());
        std::thread::spawn(move || runtime.block_on(ended));
        World { service_thread, parent_driver, _going: going }
    }

    fn ask(&self, request: Request) -> mpsc::Receiver<Result<Answer, Fault>> {
        let (tell, told) = mpsc::channel();
        self.service_thread.desk().ask(request, move |answer| drop(tell.send(answer))).detach();
        told
    }

    fn create(&self, capacity: u64, level: u64, parent: Option<(Handle, u64)>) -> Handle {
        let parent = parent.map(|(handle, rank)| Parent { handle, rank: RankChoice::Rank(rank) });
        let (tell, told) = mpsc::channel();
        let spec = Spec { level: Some(level), parent, ..Spec::new(capacity) };
        let then = move |answer| drop(tell.send(answer));
        self.service_thread.desk().create(spec, then).unwrap().detach();
        let Ok(Answer::Created(id)) = told.recv_timeout(PATIENCE).unwrap() else { panic!("refused") };
        Handle::new(OWN, id).unwrap()
    }

    /// Creates `count` units, each with a parent resource of one rank, and returns the parents.
    fn pairs(&self, count: usize) -> Vec<Handle> {
        let job = Some(Default::default());
        let (tell, told) = mpsc::channel();
        let create = |spec: Spec| {
            let tell = tell.clone();
            let then = move |answer| drop(tell.send(answer));
            self.service_thread.desk().create(spec, then).unwrap().detach();
        };
        let created = || match told.recv_timeout(PATIENCE).unwrap() {
            Ok(Answer::Created(id)) => Handle::new(OWN, id).unwrap(),
            other => panic!("{other:?}"),
        };
        (0..count).for_each(|_| create(Spec { level: Some(2), ..Spec::new(1) }));
        let tops: Vec<Handle> = (0..count).map(|_| created()).collect();
        for top in &tops {
            let parent = Some(Parent { handle: top.clone(), rank: RankChoice::Rank(0) });
            create(Spec { parent, job, ..Spec::new(1) });
            created();
        }
        tops
    }

    fn register(&self, at: &Handle, rank: u64, data: &'static str) {
        let token = Token::new(&format!("{rank}")).unwrap();
        let (resource, rank) = (at.resource(), RankChoice::Rank(rank));
        let register = Request::Register { resource, rank, token, data: data.into(), life: Life::Unseen };
        self.ask(register).recv_timeout(PATIENCE).unwrap().unwrap();
    }

    /// Creates a resource, which queues behind earlier requests, and returns whether the service is full.
    fn wait_full(&self) -> bool {
        let full =
            |answer: Result<Answer, Fault>| answer.is_err_and(|fault| fault.kind == FaultKind::ServiceFull);
        let (tell, told) = mpsc::channel();
        let then = move |answer| drop(tell.send(answer));
        self.service_thread.desk().create(Spec::new(1), then).unwrap().detach();
        full(told.recv_timeout(PATIENCE).unwrap())
    }

    fn wait(&self, at: &Handle, of: Scope) -> mpsc::Receiver<Result<Answer, Fault>> {
        self.ask(Request::Wait { resource: at.resource(), of, until: None, token: None })
    }
}

#[test]
fn three_levels_of_one_service_meet() {
    let world = World::new();
    let top = world.create(2, 3, None);
    let middle = [0, 1].map(|rank| world.create(1, 2, Some((top.clone(), rank))));
    let low = middle.map(|middle| world.create(2, 1, Some((middle, 0))));
    let waits = [world.wait(&low[0], Scope::Top), world.wait(&low[1], Scope::Top)];
    for (rank, at, data) in [(1, &low[0], "b"), (0, &low[0], "a"), (0, &low[1], "c"), (1, &low[1], "d")] {
        world.register(at, rank, data);
    }
    for wait in waits {
        let Ok(Answer::Completed(found)) = wait.recv_timeout(PATIENCE).unwrap() else { panic!("failed") };
        assert_eq!((found.level, &found.data[..]), (3, &b"2 1 2 1 a1 b1 2 1 c1 d"[..]));
    }
    let late = world.wait(&low[0], Scope::Top).recv_timeout(PATIENCE).unwrap();
    assert!(late.is_ok_and(|answer| matches!(answer, Answer::Completed(found) if found.level == 3)));
}

#[test]
fn the_end_of_a_unit_is_reported_to_its_parent_with_its_name() {
    let world = World::new();
    let top = world.create(2, 2, None);
    let unit = world.create(2, 1, Some((top.clone(), 1)));
    let wait = world.wait(&top, Scope::Top);
    world.ask(Request::Destroy(unit.resource())).recv_timeout(PATIENCE).unwrap().unwrap();
    let fault = wait.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert_eq!((fault.kind, fault.rank), (FaultKind::ControllerLost, Some(1)));
    assert!(fault.task.unwrap().contains(&unit.resource().short().to_string()));
}

/// Of units that ended at one moment, with their job, the ends of the first 4,096 were reported to their parents.
/// The tasks that waited at the other parents hung, because a lease of the service with itself never expires.
#[test]
fn the_end_of_a_job_is_reported_to_the_parents_of_its_units() {
    let world = World::new();
    let tops = world.pairs(6000);
    let waits: Vec<_> = tops.iter().map(|top| world.wait(top, Scope::Own)).collect();
    let ended = world.ask(Request::EndJob(Default::default())).recv_timeout(PATIENCE).unwrap();
    assert_eq!(ended, Ok(Answer::Ended(6000)));
    for wait in waits {
        let fault = wait.recv_timeout(PATIENCE).unwrap().unwrap_err();
        assert_eq!((fault.kind, fault.rank), (FaultKind::ControllerLost, Some(0)));
    }
}

/// A unit whose data the parent rejected failed, but the tasks that waited at the parent were not informed. They
/// hung until the lifetime of the resource had passed, because a lease of the service with itself never expires.
#[test]
fn the_parent_learns_of_a_refused_unit() {
    let world = World::with(Limits { data: 12, ..Limits::default() });
    let top = world.create(2, 2, None);
    let unit = world.create(2, 1, Some((top.clone(), 1)));
    let waits = [world.wait(&unit, Scope::Top), world.wait(&top, Scope::Own)];
    world.register(&unit, 0, "eight so");
    world.register(&unit, 1, "eight so");
    let [below, above] = waits.map(|wait| wait.recv_timeout(PATIENCE).unwrap().unwrap_err());
    assert_eq!(below.kind, FaultKind::DataTooLong);
    assert_eq!((above.kind, above.rank), (FaultKind::ControllerLost, Some(1)));
    assert!(above.message.contains("limit of 12"), "{above}");
}

/// If the parent had no room for one more control request, the fault was final, although there was room a moment
/// later.
#[test]
fn a_full_service_is_asked_again() {
    // Room for three resources and two registrants, but for no controlling task.
    let world = World::with(Limits { held: 5 * OVERHEAD + 40, ..Limits::default() });
    let top = world.create(1, 2, None);
    let other = world.create(9, 1, None);
    for rank in 0..2 {
        world.register(&other, rank, "");
    }
    let unit = world.create(1, 1, Some((top, 0)));
    let wait = world.wait(&unit, Scope::Top);
    let full = world.wait_full();
    world.ask(Request::Destroy(other.resource())).recv_timeout(PATIENCE).unwrap().unwrap();
    world.register(&unit, 0, "data");
    let Ok(Answer::Completed(found)) = wait.recv_timeout(PATIENCE).unwrap() else { panic!("refused") };
    assert!(full && found.level == 2);
}

/// Three renewals may be lost, each of which fails within 7 s.
#[test]
fn a_lease_above_outlasts_three_lost_renewals() {
    assert!(3 * (RENEW + Duration::from_secs(7)) < LEASE);
}

/// Whether the first request was refused depended on the order of threads. Here it is refused.
#[tokio::test(start_paused = true)]
async fn a_request_to_a_full_service_is_repeated_until_there_is_room() {
    let world = World::with(Limits { held: 2 * OVERHEAD, ..Limits::default() });
    let desk = world.service_thread.desk();
    let (top, other) = (world.create(1, 2, None), world.create(9, 1, None));
    let (unit, token) = (Unit::Rank(0), Token::new("t").unwrap());
    let (resource, name, life) = (top.resource(), "name".into(), Life::Unseen);
    let mut asked = pin!(ask(desk, Request::Control { resource, unit, name, token, life }, None));
    let early = tokio::time::timeout(Duration::from_secs(60), asked.as_mut()).await;
    assert!(early.is_err(), "it is final: {early:?}");
    let destroyed = ask(desk, Request::Destroy(other.resource()), None).await;
    assert_eq!((destroyed, asked.await), (Ok(Answer::Done), Ok(Answer::Done)));
}

#[test]
fn units_of_one_parent_share_a_wait_that_ends_with_the_last() {
    let world = World::new();
    let shared = &world.parent_driver.shared;
    let handle = Handle::new(OWN, ResourceId([1; 16])).unwrap();
    let (first, second) = (SharedWait::of(shared, &handle), SharedWait::of(shared, &handle));
    assert!(Arc::ptr_eq(&first.cell, &second.cell));
    drop(first);
    let third = SharedWait::of(shared, &handle);
    assert!(Arc::ptr_eq(&third.cell, &second.cell));
    drop((second, third));
    assert!(locked(&shared.waits).is_empty());
}

#[test]
fn a_fault_above_is_final_and_unchanged() {
    let world = World::new();
    let nowhere = Handle::new(OWN, ResourceId([1; 16])).unwrap();
    let unit = world.create(1, 1, Some((nowhere, 0)));
    let fault = world.wait(&unit, Scope::Top).recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert_eq!(fault.kind, FaultKind::UnknownResource);
    world.register(&unit, 0, "data");
    assert!(world.wait(&unit, Scope::Own).recv_timeout(PATIENCE).unwrap().is_ok());
}
/// A driver of a service with one resource, and the runtime of its work, which runs only in `block_on`.
fn undriven() -> (tokio::runtime::Runtime, ParentDriver) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = Limits { resources: 1, ..Limits::default() };
    let (_, driver) = new(runtime.handle().clone(), OWN, &limits, &ClientOptions::default(), &[]).unwrap();
    (runtime, driver)
}

/// Ends that wait for other services must not keep this service from being told of its own: no lease expires in
/// place of that report.
#[test]
fn ends_at_this_service_have_their_own_slots() {
    let (_runtime, driver) = undriven();
    let stop = |service: &str| {
        let handle = Handle::new(service, ResourceId([1; 16])).unwrap();
        driver.shared.stop(handle.resource(), handle, 0, Token::new("t").unwrap(), "over".into());
        let Shared { own_stops, stops, .. } = &*driver.shared;
        (own_stops.available_permits(), stops.available_permits())
    };
    let elsewhere = "http://127.0.0.1:10/rendezvous";
    assert_eq!((stop(OWN), stop(OWN)), ((3, 4), (2, 4)));
    assert_eq!([(); 6].map(|()| stop(elsewhere).1), [3, 2, 1, 0, 0, 0]);
    assert_eq!(stop(OWN), (1, 0));
}

/// The work that renews the lease of a unit ends when the unit has all its data, and all work ends with the driver.
#[test]
fn the_work_of_a_unit_is_replaced_and_ends_with_the_driver() {
    let (runtime, driver) = undriven();
    let id = ResourceId([1; 16]);
    let begin = || {
        driver.shared.work(id, Arc::default(), std::future::pending());
        locked(&driver.shared.units)[&id].task.clone()
    };
    let works = [begin(), begin()];
    let ended = || {
        runtime.block_on(tokio::task::yield_now());
        works.each_ref().map(AbortHandle::is_finished)
    };
    assert_eq!(ended(), [true, false]);
    drop(driver);
    assert_eq!(ended(), [true, true]);
}
