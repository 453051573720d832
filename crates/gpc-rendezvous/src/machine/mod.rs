//! The rendezvous service without I/O: resources, registrants and waits.
//!
//! [`Service`] takes one [`Input`] at a time and yields [`Output`]s, all of which are drained before the next input. It
//! has no socket, thread or clock; time is an argument, and random values come with the request.
//!
//! Source: WS Rendezvous, "Rendezvous port type" and "Flow of control".

mod fault;
mod handle;
mod holder;
mod joined_data;
mod liveness;
mod ranks;
mod recent_ends;
mod registrant_data;
mod request;
mod resource;
mod service;
mod spec;
mod step;
mod stored;
mod timer;
mod tops;
mod undo;
mod waits;

pub use fault::{Fault, FaultKind, MESSAGE_MAX};
pub use handle::{Handle, HandleError, ID_LENGTH, ResourceId, URL_MAX};
pub use holder::{Life, Unit};
pub use joined_data::join_data;
pub use registrant_data::RegistrantData;
pub use request::{
    Answer, Input, MISSING_MAX, Output, ParentAction, ParentOutcome, Properties, RandomValues, Registration,
    Request, Scope, Ticket,
};
pub use service::Service;
pub(crate) use service::below;
pub use spec::{Completion, Joint, Limits, NAME_MAX, OVERHEAD, Parent, RankChoice, Spec, TOKEN_MAX, Token};
pub use stored::{Change, StoredController, StoredRegistrant, StoredResource, StoredState};

/// A time: milliseconds since the beginning of 1970. Lifetimes continue after a restart of the service, so they cannot
/// be counted from its start.
pub type Millis = u64;
