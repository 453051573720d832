//! The event loop of a world, and what must hold at its end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chained_gpc::Clock;

use super::clients::{ANSWER, Client, Goal, LIFETIME};
use super::disk::Disk;
use crate::client::Failure;
use crate::machine::{Answer, Fault, Input, Limits, Millis, Output, Request, Ticket};
use crate::service_thread::{Command, Desk, ThreadState};
use crate::store::FileStore;

/// The fault of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// Messages arrive at once, and nothing fails.
    None,
    /// The machine crashes at this write. `keeps` says whether what was not synced is there after it.
    Crash { write: u64, keeps: bool },
    /// The disk is full from this write on, for some writes.
    Full { write: u64 },
    /// Several crashes, and everything that a network does.
    Storm,
}

#[derive(Debug)]
enum Event {
    /// A client sends its next request.
    Ask(usize),
    /// The request of this attempt arrives.
    Arrival(usize, u64, Request),
    /// The service takes what has arrived.
    Turn,
    /// Its answer, or the lack of one, is known to the client.
    Answer(usize, u64, Result<Answer, Failure>),
    Restart,
}

/// A running service.
struct Running {
    state: ThreadState,
    desk: Desk,
    taken: Receiver<Command>,
}

/// Answers of the service in the present turn.
type Answers = Arc<Mutex<Vec<(usize, u64, Result<Answer, Fault>)>>>;

pub(super) struct World {
    trouble: Trouble,
    seed: u64,
    now: Arc<AtomicU64>,
    disk: Disk,
    /// `None` while the machine is down.
    service: Option<Running>,
    answers: Answers,
    clients: Vec<Client>,
    /// Number of clients of each group.
    sizes: Vec<u32>,
    events: BTreeMap<(Millis, u64), Event>,
    counted: u64,
    /// Number of resources that were drawn.
    draws: u8,
    crashes_left: u64,
}

impl World {
    pub(super) fn new(seed: u64, trouble: Trouble) -> World {
        let mut world = World {
            trouble,
            seed: seed.wrapping_mul(2).wrapping_add(1),
            now: Arc::new(AtomicU64::new(1_000_000)),
            disk: Disk::default(),
            service: None,
            answers: Arc::default(),
            clients: Vec::new(),
            sizes: Vec::new(),
            events: BTreeMap::new(),
            counted: 0,
            draws: 0,
            crashes_left: 4,
        };
        for group in 0..world.below(2) as u8 + 1 {
            let size = world.below(4) as u32 + 1;
            world.sizes.push(size);
            for number in 0..size {
                let leased = world.below(3) == 0;
                world.clients.push(Client::new(group, number, leased));
            }
        }
        world.start();
        match trouble {
            Trouble::Crash { write, .. } => world.disk.crash_at(world.disk.writes() + write),
            Trouble::Full { write } => {
                let first = world.disk.writes() + write;
                world.disk.full_at(first..first + 30);
            }
            Trouble::None | Trouble::Storm => {}
        }
        (0..world.clients.len()).for_each(|client| {
            let late = world.below(3) * 20_000;
            world.at(late, Event::Ask(client));
        });
        world
    }

    /// A random number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(17) % limit
    }

    fn now(&self) -> Millis {
        self.now.load(Ordering::Relaxed)
    }

    fn at(&mut self, after: u64, event: Event) {
        self.counted += 1;
        self.events.insert((self.now() + after, self.counted), event);
    }

    /// A delay in the network or the service: at times so long that the client gives the answer up.
    fn delay(&mut self) -> u64 {
        match (self.trouble, self.below(20)) {
            (Trouble::Storm, 0) => ANSWER + self.below(20_000),
            (Trouble::Storm, _) => self.below(300),
            _ => 1,
        }
    }

    fn start(&mut self) {
        let (disk, read) = (self.disk.clone(), Arc::clone(&self.now));
        let store = FileStore::on(move || Ok(disk.clone()), "disk").unwrap();
        let clock = Clock::reading(move || Duration::from_millis(read.load(Ordering::Relaxed)));
        let limits = Limits::default();
        let made = ThreadState::new(|_| clock, limits, Some(Box::new(store)), Box::new(|_, _| {}));
        let (state, desk, taken) = made.unwrap();
        self.service = Some(Running { state, desk, taken });
        self.at(0, Event::Turn);
    }

    /// Runs the world and checks its end. Returns the number of the disk's writes after the start.
    pub(super) fn run(mut self) -> u64 {
        let (begun, horizon) = (self.disk.writes(), self.now() + LIFETIME / 2);
        while let Some(((at, _), event)) = self.events.pop_first() {
            let all_done = self.clients.iter().all(|client| client.goal == Goal::Done);
            if at > horizon || all_done && self.service.is_some() {
                break;
            }
            self.now.store(at, Ordering::Relaxed);
            self.happen(event);
        }
        let writes = self.disk.writes() - begun;
        self.check();
        writes
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Ask(client) => self.ask(client),
            Event::Arrival(client, attempt, request) => self.arrive(client, attempt, request),
            Event::Turn => self.turn(),
            Event::Answer(client, attempt, answer) => self.answer(client, attempt, answer),
            Event::Restart => {
                let keeps = match self.trouble {
                    Trouble::Crash { keeps, .. } => keeps,
                    _ => self.below(2) == 0,
                };
                self.disk.restart(keeps);
                self.start();
            }
        }
    }

    fn ask(&mut self, client: usize) {
        let (now, draws) = (self.now(), self.draws);
        let (group, goal) = (self.clients[client].group, self.clients[client].goal);
        if goal == Goal::Done {
            return;
        }
        let of_group = || self.clients.iter().filter(|other| other.group == group);
        let others_wait = of_group().any(|other| other.number > 0 && other.goal != Goal::Done);
        let creator = of_group().find(|other| other.number == 0).map(|first| (first.resource, first.goal));
        let asking = &mut self.clients[client];
        match creator {
            Some((Some(resource), _)) => asking.resource = Some(resource),
            // Its group never gets a resource.
            Some((None, Goal::Done)) => return asking.goal = Goal::Done,
            _ => {}
        }
        let request = asking.request(self.sizes[usize::from(group)], now, draws);
        let Some((request, hold)) = request.filter(|_| goal != Goal::Destroy || !others_wait) else {
            return self.at(500, Event::Ask(client));
        };
        asking.attempt += 1;
        let attempt = asking.attempt;
        self.draws += u8::from(goal == Goal::Create);
        let lost = |sent| Event::Answer(client, attempt, Err(no_answer(sent)));
        if self.service.is_none() {
            // Nothing listens.
            return self.at(1, lost(false));
        }
        let storm = self.trouble == Trouble::Storm;
        match self.below(25) {
            0 if storm => return self.at(1, lost(true)),
            1 if storm => {
                let gateway = Failure::Gateway("status 502".into());
                self.at(1, Event::Answer(client, attempt, Err(gateway)));
            }
            _ => self.at(hold + ANSWER, lost(true)),
        }
        let delay = self.delay();
        self.at(delay, Event::Arrival(client, attempt, request));
    }

    fn arrive(&mut self, client: usize, attempt: u64, request: Request) {
        let Some(running) = &self.service else {
            return self.at(1, Event::Answer(client, attempt, Err(no_answer(true))));
        };
        let answers = Arc::clone(&self.answers);
        let then = move |outcome| answers.lock().unwrap().push((client, attempt, outcome));
        running.desk.ask(request, then).detach();
        let delay = self.delay();
        self.at(delay, Event::Turn);
    }

    fn turn(&mut self) {
        let Some(running) = &mut self.service else { return };
        let first = running.taken.try_recv().ok();
        assert!(running.state.step(first, &running.taken), "nobody ends it");
        if self.crashes_left > 0 && self.trouble == Trouble::Storm && self.below(12) == 0 {
            let write = self.disk.writes() + self.below(12);
            self.disk.crash_at(write);
        }
        let answers = std::mem::take(&mut *self.answers.lock().unwrap());
        if self.disk.has_crashed() {
            self.crashes_left = self.crashes_left.saturating_sub(1);
            self.service = None;
            // What the end of the service answered has not left the machine.
            self.answers.lock().unwrap().clear();
            let down = 1 + self.below(60_000);
            return self.at(down, Event::Restart);
        }
        for (client, attempt, outcome) in answers {
            let answer = outcome.map_err(Failure::Fault);
            let lost = self.trouble == Trouble::Storm && self.below(15) == 0;
            let delay = self.delay();
            if !lost {
                self.at(delay, Event::Answer(client, attempt, answer));
            }
        }
        self.check_resources();
        let Some(running) = &self.service else { return };
        let sleep = running.state.sleep().as_millis() as u64;
        if self.events.values().filter(|event| matches!(event, Event::Turn)).count() == 0 {
            self.at(sleep.max(1), Event::Turn);
        }
    }

    fn answer(&mut self, client: usize, attempt: u64, answer: Result<Answer, Failure>) {
        if self.clients[client].attempt != attempt || self.clients[client].goal == Goal::Done {
            return;
        }
        // A later answer to this attempt has no effect.
        self.clients[client].attempt += 1;
        let share = self.below(1024) as u32;
        match answer {
            Ok(answer) => {
                self.clients[client].take(answer);
                self.at(0, Event::Ask(client));
            }
            Err(failure) => {
                let pause = self.clients[client].fail(failure, share).unwrap_or_default();
                self.at(pause, Event::Ask(client));
            }
        }
    }

    /// The answer to a request of the checker, right after a turn.
    fn look(&mut self, request: Request) -> Result<Answer, Fault> {
        let now = self.now();
        let Some(Running { state, .. }) = &mut self.service else { panic!("it is down") };
        state.service.handle(now, Input::Ask(Ticket(u64::MAX), request));
        let (changes, mut outputs) = state.outputs();
        match (changes.len(), outputs.len(), outputs.pop()) {
            (0, 1, Some(Output::Answer(_, answer))) => answer,
            other => panic!("nothing is due: {other:?}"),
        }
    }

    /// No resource was created twice, and every acknowledged registration without a lease is there, once.
    fn check_resources(&mut self) {
        let Ok(Answer::List(list)) = self.look(Request::List { most: 99 }) else { panic!("no list") };
        let mut jobs: Vec<_> = list.iter().map(|properties| properties.job.unwrap().0).collect();
        jobs.sort_unstable();
        assert!(jobs.is_sorted_by(|one, other| one < other), "a resource was created twice: {jobs:?}");
        for client in 0..self.clients.len() {
            let Client { registered, resource, group, leased, .. } = self.clients[client];
            let (Some(registered), Some(resource), false) = (registered, resource, leased) else { continue };
            if !list.iter().any(|properties| properties.id == resource) {
                let first = self.clients.iter().find(|other| other.group == group).unwrap();
                assert!(matches!(first.goal, Goal::Destroy | Goal::Done), "{first:?}");
                continue;
            }
            let mine = Ok(Answer::Data(self.clients[client].data().into()));
            let ranks = 0..u64::from(self.sizes[usize::from(group)]);
            let found: Vec<u64> = ranks
                .filter(|rank| self.look(Request::Registrant { resource, rank: *rank }) == mine)
                .collect();
            assert_eq!(found, [u64::from(registered.rank)], "{:?}", self.clients[client]);
        }
    }

    fn check(&mut self) {
        for client in &self.clients {
            assert_eq!(client.goal, Goal::Done, "it hangs: {client:?}");
            if let Some(error) = &client.error {
                // Only a creation may end with an error: what it has done is not known.
                let creation = client.number == 0 && client.resource.is_none();
                assert!(creation && self.trouble != Trouble::None, "{client:?}: {error:?}");
            }
            let size = self.sizes[usize::from(client.group)];
            if let Some(data) = &client.completion {
                let text = std::str::from_utf8(data).unwrap();
                assert!(text.starts_with(&format!("{size} ")), "{text}");
                for other in self.clients.iter().filter(|other| other.group == client.group) {
                    let found = text.matches(&other.data()).count();
                    assert_eq!(found, 1, "{} in {text}", other.data());
                }
            } else {
                assert!(client.resource.is_none(), "{client:?}");
            }
        }
        self.check_end();
    }

    /// Nothing is left, in the service and on the disk, except resources whose creation was not acknowledged. These
    /// end with their lifetime.
    fn check_end(&mut self) {
        if self.service.is_none() {
            self.disk.restart(true);
            self.start();
        }
        self.crashes_left = 0;
        self.disk.restart(true);
        self.now.fetch_add(LIFETIME, Ordering::Relaxed);
        let Some(Running { state, taken, .. }) = &mut self.service else { panic!("it is down") };
        assert!(state.step(None, taken));
        assert!(state.service.is_empty(), "something is left: {:?}", state.service);
        assert_eq!((state.waiting.len(), state.writes.len(), state.later.len()), (0, 0, 0));
        assert!(state.unsaved.is_none(), "{:?}", state.unsaved);
        let stored = self.service.take().and_then(|running| running.state.store).unwrap().load().unwrap();
        assert!(stored.resources.is_empty() && stored.registrants.is_empty(), "{stored:?}");
    }
}

fn no_answer(sent: bool) -> Failure {
    Failure::NoAnswer { why: "no answer".into(), sent, hopeless: false }
}
