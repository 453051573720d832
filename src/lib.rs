//! Call a function on many processes with one call.
//!
//! # Overview
//!
//! A *chained GPC* travels down a tree of processes. Every process executes the function, forwards the call to its children, merges their replies
//! into its own, and answers its parent; so one call reaches any number of processes in a few hops, and one reply comes back.
//!
//! # Usage
//!
//! ```
//! use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
//!
//! let functions = Functions::new();
//! let hello = functions.func("hello", |request, reply| {
//!     reply.data = format!("hello from {}", request.me()).into_bytes();
//!     Ok(())
//! })?;
//! let nodes = LocalNodes::start(8, LinkKind::Unix, &functions)?;
//! let outcome = nodes.root().call(Call::new(hello).ids(0..8))?.wait()?;
//! for reply in outcome.replies()? {
//!     assert_eq!(reply.data, format!("hello from {}", reply.id));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Here eight nodes live in one process. Across processes each makes its own [`Node`] with [`Node::builder`], and registers its functions under the same names.
//!
//! # Floors
//!
//! [`gpc_trees`] cuts lists into subtrees; [`wire`] says what the bytes mean; [`chain`] is the state machine of a call, without sockets, threads or clocks; [`runtime`] drives it with sockets, [`sim`] in virtual time. An upper floor uses a
//! lower one, never the other way.
#![deny(unsafe_code)]

pub mod chain;
#[cfg(feature = "cli")]
pub mod cli;
mod hint;
pub mod runtime;
pub mod sim;
pub mod wire;

pub use chain::{Heartbeat, Reply};
pub use gpc_trees::{Id, IdList, Layout, Tree};
pub use runtime::{
    AbsentPeers, Address, Call, CallError, CallHandle, ChildReply, Deferred, Events, FuncHandle,
    FunctionError, FunctionResult, Functions, FunctionsError, LinkKind, Listener, LocalNodes, Loss,
    MembershipError, NoEvent, Node, Outcome, Peer, PeerEvent, PeerEventKind, Peers, Phase, PolledNode,
    Request, Streaming, Wait,
};
pub use wire::{Cause, Coverage, Failure, Job, JobError, Shown, Stage};

/// The programs of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
