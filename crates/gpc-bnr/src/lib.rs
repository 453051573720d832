//! BNR: process groups, databases in a domain, fence, spawn and kill.
//!
//! A *domain* is a set of nodes, one for each host. The *head* is the node that begins the domain; when the head ends,
//! the domain ends. Each node starts processes and answers their requests. Nodes reach each other by chained calls.
//!
//! # Map of the sources
//!
//! If a line names several files, their descriptions follow in the same order.
//!
//! | module | contents |
//! |---|---|
//! | [`names`], `roster`, `spec` | groups, ranks, sets; groups as lists; processes to start, and their placement |
//! | `exit`, `fault`, `start_error` | ends of processes; refused requests; failed starts |
//! | `limits` | bounds of a domain |
//! | [`request`], [`order`] | requests of a process to its node; messages between nodes |
//! | [`codec`] | the encoding of both: `types`, `frames`, `bytes` |
//! | [`protocol`], [`native`], [`pmi`] | a node's side of a connection: detects the protocol; own frames; PMI |
//! | `protocol_output` | outputs of a connection, in any protocol |
//! | [`domain`] | one node of a domain as a state machine without I/O |
//! | [`host`] | one node of a domain on sockets: the driver of [`domain`] |
//! | `causes` | outcomes of chained calls as reports and faults |
//! | [`supervisor`] | a process that starts a host's processes and ends everything they leave behind |
//! | `pmix` | translates the upcalls of a PMIx server to requests |
//! | `open_mpi` | detects programs of Open MPI, which need a PMIx server |
//! | [`streams`] | output of processes, in pieces, on its way to the head |
//! | [`client`] | the interface of a process, and of commands |
//! | `sim` | worlds of domains in virtual time (feature `sim`) |
//!
//! ## domain
//!
//! | file | for |
//! |---|---|
//! | `events` | inputs and outputs of the state machine |
//! | `requests`, `calls` | requests of clients, and orders that wait; calls to other nodes |
//! | `pending`, `outgoing`, `timers` | unanswered requests and orders; calls and their purposes; timers |
//! | `meeting`, `coordinator`, `missing` | collective requests at members' nodes; at the coordinator; missing members |
//! | `collective`, `epochs`, `sets` | state of collective requests; their counters; members of a set |
//! | `groups`, `group` | open, start and kill groups at the head; the state of a group there |
//! | `derived`, `colors` | groups made of members of others; the groups of a split |
//! | `head_requests`, `head`, `ids` | other requests at the head; its state; groups that must not be started any more |
//! | `database`, `mapping` | copies of databases; `PMI_process_mapping` |
//! | `names`, `awaited_names` | databases and global names at the head; requests that wait for names |
//! | `spawned`, `placement`, `soft` | checks of spawns; ranks to nodes; the info key `soft` |
//! | `starting`, `local` | processes of a node: start and end; their state |
//! | `deaths`, `known_deaths` | effects and notices of deaths; the known ones |
//! | `watch`, `life` | begin, watch and end of a domain; their state |
//! | `fetch` | data, layouts and host names for the PMIx servers of the nodes |
//! | `overview`, `held` | queries over all groups and nodes; what a node holds, for tests |
//! | `faults`, `errno` | common faults; error numbers of starts |
//!
//! ## host
//!
//! | file | for |
//! |---|---|
//! | `begin`, `settings`, `events` | threads of a domain; parameters of its head; events for the application |
//! | `engine`, `effects`, `mailbox` | the event loop; carries out the outputs of the state machine; its queue |
//! | `sources`, `owner`, `orders` | watched descriptors; the application's requests; unanswered orders |
//! | `listeners`, `connections`, `peer` | listeners; connections; the user at the other end |
//! | `links`, `clients`, `unread` | all connections; one connection; bounds on answers that are not read |
//! | `processes`, `local`, `supervisor` | descriptors and environment of processes; those here; their supervisor |
//! | `programs` | programs that were sent to this node |
//! | `stdio`, `input`, `outflow` | standard input and output; input; output to the head |
//! | `calls`, `serving`, `shared` | chained calls; a node in the domains of others; the state of all its domains |
//! | `queries`, `snapshot` | commands that ask through a node; what a node holds, for tests |
//! | `private` | files of programs that only their owner can read |
//! | `pmix`, `pmix_state`, `helper` | the PMIx server of a node: its groups; its state; its process |
//! | `mpi`, `foreign` | what programs need; detects processes that lack a PMIx server |
//!
//! ## supervisor
//!
//! | file | for |
//! |---|---|
//! | `process`, `orders`, `codec` | the supervisor process; its orders and events; their encoding |
//! | `handle`, `connection`, `passing` | the node's side; its queue of orders; bytes and descriptors over the socket |
//! | `lookup`, `inspect`, `elf` | search of `PATH`; checks of a program; its libraries |
//! | `need`, `own_pmix` | a program's need of PMIx; its libpmix |
//! | `start`, `spawn`, `cores` | starts one process; `posix_spawn` (`unsafe`); binding to cores |
//! | `groups`, `killing`, `tree`, `cgroup` | processes of groups; their kill; descendants; control groups |
//! | `system` | what `groups` asks of the operating system |
//!
//! ## client, pmi, pmix, streams, sim
//!
//! | file | for |
//! |---|---|
//! | `client/process`, `tool`, `link` | a process of a group; a command; the connection of both |
//! | `client/puts`, `notices`, `snapshot` | unanswered puts; subscriptions to deaths; contents of a database |
//! | `client/answers`, `error` | answers as return values; errors |
//! | `pmi/one`, `text`, `two`, `message` | PMI-1, and its lines; PMI-2, and its messages |
//! | `pmi/step` | results of requests in both versions |
//! | `pmi/spawn`, `barrier`, `attributes` | spawns; groups of PMI-1.2 barriers; node attributes of PMI-2 |
//! | `pmix/jobs`, `names` | groups as jobs of PMIx, before they start; names of processes |
//! | `pmix/collective`, `publishing`, `spawning` | fences and connects; publish and lookup; spawn and kill |
//! | `pmix/known`, `pending` | groups that the server knows; upcalls that are not answered yet |
//! | `pmix/directives`, `status` | keys with a meaning; status numbers |
//! | `streams/splitter`, `batch` | bytes to pieces that end with a line; several pieces in one call |
//! | `sim/world`, `events`, `time` | a world, which handles events in order; the events; its time |
//! | `sim/node`, `driver`, `network` | a chain with a domain above it; inputs and outputs of both; links |
//! | `sim/processes`, `programs` | processes, and what they request |
//! | `sim/faults`, `inject`, `lasting` | kinds of faults; their injection; faults that last for a while |
//! | `sim/config`, `scenario` | parameters of a world; a kind of [worlds](gpc_sim::worlds) |
//! | `sim/check`, `seen`, `counts` | rules for observations; an observation from outside; counts of observations |
//! | `sim/record`, `totals` | the history, trace and hash of a run; its totals |
//!
//! Source: BNR, "Classic Groups", "Thoughts from David and Brian", "Thoughts about BNR Domains".
#![deny(unsafe_code)]

mod causes;
pub mod client;
pub mod codec;
pub mod domain;
mod exit;
mod fault;
pub mod host;
mod limits;
pub mod names;
pub mod native;
mod open_mpi;
pub mod order;
pub mod pmi;
mod pmix;
pub mod protocol;
mod protocol_output;
pub mod request;
mod roster;
#[cfg(feature = "sim")]
pub mod sim;
mod spec;
mod start_error;
pub mod streams;
pub mod supervisor;

pub use exit::{Death, Exit};
pub use fault::{Fault, FaultKind};
pub use limits::Limits;
pub use roster::{Roster, Span};
pub use spec::{Block, LEFT_OUT, Layout, Mpi, OnDeath, PmixHost, PmixNeed, PmixPlan, Readers, Spec};
pub use start_error::{StartError, StartFailure};
