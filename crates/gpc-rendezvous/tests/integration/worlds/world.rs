//! The event loop of a world.

use std::collections::BTreeMap;

use gpc_rendezvous::machine::{Input, Millis, Output, ParentAction, RandomValues};
use gpc_rendezvous::{Answer, Handle, Joint, Life, Parent, Request, ResourceId, Spec, Token};

use super::driver::Driver;
use super::plan::{BEGIN, HORIZON, Kind, LEASE, LIFETIME, LONG_LEASE, Plan, Weather};
use super::random::Random;
use super::site::{Mail, Outcome, Requester, Site};
use super::task::{Phase, Task};

#[derive(Debug)]
enum Event {
    Mail(usize, Mail),
    Turn(usize),
    Wake(usize),
    Answer(Requester, u64, Outcome),
    /// The request with this number is unanswered so far.
    Silence(Requester, u64),
    Die(usize),
    Restart(usize),
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) weather: Weather,
    pub(crate) sites: Vec<Site>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) crashes: usize,
    /// Data that services have registered for units at their parents.
    pub(crate) units: Vec<(ResourceId, bytes::Bytes)>,
    random: Random,
    now: Millis,
    events: BTreeMap<(Millis, u64), Event>,
    counted: u64,
    /// Remaining crashes.
    crashes_left: u64,
}

impl World {
    pub(crate) fn new(seed: u64, weather: Weather) -> World {
        let mut random = Random(seed);
        let plan = Plan::draw(&mut random, weather);
        let sites = (0..plan.sites).map(|_| Site::new()).collect();
        let task = |(number, comer): (usize, &super::plan::Comer)| {
            Task::new(number, comer.clone(), plan.resources[comer.resource].id)
        };
        let tasks = plan.comers.iter().enumerate().map(task).collect();
        let crashes_left = random.between(0, 7);
        let mut world = World {
            plan,
            weather,
            sites,
            tasks,
            crashes: 0,
            units: Vec::new(),
            random,
            now: BEGIN,
            events: BTreeMap::new(),
            counted: 0,
            crashes_left,
        };
        world.begin();
        world
    }

    /// Creates all resources at the start, parents first.
    fn begin(&mut self) {
        for number in 0..self.plan.resources.len() {
            let planned = self.plan.resources[number].clone();
            let parent = planned.above.map(|(above, rank)| {
                let above = &self.plan.resources[above];
                let handle = Handle::new(format!("site-{}", above.site), above.id).unwrap();
                Parent { handle, rank }
            });
            let (capacity, level, joint) = (planned.capacity.into(), planned.level.into(), planned.joint);
            let lifetime = Some(LIFETIME);
            let spec = Spec { capacity, level: Some(level), lifetime, job: planned.job, joint, parent };
            let token = Token::new(&format!("unit-{number}")).unwrap();
            let secret = chained_gpc::Secret::new(&[number as u8; 32]).unwrap();
            let joint = Some(Joint { job: chained_gpc::Job([number as u8; 16]), secret });
            let random = RandomValues { id: planned.id, token, joint };
            // The answer is ignored: these resources exist from the start.
            let requester = Requester::Task(usize::MAX);
            self.sites[planned.site]
                .take(self.now, Mail::Ask(requester, 0, Request::Create { spec, random }));
        }
        (0..self.sites.len()).for_each(|site| self.give(site));
        for task in 0..self.tasks.len() {
            let Task { comer, .. } = &self.tasks[task];
            let (comes, dies) = (comer.comes, comer.dies);
            self.at(comes, Event::Silence(Requester::Task(task), 0));
            dies.into_iter().for_each(|dies| self.at(dies, Event::Die(task)));
        }
    }

    fn at(&mut self, at: Millis, event: Event) {
        self.counted += 1;
        self.events.insert((at.max(self.now), self.counted), event);
    }

    /// Sends a message, which may be lost, duplicated or delayed.
    fn send(&mut self, event: impl Fn() -> Event) {
        // A task that withdraws must have no other request in progress: a delayed copy of its registration would be
        // one.
        let steady = match event() {
            Event::Mail(_, Mail::Ask(Requester::Task(task), ..)) => {
                self.tasks[task].comer.kind == Kind::Quitter
            }
            _ => false,
        };
        for _ in 0..if !steady && self.random.percent(5) { 2 } else { 1 } {
            let slow = if !steady && self.random.percent(5) { 300 } else { 15 };
            let at = self.now + self.random.between(0, slow);
            if !self.random.percent(8) {
                self.at(at, event());
            }
        }
    }

    pub(crate) fn run(&mut self) {
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at > HORIZON {
                break;
            }
            self.now = at;
            self.happen(event);
        }
        self.now = HORIZON;
        for site in &mut self.sites {
            site.take(HORIZON, Mail::Input(Input::Tick));
            site.outputs();
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Mail(site, mail) => {
                if self.sites[site].service.is_some() {
                    self.sites[site].inbox.push(mail);
                    let at = self.now + self.random.between(0, 4);
                    self.at(at, Event::Turn(site));
                }
            }
            Event::Turn(site) => self.turn(site),
            Event::Wake(site) if self.now < self.sites[site].wake => {}
            Event::Wake(site) => {
                self.sites[site].wake = Millis::MAX;
                self.sites[site].take(self.now, Mail::Input(Input::Tick));
                self.give(site);
            }
            Event::Answer(requester, number, outcome) => self.answer(requester, number, outcome),
            Event::Silence(requester, number) => self.silence(requester, number),
            Event::Die(task) => self.die(task),
            Event::Restart(site) => {
                self.sites[site].restart(self.now);
                self.give(site);
                self.compare(site);
            }
        }
    }

    /// A turn of a service: it takes some messages, stores the changes, and sends the answers. It may crash before each
    /// of these steps.
    fn turn(&mut self, site: usize) {
        let some = self.random.between(1, 6) as usize;
        let inbox = &mut self.sites[site].inbox;
        let taken: Vec<Mail> = inbox.drain(..some.min(inbox.len())).collect();
        let more = !inbox.is_empty();
        for mail in taken.into_iter().chain([Mail::Input(Input::Tick)]) {
            self.sites[site].take(self.now, mail);
        }
        if self.crash_now() {
            return self.crash(site);
        }
        self.give(site);
        if more {
            self.at(self.now + 1, Event::Turn(site));
        }
    }

    fn crash_now(&mut self) -> bool {
        self.crashes_left > 0 && self.random.percent(6)
    }

    fn crash(&mut self, site: usize) {
        self.crashes_left -= 1;
        self.crashes += 1;
        self.sites[site].crash();
        let wild = self.weather == Weather::Wild;
        let down = self.random.between(1, if wild { 4 * LEASE } else { 200 });
        if !(wild && self.random.percent(10)) {
            self.at(self.now + down, Event::Restart(site));
        }
    }

    /// Stores the changes of a service, then sends its other outputs.
    fn give(&mut self, site: usize) {
        let (mut changes, mut rest) = (Vec::new(), Vec::new());
        for output in self.sites[site].outputs() {
            match output {
                Output::Store(change) => changes.push(change),
                output => rest.push(output),
            }
        }
        self.sites[site].kept.save(&changes);
        if self.now > BEGIN && self.crash_now() {
            return self.crash(site);
        }
        for output in rest {
            match output {
                Output::Answer(ticket, outcome) => {
                    if let Some((requester, number)) = self.sites[site].requester(ticket) {
                        self.send(|| Event::Answer(requester, number, outcome.clone()));
                    }
                }
                Output::ParentAction(id, up) => self.up(site, id, up),
                Output::Store(_) => {}
            }
        }
        self.look(site);
        let deadline = self.sites[site].service.as_ref().and_then(|service| service.deadline());
        if let Some(at) = deadline.filter(|at| *at < self.sites[site].wake) {
            self.sites[site].wake = at;
            self.at(at, Event::Wake(site));
        }
    }

    /// Checks that no wait remains whose outcome is known.
    fn look(&mut self, site: usize) {
        let Some(Ok(Answer::List(all))) = self.sites[site].look(self.now, Request::List { most: 99 }) else {
            return;
        };
        for known in all.iter().filter(|one| one.failed.is_some() || one.completed && one.above.is_none()) {
            assert_eq!(known.waiting, 0, "some waits were not answered: {known:?}");
        }
    }

    fn up(&mut self, site: usize, id: ResourceId, up: ParentAction) {
        if let ParentAction::Register { data, .. } = &up {
            self.units.push((id, data.clone()));
        }
        let lease = if self.weather == Weather::Wild { LEASE } else { LONG_LEASE };
        let runs = self.sites[site].runs;
        let driver = self.sites[site].drivers.entry(id);
        let driver = driver.or_insert_with(|| Driver::new(format!("site-{site}"), lease, &up));
        driver.go_on(up);
        self.ask(Requester::Driver(site, runs, id));
    }

    /// Sends the next request of a task or driver, and schedules its repetition.
    fn ask(&mut self, requester: Requester) {
        let (request, number, site) = match requester {
            Requester::Task(task) => {
                let asking = &mut self.tasks[task];
                asking.number += 1;
                let site = self.plan.resources[asking.comer.resource].site;
                (asking.request(self.now), asking.number, site)
            }
            Requester::Driver(site, _, id) => {
                let Some(driver) = self.sites[site].drivers.get_mut(&id) else { return };
                driver.number += 1;
                let above = self.plan.resources.iter().find(|above| above.id == driver.handle.resource());
                (driver.request(self.now), driver.number, above.unwrap().site)
            }
        };
        let Some((request, patience)) = request else { return };
        self.send(|| Event::Mail(site, Mail::Ask(requester, number, request.clone())));
        self.at(self.now + patience, Event::Silence(requester, number));
    }

    /// The driver, if its process still runs.
    fn driver(&mut self, requester: Requester) -> Option<&mut Driver> {
        match requester {
            Requester::Driver(site, run, id) if self.sites[site].runs == run => {
                self.sites[site].drivers.get_mut(&id)
            }
            Requester::Driver(..) | Requester::Task(_) => None,
        }
    }

    fn answer(&mut self, requester: Requester, number: u64, outcome: Outcome) {
        if let Requester::Task(task) = requester {
            let Some(asking) = self.tasks.get_mut(task) else { return };
            if let Ok(Answer::Registered(registered)) = &outcome {
                asking.acknowledged.push(*registered);
            }
            if !asking.alive || asking.number != number || asking.phase == Phase::Done {
                return;
            }
            asking.take(outcome);
            return self.ask(requester);
        }
        let Some(driver) = self.driver(requester).filter(|driver| driver.number == number) else { return };
        let (goes_on, above) = driver.take(outcome);
        if goes_on {
            self.ask(requester);
        }
        if let (Requester::Driver(site, _, id), Some(above)) = (requester, above) {
            // Within one process no message is lost.
            self.at(self.now, Event::Mail(site, Mail::Input(Input::ParentOutcome(id, above))));
        }
    }

    fn silence(&mut self, requester: Requester, number: u64) {
        let site = match requester {
            Requester::Task(task) => {
                let silent = &mut self.tasks[task];
                if !silent.alive || silent.number != number {
                    return;
                }
                if number > 0 {
                    silent.again();
                }
                self.plan.resources[silent.comer.resource].site
            }
            Requester::Driver(..) => {
                let Some(driver) = self.driver(requester).filter(|driver| driver.number == number) else {
                    return;
                };
                driver.again();
                let id = driver.handle.resource();
                self.plan.resources.iter().find(|above| above.id == id).unwrap().site
            }
        };
        if number > 0 {
            self.send(|| Event::Mail(site, Mail::HangUp(requester, number)));
        }
        self.ask(requester);
    }

    fn die(&mut self, task: usize) {
        let dead = &mut self.tasks[task];
        dead.alive = false;
        let (number, life) = (dead.number, dead.comer.life);
        let site = self.plan.resources[dead.comer.resource].site;
        self.send(|| Event::Mail(site, Mail::HangUp(Requester::Task(task), number)));
        if let Life::Member(member) = life {
            let lost = Input::Lost { member, why: "it has died".into() };
            self.at(self.now + 20, Event::Mail(site, Mail::Input(lost)));
        }
    }

    /// Checks after a crash that every acknowledged registration exists, unless it may have been withdrawn.
    fn compare(&mut self, site: usize) {
        for task in 0..self.tasks.len() {
            let Task { comer, resource, data, acknowledged, .. } = &self.tasks[task];
            let (resource, data) = (*resource, data.clone());
            let stays = comer.life == Life::Unseen && comer.kind != Kind::Quitter;
            let here = self.plan.resources[comer.resource].site == site;
            let Some(registered) = acknowledged.last().filter(|_| stays && here) else { continue };
            let request = Request::Registrant { resource, rank: registered.rank.into() };
            let Some(outcome) = self.sites[site].look(self.now, request) else { return };
            if self.now < BEGIN + LIFETIME {
                assert_eq!(outcome, Ok(Answer::Data(data)), "task {task} was acknowledged");
            }
        }
    }
}
