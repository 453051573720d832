//! Persistent state of a service: changes to store, and the whole state to restart from.

use bytes::Bytes;
use chained_gpc::Job;

use super::{Fault, Joint, Millis, Parent, ResourceId, Token, Unit};

/// A change of the persistent state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A resource is new or has changed.
    Resource(ResourceId, StoredResource),
    /// A registrant is new, with its data.
    Registrant(ResourceId, u32, StoredRegistrant, Bytes),
    /// A registrant's lease has changed; its data have not.
    Lease(ResourceId, u32, StoredRegistrant),
    /// A registrant has left.
    Withdrawn(ResourceId, u32),
    /// A controlling task is new or has changed.
    Controller(ResourceId, Unit, StoredController),
    /// A controlling task has left.
    Released(ResourceId, Unit),
    /// A resource has ended, with everything that belongs to it.
    Ended(ResourceId),
}

/// A resource without its registrants. Whether it is complete follows from the registrants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredResource {
    /// Number of registrants that make it complete.
    pub capacity: u32,
    /// Level of its data.
    pub level: u16,
    /// Time of its creation.
    pub created: Millis,
    /// End of its lifetime.
    pub expires: Millis,
    /// Job that it belongs to.
    pub job: Option<Job>,
    /// Job and secret for its registrants, part of the completion.
    pub joint: Option<Joint>,
    /// Parent resource, and the rank there.
    pub parent: Option<Parent>,
    /// Token with which its data are registered at the parent.
    pub token: Token,
    /// Why it cannot complete, if it has failed.
    pub failed: Option<Fault>,
}

/// A registrant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredRegistrant {
    /// Its token.
    pub token: Token,
    /// Length of its lease, milliseconds.
    pub lease: Option<u64>,
}

/// A controlling task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredController {
    /// Its name.
    pub name: String,
    /// Its token.
    pub token: Token,
    /// Length of its lease, milliseconds.
    pub lease: Option<u64>,
}

/// The whole persistent state.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StoredState {
    /// The time that was stored last, from which the remaining lifetimes of resources are counted. `None` in a store
    /// that an earlier version wrote.
    pub now: Option<Millis>,
    /// Resources.
    pub resources: Vec<(ResourceId, StoredResource)>,
    /// Registrants.
    pub registrants: Vec<(ResourceId, u32, StoredRegistrant, Bytes)>,
    /// Controlling tasks.
    pub controllers: Vec<(ResourceId, Unit, StoredController)>,
}
