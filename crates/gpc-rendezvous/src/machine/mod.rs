//! The rendezvous service without I/O: resources, registrants and waits.
//!
//! [`Service`] takes one [`Input`] at a time and yields [`Output`]s, all of which are drained before the next input. It
//! has no socket, thread or clock; time is an argument, and random values come with the request.
//!
//! Source: WS Rendezvous, "Rendezvous port type" and "Flow of control".

mod brought;
mod ended;
mod fault;
mod handle;
mod holder;
mod joined;
mod kept;
mod lives;
mod ranks;
mod request;
mod resource;
mod service;
mod spec;
mod step;
mod timer;
mod tops;
mod undo;
mod waits;

pub use brought::Brought;
pub use fault::{Fault, FaultKind, MESSAGE_MAX};
pub use handle::{Handle, HandleError, ID_LENGTH, ResourceId, URL_MAX};
pub use holder::{Life, Unit};
pub use joined::joined;
pub use kept::{Change, Kept, KeptController, KeptRegistrant, KeptResource};
pub use request::{
    Above, Answer, Drawn, Input, MISSING_MAX, Of, Output, Properties, Registered, Request, Ticket, Up,
};
pub use service::Service;
pub(crate) use service::below;
pub use spec::{Completion, Joint, Limits, NAME_MAX, OVERHEAD, Parent, Spec, TOKEN_MAX, Token, Wanted};

/// A time: milliseconds since the beginning of 1970. Lifetimes continue after a restart of the service, so they cannot
/// be counted from its start.
pub type Millis = u64;
