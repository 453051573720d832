//! Rendezvous: tasks register their data with a resource, and each gets the data of all when everybody is there.
//!
//! Source: WS Rendezvous, the rendezvous web service of the Globus toolkit.
#![deny(unsafe_code)]

pub mod bootstrap;
#[cfg(feature = "http")]
mod checking;
#[cfg(feature = "client")]
pub mod client;
mod clock;
#[cfg(feature = "http")]
pub mod http;
pub mod keeper;
pub mod machine;
pub mod meeting;
pub mod native;
pub mod store;
#[cfg(feature = "client")]
pub mod token;
#[cfg(feature = "http")]
pub mod upward;
pub mod variables;

#[doc(inline)]
pub use keeper::{Asked, Desk, Keeper};
#[doc(inline)]
pub use machine::{
    Answer, Brought, Completion, Fault, FaultKind, Handle, HandleError, Joint, Life, Limits, Of, Parent,
    Properties, Registered, Request, ResourceId, Spec, Token, Unit, Wanted,
};
#[doc(inline)]
pub use store::{Store, StoreError};
