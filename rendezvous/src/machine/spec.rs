//! What a resource is created with, and what a service allows.

use std::fmt;

use chained_gpc::{Job, Secret};

use super::Handle;

/// What a service allows. Whatever a client asks for, the service's memory stays within these bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Largest capacity of a resource.
    pub capacity: u32,
    /// Highest level of a resource.
    pub level: u16,
    /// Most data of one registration, bytes. At level 2 and above they are the data of a whole unit.
    pub data: u64,
    /// Most that all resources hold together, bytes: the data of their registrants, those of completions above, once where resources have the same copy, and [`OVERHEAD`] for each resource, registrant and controlling task.
    ///
    /// Beside that the service holds: where a resource is completed, its data a second time until the turn ends that completes it, and for as long as somebody takes what a registrant brought before; the lengths that stand before the data of level 1, at most 21 bytes each; who waits ([`Limits::waiting`]), and what is asked and not yet taken up; why the latest 4,096 resources have ended. Of what was admitted by an earlier run all is counted, and none refused.
    pub held: u64,
    /// Most resources.
    pub resources: usize,
    /// Most who wait at a time.
    pub waiting: usize,
    /// The lifetime of a resource for which none is asked, milliseconds.
    pub lifetime: u64,
    /// The longest lifetime, milliseconds.
    pub lifetime_max: u64,
}

/// What a registrant, a controlling task or a resource counts beside its data, bytes: what the tables need for it.
pub const OVERHEAD: u64 = 512;

/// Longest token of a registrant, bytes.
pub const TOKEN_MAX: usize = 128;

/// Longest name of a controlling task, bytes.
pub const NAME_MAX: usize = 256;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            capacity: 1 << 20,
            level: 64,
            data: 64 << 20,
            held: 2 << 30,
            resources: 1 << 16,
            waiting: 1 << 17,
            lifetime: 3_600_000,
            lifetime_max: 30 * 24 * 3_600_000,
        }
    }
}

/// What a resource is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// How many registrants make it complete, at least 1.
    pub capacity: u64,
    /// The level of its data when it is complete, at least 1: registrants bring data of the level below, which at level 1 are bytes of any kind. Where `None`, it is one below that of the resource above if this service has that, and 1 else.
    pub level: Option<u64>,
    /// How long it lives at most from its creation on, milliseconds; the service's default where `None`.
    pub lifetime: Option<u64>,
    /// The job that it belongs to: it is destroyed when the job ends.
    pub job: Option<Job>,
    /// Whether a job and a secret come with its completion, for those who meet to become one set.
    pub joint: bool,
    /// The resource above, with which the service registers this one's data when they are complete: it is the controlling task then.
    pub parent: Option<Parent>,
}

impl Spec {
    /// A resource for so many registrants, of the level that fits.
    pub fn new(capacity: u64) -> Spec {
        Spec { capacity, level: None, lifetime: None, job: None, joint: false, parent: None }
    }
}

/// Where the data of a unit are registered when they are complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parent {
    /// The resource above.
    pub handle: Handle,
    /// The unit's rank there.
    pub rank: Wanted,
}

/// Which rank a registrant asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// This one.
    Rank(u64),
    /// Any: the tally if that one is free, else the lowest that is free.
    Assign,
}

/// What a registrant is known by when it asks again, because an answer was lost: printable ASCII without spaces, 1 to [`TOKEN_MAX`] bytes, which nobody else has. It also proves that a withdrawal is the registrant's own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(Box<str>);

impl Token {
    /// The token of this text; `None` if it cannot be one.
    pub fn new(text: &str) -> Option<Token> {
        let fits = (1..=TOKEN_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Token(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What those who met have in common from then on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joint {
    /// Their job.
    pub job: Job,
    /// Their secret.
    pub secret: Secret,
}

/// What a complete rendezvous gives to everybody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The level of the data.
    pub level: u16,
    /// Level-n data of that level: those of the registrants, by rank.
    pub data: bytes::Bytes,
    /// What they have in common from now on, if the resource was to draw it.
    pub joint: Option<Joint>,
}
