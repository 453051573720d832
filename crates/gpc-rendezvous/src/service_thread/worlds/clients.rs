//! Clients of a world: each has one goal after another, and repeats a request as the HTTP client does.

use bytes::Bytes;
use chained_gpc::Job;

use crate::client::{DESTROYED, Failure, Retry};
use crate::machine::{
    Answer, Life, Millis, RandomValues, RankChoice, Registration, Request, ResourceId, Scope, Spec, Token,
};

/// Lifetime of each resource.
pub(super) const LIFETIME: u64 = 4_000_000;
/// Leases of some tasks.
pub(super) const LEASE: u64 = 30_000;
/// Time until an answer is given up, beside the time that the service may hold the request.
pub(super) const ANSWER: u64 = 30_000;
/// Longest wait in one request.
const POLL: u64 = 10_000;

/// What a client does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// Create the resource of its group.
    Create,
    /// Register, once the resource is known.
    Register,
    Wait,
    /// Destroy the resource, once the others are done.
    Destroy,
    Done,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    /// Number of the client in its group. Number 0 creates the resource, and destroys it at the end.
    pub(super) number: u32,
    pub(super) group: u8,
    pub(super) leased: bool,
    pub(super) goal: Goal,
    pub(super) resource: Option<ResourceId>,
    pub(super) retry: Retry,
    /// Number of its latest attempt.
    pub(super) attempt: u64,
    /// The latest acknowledged registration.
    pub(super) registered: Option<Registration>,
    /// The data of the completion that it received.
    pub(super) completion: Option<Bytes>,
    /// The error that has ended its work, if one has.
    pub(super) error: Option<Failure>,
}

impl Client {
    pub(super) fn new(group: u8, number: u32, leased: bool) -> Client {
        let goal = if number == 0 { Goal::Create } else { Goal::Register };
        Client {
            number,
            group,
            leased,
            goal,
            resource: None,
            retry: Retry::new(goal != Goal::Create),
            attempt: 0,
            registered: None,
            completion: None,
            error: None,
        }
    }

    fn token(&self) -> Token {
        Token::new(&format!("{}-{}", self.group, self.number)).unwrap()
    }

    /// Its data, which no other client has.
    pub(super) fn data(&self) -> String {
        format!("data of {}-{}", self.group, self.number)
    }

    /// Its next request, and the time that the service may hold it. `draws` counts the creations of the world.
    pub(super) fn request(&self, capacity: u32, now: Millis, draws: u8) -> Option<(Request, u64)> {
        let token = self.token();
        if self.goal == Goal::Create {
            let id = ResourceId([draws; 16]);
            let random = RandomValues { id, token: Token::new("above").unwrap(), joint: None };
            let job = Some(Job([self.group; 16]));
            let spec = Spec { job, lifetime: Some(LIFETIME), ..Spec::new(capacity.into()) };
            return Some((Request::Create { spec, random }, 0));
        }
        let resource = self.resource?;
        Some(match self.goal {
            Goal::Register => {
                let life = if self.leased { Life::Lease(LEASE) } else { Life::Unseen };
                let (rank, data) = (RankChoice::Assign, self.data().into());
                (Request::Register { resource, rank, token, data, life }, 0)
            }
            Goal::Wait => {
                let (until, of) = (Some(now + POLL), Scope::Own);
                (Request::Wait { resource, of, until, token: Some(token) }, POLL)
            }
            Goal::Destroy => (Request::Destroy(resource), 0),
            Goal::Create | Goal::Done => return None,
        })
    }

    fn begin(&mut self, goal: Goal) {
        (self.goal, self.retry) = (goal, Retry::new(true));
    }

    /// Handles an answer to its latest attempt.
    pub(super) fn take(&mut self, answer: Answer) {
        match (self.goal, answer) {
            (Goal::Create, Answer::Created(id)) => {
                self.resource = Some(id);
                self.begin(Goal::Register);
            }
            (Goal::Register, Answer::Registered(registered)) => {
                self.registered = Some(registered);
                self.begin(Goal::Wait);
            }
            (Goal::Wait, Answer::Completed(completion)) => {
                self.completion = Some(completion.data);
                self.begin(if self.number == 0 { Goal::Destroy } else { Goal::Done });
            }
            // Its lease may have expired meanwhile.
            (Goal::Wait, Answer::NotYet) => self.begin(Goal::Register),
            (Goal::Destroy, Answer::Done) => self.begin(Goal::Done),
            (goal, answer) => panic!("{goal:?} has got {answer:?}"),
        }
    }

    /// Handles the failure of its latest attempt. Returns the pause before the next one, unless the work has ended.
    pub(super) fn fail(&mut self, failure: Failure, share: u32) -> Option<u64> {
        let may_repeat = self.retry.failed(&failure);
        if let (Failure::Fault(fault), Goal::Destroy) = (&failure, self.goal)
            && self.retry.is_done(fault.kind, DESTROYED)
        {
            self.begin(Goal::Done);
            return None;
        }
        if may_repeat {
            let left = std::time::Duration::from_secs(86_400);
            return self.retry.pause(left, share).map(|pause| pause.as_millis() as u64);
        }
        (self.error, self.goal) = (Some(failure), Goal::Done);
        None
    }
}
