//! One call that executes a function on many processes: a chained global procedure call.
//!
//! # Overview
//!
//! A *chained GPC* (global procedure call) travels down a tree of processes. Every process executes the function,
//! forwards the call to its children, merges their replies into its own, and replies to its parent. So one call reaches
//! any number of processes in a few hops, and one reply comes back.
//!
//! Each process has an *id*, a [`Node`] that links with other nodes, and the [`Functions`] that calls execute there.
//! The process that makes a [`Call`] is its *root*. Any process may be the root of any number of calls, at any time.
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
//!     // Eight nodes in this process, for tests and examples.
//! let nodes = LocalNodes::start(8, LinkKind::Unix, &functions)?;
//! let outcome = nodes.root().call(Call::new(hello).ids(0..8))?.wait()?;
//! for reply in outcome.replies()? {
//!     assert_eq!(reply.data, format!("hello from {}", reply.id));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Each id executes the function before it forwards the call to its children**, unless [`Call::forward_first`] is
//! set. So an id that fails calls none below it, but the times of the function add up over the levels of the tree:
//! 100 ms take 600 ms over six levels. A call that forwards first takes little more than 100 ms, and long data stream
//! through it. The command `gpc call` forwards first by default.
//!
//! The parts of a call, each with an example of its own:
//!
//! | you want | see |
//! |---|---|
//! | a function that a call executes | [`Functions::func`], [`Request`], [`Reply`] |
//! | replies merged on the way up, in list order | [`Functions::callback`] |
//! | replies merged in the order of their arrival | [`Functions::commutative`] |
//! | arguments, results and errors with types | `Functions::typed` (feature `serde`) |
//! | sums, minima and the like of arrays of numbers | [`Functions::reduction`], [`reduce`] |
//! | one function that executes and merges | [`Functions::phased`] |
//! | a reply later, from any thread or task | [`Functions::deferring`], [`Deferred`] |
//! | its own data for each id | [`Call::scatter`] |
//! | each reply as soon as it arrives | [`CallHandle::replies`] |
//! | data processed while they arrive | [`Functions::streaming`], [`Streaming`], [`Call::forward_first`] |
//! | a value that func leaves for the callbacks of its id | [`Request::set_context`] |
//! | limits for the reply that one id writes | [`Call::reply_limits`], [`Request::reply_limits`] |
//! | the thread that runs a function | [`Placement`], [`Builder::executor`] |
//! | another tree, built in or your own | [`TreeName`], [`Tree`], [`Registered`] (a split), [`Layout`] (a table) |
//! | wait, poll, await or a callback at the end of a call | [`CallHandle`] |
//! | the replies, and the status of each id | [`Outcome`] |
//! | calls from other threads and from functions | [`Caller`] |
//! | a call whose root takes no part | [`Call::watch`] |
//!
//! # When something fails
//!
//! Every call ends. It succeeds within its time limit ([`Call::limit`], 60 s by default), or it fails, at most 1 % of
//! the limit and 100 ms after the limit. If a call fails at one id, it fails as a whole, with the first [`Cause`]. A
//! cause has the id, the [`Stage`], the [`CauseKind`] to match on, the [number](WithCode) that the function returned,
//! and a message for people. [`CallFailure`] has the status of each id, and so which ids are safe to call again.
//!
//! A [`partial`](Call::partial) call goes on without the ids that fail or are lost; the [`Outcome`] has the replies of
//! the others:
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
//! Broadcast, scatter, gather and reduce are calls, so they go on without lost ids as well:
//!
//! ```
//! use chained_gpc::reduce::{Reduction, bytes_of};
//! use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
//!
//! let functions = Functions::new();
//! let double = functions.func("double", |request, reply| {
//!     let doubled: Vec<u64> = request.numbers::<u64>()?.iter().map(|number| 2 * number).collect();
//!     reply.data = bytes_of(&doubled);
//!     Ok(())
//! })?;
//! let sum = functions.reduction(Reduction::sum::<u64>())?;
//! let mut nodes = LocalNodes::start(4, LinkKind::Unix, &functions)?;
//! drop(nodes.take(1)); // It is lost.
//! let run = |call: Call| nodes.root().call(call.ids(0..4).partial())?.wait();
//!
//! // Broadcast the same data, and gather the replies: the default.
//! let gathered = run(Call::new(double).numbers(&[21_u64]))?;
//! assert_eq!(*gathered.reply(3).expect("it is done").numbers::<u64>()?, [42]);
//! // Scatter: each id gets its own part. The ids below the lost one get theirs.
//! let parts: Vec<Vec<u8>> = (0..4_u64).map(|id| bytes_of(&[10 * id])).collect();
//! let scattered = run(Call::new(double).scatter(parts.clone()))?;
//! assert_eq!(*scattered.reply(3).expect("it is done").numbers::<u64>()?, [60]);
//! // Reduce on the way up: 0 + 40 + 60.
//! let reduced = run(Call::new(double).scatter(parts).callback(sum))?;
//! assert_eq!(*reduced.numbers::<u64>()?, [100]);
//! assert_eq!(reduced.never_reached().to_string(), "1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each id executes a call at most once, even if the tree is repaired around it. A message of which a byte has been
//! sent is never sent again. The death of a process is detected at once, silence after ten seconds ([`Heartbeat`]).
//!
//! # Several processes
//!
//! Each process makes its own [`Node`] with [`Node::builder`], registers its functions under the same names, and
//! receives the addresses of the other nodes:
//!
//! - [`Peers`] is a table of ids and addresses, with a text form, the *peers file*. [`Node::learn`] and
//!   [`Node::forget`] change it while the node runs. [`Node::events`] reports links that come up or are lost.
//! - [`Job`] names the nodes that belong together; a node rejects nodes of another job. A job guards against mistakes,
//!   and proves nothing.
//! - [`Secret`] is shared by the members of a job: over TCP, a node that [has one](Builder::secret) links only with
//!   nodes that prove that they have it, too. Without a secret, **any process that reaches a node's TCP port can call
//!   its functions**. A [key](Builder::key) proves a node's id; [`Access`] restricts the callers of a function. Over
//!   Unix sockets, on Linux, a node links only with processes of its own user, unless [`Builder::allow_users`] names
//!   others. `docs/security.md` in the repository has the rest.
//! - [`bootstrap`] reads secrets and keys from files.
//! - [`Node::wait_for_peers`] waits for processes that are still starting.
//! - [`bootstrap`] gets the id of this process and the addresses of the others from the launcher that started it (such
//!   as `mpiexec`): no file, no addresses.
//! - The crate `gpc-launch` starts processes of a program on this machine or on others, and ends them in every case.
//!
//! [`Node`] has a complete program as an example. Links are TCP, Unix sockets or shared memory: nodes of one host
//! select the fastest kind automatically ([`LinkKind`]).
//!
//! # Functions that call
//!
//! A function makes calls with [`Request::caller`]; they inherit the rest of the time limit of the call that runs the
//! function. Unless it is [inline](Placement::Inline), the function may wait for them. A wait that cannot end (on the
//! thread that drives the node, or where the call needs the very worker that waits) fails at once with
//! [`CallError::Deadlock`]. Three ways out: another [executor](Placement::Executor), a [deferred](Functions::deferring)
//! reply, or [`CallHandle::on_end`]. [`Caller`] has an example.
//!
//! # Loops of your own
//!
//! [`Node`] has a thread for its event loop. A [`PolledNode`] has none: the application drives it with
//! [`progress`](PolledNode::progress), or waits for its descriptor in an event loop of its own (`poll`, `epoll`,
//! tokio's `AsyncFd`). An application that computes for longer than ten seconds announces a
//! [`pause`](PolledNode::pause). The examples `epoll_loop` and `tokio_loop` of the repository are complete programs.
//!
//! # Platforms
//!
//! Linux. No other system is built or tested: the event loop waits with `epoll` and `timerfd`; abstract Unix sockets,
//! shared memory, descriptor passing and the check of users are Linux's. Most of those parts are kept apart by
//! `cfg(target_os)`, as a start for a port to another Unix system ([`LinkKind::DEFAULT`] is TCP there); Windows is not
//! considered.
//!
//! All nodes of a job run the same version of the protocol. Machines may differ, since integers on the wire are
//! little-endian. Minimum Rust version: 1.91.
//!
//! # Features
//!
//! `serde`: functions whose arguments, results and errors have types (`Functions::typed`, `Call::typed`,
//! `Outcome::typed`, `Cause::typed`), encoded with postcard.
//!
//! `rayon`, on by default: more than one default worker ([`Builder::workers`]). Without it, a node with more workers
//! does not start. [Named executors](Builder::executor) do not need it.
//!
//! # What is stable
//!
//! A program needs the items at the root of this crate, [`bootstrap`] and [`trees`]; [`runtime`] has rarer items of
//! the same kind. These follow semantic versioning. Sets that will grow are `#[non_exhaustive]`, and the
//! numbers of [`CauseKind`] never change their meaning. `wire`, `chain` and `link` are public for
//! custom drivers and tools (a simulator, a fuzzer, another event loop) and stand **outside the promise of semantic
//! versioning**: any release may change them. Those of their items that the root of the crate re-exports are inside the
//! promise.
//!
//! [`trees`] cuts lists into subtrees; [`wire`] defines the bytes; [`chain`] is the state machine of a call, without
//! sockets, threads or clocks; [`runtime`] drives it with sockets, the crate `gpc-sim` in virtual
//! time; [`bootstrap`] uses the runtime. An upper module uses a lower one, never the other way.
//!
//! # Sources
//!
//! The protocol is the *chained global procedure call* that was drafted in 2007 for ARMCI, a library for one-sided
//! communication; comments call it "the ARMCI design of chained GPC (2007)" and name its sections. The format of
//! aggregated replies is that of *WS Rendezvous*, the rendezvous web service of the Globus toolkit. Where this crate
//! goes beyond either, the module documents it.
//!
//! # Map of the sources
//!
//! Each section below lists one folder. If a line names several files, their descriptions follow in the same order.
//! `ARCHITECTURE.md` in the repository shows how a call runs through them.
//!
//! | folder | contents |
//! |---|---|
//! | [`trees`] | the crate `gpc-trees` |
//! | [`wire`], [`chain`], [`link`] | the protocol, without I/O |
//! | `transport` | carries the bytes of a link: TCP, Unix sockets, shared memory, the program's network |
//! | [`runtime`] | the driver with sockets and threads, and the interface for applications |
//! | [`bootstrap`] | gets the id, the addresses and the secret from a launcher |
//! | `launchers` | launchers' environment variables; `inherited` takes a descriptor by its number (`unsafe`) |
//! | `branch_hint.rs` | branch hints |
//! | `channel.rs` | a channel between threads, with little code |
//! | `clocks.rs` | the clock of services and launchers |
//! | `snapshot.rs` | what a node or a service holds, for tests |
//!
//! ## wire
//!
//! | file | for |
//! |---|---|
//! | `message`, `subtree_reply` | the messages, as plain values; the reply of a subtree |
//! | `call_context`, `reply_limits` | a value that the functions of an id share; limits for what one id writes |
//! | `failure`, `cause_kind` | failures and their causes; the kinds of causes |
//! | `coverage`, `report` | the status of each id of a subtree; with the causes of failed ids |
//! | `job` | the 16 bytes that all nodes of a job share |
//! | `frame` | frame header, kinds of frames, size limits |
//! | `head`, `prefix`, `hello` | fixed parts of frames; limits, ids, shape and header of a request; the first frame |
//! | `short` | short requests and replies: read in place, written from templates, no allocation |
//! | `call_metrics` | metrics of calls, as another thread reads them |
//! | `parts` | the data of a scatter call |
//! | `payload` | a rope of bytes: data joined from parts without copying |
//! | `body`, `body/read_range` | data that are complete or still arriving; the range that a read returns |
//! | `body/chunk`, `spare` | memory of one body, reused; memory of a long body, reused for the next one |
//! | `body/extent`, `passing` | data in sealed memory; data that a node forwards, and how far their sender may go |
//! | `streaming_reply` | a reply whose data are still arriving |
//! | `level` | level-n data: `grammar` (the one state machine), `decode`, `encode`, `error` |
//! | `budget` | memory budgets of a node and its links, for data of peers |
//! | `fields` | reads the fields of services' own messages |
//! | `span`, `trace` | durations in four bytes; the times of the ids of a subtree |
//! | `shown` | safe display of text from elsewhere |
//!
//! ## chain
//!
//! | file | for |
//! |---|---|
//! | `driver` | configuration, inputs and outputs of a node |
//! | `job`, `reply` | functions that the driver runs, and their results; a node's own reply |
//! | `reply_limits` | checks the own reply against the limits of its call |
//! | `node` | the node: takes each input and returns the outputs |
//! | `outputs`, `time` | the queue of outputs; time as the driver supplies it |
//! | `call` | state of one call, and its next step |
//! | `calls`, `slot` | calls in flight; the place of a call among them |
//! | `setup` | admits a call, or rejects it |
//! | `steps` | the steps of a call: func, forward, callback, response |
//! | `run_queue` | functions that are ready: a queue for each class of workers |
//! | `arrived`, `list_order` | replies until they are merged; those that callback merges in list order |
//! | `gather` | builds the answer when the subtree is done |
//! | `streaming`, `streaming_replies` | answers before the data have arrived; the streaming replies of one call |
//! | `failing` | failures and cancels; lost links |
//! | `deadlines`, `late` | time limits; calls whose limit has passed |
//! | `partial` | partial calls: adoption, change of parent, release |
//! | `heartbeat`, `liveness` | times of heartbeats; their state |
//! | `pings`, `suspects` | asks awaited peers, and gives up silent ones; the ids below a silent child |
//! | `answer_checks` | checks that an answer fits its request |
//! | `completed_calls`, `completed_partial_calls` | completed calls, which must not execute again |
//! | `retained_answers` | retained answers of partial calls |
//! | `load` | work that requests of peers cause, and its delay |
//! | `memory`, `reservation` | memory reservations of calls; that of one call |
//! | `involved` | the peers that calls need |
//! | `fast_path`, `fast_leaf`, `fast_calls` | the fast path, at a leaf too, and its calls in flight |
//! | `plans` | the common part of repeated calls |
//! | `short_replies`, `root_replies` | replies of a call on the fast path, at an id and at the root |
//! | `recorder`, `timeline`, `recording` | flight recorder; times of a call in flight; both as typed records |
//! | `child_replies` | replies of a root's children as they arrive |
//! | `call_meter`, `end` | counts calls for metrics; how they end |
//! | `tracing` | the trace of a call goes up with its reply |
//! | `sizes`, `leaks` | limits of what is remembered; leak checks |
//! | `seeded_hash` | hash for names that peers choose |
//!
//! ## link
//!
//! | file | for |
//! |---|---|
//! | `links`, `output` | the links of a node as a state machine; its outputs |
//! | `link_setup`, `closing` | connections become links; links end |
//! | `receiving`, `sending` | events of links; heartbeats, and forwarded long data |
//! | `deadlines`, `deadline_queue` | deadlines of connections |
//! | `state`, `table` | the protocol on one connection; the connections of a driver by their keys |
//! | `inbox`, `event` | parses bytes into events |
//! | `inbox/requests`, `inbox/responses` | requests and responses that are still arriving |
//! | `response_parsing` | complete responses |
//! | `event_handling`, `request_rejection` | events to inputs of the chain; requests that are rejected before it |
//! | `outbox`, `outbox/messages` | serializes messages into bytes; requests and responses as frames |
//! | `outbox/stream`, `outbox/unsent` | long messages in segments; requests that can go out on the next link |
//! | `send_window`, `pace`, `queue_limits` | window of replies; segment sizes; bounds for a peer that does not read |
//! | `descriptor_passing`, `ping_state` | long data by descriptor; whether a PING was sent |
//! | `pending`, `loss` | messages that wait for a link; how a link is lost |
//!
//! ## link/peering
//!
//! | file | for |
//! |---|---|
//! | `machine` | all connections that are not links yet, and the choice of links |
//! | `output` | actions for the driver, and events |
//! | `peer` | state of a peer; the choice between two connections of a pair |
//! | `greeting`, `preamble`, `piece` | one connection before it is a link; its first bytes; its frames and records |
//! | `hellos` | checks and answers hellos |
//! | `proof`, `proving` | the cryptography as an interface; the messages of a proof |
//! | `noise` | the cryptography in production |
//! | `run_conflicts`, `waiting_runs` | conflicts of two runs of an id; the connections that wait for their end |
//! | `half_open` | bounds on accepted connections |
//! | `secret`, `key` | the secret of a job; the key of a node |
//!
//! ## transport
//!
//! | file | for |
//! |---|---|
//! | `byte_stream` | what a link asks of a transport |
//! | `socket`, `listener` | a connection by any transport; what accepts them |
//! | `address` | addresses |
//! | `tcp`, `keepalive` | TCP; probes of idle connections |
//! | `sealed`, `nosignal` | encrypted TCP; writes without `SIGPIPE` |
//! | `unix` | Unix sockets |
//! | `host/network`, `port` | the program's network: the interface it implements; the port it calls |
//! | `host/inbound`, `socket` | state shared with the program; socket interface of a connection |
//! | `host/record`, `connection` | header of a message; state of a connection |
//! | `host/memory` | such a network between nodes of one process |
//! | `shm/socket`, `ring` | a Unix socket with two rings; a ring |
//! | `shm/scm_rights`, `descriptor_passing`, `extents` | sends descriptors; those of a link; sealed memory of a node |
//! | `shm/mapping` | maps shared memory (`unsafe`): `backing`, `sealed`, `trim` |
//!
//! ## runtime
//!
//! | file | for |
//! |---|---|
//! | *application* | |
//! | `builder`, `node` | settings of a node; a node |
//! | `polled`, `local` | a node that the application drives; several nodes in one process |
//! | `front` | what both kinds of node have in common |
//! | `functions`, `functions_error`, `handles` | the table of functions; its errors; handles from names |
//! | `request`, `stream`, `function_error` | arguments of functions; streaming functions; errors of functions |
//! | `arrays`, `typed` | arrays of numbers as data; arguments, results and errors with types |
//! | `metrics`, `metrics_function` | metrics and their text; the built-in function that replies with them |
//! | `placement`, `access` | where a function runs; which callers may call it |
//! | `call`, `caller`, `handle` | a call; a handle that makes calls; the call in flight |
//! | `replies` | the replies of a call as they arrive |
//! | `outcome`, `status_table`, `call_error` | results |
//! | `trace` | the times of the ids of a call, and its critical path |
//! | `row` | consecutive ids whose addresses follow a rule |
//! | `link_kind` | the kinds of links on one machine |
//! | `peer`, `peers` | another node; the peers file |
//! | `membership`, `membership_error` | learns and forgets peers; why a change is rejected |
//! | `change`, `announcements` | a change of the membership; announces it to all members |
//! | `membership_function` | the built-in function that receives announcements |
//! | `recorder`, `recorder_function` | the flight recorder; the built-in function that replies with its records |
//! | `events`, `peer_events` | links that come up or are lost; reports them to listeners |
//! | `peer_wait`, `absent_peers` | waits for peers; the error if some are not up |
//! | `trust`, `randomness`, `job` | settings of authentication; random secrets, keys and jobs |
//! | `wait`, `pause` | blocking or polling; announced pauses |
//! | *between application and event loop* | |
//! | `side`, `mailbox`, `command` | shared state; bounded queue; its commands |
//! | `snapshot` | what a node holds, for tests |
//! | `metering`, `loop_metrics` | gathers metrics; what the event loop counts |
//! | `host`, `prepare` | the node as callers and functions see it; checks a call |
//! | `completion`, `plan`, `run` | result of a call; the caller's record of it; state of a running function |
//! | `deadlock_check`, `waiters` | detects waits that cannot end; the functions that wait |
//! | *event loop* | |
//! | `event_loop`, `loop_state` | the turn; state of the loop between turns |
//! | `polling` | busy polling, yielding, blocking |
//! | `dispatch` | reads links, and executes short calls where they were read |
//! | `leader_followers`, `guard` | threads that take turns driving the loop; notices long functions |
//! | `leader_jobs` | functions that the leading thread runs outside the loop |
//! | `short_requests`, `short_jobs` | short requests that wait for the end of the turn; their state |
//! | `auto_tree` | the tree of a call that names none |
//! | `executor`, `executor_names` | runs functions on workers or inline; names of executors |
//! | `alarm`, `clock`, `budget` | timer; the only place that reads the time; bound on a turn |
//! | `idle_memory`, `memory`, `control_group` | memory that idle nodes release; memory budgets; control groups |
//! | `quick_hash` | hash for keys that no peer chooses |
//! | *links* | |
//! | `connections`, `connection` | all connections of a node, with their sockets; one of them |
//! | `connection_setup`, `connect_options` | opens and accepts connections; which kinds, with which checks |
//! | `greeting`, `names` | drives `peering`; resolves host names |
//! | `reading` | reads links, and handles their events |
//! | `readiness` | the events of a socket |
//! | `descriptors`, `shortage` | limits of file descriptors; closes idle links if they are short |
//! | `deadlines` | deadlines of connections |
//! | `refusals`, `users` | limit on logged rejections; users that a node links with |
//! | `same_host`, `ring_polling`, `polled_rings` | Unix sockets within a host; polling of rings; the polled rings |
//!
//! ## bootstrap
//!
//! | file | for |
//! |---|---|
//! | `setup`, `member`, `farewell` | the builder; a process that knows all others; what it sends when it leaves |
//! | `endpoint`, `trust` | listener and key of a process; job and secret that authenticate its links |
//! | `variables`, `source`, `sources` | the environment; a recognized launcher; detects it |
//! | `error` | errors |
//! | `space`, `pmi` | key-value space of a launcher; the same by PMI |
//! | `pmi/client`, `messages`, `process` | a session; its requests and responses; what it knows about its process |
//! | `pmi/one`, `two`, `mapping` | encodings of PMI-1 and PMI-2; whether all processes are on one host |
//! | `pmi/space`, `link` | the space of PMI; its socket |
//! | `entry`, `parts` | what a process publishes; values in parts |
//! | `exchange`, `rounds`, `table` | put, fence, get; three calls through the tree; all entries |
//! | `meeting` | an embedder's own exchange |
//! | `rule` | launchers without a space: `slurm`, `tasks`, `kubernetes`, `resolve` |
//! | `rule_bootstrap` | bootstrap by a rule |
//! | `place` | host and addresses of this process |
//! | `watch`, `root_loss` | watches the id it depends on; passes the loss of id 0 on |
//! | `host_list`, `secret_file` | `a,b[01-64]`; files with a secret, key or token |
#![deny(unsafe_code)]

pub mod bootstrap;
mod branch_hint;
pub mod chain;
#[doc(hidden)]
pub mod channel;
mod clocks;
mod launchers;
pub mod link;
pub mod reduce;
pub mod runtime;
#[cfg(feature = "snapshot")]
mod snapshot;
mod transport;
pub mod wire;

/// The bytes of requests and replies, reference-counted.
#[doc(no_inline)]
pub use bytes::Bytes;
#[doc(inline)]
pub use chain::{CallState, Heartbeat, Progress, RecordedCall, Recording, Reply};
#[doc(inline)]
pub use clocks::{Clock, TimeLimit};
/// Trees and lists of ids, a separate crate; its main items are re-exported here.
#[doc(no_inline)]
pub use gpc_trees as trees;
#[doc(inline)]
pub use gpc_trees::{
    Costs, DuplicateId, Group, Groups, Hosts, Id, IdList, Ids, IdsError, Layout, Limits, Registered, Run,
    Shape, Tree, TreeError, TreeName,
};
#[doc(inline)]
pub use link::peering::{PrivateKey, PublicKey, Secret};
#[doc(inline)]
pub use runtime::{
    AbsentPeers, Access, Address, AddressError, Builder, CALL_BLOCKS_MAX, Call, CallError, CallFailure,
    CallHandle, CallTree, CallbackHandle, Caller, Calling, ChildReply, Deadlock, Deferred, Events,
    FuncHandle, FunctionError, FunctionMetrics, FunctionResult, Functions, FunctionsError, HostNetwork,
    HostPort, IdReply, LinkKind, LinkKindError, Listener, LocalNodes, Loss, MembershipError, MemoryNetwork,
    Merges, Metrics, MetricsError, NoEvent, NoReply, Node, NotDelivered, NotSent, Outcome, Peer, PeerEvent,
    PeerEventKind, Peers, PeersError, Phase, Placement, PolledNode, Prepared, RecordingError, Replies,
    RepliesError, ReplyRef, Request, Resolver, Streaming, Trace, TracedId, Wait, WithCode,
};
#[cfg(feature = "snapshot")]
#[doc(hidden)]
pub use snapshot::Snapshot;
#[doc(inline)]
pub use wire::{
    Cause, CauseKind, Coverage, CoverageCounts, Failure, Job, JobError, ReplyLimits, Shown, Stage, Status,
    Straggler,
};

/// The programs of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
