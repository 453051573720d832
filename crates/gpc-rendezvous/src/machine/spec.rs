//! Parameters of a resource, and limits of a service.

use std::fmt;

use chained_gpc::{Job, Secret};

use super::Handle;

/// Limits of a service. They bound its memory, whatever clients ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Largest capacity of a resource.
    pub capacity: u32,
    /// Highest level of a resource.
    pub level: u16,
    /// Most data of one registration, bytes. At level 2 and above one registration carries the data of a whole unit.
    pub data: u64,
    /// Most bytes that all resources hold together: the data of registrants, the data of completions from parents
    /// (shared copies count once), and [`OVERHEAD`] for each resource, registrant and controlling task.
    ///
    /// Outside this limit the service holds:
    ///
    /// - the data of a resource a second time in the turn that completes it, and as long as a caller still reads a
    ///   registrant's earlier data;
    /// - the lengths before level-1 data, at most 21 bytes each;
    /// - callers that wait ([`Limits::waiting`]), and requests in the queue;
    /// - the reasons of the last 4,096 ends.
    ///
    /// What an earlier run of the service admitted is counted in full, and is never rejected.
    pub held: u64,
    /// Most resources.
    pub resources: usize,
    /// Most waits at a time.
    pub waiting: usize,
    /// Default lifetime of a resource, milliseconds.
    pub lifetime: u64,
    /// Longest lifetime of a resource, milliseconds.
    pub lifetime_max: u64,
}

/// Bytes counted for each registrant, controlling task and resource beside its data: the memory that the tables need
/// for it.
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

/// Parameters of a new resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Number of registrants that make it complete, at least 1.
    pub capacity: u64,
    /// Level of its data when it is complete, at least 1. Registrants bring data of the level below; at level 1 these
    /// are arbitrary bytes. If `None`, the level is one below the parent's if this service owns the parent, else 1.
    pub level: Option<u64>,
    /// Longest lifetime from creation, milliseconds. If `None`, the service's default applies.
    pub lifetime: Option<u64>,
    /// Job that it belongs to. When the job ends, the resource is destroyed.
    pub job: Option<Job>,
    /// Whether the completion carries a job and a secret, with which the registrants can form one set of nodes.
    pub joint: bool,
    /// Parent resource. If there is one, the service is the controlling task and registers the complete data there.
    pub parent: Option<Parent>,
}

impl Spec {
    /// Parameters of a resource with this capacity and the default level.
    pub fn new(capacity: u64) -> Spec {
        Spec { capacity, level: None, lifetime: None, job: None, joint: false, parent: None }
    }
}

/// Where a unit's complete data are registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parent {
    /// Parent resource.
    pub handle: Handle,
    /// Rank of the unit at the parent.
    pub rank: RankChoice,
}

/// The rank that a registrant asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RankChoice {
    /// This rank.
    Rank(u64),
    /// Any rank: the tally if that rank is free, else the lowest free rank.
    Assign,
}

/// Identifies a registrant that repeats a request after a lost answer: printable ASCII without spaces, 1 to
/// [`TOKEN_MAX`] bytes, unique to the registrant. A withdrawal must carry it, so only the registrant itself can
/// withdraw.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(Box<str>);

impl Token {
    /// Returns the token with this text, or `None` if the text is not a valid token.
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

/// Job and secret that the registrants of a resource share after its completion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joint {
    /// Their job.
    pub job: Job,
    /// Their secret.
    pub secret: Secret,
}

/// The outcome of a complete rendezvous, the same for every registrant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Level of the data.
    pub level: u16,
    /// Level-n data: the data of the registrants, by rank.
    pub data: bytes::Bytes,
    /// Job and secret to share, if the resource was created with `joint`.
    pub joint: Option<Joint>,
}
