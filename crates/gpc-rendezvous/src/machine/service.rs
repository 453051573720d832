//! The service's state machine: all resources, and the requests on them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use chained_gpc::{Id, Job};

use super::holder::Holder;
use super::recent_ends::RecentEnds;
use super::resource::{Liveness, Registrant, Resource, State};
use super::step::Step;
use super::timer::Timer;
use super::tops::Tops;
use super::{
    Answer, Change, Completion, Fault, FaultKind, Input, Joint, Life, Limits, Millis, OVERHEAD, Output,
    ParentAction, ParentOutcome, RandomValues, RankChoice, RegistrantData, Request, ResourceId, Spec,
    StoredResource, StoredState, Ticket, Token, Unit,
};

/// A rendezvous service.
#[derive(Debug)]
pub struct Service {
    pub(super) limits: Limits,
    pub(super) now: Millis,
    pub(super) resources: BTreeMap<ResourceId, Resource>,
    /// Resources by age, for [`Request::List`].
    by_age: BTreeSet<(Millis, ResourceId)>,
    by_job: BTreeMap<[u8; 16], BTreeSet<ResourceId>>,
    pub(super) timers: BTreeSet<(Millis, Timer)>,
    /// Resource of each wait.
    pub(super) waits: BTreeMap<Ticket, ResourceId>,
    /// Registrants and controlling tasks of each node, which are lost with it.
    pub(super) members: BTreeMap<Id, BTreeSet<(ResourceId, Holder)>>,
    /// Bytes that all resources hold, see [`Limits::held`].
    pub(super) held: u64,
    pub(super) tops: Tops,
    ended: RecentEnds,
    /// Steps of the batch that has begun, if any.
    pub(super) batch: Option<Vec<Step>>,
    pub(super) outputs: VecDeque<Output>,
}

impl Service {
    /// A service without resources.
    pub fn new(limits: Limits) -> Service {
        Service {
            limits,
            now: 0,
            resources: BTreeMap::new(),
            by_age: BTreeSet::new(),
            by_job: BTreeMap::new(),
            timers: BTreeSet::new(),
            waits: BTreeMap::new(),
            members: BTreeMap::new(),
            held: 0,
            tops: Tops::default(),
            ended: RecentEnds::default(),
            batch: None,
            outputs: VecDeque::new(),
        }
    }

    /// A service with the persistent state of an earlier run. Leases restart, and resources whose lifetime has passed
    /// end now. Limits do not apply to what was admitted before.
    pub fn restored(limits: Limits, stored: StoredState, now: Millis) -> Service {
        let mut service = Service::new(limits);
        service.now = now;
        for (id, resource) in stored.resources {
            service.add(Resource::new(id, resource));
        }
        for (id, rank, registrant, data) in stored.registrants {
            let life = registrant.lease.map_or(Life::Unseen, Life::Lease);
            service.place(id, rank, registrant.token, data, life);
        }
        for (id, unit, controller) in stored.controllers {
            let life = controller.lease.map_or(Life::Unseen, Life::Lease);
            service.place_controller(id, unit, controller.name, controller.token, life);
        }
        let ids: Vec<ResourceId> = service.resources.keys().copied().collect();
        for id in ids {
            service.settle(id);
            service.ask_above(id);
            // The failure may not have been reported to the parent.
            let failed = service.resources.get(&id).and_then(|resource| resource.check().err());
            failed.into_iter().for_each(|fault| service.stop_above(id, fault.message));
        }
        service.due();
        service
    }

    /// Takes an input. If `now` is before the previous input's time, that time counts.
    pub fn handle(&mut self, now: Millis, input: Input) {
        self.now = self.now.max(now);
        self.due();
        match input {
            Input::Ask(ticket, Request::Wait { resource, of, until, token }) => {
                self.wait(ticket, resource, of, until, token);
            }
            Input::Ask(ticket, request) => {
                let answer = self.answer(request);
                self.outputs.push_back(Output::Answer(ticket, answer));
            }
            Input::Cancelled(ticket) => self.stop_waiting(ticket),
            Input::Tick => {}
            Input::Lost { member, why } => self.lose_member(member, &why),
            Input::ParentOutcome(id, above) => self.set_top(id, above),
        }
    }

    /// Whether a request changes the persistent state, or may change it. A repeated request of a registrant or
    /// controlling task is excluded, so that its lease holds even if the store fails. It changes the state only if it
    /// has another lease.
    pub fn adds(&self, request: &Request) -> bool {
        match request {
            Request::Register { resource, token, .. } => {
                self.resources.get(resource).is_some_and(|it| !it.ranks_by_token.contains_key(token))
            }
            Request::Control { resource, token, .. } => {
                self.resources.get(resource).is_some_and(|it| !it.units_by_token.contains_key(token))
            }
            Request::Withdraw { resource, .. }
            | Request::Release { resource, .. }
            | Request::Destroy(resource) => self.resources.contains_key(resource),
            Request::Create { .. } | Request::EndJob(_) => true,
            Request::Properties(_)
            | Request::Registrant { .. }
            | Request::Wait { .. }
            | Request::List { .. } => false,
        }
    }

    /// The next output; `None` when all are drained.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Time of the next timer. The driver must give an input, such as [`Input::Tick`], at that time.
    pub fn deadline(&self) -> Option<Millis> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Number of resources, number of waits, and bytes held, see [`Limits::held`].
    pub fn load(&self) -> (usize, usize, u64) {
        (self.resources.len(), self.waits.len(), self.held)
    }

    /// Whether all resources are gone, with their waits, timers and nodes. The reasons of the latest ends remain.
    pub fn is_empty(&self) -> bool {
        let tables = self.resources.is_empty() && self.by_age.is_empty() && self.by_job.is_empty();
        let lives = self.timers.is_empty() && self.waits.is_empty() && self.members.is_empty();
        tables && lives && self.held == 0 && self.tops.is_empty()
    }

    fn answer(&mut self, request: Request) -> Result<Answer, Fault> {
        match request {
            Request::Create { spec, random } => self.create(spec, random),
            Request::Register { resource, rank, token, data, life } => {
                self.register(resource, rank, token, data, life)
            }
            Request::Withdraw { resource, rank, token } => self.withdraw(resource, rank, &token),
            Request::Properties(id) => Ok(Answer::Properties(Box::new(self.resource(id)?.properties()))),
            Request::Registrant { resource, rank } => {
                let resource = self.resource(resource)?;
                let rank = resource.rank(rank)?;
                let registrant = resource.registrants.get(&rank).ok_or_else(|| not_registered(rank))?;
                Ok(Answer::Data(registrant.data.clone()))
            }
            Request::Control { resource, unit, name, token, life } => {
                self.control(resource, unit, name, token, life)
            }
            Request::Release { resource, unit, token, lost } => self.release(resource, unit, &token, lost),
            Request::Destroy(id) => {
                self.resource(id)?;
                self.end(id, Fault::new(FaultKind::Destroyed, "the resource was destroyed on request"));
                Ok(Answer::Done)
            }
            Request::EndJob(job) => Ok(Answer::Ended(self.end_job(job))),
            Request::List { most } => {
                let newest = self.by_age.iter().rev().take(most);
                let found = newest.filter_map(|(_, id)| Some(self.resources.get(id)?.properties()));
                Ok(Answer::List(found.collect()))
            }
            // Unreachable: `handle` handles waits itself.
            Request::Wait { .. } => Ok(Answer::NotYet),
        }
    }

    pub(super) fn resource(&self, id: ResourceId) -> Result<&Resource, Fault> {
        self.resources.get(&id).ok_or_else(|| self.unknown(id))
    }

    fn unknown(&self, id: ResourceId) -> Fault {
        self.ended.get(id).map_or_else(unknown, Fault::clone)
    }

    fn create(&mut self, spec: Spec, random: RandomValues) -> Result<Answer, Fault> {
        let RandomValues { id, token, joint } = random;
        let stored = self.checked(spec, token, joint)?;
        if self.resources.len() >= self.limits.resources {
            return Err(full(format!("it has {} resources: destroy some", self.resources.len())));
        }
        self.admit(OVERHEAD)?;
        if self.resources.contains_key(&id) {
            return Err(Fault::new(FaultKind::Unavailable, "this id was drawn before: ask again"));
        }
        self.add(Resource::new(id, stored.clone()));
        self.note(Step::Created(id));
        self.outputs.push_back(Output::Store(Change::Resource(id, stored)));
        self.ask_above(id);
        Ok(Answer::Created(id))
    }

    fn checked(&self, spec: Spec, token: Token, joint: Option<Joint>) -> Result<StoredResource, Fault> {
        let Limits { capacity: most, level: highest, lifetime, lifetime_max, .. } = self.limits;
        let Spec { capacity, level, lifetime: wanted, job, joint: with_joint, parent } = spec;
        if capacity == 0 {
            let message =
                "a resource of capacity 0 would never be complete: say how many will register, at least 1";
            return Err(Fault::new(FaultKind::CapacityZero, message));
        }
        let capacity =
            u32::try_from(capacity).ok().filter(|capacity| *capacity <= most).ok_or_else(|| {
                let message = format!("a capacity of {capacity} is over the limit of {most} of this service");
                Fault::new(FaultKind::CapacityOver, message)
            })?;
        let above = parent.as_ref().and_then(|parent| self.resources.get(&parent.handle.resource()));
        if let Some(above) = above {
            below(above.level, level)?;
        }
        // A parent that passed `below` has at least level 2.
        let level = level.unwrap_or_else(|| above.map_or(1, |above| u64::from(above.level) - 1));
        let level =
            u16::try_from(level).ok().filter(|level| (1..=highest).contains(level)).ok_or_else(|| {
                let message = format!("a resource has a level from 1 to {highest}, not {level}");
                Fault::new(FaultKind::LevelOutOfRange, message)
            })?;
        let lifetime = wanted.unwrap_or(lifetime);
        if !(1..=lifetime_max).contains(&lifetime) {
            let message = format!("a resource lives for more than 0 and at most {} s", lifetime_max / 1000);
            return Err(Fault::new(FaultKind::LifetimeOutOfRange, message));
        }
        let expires = self.now.saturating_add(lifetime);
        let (created, joint) = (self.now, joint.filter(|_| with_joint));
        Ok(StoredResource { capacity, level, created, expires, job, joint, parent, token, failed: None })
    }

    pub(super) fn add(&mut self, resource: Resource) {
        let id = resource.id;
        self.by_age.insert((resource.created, id));
        self.timers.insert((resource.expires, Timer::End(id)));
        if let Some(Job(job)) = resource.job {
            self.by_job.entry(job).or_default().insert(id);
        }
        self.held += resource.held();
        self.resources.insert(id, resource);
    }

    /// Checks that this many more bytes may be held.
    pub(super) fn admit(&self, bytes: u64) -> Result<(), Fault> {
        match self.held.saturating_add(bytes) <= self.limits.held {
            true => Ok(()),
            false => Err(full(format!(
                "it holds {} bytes of at most {}: destroy resources that are no longer needed",
                self.held, self.limits.held
            ))),
        }
    }

    fn register(
        &mut self,
        id: ResourceId,
        wanted: RankChoice,
        token: Token,
        brought: RegistrantData,
        life: Life,
    ) -> Result<Answer, Fault> {
        let data = &brought.data;
        self.renew(id, Some(&token));
        let (most, resource) = (self.limits.data, self.resource(id)?);
        if let Some(rank) = resource.ranks_by_token.get(&token).copied() {
            return self.registered_before(id, rank, wanted, data, life);
        }
        resource.check()?;
        let rank = match wanted {
            RankChoice::Rank(rank) => Some(resource.rank(rank)?),
            RankChoice::Assign => None,
        };
        if data.len() as u64 > most {
            let message =
                format!("{} bytes are over this service's limit of {most} for a registrant", data.len());
            return Err(Fault::new(FaultKind::DataTooLong, message));
        }
        if resource.ranks.tally() >= resource.capacity {
            let message = format!("all {} have registered already", resource.capacity);
            return Err(Fault::new(FaultKind::CapacityReached, message));
        }
        let rank = rank.unwrap_or_else(|| resource.ranks.assigned());
        if resource.ranks.contains(rank) {
            let message = format!("rank {rank} has been taken by another registrant");
            return Err(Fault::new(FaultKind::RankTaken, message).of_rank(rank.into()));
        }
        brought.fits(resource.level)?;
        self.admit(data.len() as u64 + OVERHEAD)?;
        self.place(id, rank, token, brought.data, life);
        self.note(Step::Registered(id, rank));
        let resource = self.resource(id)?;
        let (registered, change) = (resource.registered(rank), resource.brought(rank));
        self.outputs.extend(change.map(Output::Store));
        // A unit that has registered needs no controlling task.
        self.dismiss(id, Unit::Rank(rank));
        self.settle(id);
        Ok(Answer::Registered(registered))
    }

    /// Adds a registrant to its resource.
    pub(super) fn place(&mut self, id: ResourceId, rank: u32, token: Token, data: Bytes, life: Life) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        let held = data.len() as u64 + OVERHEAD;
        resource.insert(rank, Registrant { token, data, liveness: Liveness { life, until: None } });
        self.held += held;
        self.begin_life(id, Holder::Registrant(rank));
    }

    /// Answers a repeated registration whose first answer was lost.
    fn registered_before(
        &mut self,
        id: ResourceId,
        rank: u32,
        wanted: RankChoice,
        data: &Bytes,
        life: Life,
    ) -> Result<Answer, Fault> {
        let resource = self.resource(id)?;
        let same_rank = matches!(wanted, RankChoice::Assign) || wanted == RankChoice::Rank(rank.into());
        let same_data = resource.registrants.get(&rank).is_some_and(|registrant| registrant.data == *data);
        if !(same_rank && same_data) {
            let what = if same_rank { "other data" } else { "another rank" };
            let message = format!(
                "this token has registered as rank {rank} already, with {what}: take a token for each registrant"
            );
            return Err(Fault::new(FaultKind::TokenReused, message).of_rank(rank.into()));
        }
        let registered = resource.registered(rank);
        self.live_by(id, Holder::Registrant(rank), life);
        Ok(Answer::Registered(registered))
    }

    fn withdraw(&mut self, id: ResourceId, rank: u64, token: &Token) -> Result<Answer, Fault> {
        let resource = self.resource(id)?;
        resource.check()?;
        let rank = resource.rank(rank)?;
        if resource.registrants.get(&rank).is_none_or(|registrant| registrant.token != *token) {
            return Err(not_registered(rank));
        }
        if !resource.is_open() {
            let message = "the rendezvous is complete: nobody can withdraw any more";
            return Err(Fault::new(FaultKind::Complete, message));
        }
        self.remove(id, rank);
        Ok(Answer::Done)
    }

    /// Removes a registrant from an open resource.
    pub(super) fn remove(&mut self, id: ResourceId, rank: u32) {
        self.end_life(id, Holder::Registrant(rank));
        let registrant = self.resources.get_mut(&id).and_then(|resource| resource.remove(rank));
        if let Some(registrant) = registrant {
            self.held -= registrant.data.len() as u64 + OVERHEAD;
            self.outputs.push_back(Output::Store(Change::Withdrawn(id, rank)));
            self.note(Step::Withdrawn(id, rank, registrant));
        }
    }

    /// Completes a resource if all have registered, and answers the waits whose outcome is known.
    pub(super) fn settle(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        if resource.complete() {
            self.note(Step::Settled(id));
            self.end_lives(id);
            self.register_above(id);
        }
        self.answer_waits(id);
    }

    /// Fails an open resource. A resource that has already failed keeps its first fault.
    pub(super) fn fail(&mut self, id: ResourceId, fault: Fault) {
        let Some(resource) = self.resources.get_mut(&id).filter(|resource| resource.is_open()) else {
            return;
        };
        let why = fault.message.clone();
        resource.state = State::Failed(fault);
        let change = Change::Resource(id, resource.stored());
        self.outputs.push_back(Output::Store(change));
        self.note(Step::Settled(id));
        self.end_lives(id);
        self.stop_above(id, why);
        self.answer_waits(id);
    }

    /// Ends and removes a resource.
    pub(super) fn end(&mut self, id: ResourceId, fault: Fault) {
        let failed = self.resources.get(&id).is_some_and(|resource| resource.check().is_err());
        if !failed {
            self.stop_above(id, fault.message.clone());
        }
        let waiting: Vec<Ticket> =
            self.resources.get(&id).into_iter().flat_map(|resource| resource.waits.keys().copied()).collect();
        // Before the leases end: a wait that stops restarts its lease.
        waiting.iter().for_each(|ticket| self.stop_waiting(*ticket));
        self.end_lives(id);
        let Some(resource) = self.take_out(id) else { return };
        self.outputs.push_back(Output::Store(Change::Ended(id)));
        let told = waiting.into_iter().map(|ticket| Output::Answer(ticket, Err(fault.clone())));
        self.outputs.extend(told);
        self.ended.add(id, fault);
        self.note(Step::Ended(Box::new(resource)));
    }

    /// Removes a resource from all tables.
    pub(super) fn take_out(&mut self, id: ResourceId) -> Option<Resource> {
        let resource = self.resources.remove(&id)?;
        self.held -= resource.held();
        if let Some(Ok(top)) = &resource.top {
            self.held -= self.tops.remove(&top.data);
        }
        self.by_age.remove(&(resource.created, id));
        self.timers.remove(&(resource.expires, Timer::End(id)));
        if let Some(Job(job)) = resource.job
            && let Some(of_job) = self.by_job.get_mut(&job)
        {
            of_job.remove(&id);
            if of_job.is_empty() {
                self.by_job.remove(&job);
            }
        }
        Some(resource)
    }

    fn end_job(&mut self, job: Job) -> usize {
        let of_job = self.by_job.remove(&job.0).unwrap_or_default();
        for id in &of_job {
            let message = format!("the job {} has ended that the resource belonged to", job.short());
            self.end(*id, Fault::new(FaultKind::JobEnded, message));
        }
        of_job.len()
    }

    /// Emits the output that registers the controlling task at the parent.
    fn ask_above(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get(&id).filter(|resource| resource.is_open()) else { return };
        let Some(parent) = &resource.parent else { return };
        let (handle, rank, token) = (parent.handle.clone(), parent.rank, resource.token.clone());
        let level = resource.level;
        self.outputs
            .push_back(Output::ParentAction(id, ParentAction::Control { handle, rank, token, level }));
    }

    fn register_above(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get(&id) else { return };
        let (Some(parent), State::Complete(data)) = (&resource.parent, &resource.state) else { return };
        let (handle, rank, token) = (parent.handle.clone(), parent.rank, resource.token.clone());
        let (level, data) = (resource.level, data.clone());
        self.outputs
            .push_back(Output::ParentAction(id, ParentAction::Register { handle, rank, token, level, data }));
    }

    fn stop_above(&mut self, id: ResourceId, why: String) {
        let Some(resource) = self.resources.get(&id) else { return };
        let Some(parent) = &resource.parent else { return };
        let (handle, rank, token) = (parent.handle.clone(), parent.rank, resource.token.clone());
        self.outputs.push_back(Output::ParentAction(id, ParentAction::Stop { handle, rank, token, why }));
    }

    /// Handles the outcome of the parent, as reported by the driver.
    fn set_top(&mut self, id: ResourceId, above: ParentOutcome) {
        if self.resources.get(&id).is_some_and(|resource| resource.top.is_none()) {
            let top = match above {
                ParentOutcome::Completed(completion) => self.hold_top(completion),
                ParentOutcome::Failed(fault) => Err(fault),
            };
            if let Some(resource) = self.resources.get_mut(&id) {
                resource.top = Some(top);
            }
        }
        self.answer_waits(id);
    }

    /// Stores the completion of the parent if there is room for it: another service may have produced it, with data of
    /// any length.
    fn hold_top(&mut self, completion: Completion) -> Result<Completion, Fault> {
        let needed = self.tops.needed(&completion.data);
        self.admit(needed).map_err(|fault| {
            let message = format!("the rendezvous above is complete, with {needed} bytes, but {fault}");
            Fault::new(FaultKind::ServiceFull, message)
        })?;
        self.tops.add(&completion.data);
        self.held += needed;
        Ok(completion)
    }
}

/// Checks that a unit fits a parent resource of level `above`. If `level` is `None`, the unit's level follows from the
/// parent's.
pub(crate) fn below(above: u16, level: Option<u64>) -> Result<(), Fault> {
    let message = match (above.checked_sub(1).map(u64::from), level) {
        (Some(fits @ 1..), level) if level.is_none_or(|level| level == fits) => return Ok(()),
        (Some(fits @ 1..), Some(level)) => format!(
            "the resource above is of level {above}, so a unit below it is of level {fits}, not {level}: leave the level out, or create the resource above with level {}",
            level.saturating_add(1)
        ),
        _ => format!(
            "the resource above is of level {above}, at which tasks register bytes: create it with a level of at least 2 to join units there"
        ),
    };
    Err(Fault::new(FaultKind::LevelOutOfRange, message))
}

fn unknown() -> Fault {
    let message =
        "this service knows no such resource: check the handle; the resource may have ended long ago";
    Fault::new(FaultKind::UnknownResource, message)
}

fn not_registered(rank: u32) -> Fault {
    Fault::new(FaultKind::NotRegistered, format!("nobody with this token has registered as rank {rank}"))
        .of_rank(rank.into())
}

pub(super) fn full(what: String) -> Fault {
    Fault::new(FaultKind::ServiceFull, format!("the service is full: {what}"))
}
