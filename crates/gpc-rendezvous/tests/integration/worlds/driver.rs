//! A driver of a controlling task: carries out the service's outputs for the parent, and retries until it has an
//! outcome.

use bytes::Bytes;
use gpc_rendezvous::machine::{Millis, ParentAction, ParentOutcome};
use gpc_rendezvous::{Answer, FaultKind, Handle, Life, RankChoice, Request, Scope, Token, Unit};

use super::site::Outcome;
use super::task::{PATIENCE, POLL};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The unit is not complete.
    Controlling,
    Registering(Bytes),
    Waiting(Bytes),
    /// The unit will not register.
    Releasing(String),
    Done,
}

#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) name: String,
    pub(crate) handle: Handle,
    pub(crate) rank: RankChoice,
    pub(crate) token: Token,
    pub(crate) lease: u64,
    pub(crate) phase: Phase,
    pub(crate) number: u64,
}

impl Driver {
    pub(crate) fn new(name: String, lease: u64, up: &ParentAction) -> Driver {
        let (ParentAction::Control { handle, rank, token, .. }
        | ParentAction::Register { handle, rank, token, .. }
        | ParentAction::Stop { handle, rank, token, .. }) = up;
        let (handle, rank, token) = (handle.clone(), *rank, token.clone());
        Driver { name, handle, rank, token, lease, phase: Phase::Controlling, number: 0 }
    }

    /// Handles an output of the service.
    pub(crate) fn go_on(&mut self, up: ParentAction) {
        self.phase = match up {
            ParentAction::Control { .. } => Phase::Controlling,
            ParentAction::Register { data, .. } => Phase::Registering(data),
            ParentAction::Stop { why, .. }
                if matches!(self.phase, Phase::Controlling | Phase::Registering(_)) =>
            {
                Phase::Releasing(why)
            }
            ParentAction::Stop { .. } => Phase::Done,
        };
    }

    fn unit(&self) -> Option<Unit> {
        match self.rank {
            RankChoice::Rank(rank) => Some(Unit::Rank(u32::try_from(rank).unwrap())),
            RankChoice::Assign => None,
        }
    }

    /// Its next request, and the time until it is repeated. The lease is renewed in this way, too.
    pub(crate) fn request(&self, now: Millis) -> Option<(Request, u64)> {
        let (resource, token, life) = (self.handle.resource(), self.token.clone(), Life::Lease(self.lease));
        Some(match &self.phase {
            Phase::Controlling => {
                let (unit, name) = (self.unit()?, self.name.clone());
                (Request::Control { resource, unit, name, token, life }, self.lease / 4)
            }
            Phase::Registering(data) => {
                let (rank, data) = (self.rank, data.clone().into());
                (Request::Register { resource, rank, token, data, life }, PATIENCE)
            }
            Phase::Waiting(_) => {
                let until = Some(now + POLL);
                (Request::Wait { resource, of: Scope::Top, until, token: Some(token) }, POLL + PATIENCE)
            }
            Phase::Releasing(why) => {
                let (unit, lost) = (self.unit()?, Some(why.clone()));
                (Request::Release { resource, unit, token, lost }, PATIENCE)
            }
            Phase::Done => return None,
        })
    }

    pub(crate) fn again(&mut self) {
        if let Phase::Waiting(data) = &self.phase {
            self.phase = Phase::Registering(data.clone());
        }
    }

    /// Handles an answer to its latest request. Returns whether it sends the next request immediately, and its report
    /// to its own service.
    pub(crate) fn take(&mut self, outcome: Outcome) -> (bool, Option<ParentOutcome>) {
        match (&self.phase, outcome) {
            // The next request is due when the lease must be renewed.
            (Phase::Controlling, Ok(_)) => (false, None),
            (Phase::Registering(data), Ok(Answer::Registered(_))) => {
                self.phase = Phase::Waiting(data.clone());
                (true, None)
            }
            (Phase::Waiting(_), Ok(Answer::Completed(completion))) => {
                self.phase = Phase::Done;
                (false, Some(ParentOutcome::Completed(completion)))
            }
            (Phase::Waiting(_), Ok(_)) => {
                self.again();
                (true, None)
            }
            (Phase::Releasing(_), _) => {
                self.phase = Phase::Done;
                (false, None)
            }
            (_, Err(fault)) if fault.kind == FaultKind::ServiceFull => (true, None),
            (_, Err(fault)) => {
                self.phase = Phase::Done;
                (false, Some(ParentOutcome::Failed(fault)))
            }
            (_, Ok(_)) => (true, None),
        }
    }
}
