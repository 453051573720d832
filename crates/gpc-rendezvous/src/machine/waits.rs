//! Waits for a completion, and their answers.

use super::holder::Holder;
use super::resource::Wait;
use super::service::{Service, full};
use super::step::Step;
use super::timer::Timer;
use super::{Answer, Fault, Millis, Output, ResourceId, Scope, Ticket, Token};

impl Service {
    pub(super) fn wait(
        &mut self,
        ticket: Ticket,
        id: ResourceId,
        of: Scope,
        until: Option<Millis>,
        token: Option<Token>,
    ) {
        self.renew(id, token.as_ref());
        if let Some(answer) = self.known(id, of, until) {
            self.outputs.push_back(Output::Answer(ticket, answer));
            return;
        }
        self.put_wait(id, ticket, Wait { of, until, token });
    }

    pub(super) fn put_wait(&mut self, id: ResourceId, ticket: Ticket, wait: Wait) {
        let Some(resource) = self.resources.get_mut(&id) else { return };
        let (until, token) = (wait.until, wait.token.clone());
        if let Some(token) = &token {
            *resource.tokens_waiting.entry(token.clone()).or_default() += 1;
        }
        resource.waits.insert(ticket, wait);
        self.waits.insert(ticket, id);
        self.timers.extend(until.map(|until| (until, Timer::Wait(ticket))));
        self.renew(id, token.as_ref());
    }

    /// The answer to a wait, if it is available immediately.
    fn known(&self, id: ResourceId, of: Scope, until: Option<Millis>) -> Option<Result<Answer, Fault>> {
        let resource = match self.resource(id) {
            Ok(resource) => resource,
            Err(fault) => return Some(Err(fault)),
        };
        if let Some(outcome) = resource.outcome(of) {
            return Some(outcome.map(Answer::Completed));
        }
        if until.is_some_and(|until| until <= self.now) {
            return Some(Ok(Answer::NotYet));
        }
        let most = self.limits.waiting;
        (self.waits.len() >= most).then(|| Err(full(format!("{most} wait already: ask again later"))))
    }

    /// Removes the wait with this ticket.
    pub(super) fn stop_waiting(&mut self, ticket: Ticket) {
        let Some(id) = self.waits.remove(&ticket) else { return };
        let Some(resource) = self.resources.get_mut(&id) else { return };
        let Some(wait) = resource.waits.remove(&ticket) else { return };
        if let Some(until) = wait.until {
            self.timers.remove(&(until, Timer::Wait(ticket)));
        }
        if let Some(token) = &wait.token
            && let Some(count) = resource.tokens_waiting.get_mut(token)
        {
            *count -= 1;
            if *count == 0 {
                resource.tokens_waiting.remove(token);
                self.renew(id, Some(token));
            }
        }
        self.note(Step::Answered(id, ticket, wait));
    }

    /// Answers the waits whose outcome is known.
    pub(super) fn answer_waits(&mut self, id: ResourceId) {
        let Some(resource) = self.resources.get(&id) else { return };
        let (own, top) = (resource.outcome(Scope::Own), resource.outcome(Scope::Top));
        if own.is_none() && top.is_none() {
            return;
        }
        let mut told = Vec::new();
        for (ticket, wait) in &resource.waits {
            let outcome = if wait.of == Scope::Own { &own } else { &top };
            told.extend(outcome.as_ref().map(|outcome| (*ticket, outcome.clone().map(Answer::Completed))));
        }
        for (ticket, answer) in told {
            self.stop_waiting(ticket);
            self.outputs.push_back(Output::Answer(ticket, answer));
        }
    }

    /// Answers a wait whose time limit has passed.
    pub(super) fn not_yet(&mut self, ticket: Ticket) {
        if self.waits.contains_key(&ticket) {
            self.stop_waiting(ticket);
            self.outputs.push_back(Output::Answer(ticket, Ok(Answer::NotYet)));
        }
    }

    /// A caller with this token has sent a request or stopped waiting: restarts the token's leases. A lease stays
    /// suspended while a caller waits with its token.
    pub(super) fn renew(&mut self, id: ResourceId, token: Option<&Token>) {
        let Some(resource) = self.resources.get(&id) else { return };
        let Some(token) = token else { return };
        let rank = resource.ranks_by_token.get(token).map(|rank| Holder::Registrant(*rank));
        let unit = resource.units_by_token.get(token).map(|unit| Holder::Controller(*unit));
        for holder in [rank, unit].into_iter().flatten() {
            self.begin_life(id, holder);
        }
    }
}
