//! Rendezvous service and clients: tasks register data with a resource, and each receives the data of all once every
//! task has registered.
//!
//! ```
//! use std::sync::mpsc::channel;
//!
//! use gpc_rendezvous::service_thread::draw_token;
//! use gpc_rendezvous::{Answer, Life, Limits, RankChoice, Request, Scope, ServiceThread, Spec};
//!
//! // A service without a store and without a parent service, and two tasks that ask it from the same process.
//! let service_thread = ServiceThread::start(Limits::default(), None, |_, _| {})?;
//! let desk = service_thread.desk();
//! let (tell, told) = channel();
//! let then = || {
//!     let tell = tell.clone();
//!     move |answer| drop(tell.send(answer))
//! };
//! let _created = desk.create(Spec::new(2), then())?;
//! let Answer::Created(resource) = told.recv()?? else { return Err("it was not created".into()) };
//! for data in ["first", "second"] {
//!     let (rank, token, life) = (RankChoice::Assign, draw_token()?, Life::Unseen);
//!     let _pending = desk.ask(Request::Register { resource, rank, token, data: data.into(), life }, then());
//!     assert!(matches!(told.recv()??, Answer::Registered(_)));
//! }
//! let _pending = desk.ask(Request::Wait { resource, of: Scope::Own, until: None, token: None }, then());
//! let Answer::Completed(completion) = told.recv()?? else { return Err("it is not complete".into()) };
//! assert_eq!((completion.level, &completion.data[..]), (1, &b"2 5 first6 second"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map of the sources
//!
//! If a line names several files, their descriptions follow in the same order.
//!
//! | module | contents | feature |
//! |---|---|---|
//! | [`machine`] | the service as a state machine without I/O: requests in, answers and changes out | |
//! | [`service_thread`] | the service thread, and the [`Desk`] that submits requests to it | |
//! | [`store`] | the interface to persistent storage, and a file that implements it | the file: `store` |
//! | [`native`] | a service on a node of chained GPC, and its clients | |
//! | [`meeting`] | rendezvous of one job's tasks: the controlling task gathers, registers, announces the outcome | |
//! | [`bootstrap`] | makes the processes of several jobs one set of nodes | from the environment: `client` |
//! | [`variables`] | environment variables that a launcher sets for the tasks it starts | |
//! | `client`, `token` | client over HTTP | `client` |
//! | `checking` | validates long data on another thread | `http` |
//! | `http`, `parent_driver` | server over HTTP, with a web page; registers units with parent resources | `http` |
//!
//! ## Files
//!
//! | file | for |
//! |---|---|
//! | `machine/service`, `resource` | all resources and the requests on them; one resource |
//! | `machine/spec`, `handle`, `request` | parameters and limits; handles; requests, answers, outputs |
//! | `machine/ranks`, `waits`, `timer` | taken ranks; waits; timers |
//! | `machine/holder`, `liveness` | registrants and controlling tasks; their liveness |
//! | `machine/registrant_data`, `joined_data`, `tops` | a registrant's data; joined data; data from parent resources |
//! | `machine/step`, `undo` | steps of a batch of requests; undoes them if they cannot be stored |
//! | `machine/recent_ends`, `stored`, `fault` | why resources ended; what to store; faults |
//! | `service_thread/unsaved` | changes that the store failed to take |
//! | `store/file`, `record` | the file; its records |
//! | `native/host`, `client`, `codec` | a service on a node; its client; their messages |
//! | `native/bytes`, `url` | fields of messages; URL of a service on a node |
//! | `native/link_events`, `linked_nodes` | link events; which nodes are linked, and which are lost |
//! | `meeting/tasks`, `lead`, `follow` | functions of every task; the controlling task; the others |
//! | `meeting/shared`, `message` | state of a task in a meeting; headers of calls |
//! | `meeting/resource` | a resource, wherever it is |
//! | `bootstrap/members`, `env` | ids and groups from level-n data; from environment variables |
//! | `bootstrap/origin`, `error` | where a process registered; errors |
//! | `client/exchange`, `retry` | requests and answers; which requests are repeated (both without I/O) |
//! | `client/requests`, `permits` | sends requests, within limits; concurrency |
//! | `client/subscription`, `events` | notifications; bytes to server-sent events |
//! | `client/connector`, `names`, `url` | TCP and TLS; host names; URL of a service |
//! | `client/trusted`, `options`, `error` | which services get the token; options; errors |
//! | `client/blocking` | waits for asynchronous work on the calling thread |
//! | `http/server`, `options`, `shared` | listener and threads; options; shared state |
//! | `http/links`, `connection`, `timed_stream` | all connections; one of them; its time limits |
//! | `http/head` | finds `Content-Length` in the head of a request |
//! | `http/guard`, `host` | checks before all handlers; on whose behalf a browser sends a request |
//! | `http/wrong_tokens`, `tls` | delays answers to wrong tokens; certificate and key |
//! | `http/routes`, `request`, `query`, `json` | handlers; parts of a request; JSON |
//! | `http/body`, `budget`, `submit` | body of a request; budget for bodies; submits requests to the service |
//! | `http/data_body`, `response_budget`, `problem` | response bodies; budget for them; faults as responses |
//! | `http/wait`, `events`, `poller` | long polls; server-sent events; polls the service for all observers |
//! | `http/page`, `sessions` | web page; its logins |
//!
//! # Features
//!
//! By default no feature is enabled, so an embedder gets neither HTTP nor a file. The table shows what `store`,
//! `client` and `http` add; `http` enables `client`. `tls` adds HTTP over TLS on both sides.
//!
//! Source: WS Rendezvous, the rendezvous web service of the Globus toolkit.
#![deny(unsafe_code)]

pub mod bootstrap;
#[cfg(all(feature = "tls", any(feature = "client", feature = "http")))]
mod certificate_file;
#[cfg(feature = "http")]
mod checking;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "http")]
pub mod http;
pub mod machine;
pub mod meeting;
pub mod native;
#[cfg(feature = "http")]
pub mod parent_driver;
pub mod service_thread;
pub mod store;
#[cfg(feature = "client")]
pub mod token;
pub mod variables;

#[doc(inline)]
pub use machine::{
    Answer, Completion, Fault, FaultKind, Handle, HandleError, Joint, Life, Limits, Parent, Properties,
    RankChoice, RegistrantData, Registration, Request, ResourceId, Scope, Spec, Token, Unit,
};
#[doc(inline)]
pub use service_thread::{Desk, PendingRequest, ServiceThread};
#[doc(inline)]
pub use store::{Store, StoreError};

/// Compiles and runs the program in the README as a test.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// Compiles and runs the programs in `docs/rendezvous.md` as tests.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../../../docs/rendezvous.md")]
pub struct Document;
