//! HTTP server of a rendezvous service, for tasks in any language: create, register, wait (long poll or server-sent
//! events), observe, destroy.
//!
//! The reference is `openapi.json` in this package, which the server offers at `/openapi.json`. Each error response is
//! a problem (RFC 9457) with the code of its [fault](crate::FaultKind).
//!
//! The server has no logic of its own: it passes requests to the service's [`Desk`](crate::Desk), and answers back. It
//! adds limits: on connections, on the amount and rate of data, on waits and streams.
//!
//! Source: WS Rendezvous, "Rendezvous port type", with HTTP in place of SOAP.

mod body;
mod budget;
mod connection;
mod data_body;
mod events;
mod guard;
mod head;
mod host;
mod json;
mod links;
mod options;
mod page;
mod poller;
mod problem;
mod query;
mod request;
mod response_budget;
mod routes;
mod server;
mod sessions;
mod shared;
mod submit;
mod timed_stream;
mod tls;
mod wait;
mod wrong_tokens;

#[doc(inline)]
pub use options::{Options, Times, Tls};
#[doc(inline)]
pub use server::Server;

/// Description of the API, an OpenAPI 3.1 document.
pub const OPENAPI: &str = include_str!("../../openapi.json");
