//! Call a function on many processes with one call.
//!
//! # Overview
//!
//! A *chained GPC* (global procedure call) travels down a tree of processes. Every process executes the function, forwards the call to its children, merges their replies into its own, and answers its parent. So one call reaches any number of
//! processes in a few hops, and one reply comes back.
//!
//! Each process has an *id*, a [`Node`] that links with others, and the [`Functions`] that may be called there. The process that makes a [`Call`] is its *root*; any process may be a root, at any time, of any number of calls.
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
//! // Eight nodes in this process, for tests and examples.
//! let nodes = LocalNodes::start(8, LinkKind::Unix, &functions)?;
//! let outcome = nodes.root().call(Call::new(hello).ids(0..8))?.wait()?;
//! for reply in outcome.replies()? {
//!     assert_eq!(reply.data, format!("hello from {}", reply.id));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The parts of a call, each with an example of its own:
//!
//! | you want | see |
//! |---|---|
//! | a function that executes | [`Functions::func`], [`Request`], [`Reply`] |
//! | replies merged on the way up, in the order of the list | [`Functions::callback`]; [`Functions::commutative`] where the order does not matter; [`Functions::phased`] for one function that does both |
//! | a reply later, from any thread or task | [`Functions::deferring`], [`Deferred`] |
//! | data taken as they arrive, and forwarded meanwhile | [`Functions::streaming`], [`Streaming`], [`Call::forward_first`] |
//! | to say where a function runs | [`Placement`], [`Builder::executor`] |
//! | another tree, or one of your own | [`Tree`], [`Registered`] (a split), [`Layout`] (children, parents or a file) |
//! | to wait, poll, await or go on when a call ends | [`CallHandle`] |
//! | the replies, and what became of each id | [`Outcome`] |
//! | calls from other threads and from functions | [`Caller`] |
//! | to call without taking part | [`Call::watch`] |
//!
//! # When something fails
//!
//! Every call ends: it succeeds within its time limit ([`Call::limit`], 60 s by default), or it fails, at most 1 % of the limit and 100 ms after it. A call that fails at one id fails as a whole, with the first [`Cause`]: which id, at which [`Stage`], what [`CauseKind`] to match on, the number that the function
//! [gave](WithCode), and a message for people. [`CallFailure`] tells what became of each id, and so which are safe to call again.
//!
//! A call that is [`partial`](Call::partial) goes on without ids that fail or are lost; the [`Outcome`] has the replies of the others:
//!
//! ```
//! use chained_gpc::{Call, CauseKind, Functions, LinkKind, LocalNodes, Status};
//!
//! let functions = Functions::new();
//! let id = functions.func("id", |request, reply| {
//!     reply.data = vec![request.me() as u8];
//!     Ok(())
//! })?;
//! let mut nodes = LocalNodes::start(7, LinkKind::Unix, &functions)?;
//! drop(nodes.take(1)); // Its children, 2 and 3, are adopted by id 0.
//!
//! let error = nodes.root().call(Call::new(id).ids(0..7))?.wait().unwrap_err();
//! assert_eq!(error.cause().map(|cause| cause.id), Some(1));
//!
//! let outcome = nodes.root().call(Call::new(id).ids(0..7).partial())?.wait()?;
//! assert_eq!(outcome.done().to_string(), "0,2-6");
//! assert_eq!(outcome.status(1), Some(Status::Unreached));
//! assert_eq!(outcome.cause(1).map(|cause| cause.kind), Some(CauseKind::Unreachable));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each id executes a call at most once, whatever is repaired around it, and nothing of which a byte has left is sent again. A process that dies is noticed at once, one that is silent after ten seconds ([`Heartbeat`]).
//!
//! # Several processes
//!
//! Each process makes its own [`Node`] with [`Node::builder`], registers its functions under the same names, and is told where the others listen:
//!
//! - [`Peers`] is a table of ids and addresses, with a text form, the *peers file*. [`Node::learn`] and [`Node::forget`] change it while the node runs, and [`Node::events`] tells of links that come up and are lost.
//! - [`Job`] names the nodes that belong together; those of another job are refused. It guards against mistakes, and proves nothing.
//! - [`Secret`] is what the members of a job have in common: over TCP a node that [has one](Builder::secret) links with those alone that prove that they have it, too. Without one, **whoever reaches a node's TCP port can call its functions**. A [key](Builder::key)
//!   proves which id a node is; [`Access`] says who may call a function. Over Unix sockets, on Linux, nodes link with processes of their own user only, unless [`Builder::allow_users`] names others. `docs/security.md` in the repository has the rest.
//! - [`bootstrap`] reads secrets and keys from files.
//! - [`Node::wait_for_peers`] waits for processes that are still starting.
//! - [`bootstrap`] asks the launcher that has started the process (such as `mpiexec`) who it is, and gets it to know the others: no file, no addresses.
//! - [`launch`] starts processes of a program on this machine, and ends them whatever happens.
//!
//! [`Node`] has a whole program. Links are TCP, Unix sockets or shared memory: nodes of one host find the fastest by themselves ([`LinkKind`]).
//!
//! # Functions that call
//!
//! A function makes calls with [`Request::caller`]; they inherit what is left of the time limit of the call that is being served. It may wait for them on a worker; a wait that cannot end (on the thread that drives the node, or where the call needs
//! the very worker that waits) is an error at once, [`CallError::Deadlock`]. Three ways out: another [executor](Placement::Executor), a [deferred](Functions::deferring) reply, or [`CallHandle::on_end`]. [`Caller`] has an example.
//!
//! # Loops of your own
//!
//! [`Node`] has a thread for its event loop. A [`PolledNode`] has none: the application drives it with [`progress`](PolledNode::progress), or waits for its descriptor in a loop of its own (`poll`, `epoll`, tokio's `AsyncFd`). An application that
//! computes for longer than ten seconds announces a [`pause`](PolledNode::pause). The examples `epoll_loop` and `tokio_loop` of the repository are whole programs.
//!
//! # Platforms
//!
//! Linux. Nothing else is built or tested: the event loop waits by `epoll` and `timerfd`, and abstract Unix sockets, shared memory, data by descriptor and the check of users are Linux's. Most of those parts are
//! kept apart by `cfg(target_os)`, as a start for a port to another Unix system ([`LinkKind::DEFAULT`] is TCP there); Windows is not considered.
//!
//! All nodes of a job run the same version of the protocol; machines may differ, since integers on the wire are little-endian. Minimum Rust version: 1.91.
//!
//! # Features
//!
//! `rayon`, on by default: more than one default worker ([`Builder::workers`]). Without it a node that asks for more does not start. [Named executors](Builder::executor) do not need it.
//!
//! # What is stable
//!
//! A program needs what stands at the root of this crate, [`bootstrap`], [`launch`] and [`trees`]; [`runtime`] has the rarer names of the same things. These follow semantic versioning, sets that will grow are `#[non_exhaustive]`, and the numbers of [`CauseKind`] never
//! change their meaning. `wire`, `chain`, `sim` and [`runtime::link`] are public for drivers and tools of their own (a simulator, a fuzzer, another event loop) and stand **outside the promise of semantic versioning**: any release may change them. What of
//! them is named at the root of the crate is inside.
//!
//! [`trees`] cuts lists into subtrees; [`wire`] says what the bytes mean; [`chain`] is the state machine of a call, without sockets, threads or clocks; [`runtime`] drives it with sockets, [`sim`] in virtual time; [`launch`] and [`bootstrap`] use the runtime. An upper
//! module uses a lower one, never the other way.
//!
//! # Sources
//!
//! The protocol is the *chained global procedure call* that was drafted in 2007 for ARMCI, a library for one-sided communication; comments call it "the ARMCI design of chained GPC (2007)" and name its sections. The format in which replies are
//! aggregated is that of *WS Rendezvous*, the rendezvous web service of the Globus toolkit. Where this crate goes beyond either, the module says so.
#![deny(unsafe_code)]

pub mod bootstrap;
pub mod chain;
mod hint;
pub mod launch;
mod launchers;
pub mod peering;
pub mod runtime;
pub mod sim;
pub mod wire;

/// The bytes of requests and replies, shared and not copied.
#[doc(no_inline)]
pub use bytes::Bytes;
#[doc(inline)]
pub use chain::{Heartbeat, Reply};
/// Trees and lists of ids, a crate of its own; the main names of it are here, too.
#[doc(no_inline)]
pub use gpc_trees as trees;
#[doc(inline)]
pub use gpc_trees::{
    DuplicateId, Group, Groups, Id, IdList, Ids, IdsError, Layout, Limits, Registered, Run, Shape, Tree,
    TreeError, TreeName,
};
#[doc(inline)]
pub use peering::{PrivateKey, PublicKey, Secret};
#[doc(inline)]
pub use runtime::{
    AbsentPeers, Access, Address, AddressError, Builder, CALL_BLOCKS_MAX, Call, CallError, CallFailure,
    CallHandle, CallTree, CallbackHandle, Caller, Calling, ChildReply, Deadlock, Deferred, Events,
    FuncHandle, FunctionError, FunctionResult, Functions, FunctionsError, IdReply, LinkKind, LinkKindError,
    Listener, LocalNodes, Loss, MembershipError, Merges, NoEvent, Node, Outcome, Peer, PeerEvent,
    PeerEventKind, Peers, PeersError, Phase, Placement, PolledNode, Prepared, RepliesError, ReplyRef,
    Request, Resolver, Streaming, Wait, WithCode,
};
#[doc(inline)]
pub use wire::{Cause, CauseKind, Coverage, CoverageCounts, Failure, Job, JobError, Shown, Stage, Status};

/// The programs of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
