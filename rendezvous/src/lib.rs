//! Rendezvous: tasks register their data with a resource, and each gets the data of all when everybody is there.
//!
//! ```
//! use std::sync::mpsc::channel;
//!
//! use gpc_rendezvous::keeper::draw_token;
//! use gpc_rendezvous::{Answer, Keeper, Life, Limits, Of, Request, Spec, Wanted};
//!
//! // A service without a store, which registers nothing above, and two tasks that ask it from its own process.
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
//! | module | has | feature |
//! |---|---|---|
//! | [`machine`] | the service as a state machine without I/O: requests in, answers and changes out | |
//! | [`keeper`] | the thread that a service lives on, and the [`Desk`] where it is asked | |
//! | [`store`] | what a service needs to outlive its process; the file | the file: `store` |
//! | [`native`] | a service on a node of chained GPC, and its clients | |
//! | [`meeting`] | the tasks of one job meet together: one gathers and registers, and announces what has come of it | |
//! | [`bootstrap`] | processes of several jobs become one set of nodes | from the environment: `client` |
//! | [`variables`] | what a launcher tells started tasks | |
//! | `client`, `token` | asks services over HTTP | `client` |
//! | `http`, `upward` | serves over HTTP, with a page for people; registers complete units with services above | `http` |
//!
//! # Features
//!
//! None is on by default: what an embedder gets then has neither HTTP nor a file. `store`, `client` and `http` are in the table; `http` brings `client`; `tls` has both sides speak HTTP over TLS.
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

/// The program of the README, as a test.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// The programs of the document, as tests.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../../docs/rendezvous.md")]
pub struct Document;
