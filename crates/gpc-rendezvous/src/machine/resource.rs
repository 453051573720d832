//! One resource: its registrants, controlling tasks, waits and state.

use std::collections::BTreeMap;

use bytes::Bytes;
use chained_gpc::Job;

use super::holder::{Holder, lease_of};
use super::ranks::Ranks;
use super::{
    Change, Completion, Fault, FaultKind, Joint, Life, MISSING_MAX, Millis, OVERHEAD, Parent, Properties,
    Registration, ResourceId, Scope, StoredController, StoredRegistrant, StoredResource, Ticket, Token, Unit,
    join_data,
};

#[derive(Debug)]
pub(super) struct Resource {
    pub(super) id: ResourceId,
    pub(super) capacity: u32,
    pub(super) level: u16,
    pub(super) created: Millis,
    pub(super) expires: Millis,
    pub(super) job: Option<Job>,
    pub(super) joint: Option<Joint>,
    pub(super) parent: Option<Parent>,
    /// Token with which its data are registered at the parent.
    pub(super) token: Token,
    pub(super) state: State,
    /// Outcome of the highest ancestor, if this service controls the unit.
    pub(super) top: Option<Result<Completion, Fault>>,
    pub(super) ranks: Ranks,
    pub(super) registrants: BTreeMap<u32, Registrant>,
    pub(super) controllers: BTreeMap<Unit, Controller>,
    /// Rank of the registrant with each token.
    pub(super) ranks_by_token: BTreeMap<Token, u32>,
    /// Unit of the controlling task with each token.
    pub(super) units_by_token: BTreeMap<Token, Unit>,
    /// Bytes of all registrants' data.
    pub(super) bytes: u64,
    pub(super) waits: BTreeMap<Ticket, Wait>,
    /// Number of waits with each token. A token's leases are suspended while there are any.
    pub(super) tokens_waiting: BTreeMap<Token, u32>,
}

/// State of a resource.
#[derive(Debug)]
pub(super) enum State {
    /// Registrants are missing.
    Open,
    /// All have registered; these are their joined data.
    Complete(Bytes),
    /// The resource cannot complete.
    Failed(Fault),
}

/// A registrant.
#[derive(Debug)]
pub(super) struct Registrant {
    pub(super) token: Token,
    pub(super) data: Bytes,
    pub(super) liveness: Liveness,
}

/// A controlling task.
#[derive(Debug)]
pub(super) struct Controller {
    pub(super) name: String,
    pub(super) token: Token,
    pub(super) liveness: Liveness,
}

/// Liveness of a registrant or controlling task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Liveness {
    pub(super) life: Life,
    /// When its lease expires, if one is running; a timer is set for this time.
    pub(super) until: Option<Millis>,
}

/// A wait.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) of: Scope,
    pub(super) until: Option<Millis>,
    pub(super) token: Option<Token>,
}

impl Registrant {
    fn stored(&self) -> StoredRegistrant {
        StoredRegistrant { token: self.token.clone(), lease: lease_of(self.liveness.life) }
    }
}

impl Resource {
    pub(super) fn new(id: ResourceId, stored: StoredResource) -> Resource {
        Resource {
            id,
            capacity: stored.capacity,
            level: stored.level,
            created: stored.created,
            expires: stored.expires,
            job: stored.job,
            joint: stored.joint,
            parent: stored.parent,
            token: stored.token,
            state: stored.failed.map_or(State::Open, State::Failed),
            top: None,
            ranks: Ranks::default(),
            registrants: BTreeMap::new(),
            controllers: BTreeMap::new(),
            ranks_by_token: BTreeMap::new(),
            units_by_token: BTreeMap::new(),
            bytes: 0,
            waits: BTreeMap::new(),
            tokens_waiting: BTreeMap::new(),
        }
    }

    pub(super) fn stored(&self) -> StoredResource {
        StoredResource {
            capacity: self.capacity,
            level: self.level,
            created: self.created,
            expires: self.expires,
            job: self.job,
            joint: self.joint.clone(),
            parent: self.parent.clone(),
            token: self.token.clone(),
            failed: match &self.state {
                State::Failed(fault) => Some(fault.clone()),
                State::Open | State::Complete(_) => None,
            },
        }
    }

    /// The change to store for a new registrant.
    pub(super) fn brought(&self, rank: u32) -> Option<Change> {
        let registrant = self.registrants.get(&rank)?;
        Some(Change::Registrant(self.id, rank, registrant.stored(), registrant.data.clone()))
    }

    /// The change to store for a registrant with a new lease, or for a controlling task.
    pub(super) fn change(&self, holder: Holder) -> Option<Change> {
        match holder {
            Holder::Registrant(rank) => {
                Some(Change::Lease(self.id, rank, self.registrants.get(&rank)?.stored()))
            }
            Holder::Controller(unit) => {
                let Controller { name, token, liveness } = self.controllers.get(&unit)?;
                let (name, token, lease) = (name.clone(), token.clone(), lease_of(liveness.life));
                Some(Change::Controller(self.id, unit, StoredController { name, token, lease }))
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Bytes that it counts against [`Limits::held`](super::Limits::held).
    pub(super) fn held(&self) -> u64 {
        let entries = 1 + self.registrants.len() + self.controllers.len();
        self.bytes + entries as u64 * OVERHEAD
    }

    pub(super) fn insert(&mut self, rank: u32, registrant: Registrant) {
        self.bytes += registrant.data.len() as u64;
        self.ranks.take(rank);
        self.ranks_by_token.insert(registrant.token.clone(), rank);
        self.registrants.insert(rank, registrant);
    }

    pub(super) fn remove(&mut self, rank: u32) -> Option<Registrant> {
        let registrant = self.registrants.remove(&rank)?;
        self.bytes -= registrant.data.len() as u64;
        self.ranks.free(rank);
        self.ranks_by_token.remove(&registrant.token);
        Some(registrant)
    }

    pub(super) fn registered(&self, rank: u32) -> Registration {
        Registration { rank, tally: self.ranks.tally(), capacity: self.capacity }
    }

    /// Completes the resource if all have registered. From then on each registrant's data are a slice of the joined
    /// data.
    pub(super) fn complete(&mut self) -> bool {
        if !self.is_open() || self.ranks.tally() < self.capacity {
            return false;
        }
        let (data, begins) =
            join_data(self.level, self.registrants.values().map(|registrant| &registrant.data));
        for (registrant, begin) in self.registrants.values_mut().zip(begins) {
            registrant.data = data.slice(begin..begin + registrant.data.len());
        }
        self.state = State::Complete(data);
        true
    }

    /// The answer to a wait, if it is known.
    pub(super) fn outcome(&self, of: Scope) -> Option<Result<Completion, Fault>> {
        if let (Scope::Top, Some(top)) = (of, &self.top) {
            return Some(top.clone());
        }
        match &self.state {
            State::Failed(fault) => Some(Err(fault.clone())),
            State::Complete(data) if of == Scope::Own || self.parent.is_none() => {
                let (level, data, joint) = (self.level, data.clone(), self.joint.clone());
                Some(Ok(Completion { level, data, joint }))
            }
            State::Complete(_) | State::Open => None,
        }
    }

    /// Returns the fault if the resource has failed.
    pub(super) fn check(&self) -> Result<(), Fault> {
        match &self.state {
            State::Failed(fault) => Err(fault.clone()),
            State::Open | State::Complete(_) => Ok(()),
        }
    }

    /// Converts a rank to a number below the capacity.
    pub(super) fn rank(&self, rank: u64) -> Result<u32, Fault> {
        let capacity = self.capacity;
        let below = u32::try_from(rank).ok().filter(|rank| *rank < capacity);
        below.ok_or_else(|| {
            let message = match capacity {
                1 => format!("there is no rank {rank}: the only one is 0"),
                _ => format!("there is no rank {rank}: ranks are 0 to {}", capacity - 1),
            };
            Fault::new(FaultKind::RankOutOfRange, message).of_rank(rank)
        })
    }

    pub(super) fn properties(&self) -> Properties {
        Properties {
            id: self.id,
            level: self.level,
            capacity: self.capacity,
            tally: self.ranks.tally(),
            missing: self.ranks.missing(self.capacity, MISSING_MAX),
            bytes: self.bytes,
            completed: matches!(self.state, State::Complete(_)),
            failed: self.check().err(),
            waiting: self.waits.len(),
            created: self.created,
            expires: self.expires,
            job: self.job,
            above: self.parent.as_ref().map(|parent| parent.handle.service().to_owned()),
        }
    }
}
