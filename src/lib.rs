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
//! # Modules
//!
//! A program needs what stands at the root of this crate: nodes, calls, functions, and of the crate [`trees`] lists of ids, splits and layouts. [`launch`] starts and ends node processes on this machine. [`runtime`] has all of the runtime's
//! names, the rarer ones included.
//!
//! [`trees`] cuts lists into subtrees; [`wire`] says what the bytes mean; [`chain`] is the state machine of a call, without sockets, threads or clocks; [`runtime`] drives it with sockets, [`sim`] in virtual time. An upper module uses a
//! lower one, never the other way. `wire`, `chain`, `sim` and [`runtime::link`] are public for drivers and tools of their own (a simulator, a fuzzer, another event loop) and stand **outside the promise of semantic versioning**: any release may
//! change them. What of them is named at the root of the crate is inside.
#![deny(unsafe_code)]

pub mod chain;
mod hint;
pub mod launch;
pub mod runtime;
pub mod sim;
pub mod wire;

/// The bytes of requests and replies, shared and not copied.
#[doc(no_inline)]
pub use bytes::Bytes;
pub use chain::{Heartbeat, Reply};
/// Trees and lists of ids, a crate of its own; the main names of it are here, too.
#[doc(no_inline)]
pub use gpc_trees as trees;
#[doc(inline)]
pub use gpc_trees::{
    DuplicateId, Group, Groups, Id, IdList, Ids, IdsError, Layout, Limits, Registered, Run, Shape, Tree,
    TreeError, TreeName,
};
pub use runtime::{
    AbsentPeers, Address, AddressError, Builder, CALL_BLOCKS_MAX, Call, CallError, CallFailure, CallHandle,
    CallTree, CallbackHandle, Caller, Calling, ChildReply, Deadlock, Deferred, Events, FuncHandle,
    FunctionError, FunctionResult, Functions, FunctionsError, IdReply, LinkKind, LinkKindError, Listener,
    LocalNodes, Loss, MembershipError, Merges, NoEvent, Node, Outcome, Peer, PeerEvent, PeerEventKind, Peers,
    PeersError, Phase, Placement, PolledNode, Prepared, RepliesError, ReplyRef, Request, Streaming, Wait,
    WithCode,
};
pub use wire::{Cause, CauseKind, Coverage, CoverageCounts, Failure, Job, JobError, Shown, Stage, Status};

/// The programs of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
