//! A task: it registers until it gets an answer, then waits until it gets an outcome, and repeats a request whose
//! answer is missing.

use bytes::Bytes;
use gpc_rendezvous::machine::Millis;
use gpc_rendezvous::{Answer, FaultKind, Registration, Request, ResourceId, Token};

use super::plan::{Comer, Kind};
use super::site::Outcome;

/// Length of a task's waits.
pub(crate) const POLL: u64 = 250;
/// Time until a missing answer is given up.
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
    /// Number of its latest request.
    pub(crate) number: u64,
    pub(crate) alive: bool,
    /// All answers to its registrations, including late ones.
    pub(crate) acknowledged: Vec<Registration>,
    /// The outcome that it received.
    pub(crate) outcome: Option<Outcome>,
    /// Whether it was answered that it is no longer registered.
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

    /// Its next request, and the time until it is repeated.
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

    /// No answer has arrived, or one without an outcome.
    pub(crate) fn again(&mut self) {
        if self.phase == Phase::Waiting && self.comer.kind != Kind::Watcher {
            // It may have been withdrawn meanwhile, if its lease expired.
            self.phase = Phase::Registering;
        }
    }

    /// Handles an answer to its latest request.
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
