//! The service thread's state without its thread, by a clock that the test moves.

use std::sync::atomic::{AtomicUsize, Ordering as Order};
use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::machine::{Life, RankChoice, Scope, StoredResource};

/// The writes of a store: the time, and the number of changes.
type Writes = Arc<Mutex<Vec<(Millis, usize)>>>;

/// A store that counts its writes, and refuses them at times.
struct Counting {
    begins: StoredState,
    writes: Writes,
    fails: Arc<AtomicBool>,
}

impl Store for Counting {
    fn load(&mut self) -> Result<StoredState, StoreError> {
        Ok(self.begins.clone())
    }

    fn save(&mut self, now: Millis, changes: &[Change]) -> Result<(), StoreError> {
        self.writes.lock().unwrap().push((now, changes.len()));
        match self.fails.load(Order::Relaxed) {
            true => Err(StoreError { file: "/there".into(), why: "full".into() }),
            false => Ok(()),
        }
    }
}

struct World {
    state: ThreadState,
    desk: Desk,
    taken: Receiver<Command>,
    now: Arc<AtomicU64>,
    writes: Writes,
    fails: Arc<AtomicBool>,
}

const BEGIN: Millis = 1_000_000;

impl World {
    fn new() -> World {
        World::with(StoredState::default(), Limits::default())
    }

    fn with(begins: StoredState, limits: Limits) -> World {
        let (writes, fails, now) = (Writes::default(), Arc::default(), Arc::new(AtomicU64::new(BEGIN)));
        let read = Arc::clone(&now);
        let clock = move |least: Duration| {
            let least = least.as_millis() as u64;
            Clock::reading(move || Duration::from_millis(read.load(Order::Relaxed).max(least)))
        };
        let store = Counting { begins, writes: Arc::clone(&writes), fails: Arc::clone(&fails) };
        let made = ThreadState::new(clock, limits, Some(Box::new(store)), Box::new(|_, _| {}));
        let (state, desk, taken) = made.unwrap();
        World { state, desk, taken, now, writes, fails }
    }

    /// Lets time pass until `at` after the beginning, with a turn at its end.
    fn at(&mut self, at: u64) {
        self.now.store(BEGIN + at, Order::Relaxed);
        self.turn();
    }

    fn turn(&mut self) {
        let first = self.taken.try_recv().ok();
        assert!(self.state.step(first, &self.taken));
    }

    fn ask(&self, request: Request) -> (PendingRequest, Receiver<Result<Answer, Fault>>) {
        let (told, answer): (Sender<_>, _) = channel();
        (self.desk.ask(request, move |outcome| drop(told.send(outcome))), answer)
    }

    /// The answer to a request that is answered in its turn.
    fn told(&mut self, request: Request) -> Result<Answer, Fault> {
        let (pending, answer) = self.ask(request);
        self.turn();
        pending.detach();
        answer.try_recv().expect("it is answered in its turn")
    }

    fn create(&mut self, lifetime: u64) -> ResourceId {
        let random = draw(false).unwrap();
        let id = random.id;
        let spec = Spec { lifetime: Some(lifetime), ..Spec::new(2) };
        assert_eq!(self.told(Request::Create { spec, random }), Ok(Answer::Created(id)));
        id
    }

    fn writes(&self) -> Vec<(Millis, usize)> {
        std::mem::take(&mut self.writes.lock().unwrap())
    }
}

fn register(resource: ResourceId, name: &str, life: Life) -> Request {
    let (rank, token) = (RankChoice::Assign, Token::new(name).unwrap());
    Request::Register { resource, rank, token, data: name.to_owned().into(), life }
}

fn wait(resource: ResourceId, until: Option<Millis>) -> Request {
    Request::Wait { resource, of: Scope::Own, until, token: None }
}

/// Lifetimes are counted from the time that is stored: it is stored every minute, as long as there is a resource.
#[test]
fn the_time_is_stored_every_minute_while_there_is_a_resource() {
    let mut world = World::new();
    world.at(TIME_STORED_EVERY);
    assert_eq!(world.writes(), [], "there is nothing yet");
    world.create(10 * TIME_STORED_EVERY);
    assert_eq!(world.writes(), [(BEGIN + TIME_STORED_EVERY, 1)]);
    world.at(2 * TIME_STORED_EVERY - 1);
    assert_eq!(world.writes(), []);
    world.at(2 * TIME_STORED_EVERY);
    assert_eq!(world.writes(), [(BEGIN + 2 * TIME_STORED_EVERY, 0)]);
    world.at(3 * TIME_STORED_EVERY - 1);
    world.at(3 * TIME_STORED_EVERY);
    assert_eq!(world.writes(), [(BEGIN + 3 * TIME_STORED_EVERY, 0)]);
}

/// A store that fails is tried again after 100 ms, and then after pauses that double up to 2 s.
#[test]
fn a_store_that_fails_is_tried_again_with_pauses_that_double() {
    let mut world = World::new();
    let id = world.create(100_000);
    let (waits, answer) = world.ask(wait(id, None));
    world.turn();
    world.fails.store(true, Order::Relaxed);
    world.writes();
    assert_eq!(world.told(register(id, "a", Life::Unseen)).unwrap_err().kind, FaultKind::Unavailable);
    let mut tried = vec![0];
    for now in 1..10_000 {
        world.at(now);
        let writes = world.writes();
        tried.extend(writes.iter().map(|(at, _)| at - BEGIN));
    }
    let pauses: Vec<u64> = tried.windows(2).map(|two| two[1] - two[0]).collect();
    // The first write is that of the refused request.
    assert_eq!(pauses, [0, 100, 200, 400, 800, 1600, 2000, 2000, 2000]);
    assert_eq!(world.desk.failed().unwrap().why, "full");
    // A wait sleeps no longer than until the next attempt.
    world.at(10_500);
    assert_eq!(world.state.sleep(), Duration::from_millis(600));
    world.fails.store(false, Order::Relaxed);
    world.at(20_000);
    assert_eq!((world.desk.failed(), answer.try_recv().is_err()), (None, true));
    assert!(world.told(register(id, "a", Life::Unseen)).is_ok());
    drop(waits);
}

/// While the store fails, an end of a resource is not told before it is stored; but a wait ends with its own time.
#[test]
fn an_outcome_that_is_not_stored_waits_and_its_wait_ends_in_time() {
    let mut world = World::new();
    let id = world.create(1000);
    let ((long, of_long), (short, of_short)) =
        (world.ask(wait(id, None)), world.ask(wait(id, Some(BEGIN + 1500))));
    world.turn();
    world.fails.store(true, Order::Relaxed);
    world.at(999);
    assert!(of_long.try_recv().is_err() && of_short.try_recv().is_err());
    world.at(1000);
    world.at(1499);
    assert!(of_long.try_recv().is_err() && of_short.try_recv().is_err());
    world.at(1500);
    assert_eq!(of_short.try_recv().unwrap(), Ok(Answer::NotYet));
    world.fails.store(false, Order::Relaxed);
    world.at(4000);
    assert_eq!(of_long.try_recv().unwrap().unwrap_err().kind, FaultKind::Expired);
    assert!(world.state.waiting.is_empty());
    drop((long, short));
}

/// A request that is cancelled before its turn is not carried out, and its callback is not called.
#[test]
fn a_cancelled_request_leaves_nothing_wherever_it_is() {
    let mut world = World::new();
    let id = world.create(100_000);
    let (waits, answer) = world.ask(wait(id, None));
    drop(waits);
    world.turn();
    assert_eq!((world.state.waiting.len(), world.state.service.load().1), (0, 0));
    // A wait that is cancelled in the queue, while the service handles other cancellations.
    let (waits, queued) = world.ask(wait(id, None));
    drop(waits);
    assert!(world.state.step(None, &world.taken));
    world.turn();
    assert_eq!((world.state.waiting.len(), world.state.service.load().1), (0, 0));
    assert!(queued.try_recv().is_err());
    // A wait that follows a write of the same turn.
    let (_written, written) = world.ask(register(id, "a", Life::Unseen));
    let (waits, later) = world.ask(wait(id, None));
    drop(waits);
    world.turn();
    assert_eq!((world.state.waiting.len(), world.state.service.load().1), (0, 0));
    assert!(written.try_recv().unwrap().is_ok());
    // A wait that is there already.
    let (waits, there) = world.ask(wait(id, None));
    world.turn();
    assert_eq!(world.state.service.load().1, 1);
    drop(waits);
    world.turn();
    assert_eq!((world.state.waiting.len(), world.state.service.load().1), (0, 0));
    for answer in [answer, later, there] {
        assert!(answer.try_recv().is_err());
    }
    assert!(locked(&world.desk.cancelled).is_empty());
}

/// Requests of one turn are answered as if they had come one after another: a read sees the writes before it.
#[test]
fn a_read_sees_the_writes_before_it_and_a_loss_those_of_its_node() {
    let mut world = World::new();
    let id = world.create(100_000);
    let (_a, registered) = world.ask(register(id, "a", Life::Member(7)));
    let (_b, seen) = world.ask(Request::Registrant { resource: id, rank: 0 });
    world.turn();
    assert!(registered.try_recv().unwrap().is_ok());
    assert_eq!(seen.try_recv().unwrap(), Ok(Answer::Data("a".into())));
    let (_c, again) = world.ask(register(id, "b", Life::Member(8)));
    assert!(world.desk.report_loss(8, "gone".into()));
    assert!(world.desk.report_loss(7, "gone".into()));
    world.turn();
    // The second one completed the resource before its node was lost.
    assert!(again.try_recv().unwrap().is_ok());
    let Ok(Answer::Properties(found)) = world.told(Request::Properties(id)) else { panic!("it is gone") };
    assert!(found.completed && found.tally == 2);
}

/// The thread sleeps until the next deadline of the service, at most a second.
#[test]
fn the_thread_sleeps_until_the_next_deadline() {
    let mut world = World::new();
    assert_eq!(world.state.sleep(), SLEEP);
    world.create(100_000);
    assert_eq!(world.state.sleep(), SLEEP);
    world.create(300);
    assert_eq!(world.state.sleep(), Duration::from_millis(300));
    world.at(299);
    assert_eq!(world.state.sleep(), Duration::from_millis(1));
    world.at(300);
    assert_eq!(world.state.sleep(), SLEEP);
}

fn stored(created: Millis, expires: Millis, now: Option<Millis>) -> (ResourceId, StoredState) {
    let (id, token) = (ResourceId([7; 16]), Token::new("t").unwrap());
    let (job, joint, parent, failed) = (None, None, None, None);
    let resource =
        StoredResource { capacity: 2, level: 1, created, expires, job, joint, parent, token, failed };
    (id, StoredState { now, resources: vec![(id, resource)], ..StoredState::default() })
}

/// A resource keeps its remaining lifetime while the service is down, wherever the machine's clock goes meanwhile.
#[test]
fn a_restarted_resource_lives_for_what_was_left_of_its_life() {
    // Stored half a minute ago, in the future by this clock, and by a version that stored no time.
    let (ahead, behind) = (BEGIN + 500_000, BEGIN - 30_000);
    for (now, begins) in [(Some(behind), BEGIN), (Some(ahead), ahead - 5), (None, BEGIN)] {
        let at = now.unwrap_or(BEGIN);
        let (id, state) = stored(at - 5, at + 1000, now);
        let mut world = World::with(state, Limits::default());
        // The time is not before the creation of what is stored.
        assert_eq!(world.desk.now(), begins);
        let left = 1000;
        world.now.store(begins + left - 1, Order::Relaxed);
        world.turn();
        assert!(world.told(Request::Properties(id)).is_ok(), "{now:?}");
        world.now.store(begins + left, Order::Relaxed);
        world.turn();
        assert_eq!(world.told(Request::Properties(id)).unwrap_err().kind, FaultKind::Expired, "{now:?}");
    }
}

/// At the end of the service, each answer made its caller ask again, and the end answered these requests as well:
/// it took as long as there were such callers.
#[test]
fn the_end_answers_a_full_queue_and_no_more() {
    fn again(desk: Desk, count: Arc<AtomicUsize>, depth: Arc<AtomicUsize>) {
        let ask = desk.clone();
        let then = move |_| {
            // An answer within `ask` means that the queue is gone.
            let is_queued = depth.load(Order::Relaxed) == 0;
            if is_queued && count.fetch_add(1, Order::Relaxed) < 3 * QUEUE {
                depth.fetch_add(1, Order::Relaxed);
                again(desk, count, Arc::clone(&depth));
                depth.fetch_sub(1, Order::Relaxed);
            }
        };
        ask.ask(Request::List { most: 0 }, then).detach();
    }
    let world = World::new();
    let (count, depth) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    again(world.desk.clone(), Arc::clone(&count), depth);
    assert!(!world.desk.has_ended());
    world.state.end(&world.taken);
    assert!(world.desk.has_ended());
    drop(world.taken);
    assert!((1..=QUEUE + 1).contains(&count.load(Order::Relaxed)), "{count:?}");
}

/// A loss that finds the queue full is reported again by its caller.
#[test]
fn a_full_queue_takes_no_loss() {
    let mut world = World::new();
    for _ in 0..QUEUE {
        assert!(world.desk.report_loss(7, "gone".into()));
    }
    assert!(!world.desk.report_loss(7, "gone".into()));
    let (_refused, answer) = world.ask(Request::List { most: 1 });
    assert_eq!(answer.try_recv().unwrap().unwrap_err().kind, FaultKind::ServiceFull);
    world.turn();
    assert!(world.desk.report_loss(7, "gone".into()));
}

/// A turn takes a bounded number of requests, and so is stored and answered soon.
#[test]
fn a_turn_takes_a_part_of_a_long_queue() {
    let mut world = World::new();
    let asked: Vec<_> = (0..TURN + 1).map(|_| world.ask(Request::List { most: 0 })).collect();
    world.turn();
    let answered = || asked.iter().filter(|(_, answer)| answer.try_recv().is_ok()).count();
    assert_eq!(answered(), TURN);
    world.turn();
    assert_eq!(answered(), 1);
}

/// A request that arrives while the service ends is answered, even if nobody takes it from the queue.
#[test]
fn a_request_that_nobody_takes_is_answered() {
    let world = World::new();
    let (_asked, answer) = world.ask(Request::List { most: 0 });
    drop(world.taken);
    assert_eq!(answer.try_recv().unwrap(), Err(ended()));
    let (_late, answer) = {
        let (told, answer) = channel();
        (world.desk.ask(Request::List { most: 0 }, move |outcome| drop(told.send(outcome))), answer)
    };
    assert_eq!(answer.try_recv().unwrap(), Err(ended()));
}
