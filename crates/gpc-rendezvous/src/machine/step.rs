//! Steps of a batch of requests, with what they have removed.

use super::resource::{Controller, Registrant, Resource, Wait};
use super::{ResourceId, Ticket, Unit};

/// One step of a batch.
#[derive(Debug)]
pub(super) enum Step {
    Created(ResourceId),
    Registered(ResourceId, u32),
    Withdrawn(ResourceId, u32, Registrant),
    Controlled(ResourceId, Unit),
    Released(ResourceId, Unit, Controller),
    /// An open resource became complete, or failed.
    Settled(ResourceId),
    Ended(Box<Resource>),
    /// A wait was answered.
    Answered(ResourceId, Ticket, Wait),
}
