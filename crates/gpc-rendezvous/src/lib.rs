//! Rendezvous service and clients: tasks register data with a resource, and each receives the data of all once every
//! task has registered.
//!
//! ```
//! use std::sync::mpsc::channel;
//!
//! use gpc_rendezvous::keeper::draw_token;
//! use gpc_rendezvous::{Answer, Keeper, Life, Limits, Of, Request, Spec, Wanted};
//!
//! // A service without a store and without a parent service, and two tasks that ask it from the same process.
//! let keeper = Keeper::start(Limits::default(), None, |_, _| {})?;
//! let desk = keeper.desk();
//! let (tell, told) = channel();
//! let then = || {
//!     let tell = tell.clone();
//!     move |answer| drop(tell.send(answer))
//! };
//! let _created = desk.create(Spec::new(2), then())?;
//! let Answer::Created(resource) = told.recv()?? else { return Err("it was not created".into()) };
//! for data in ["first", "second"] {
//!     let (rank, token, life) = (Wanted::Assign, draw_token()?, Life::Unseen);
//!     let _asked = desk.ask(Request::Register { resource, rank, token, data: data.into(), life }, then());
//!     assert!(matches!(told.recv()??, Answer::Registered(_)));
//! }
//! let _asked = desk.ask(Request::Wait { resource, of: Of::Own, until: None, token: None }, then());
//! let Answer::Completed(completion) = told.recv()?? else { return Err("it is not complete".into()) };
//! assert_eq!((completion.level, &completion.data[..]), (1, &b"2 5 first6 second"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! | module | contents | feature |
//! |---|---|---|
//! | [`machine`] | the service as a state machine without I/O: requests in, answers and changes out | |
//! | [`keeper`] | the service thread, and the [`Desk`] that submits requests to it | |
//! | [`store`] | the interface to persistent storage, and a file that implements it | the file: `store` |
//! | [`native`] | a service on a node of chained GPC, and its clients | |
//! | [`meeting`] | rendezvous of one job's tasks: the controlling task gathers, registers, announces the outcome | |
//! | [`bootstrap`] | makes the processes of several jobs one set of nodes | from the environment: `client` |
//! | [`variables`] | environment variables that a launcher sets for the tasks it starts | |
//! | `client`, `token` | client over HTTP | `client` |
//! | `http`, `upward` | server over HTTP, with a web page; registers complete units with parent resources | `http` |
//!
//! # Features
//!
//! By default no feature is enabled, so an embedder gets neither HTTP nor a file. The table shows what `store`,
//! `client` and `http` add; `http` enables `client`. `tls` adds HTTP over TLS on both sides.
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

/// Compiles and runs the program in the README as a test.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// Compiles and runs the programs in `docs/rendezvous.md` as tests.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../../../docs/rendezvous.md")]
pub struct Document;
