//! The runtime: drives the [chain](crate::chain) with sockets and threads.
//!
//! A [`Node`] is one id in this process. Its event loop (`event_loop`) owns the chain's state and the connections (`links`), functions run on
//! an executor, and the application talks to it through a bounded mailbox. Source: chained-gpc.md, "Internal implementation details".

mod address;
mod alarm;
mod call;
mod clock;
mod command;
mod completion;
mod descriptors;
mod due;
mod event_loop;
mod events;
mod executor;
mod functions;
mod greeting;
mod handle;
mod idle;
mod job;
pub mod link;
mod link_table;
mod links;
mod local;
mod looking;
mod mailbox;
mod meeting;
mod membership;
mod memory;
mod near;
mod newcomers;
mod node;
mod on_the_spot;
mod opening;
mod outcome;
mod peer;
mod plan;
mod quick_hash;
mod reading;
mod refusing;
mod request;
mod ring_links;
mod row;
mod shm;
mod socket;
mod stream;
mod users;
mod wait;
mod watched;

pub use address::{Address, AddressError, Peers, PeersError};
pub use call::{Call, CallTree};
pub use events::{EVENTS_MAX, Events, Loss, NoEvent, PeerEvent, PeerEventKind};
pub use functions::{
    CallbackHandle, FuncHandle, FunctionError, FunctionResult, Functions, FunctionsError, Merges, Phase,
};
pub use handle::CallHandle;
pub use local::{LinkKind, LocalNodes};
pub use meeting::AbsentPeers;
pub use membership::{MembershipError, Peer};
pub use node::{Builder, Node, PolledNode};
pub use outcome::{CallError, IdReply, Outcome, RepliesError, ReplyRef};
pub use request::{ChildReply, Deferred, Request};
pub use row::{AddressRow, AddressRowError};
pub use shm::one_heap;
pub use socket::Listener;
pub use stream::Streaming;
pub use wait::Wait;
