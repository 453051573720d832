//! A rendezvous service over HTTP, for tasks in any language: create, register, wait (long poll or server-sent events), look, destroy.
//!
//! `openapi.json` in this package, which the server gives at `/openapi.json`, is the reference. Whatever is refused is answered with a problem (RFC 9457) that has the code of the [fault](crate::FaultKind).
//!
//! A driver without logic of its own: what is asked goes to the service's [`Desk`](crate::Desk), what it answers goes back. What it adds is bounds: on connections, on what is sent and how slowly, on those who wait and look on.
//!
//! Source: WS Rendezvous, "Rendezvous port type", with HTTP in place of SOAP.

mod answers;
mod asking;
mod body;
mod connection;
mod events;
mod guard;
mod host;
mod json;
mod links;
mod options;
mod page;
mod poller;
mod problem;
mod query;
mod routes;
mod sent;
mod server;
mod sessions;
mod shared;
mod tls;
mod wait;
mod watched;
mod wrong;

#[doc(inline)]
pub use options::{Options, Times, Tls};
#[doc(inline)]
pub use server::Server;

/// What the server offers, as an OpenAPI 3.1 file.
pub const OPENAPI: &str = include_str!("../../openapi.json");
