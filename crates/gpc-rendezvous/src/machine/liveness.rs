//! Liveness of registrants and controlling tasks. If a registrant is lost, it is withdrawn. If a controlling task is
//! lost, the rendezvous fails with its name.

use chained_gpc::{Id, Shown};

use super::holder::{Holder, lease_of};
use super::resource::{Controller, Liveness};
use super::service::Service;
use super::step::Step;
use super::timer::Timer;
use super::{Answer, Change, Fault, FaultKind, Life, NAME_MAX, OVERHEAD, Output, ResourceId, Token, Unit};

impl Service {
    /// Handles all expired timers.
    pub(super) fn due(&mut self) {
        // Ends: each timer is removed, and timers set meanwhile expire after `now`.
        while let Some((at, timer)) = self.timers.first().copied().filter(|(at, _)| *at <= self.now) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::End(id) => {
                    let message = "the lifetime of the resource has passed before everybody came and asked; give it a longer one when it is created";
                    self.end(id, Fault::new(FaultKind::Expired, message));
                }
                Timer::Lease(id, holder) => {
                    self.lose(id, holder, "it has not been heard of for as long as it promised")
                }
                Timer::Wait(ticket) => self.not_yet(ticket),
            }
        }
    }

    fn liveness(&mut self, id: ResourceId, holder: Holder) -> Option<(&mut Liveness, bool)> {
        let resource = self.resources.get_mut(&id)?;
        let (liveness, token) = match holder {
            Holder::Registrant(rank) => resource
                .registrants
                .get_mut(&rank)
                .map(|registrant| (&mut registrant.liveness, &registrant.token))?,
            Holder::Controller(unit) => resource
                .controllers
                .get_mut(&unit)
                .map(|controller| (&mut controller.liveness, &controller.token))?,
        };
        Some((liveness, resource.tokens_waiting.contains_key(token)))
    }

    /// Restarts the lease from now.
    pub(super) fn begin_life(&mut self, id: ResourceId, holder: Holder) {
        let now = self.now;
        if self.resources.get(&id).is_none_or(|resource| !resource.is_open()) {
            return;
        }
        let Some((liveness, waits)) = self.liveness(id, holder) else { return };
        let before = liveness.until.take();
        match liveness.life {
            Life::Lease(length) if !waits => liveness.until = Some(now.saturating_add(length.max(1))),
            _ => {}
        }
        let (life, after) = (liveness.life, liveness.until);
        if let Some(before) = before {
            self.timers.remove(&(before, Timer::Lease(id, holder)));
        }
        self.timers.extend(after.map(|after| (after, Timer::Lease(id, holder))));
        if let Life::Member(member) = life {
            self.members.entry(member).or_default().insert((id, holder));
        }
    }

    /// Updates the liveness of a holder that asks again. A link with its node is lost when the service restarts, and
    /// the lease may have a new length.
    pub(super) fn live_by(&mut self, id: ResourceId, holder: Holder, life: Life) {
        if self.resources.get(&id).is_none_or(|resource| !resource.is_open()) {
            return;
        }
        let Some(before) = self.liveness(id, holder).map(|(liveness, _)| liveness.life) else { return };
        if before == life {
            return;
        }
        self.end_life(id, holder);
        if let Some((liveness, _)) = self.liveness(id, holder) {
            liveness.life = life;
        }
        self.begin_life(id, holder);
        if lease_of(before) != lease_of(life) {
            let change = self.resources.get(&id).and_then(|resource| resource.change(holder));
            self.outputs.extend(change.map(Output::Store));
        }
    }

    /// Stops tracking the liveness of a holder.
    pub(super) fn end_life(&mut self, id: ResourceId, holder: Holder) {
        let Some((liveness, _)) = self.liveness(id, holder) else { return };
        let (life, until) = (liveness.life, liveness.until.take());
        if let Some(until) = until {
            self.timers.remove(&(until, Timer::Lease(id, holder)));
        }
        if let Life::Member(member) = life
            && let Some(of_member) = self.members.get_mut(&member)
        {
            of_member.remove(&(id, holder));
            if of_member.is_empty() {
                self.members.remove(&member);
            }
        }
    }

    /// Stops tracking the registrants of a resource and removes its controlling tasks.
    pub(super) fn end_lives(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get(&id) else { return };
        let registrants: Vec<u32> = resource.registrants.keys().copied().collect();
        let controllers: Vec<Unit> = resource.controllers.keys().copied().collect();
        for rank in registrants {
            self.end_life(id, Holder::Registrant(rank));
        }
        for unit in controllers {
            self.dismiss(id, unit);
        }
    }

    /// Handles the loss of a node: all its registrants and controlling tasks are lost.
    pub(super) fn lose_member(&mut self, member: Id, why: &str) {
        for (id, holder) in self.members.remove(&member).unwrap_or_default() {
            self.lose(id, holder, &format!("the link to id {member} is lost: {}", Shown(why)));
        }
    }

    fn lose(&mut self, id: ResourceId, holder: Holder, why: &str) {
        match holder {
            Holder::Registrant(rank) => {
                if self.resources.get(&id).is_some_and(|resource| resource.is_open()) {
                    self.remove(id, rank);
                }
            }
            Holder::Controller(unit) => self.lose_controller(id, unit, why),
        }
    }

    fn lose_controller(&mut self, id: ResourceId, unit: Unit, why: &str) {
        let Some(controller) = self.resources.get(&id).and_then(|resource| resource.controllers.get(&unit))
        else {
            return;
        };
        let name = controller.name.clone();
        let of = match unit {
            Unit::Own => "of this unit".to_owned(),
            Unit::Rank(rank) => format!("of the unit with rank {rank}"),
        };
        let message = format!("the controlling task {of}, {}, is lost: {why}", Shown(&name));
        let fault = Fault::new(FaultKind::ControllerLost, message).of_task(name);
        let fault = match unit {
            Unit::Own => fault,
            Unit::Rank(rank) => fault.of_rank(rank.into()),
        };
        self.fail(id, fault);
    }

    pub(super) fn control(
        &mut self,
        id: ResourceId,
        unit: Unit,
        name: String,
        token: Token,
        life: Life,
    ) -> Result<Answer, Fault> {
        if !(1..=NAME_MAX).contains(&name.len()) {
            let message = format!("the name of a controlling task has 1 to {NAME_MAX} bytes");
            return Err(Fault::new(FaultKind::BadRequest, message));
        }
        let resource = self.resource(id)?;
        resource.check()?;
        if let Unit::Rank(rank) = unit {
            resource.rank(rank.into())?;
        }
        let is_there = matches!(unit, Unit::Rank(rank) if resource.ranks.contains(rank));
        if is_there || !resource.is_open() {
            // The unit has registered, or the resource is complete: the controlling task is no longer needed.
            return Ok(Answer::Done);
        }
        match resource.controllers.get(&unit) {
            Some(controller) if controller.token == token => {
                self.renew(id, Some(&token));
                self.live_by(id, Holder::Controller(unit), life);
                return Ok(Answer::Done);
            }
            Some(controller) => {
                let message = format!("{} controls this unit already", Shown(&controller.name));
                return Err(Fault::new(FaultKind::ControllerTaken, message).of_task(&controller.name));
            }
            None => {}
        }
        if resource.units_by_token.contains_key(&token) {
            let message = "this token controls another unit here: take a token for each";
            return Err(Fault::new(FaultKind::TokenReused, message));
        }
        self.admit(OVERHEAD)?;
        self.place_controller(id, unit, name, token, life);
        self.note(Step::Controlled(id, unit));
        let change = self.resources.get(&id).and_then(|resource| resource.change(Holder::Controller(unit)));
        self.outputs.extend(change.map(Output::Store));
        Ok(Answer::Done)
    }

    pub(super) fn place_controller(
        &mut self,
        id: ResourceId,
        unit: Unit,
        name: String,
        token: Token,
        life: Life,
    ) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        resource.units_by_token.insert(token.clone(), unit);
        resource
            .controllers
            .insert(unit, Controller { name, token, liveness: Liveness { life, until: None } });
        self.held += OVERHEAD;
        self.begin_life(id, Holder::Controller(unit));
    }

    pub(super) fn release(
        &mut self,
        id: ResourceId,
        unit: Unit,
        token: &Token,
        lost: Option<String>,
    ) -> Result<Answer, Fault> {
        let resource = self.resource(id)?;
        if resource.controllers.get(&unit).is_none_or(|controller| controller.token != *token) {
            let message = "nobody with this token controls this unit";
            return Err(Fault::new(FaultKind::NotRegistered, message));
        }
        match lost {
            Some(why) => self.lose_controller(id, unit, &Shown(&why).to_string()),
            None => self.dismiss(id, unit),
        }
        Ok(Answer::Done)
    }

    /// Removes a controlling task that is no longer needed.
    pub(super) fn dismiss(&mut self, id: ResourceId, unit: Unit) {
        self.end_life(id, Holder::Controller(unit));
        let Some(resource) = self.resources.get_mut(&id) else { return };
        if let Some(controller) = resource.controllers.remove(&unit) {
            resource.units_by_token.remove(&controller.token);
            self.held -= OVERHEAD;
            self.outputs.push_back(Output::Store(Change::Released(id, unit)));
            self.note(Step::Released(id, unit, controller));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Input, Limits, RandomValues, RankChoice, Request, Spec, Ticket};

    const ID: ResourceId = ResourceId([7; 16]);

    fn token(text: &str) -> Token {
        Token::new(text).unwrap()
    }

    fn ask(service: &mut Service, now: u64, request: Request) -> Result<Answer, Fault> {
        service.handle(now, Input::Ask(Ticket(now), request));
        let mut answer = None;
        while let Some(output) = service.next_output() {
            if let Output::Answer(_, given) = output {
                answer = Some(given);
            }
        }
        answer.unwrap()
    }

    fn control(rank: u32) -> Request {
        let (unit, life) = (Unit::Rank(rank), Life::Lease(100));
        Request::Control { resource: ID, unit, name: "unit".into(), token: token("t"), life }
    }

    /// After a unit had registered its data, the rendezvous of all others still failed when its controlling task's
    /// lease expired, or when the unit was destroyed later.
    #[test]
    fn a_controlling_task_has_done_its_part_with_the_data_of_its_unit() {
        let mut service = Service::new(Limits::default());
        let random = RandomValues { id: ID, token: token("above"), joint: None };
        ask(&mut service, 1, Request::Create { spec: Spec::new(2), random }).unwrap();
        ask(&mut service, 2, control(1)).unwrap();
        let (rank, data, life) = (RankChoice::Rank(1), "1".into(), Life::Unseen);
        let register = Request::Register { resource: ID, rank, token: token("t"), data, life };
        ask(&mut service, 3, register).unwrap();
        // A delayed copy of an earlier request starts no lease.
        ask(&mut service, 4, control(1)).unwrap();
        let lost = Some("destroyed".to_owned());
        let release = Request::Release { resource: ID, unit: Unit::Rank(1), token: token("t"), lost };
        assert_eq!(ask(&mut service, 5, release).unwrap_err().kind, FaultKind::NotRegistered);
        let Ok(Answer::Properties(properties)) = ask(&mut service, 10_000, Request::Properties(ID)) else {
            panic!("the resource is gone")
        };
        assert_eq!((properties.tally, properties.failed), (1, None));
    }
}
