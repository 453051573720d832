//! What outlives the process of a service: changes to keep, and the whole to begin with again.

use bytes::Bytes;
use chained_gpc::Job;

use super::{Fault, Joint, Millis, Parent, ResourceId, Token, Unit};

/// A change of what is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A resource is there, or is another one than before.
    Resource(ResourceId, KeptResource),
    /// A registrant is there; its data are as it brought them.
    Registrant(ResourceId, u32, KeptRegistrant, Bytes),
    /// A registrant's lease is another one; its data are as they were.
    Lease(ResourceId, u32, KeptRegistrant),
    /// A registrant is no longer there.
    Withdrawn(ResourceId, u32),
    /// A controlling task is there.
    Controller(ResourceId, Unit, KeptController),
    /// A controlling task is no longer there.
    Released(ResourceId, Unit),
    /// A resource and all that belongs to it are no longer there.
    Ended(ResourceId),
}

/// A resource without its registrants. Whether it is complete follows from them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptResource {
    /// Its capacity.
    pub capacity: u32,
    /// Its level.
    pub level: u16,
    /// When it was created.
    pub created: Millis,
    /// When it ends.
    pub expires: Millis,
    /// The job that it belongs to.
    pub job: Option<Job>,
    /// What its registrants will have in common.
    pub joint: Option<Joint>,
    /// The resource above.
    pub parent: Option<Parent>,
    /// The token with which its data are registered above.
    pub token: Token,
    /// Why it will never be complete.
    pub failed: Option<Fault>,
}

/// A registrant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptRegistrant {
    /// Its token.
    pub token: Token,
    /// How long it stays without a word, milliseconds.
    pub lease: Option<u64>,
}

/// A controlling task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptController {
    /// Its name.
    pub name: String,
    /// Its token.
    pub token: Token,
    /// How long it stays without a word, milliseconds.
    pub lease: Option<u64>,
}

/// All that was kept.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Kept {
    /// The time that was kept last, by which the ends of resources are counted; `None` in what an earlier version has kept.
    pub now: Option<Millis>,
    /// The resources.
    pub resources: Vec<(ResourceId, KeptResource)>,
    /// Their registrants.
    pub registrants: Vec<(ResourceId, u32, KeptRegistrant, Bytes)>,
    /// Their controlling tasks.
    pub controllers: Vec<(ResourceId, Unit, KeptController)>,
}
