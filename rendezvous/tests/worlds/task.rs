//! A task: it registers until it is told of it, then waits until it is told of that, and asks again whenever it has heard nothing.

use bytes::Bytes;
use gpc_rendezvous::machine::Millis;
use gpc_rendezvous::{Answer, FaultKind, Registered, Request, ResourceId, Token};

use super::plan::{Comer, Kind};
use super::site::Outcome;

/// How long a task waits at a time.
pub(crate) const POLL: u64 = 250;
/// How long it takes to give an answer up.
pub(crate) const PATIENCE: u64 = 60;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Registering,
    Waiting,
    Quitting,
    Done,
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) comer: Comer,
    pub(crate) resource: ResourceId,
    pub(crate) token: Token,
    pub(crate) data: Bytes,
    pub(crate) phase: Phase,
    /// Of its latest request.
    pub(crate) number: u64,
    pub(crate) alive: bool,
    /// All that it was told of its registration, also late.
    pub(crate) acknowledged: Vec<Registered>,
    /// What it was told in the end.
    pub(crate) outcome: Option<Outcome>,
    /// Whether it was told that it is no longer registered.
    pub(crate) quit: bool,
}

impl Task {
    pub(crate) fn new(number: usize, comer: Comer, resource: ResourceId) -> Task {
        let name = format!("task-{number}");
        let phase = match comer.kind {
            Kind::Watcher => Phase::Waiting,
            Kind::Honest | Kind::Quitter | Kind::Liar => Phase::Registering,
        };
        Task {
            comer,
            resource,
            token: Token::new(&name).unwrap(),
            data: name.into(),
            phase,
            number: 0,
            alive: true,
            acknowledged: Vec::new(),
            outcome: None,
            quit: false,
        }
    }

    /// What it asks next, and how long it is patient.
    pub(crate) fn request(&self, now: Millis) -> Option<(Request, u64)> {
        let (resource, token) = (self.resource, self.token.clone());
        Some(match self.phase {
            Phase::Registering => {
                let (rank, data, life) = (self.comer.wanted, self.data.clone().into(), self.comer.life);
                (Request::Register { resource, rank, token, data, life }, PATIENCE)
            }
            Phase::Waiting => {
                let (of, until) = (self.comer.of, Some(now + POLL));
                (Request::Wait { resource, of, until, token: Some(token) }, POLL + PATIENCE)
            }
            Phase::Quitting => {
                let rank = self.acknowledged.last()?.rank.into();
                (Request::Withdraw { resource, rank, token }, PATIENCE)
            }
            Phase::Done => return None,
        })
    }

    /// No answer has come, or none that says how it ends.
    pub(crate) fn again(&mut self) {
        if self.phase == Phase::Waiting && self.comer.kind != Kind::Watcher {
            // It may have been withdrawn meanwhile, if it was not heard of.
            self.phase = Phase::Registering;
        }
    }

    /// Takes an answer to its latest request; whether it asks again at once.
    pub(crate) fn take(&mut self, outcome: Outcome) {
        match (self.phase, outcome) {
            (Phase::Registering, Ok(Answer::Registered(_))) => {
                let quits = self.comer.kind == Kind::Quitter;
                self.phase = if quits { Phase::Quitting } else { Phase::Waiting };
            }
            (_, Ok(Answer::NotYet)) => self.again(),
            (_, Err(fault)) if fault.kind == FaultKind::ServiceFull => self.again(),
            (phase, outcome) => {
                self.quit = phase == Phase::Quitting && outcome == Ok(Answer::Done);
                self.phase = Phase::Done;
                self.outcome = Some(outcome);
            }
        }
    }
}
