//! Compares the state machine with a model made of lists and loops: any sequence of requests, at any times, with
//! restarts, must give the same answers.

use bytes::Bytes;
use chained_gpc::Job;
use gpc_rendezvous::machine::{Input, OVERHEAD, Ticket};
use gpc_rendezvous::{
    Answer, Fault, FaultKind, Life, Limits, RankChoice, Request, ResourceId, Scope, Spec, Token, Unit,
};
use proptest::prelude::*;

use crate::support::driven::{Driven, id, token};

/// The parts of an answer that are compared: its kind, numbers and bytes.
type ComparedAnswer = Result<String, (FaultKind, Option<u64>, Option<String>)>;

fn compared(outcome: Result<Answer, Fault>) -> ComparedAnswer {
    let told = match outcome {
        Ok(Answer::Registered(registered)) => format!("{} of {}", registered.rank, registered.tally),
        Ok(Answer::Completed(completion)) => format!("complete {:?}", completion.data),
        Ok(Answer::Data(data)) => format!("data {data:?}"),
        Ok(Answer::Properties(found)) => format!(
            "tally {} missing {:?} bytes {} complete {} failed {} waiting {}",
            found.tally,
            found.missing,
            found.bytes,
            found.completed,
            found.failed.is_some(),
            found.waiting
        ),
        Ok(other) => format!("{other:?}"),
        Err(fault) => return Err((fault.kind, fault.rank, fault.task)),
    };
    Ok(told)
}

fn fault<T>(kind: FaultKind) -> Result<T, (FaultKind, Option<u64>, Option<String>)> {
    Err((kind, None, None))
}

fn fault_of<T>(kind: FaultKind, rank: u64) -> Result<T, (FaultKind, Option<u64>, Option<String>)> {
    Err((kind, Some(rank), None))
}

struct Entry {
    /// Rank of a registrant.
    rank: u32,
    /// Unit of a controlling task.
    unit: Option<Unit>,
    token: Token,
    data: Bytes,
    life: Life,
    heard: u64,
}

struct Resource {
    id: ResourceId,
    capacity: u32,
    expires: u64,
    job: Option<Job>,
    registrants: Vec<Entry>,
    controllers: Vec<Entry>,
    complete: Option<String>,
    failed: Option<(FaultKind, Option<u64>, Option<String>)>,
}

struct Wait {
    ticket: Ticket,
    resource: ResourceId,
    until: Option<u64>,
    token: Option<Token>,
}

#[derive(Default)]
struct Model {
    now: u64,
    resources: Vec<Resource>,
    ended: Vec<(ResourceId, FaultKind)>,
    waits: Vec<Wait>,
    /// Answers that are due to waits.
    told: Vec<(Ticket, ComparedAnswer)>,
}

impl Model {
    fn at(&self, id: ResourceId) -> Result<usize, (FaultKind, Option<u64>, Option<String>)> {
        if let Some(found) = self.resources.iter().position(|resource| resource.id == id) {
            return Ok(found);
        }
        let ended = self.ended.iter().rev().find(|(ended, _)| *ended == id);
        fault(ended.map_or(FaultKind::UnknownResource, |(_, kind)| *kind))
    }

    /// The resource, if it is open.
    fn open(&mut self, id: ResourceId) -> Option<&mut Resource> {
        self.resources.iter_mut().find(|of| of.id == id && of.complete.is_none() && of.failed.is_none())
    }

    fn heard(&mut self, id: ResourceId, token: &Token) {
        let now = self.now;
        let Some(resource) = self.open(id) else { return };
        let entries = resource.registrants.iter_mut().chain(&mut resource.controllers);
        entries.filter(|entry| entry.token == *token).for_each(|entry| entry.heard = now);
    }

    fn tell(&mut self, id: ResourceId, what: &ComparedAnswer) {
        let (told, rest) =
            std::mem::take(&mut self.waits).into_iter().partition(|wait: &Wait| wait.resource == id);
        self.waits = rest;
        self.told.extend(told.into_iter().map(|wait: Wait| (wait.ticket, what.clone())));
    }

    fn fail(&mut self, id: ResourceId, why: (FaultKind, Option<u64>, Option<String>)) {
        let Some(resource) = self.open(id) else { return };
        resource.failed = Some(why.clone());
        resource.controllers.clear();
        self.tell(id, &Err(why));
    }

    fn end(&mut self, id: ResourceId, kind: FaultKind) {
        self.resources.retain(|resource| resource.id != id);
        self.ended.push((id, kind));
        self.tell(id, &fault(kind));
    }

    fn settle(&mut self, id: ResourceId) {
        let Some(resource) = self.open(id) else { return };
        if resource.registrants.len() < resource.capacity as usize {
            return;
        }
        resource.registrants.sort_by_key(|entry| entry.rank);
        let mut data = format!("{} ", resource.capacity).into_bytes();
        for entry in &resource.registrants {
            data.extend(format!("{} ", entry.data.len()).bytes());
            data.extend(&entry.data);
        }
        let complete = format!("complete {:?}", Bytes::from(data));
        resource.complete = Some(complete.clone());
        resource.controllers.clear();
        self.tell(id, &Ok(complete));
    }

    /// Advances the time by one millisecond.
    fn tick(&mut self) {
        self.now += 1;
        let now = self.now;
        let ids: Vec<ResourceId> = self.resources.iter().map(|resource| resource.id).collect();
        for id in &ids {
            if self.resources.iter().any(|resource| resource.id == *id && resource.expires <= now) {
                self.end(*id, FaultKind::Expired);
            }
        }
        for id in ids {
            let waiting: Vec<Token> = self
                .waits
                .iter()
                .filter(|wait| wait.resource == id)
                .filter_map(|wait| wait.token.clone())
                .collect();
            let Some(resource) = self.open(id) else { continue };
            let lost = |entry: &Entry| match entry.life {
                Life::Lease(length) => entry.heard + length <= now && !waiting.contains(&entry.token),
                Life::Unseen | Life::Member(_) => false,
            };
            resource.registrants.retain(|entry| !lost(entry));
            let controller = resource.controllers.iter().filter(|entry| lost(entry)).min_by_key(|c| c.unit);
            let why = controller.map(lost_controller);
            why.into_iter().for_each(|why| self.fail(id, why));
        }
        let (due, rest) = std::mem::take(&mut self.waits)
            .into_iter()
            .partition(|wait: &Wait| wait.until.is_some_and(|until| until <= now));
        self.waits = rest;
        for wait in due {
            wait.token.iter().for_each(|token| self.heard(wait.resource, token));
            self.told.push((wait.ticket, Ok("NotYet".into())));
        }
    }

    fn ask(&mut self, ticket: Ticket, request: Request) {
        let answer = match request {
            Request::Wait { resource, until, token, .. } => match self.wait(ticket, resource, until, token) {
                Some(answer) => answer,
                None => return,
            },
            other => self.answer(other),
        };
        self.told.push((ticket, answer));
    }

    fn wait(
        &mut self,
        ticket: Ticket,
        id: ResourceId,
        until: Option<u64>,
        token: Option<Token>,
    ) -> Option<ComparedAnswer> {
        token.iter().for_each(|token| self.heard(id, token));
        let resource = match self.at(id) {
            Ok(at) => &self.resources[at],
            Err(fault) => return Some(Err(fault)),
        };
        if let Some(complete) = &resource.complete {
            return Some(Ok(complete.clone()));
        }
        if let Some(failed) = &resource.failed {
            return Some(Err(failed.clone()));
        }
        if until.is_some_and(|until| until <= self.now) {
            return Some(Ok("NotYet".into()));
        }
        self.waits.push(Wait { ticket, resource: id, until, token });
        None
    }

    fn gone(&mut self, ticket: Ticket) {
        let found = self.waits.iter().position(|wait| wait.ticket == ticket);
        let Some(wait) = found.map(|found| self.waits.remove(found)) else { return };
        wait.token.iter().for_each(|token| self.heard(wait.resource, token));
    }

    fn answer(&mut self, request: Request) -> ComparedAnswer {
        match request {
            Request::Create { spec, random } => {
                let expires = self.now + spec.lifetime.unwrap();
                self.resources.push(Resource {
                    id: random.id,
                    capacity: spec.capacity as u32,
                    expires,
                    job: spec.job,
                    registrants: Vec::new(),
                    controllers: Vec::new(),
                    complete: None,
                    failed: None,
                });
                Ok(format!("{:?}", Answer::Created(random.id)))
            }
            Request::Register { resource, rank, token, data, life } => {
                self.heard(resource, &token);
                self.register(resource, rank, token, data.data().clone(), life)
            }
            Request::Withdraw { resource: id, rank, token } => {
                let at = self.at(id)?;
                let resource = &mut self.resources[at];
                resource.failed.clone().map_or(Ok(()), Err)?;
                let rank = resource.rank(rank)?;
                let own = |entry: &Entry| entry.rank == rank && entry.token == token;
                if !resource.registrants.iter().any(own) {
                    return fault_of(FaultKind::NotRegistered, rank.into());
                }
                if resource.complete.is_some() {
                    return fault(FaultKind::Complete);
                }
                resource.registrants.retain(|entry| !own(entry));
                Ok("Done".into())
            }
            Request::Registrant { resource: id, rank } => {
                let resource = &self.resources[self.at(id)?];
                let rank = resource.rank(rank)?;
                let found = resource.registrants.iter().find(|entry| entry.rank == rank);
                let not = (FaultKind::NotRegistered, Some(rank.into()), None);
                found.map(|entry| format!("data {:?}", entry.data)).ok_or(not)
            }
            Request::Properties(id) => self.properties(id),
            Request::Control { resource, unit, name, token, life } => {
                self.control(resource, unit, name, token, life)
            }
            Request::Release { resource: id, unit, token, lost } => {
                let at = self.at(id)?;
                let controllers = &mut self.resources[at].controllers;
                let own = |entry: &Entry| entry.unit == Some(unit) && entry.token == token;
                let Some(found) = controllers.iter().position(own) else {
                    return fault(FaultKind::NotRegistered);
                };
                let controller = controllers.remove(found);
                if lost.is_some() {
                    self.fail(id, lost_controller(&controller));
                }
                Ok("Done".into())
            }
            Request::Destroy(id) => {
                self.at(id)?;
                self.end(id, FaultKind::Destroyed);
                Ok("Done".into())
            }
            Request::EndJob(job) => {
                let of_job = self.resources.iter().filter(|resource| resource.job == Some(job));
                let ids: Vec<ResourceId> = of_job.map(|resource| resource.id).collect();
                ids.iter().for_each(|id| self.end(*id, FaultKind::JobEnded));
                Ok(format!("Ended({})", ids.len()))
            }
            other => panic!("{other:?}"),
        }
    }

    fn register(
        &mut self,
        id: ResourceId,
        wanted: RankChoice,
        token: Token,
        data: Bytes,
        life: Life,
    ) -> ComparedAnswer {
        let (now, at) = (self.now, self.at(id)?);
        let resource = &mut self.resources[at];
        let (tally, open) = (resource.registrants.len(), resource.complete.is_none());
        if let Some(entry) = resource.registrants.iter_mut().find(|entry| entry.token == token) {
            let same = wanted == RankChoice::Assign || wanted == RankChoice::Rank(entry.rank.into());
            if !same || entry.data != data {
                return fault_of(FaultKind::TokenReused, entry.rank.into());
            }
            if open && resource.failed.is_none() {
                entry.life = life;
            }
            return Ok(format!("{} of {tally}", entry.rank));
        }
        resource.failed.clone().map_or(Ok(()), Err)?;
        let asked = match wanted {
            RankChoice::Rank(rank) => Some(resource.rank(rank)?),
            RankChoice::Assign => None,
        };
        if data.len() > 4 {
            return fault(FaultKind::DataTooLong);
        }
        if tally >= resource.capacity as usize {
            return fault(FaultKind::CapacityReached);
        }
        let free = |rank: &u32| !resource.registrants.iter().any(|entry| entry.rank == *rank);
        let tally = tally as u32;
        let rank = asked.unwrap_or_else(|| if free(&tally) { tally } else { (0..).find(free).unwrap() });
        if !free(&rank) {
            return fault_of(FaultKind::RankTaken, rank.into());
        }
        resource.registrants.push(Entry { rank, unit: None, token, data, life, heard: now });
        // Its controlling task is no longer needed.
        resource.controllers.retain(|entry| entry.unit != Some(Unit::Rank(rank)));
        self.settle(id);
        Ok(format!("{rank} of {}", tally + 1))
    }

    fn control(
        &mut self,
        id: ResourceId,
        unit: Unit,
        name: String,
        token: Token,
        life: Life,
    ) -> ComparedAnswer {
        let (now, at) = (self.now, self.at(id)?);
        let resource = &mut self.resources[at];
        resource.failed.clone().map_or(Ok(()), Err)?;
        if let Unit::Rank(rank) = unit {
            resource.rank(rank.into())?;
        }
        let is_there = resource.registrants.iter().any(|entry| unit == Unit::Rank(entry.rank));
        if resource.complete.is_some() || is_there {
            return Ok("Done".into());
        }
        if let Some(entry) = resource.controllers.iter_mut().find(|entry| entry.unit == Some(unit)) {
            if entry.token != token {
                return Err((FaultKind::ControllerTaken, None, Some(entry.token.as_str().into())));
            }
            entry.life = life;
            self.heard(id, &token);
            return Ok("Done".into());
        }
        if resource.controllers.iter().any(|entry| entry.token == token) {
            return fault(FaultKind::TokenReused);
        }
        assert_eq!(name, token.as_str(), "it is found by either");
        let (unit, data) = (Some(unit), Bytes::new());
        resource.controllers.push(Entry { rank: 0, unit, token, data, life, heard: now });
        Ok("Done".into())
    }

    fn properties(&self, id: ResourceId) -> ComparedAnswer {
        let resource = &self.resources[self.at(id)?];
        let bytes: usize = resource.registrants.iter().map(|entry| entry.data.len()).sum();
        let taken = |rank: &u32| resource.registrants.iter().any(|entry| entry.rank == *rank);
        let missing: Vec<u32> = (0..resource.capacity).filter(|rank| !taken(rank)).collect();
        Ok(format!(
            "tally {} missing {missing:?} bytes {bytes} complete {} failed {} waiting {}",
            resource.registrants.len(),
            resource.complete.is_some(),
            resource.failed.is_some(),
            self.waits.iter().filter(|wait| wait.resource == id).count()
        ))
    }

    fn lost(&mut self, member: u32) {
        let ids: Vec<ResourceId> = self.resources.iter().map(|resource| resource.id).collect();
        for id in ids {
            let Some(resource) = self.open(id) else { continue };
            let of_member = |entry: &Entry| entry.life == Life::Member(member);
            resource.registrants.retain(|entry| !of_member(entry));
            let lost = resource.controllers.iter().filter(|entry| of_member(entry));
            let why = lost.min_by_key(|entry| entry.unit).map(lost_controller);
            why.into_iter().for_each(|why| self.fail(id, why));
        }
    }

    /// Links and waits end with the process; leases restart, and ends are forgotten.
    fn restart(&mut self) {
        self.waits.clear();
        self.ended.clear();
        for resource in &mut self.resources {
            for entry in resource.registrants.iter_mut().chain(&mut resource.controllers) {
                entry.heard = self.now;
                if matches!(entry.life, Life::Member(_)) {
                    entry.life = Life::Unseen;
                }
            }
        }
    }

    /// Numbers of resources and waits, and bytes held.
    fn load(&self) -> (usize, usize, u64) {
        let held = |resource: &Resource| {
            let bytes: usize = resource.registrants.iter().map(|entry| entry.data.len()).sum();
            let entries = 1 + resource.registrants.len() + resource.controllers.len();
            bytes as u64 + entries as u64 * OVERHEAD
        };
        (self.resources.len(), self.waits.len(), self.resources.iter().map(held).sum())
    }
}

impl Resource {
    fn rank(&self, rank: u64) -> Result<u32, (FaultKind, Option<u64>, Option<String>)> {
        match rank < self.capacity.into() {
            true => Ok(rank as u32),
            false => fault_of(FaultKind::RankOutOfRange, rank),
        }
    }
}

fn lost_controller(entry: &Entry) -> (FaultKind, Option<u64>, Option<String>) {
    let rank = match entry.unit {
        Some(Unit::Rank(rank)) => Some(rank.into()),
        Some(Unit::Own) | None => None,
    };
    (FaultKind::ControllerLost, rank, Some(entry.token.as_str().into()))
}

#[derive(Clone, Debug)]
enum Step {
    Ask(Request),
    /// A request, counted back from the last one.
    Gone(u64),
    Lost(u32),
    Pass(u64),
    Restart,
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![
        2 => Just(Life::Unseen),
        2 => (1..40_u64).prop_map(Life::Lease),
        1 => (0..3_u32).prop_map(Life::Member),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let resource = || (1..4_u8).prop_map(id);
    let name = || prop::sample::select(vec!["a", "b", "c", "d", "e"]);
    let unit = || prop_oneof![Just(Unit::Own), (0..3_u32).prop_map(Unit::Rank)];
    let wanted = || prop_oneof![3 => Just(RankChoice::Assign), 2 => (0..4_u64).prop_map(RankChoice::Rank)];
    let data = || prop_oneof![4 => Just(""), 4 => Just("xy"), 1 => Just("too long")];
    let register =
        (resource(), wanted(), name(), data(), life()).prop_map(|(resource, rank, name, data, life)| {
            Request::Register { resource, rank, token: token(name), data: data.into(), life }
        });
    let withdraw = (resource(), 0..4_u64, name()).prop_map(|(resource, rank, name)| Request::Withdraw {
        resource,
        rank,
        token: token(name),
    });
    let wait = (resource(), prop::option::of(900..1300_u64), prop::option::of(name())).prop_map(
        |(resource, until, name)| Request::Wait { resource, of: Scope::Own, until, token: name.map(token) },
    );
    let control = (resource(), unit(), name(), life()).prop_map(|(resource, unit, name, life)| {
        Request::Control { resource, unit, name: name.into(), token: token(name), life }
    });
    let release = (resource(), unit(), name(), any::<bool>()).prop_map(|(resource, unit, name, lost)| {
        Request::Release { resource, unit, token: token(name), lost: lost.then(|| "gone".into()) }
    });
    prop_oneof![
        10 => register,
        2 => withdraw,
        5 => wait,
        3 => control,
        2 => release,
        2 => resource().prop_map(Request::Properties),
        1 => (resource(), 0..4_u64).prop_map(|(resource, rank)| Request::Registrant { resource, rank }),
        1 => resource().prop_map(Request::Destroy),
        1 => (0..2_u8).prop_map(|job| Request::EndJob(Job([job; 16]))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => request().prop_map(Step::Ask),
        2 => (0..9_u64).prop_map(Step::Gone),
        1 => (0..3_u32).prop_map(Step::Lost),
        6 => (1..30_u64).prop_map(Step::Pass),
        1 => Just(Step::Restart),
    ]
}

/// The resources that the steps use.
fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let spec = (1..4_u64, 50..400_u64, prop::option::of(0..2_u8)).prop_map(|(capacity, lifetime, job)| {
        let job = job.map(|job| Job([job; 16]));
        Spec { lifetime: Some(lifetime), job, ..Spec::new(capacity) }
    });
    prop::collection::vec(spec, 1..4)
}

/// The state machine and the model, and the tickets of both.
struct Both {
    driven: Driven,
    model: Model,
    asked: Vec<Ticket>,
}

impl Both {
    fn take(&mut self, step: Step) {
        match step {
            Step::Ask(request) => {
                let ticket = self.driven.ask(request.clone());
                self.asked.push(ticket);
                self.model.ask(ticket, request);
            }
            Step::Gone(back) => {
                let Some(at) = self.asked.len().checked_sub(1 + back as usize) else { return };
                self.driven.input(Input::Cancelled(self.asked[at]));
                self.model.gone(self.asked[at]);
            }
            Step::Lost(member) => {
                self.driven.lost(member);
                self.model.lost(member);
            }
            Step::Pass(time) => {
                for _ in 0..time {
                    self.driven.at(self.driven.now + 1);
                    self.model.tick();
                }
            }
            Step::Restart => {
                self.driven.restart();
                self.model.restart();
                self.asked.clear();
            }
        }
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        for (ticket, expected) in self.model.told.drain(..) {
            let answer = self.driven.answer(ticket);
            prop_assert_eq!(answer.map(compared), Some(expected), "{:?}", ticket);
        }
        for wait in &self.model.waits {
            prop_assert_eq!(self.driven.answer(wait.ticket), None);
        }
        prop_assert_eq!(self.driven.service.load(), self.model.load());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_answers_as_the_model_does(specs in specs(), steps in prop::collection::vec(step(), 0..80)) {
        let mut limits = Limits::default();
        limits.data = 4;
        let model = Model { now: 1000, ..Model::default() };
        let mut both = Both { driven: Driven::new(limits), model, asked: Vec::new() };
        for (number, spec) in (1..).zip(specs) {
            let random = gpc_rendezvous::machine::RandomValues { id: id(number), token: token("t"), joint: None };
            both.take(Step::Ask(Request::Create { spec, random }));
        }
        both.compare()?;
        for step in steps {
            both.take(step);
            both.compare()?;
        }
        both.take(Step::Pass(500));
        both.compare()?;
        both.driven.assert_empty();
    }
}
