//! The runtime: drives the [chain](crate::chain) with sockets and threads.
//!
//! A [`Node`] is one id in this process. Its event loop (`event_loop`) owns the state of the chain and the connections
//! (`links`). Functions run on an executor, and the application sends commands through a bounded mailbox. The [root of
//! the crate](crate) re-exports the items that most programs need. Source: the ARMCI design of chained GPC (2007),
//! "Internal implementation details".

mod absent_peers;
mod access;
mod alarm;
mod announcements;
mod arrays;
mod auto_tree;
mod budget;
mod builder;
mod call;
mod call_error;
mod caller;
mod change;
mod clock;
mod command;
mod completion;
mod connect_options;
mod connection;
mod connection_setup;
mod connections;
pub mod control_group;
mod deadlines;
mod deadlock_check;
mod descriptors;
mod dispatch;
mod event_loop;
mod events;
mod executor;
mod executor_names;
mod front;
mod function_error;
mod functions;
mod functions_error;
mod greeting;
mod guard;
mod handle;
mod handles;
mod host;
mod idle_memory;
mod job;
mod leader_followers;
mod leader_jobs;
mod link_kind;
mod local;
mod loop_metrics;
mod loop_state;
mod mailbox;
mod membership;
mod membership_error;
mod membership_function;
mod memory;
mod metering;
mod metrics;
mod metrics_function;
mod names;
mod node;
mod outcome;
mod pause;
mod peer;
mod peer_events;
mod peer_wait;
mod peers;
mod placement;
mod plan;
mod polled;
mod polled_rings;
mod polling;
mod prepare;
mod quick_hash;
mod randomness;
mod readiness;
mod reading;
mod recorder;
mod recorder_function;
mod refusals;
mod replies;
mod request;
mod ring_polling;
mod row;
mod run;
mod same_host;
mod shared_state;
mod short_jobs;
mod short_requests;
mod shortage;
#[cfg(feature = "snapshot")]
mod snapshot;
mod status_table;
mod stream;
mod trace;
mod trust;
#[cfg(feature = "serde")]
mod typed;
mod users;
mod wait;
mod waiters;

pub use crate::link::Loss;
pub use crate::transport::{
    Address, AddressError, HostNetwork, HostPort, Listener, MemoryNetwork, NotDelivered, NotSent,
    large_apart, one_heap,
};
pub use crate::wire::{Job, JobError};
pub use absent_peers::AbsentPeers;
pub use access::Access;
pub use announcements::ANNOUNCED_MAX;
pub use builder::Builder;
pub use call::{Call, CallTree};
pub use call_error::{CallError, CallFailure, Deadlock};
pub use caller::{CALL_BLOCKS_MAX, Caller, Calling};
pub use events::{EVENTS_MAX, Events, NoEvent, PeerEvent, PeerEventKind};
pub use function_error::{FunctionError, FunctionResult, WithCode};
pub use functions::{Functions, Phase};
pub use functions_error::FunctionsError;
pub use handle::{CallHandle, Canceller};
pub use handles::{CallbackHandle, FuncHandle, Merges};
pub use link_kind::{LinkKind, LinkKindError, loopback};
pub use local::LocalNodes;
pub use membership_error::MembershipError;
pub use memory::request_data_max;
pub use metrics::{FunctionMetrics, Metrics, MetricsError};
pub(crate) use names::NO_ANSWER;
pub use names::{LOOK_UPS_MAX, Resolver};
pub use node::Node;
pub use outcome::{IdReply, Outcome, RepliesError, ReplyRef};
pub use peer::Peer;
pub use peers::{Peers, PeersError};
pub use placement::Placement;
pub use polled::{PolledNode, Prepared};
pub use recorder_function::RecordingError;
pub use replies::{NoReply, Replies};
pub use request::{ChildReply, Deferred, Request};
pub use row::{AddressRow, AddressRowError};
pub use stream::Streaming;
pub use trace::{Trace, TracedId};
#[cfg(feature = "serde")]
pub use typed::TypedError;
pub use wait::Wait;
