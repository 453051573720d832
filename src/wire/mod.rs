//! Wire format: the messages between nodes, the frames that carry them, and level-n data.
//!
//! The format has two levels. The chain works with plain structs ([`Message`] and its parts); [`frame`] reads and
//! writes their bytes as `docs/wire.md` lays them out. This module does no I/O, never panics on bytes from a peer, and
//! never allocates memory because a length field announces data.
//!
//! The module is public for custom drivers and tools. It is exempt from semantic versioning: any release may change it,
//! except for the items that the crate root re-exports.

pub mod body;
pub mod budget;
pub mod call_context;
pub mod call_metrics;
pub mod call_state;
pub mod cause_kind;
pub mod coverage;
pub mod failure;
pub mod fields;
pub mod frame;
pub mod head;
pub mod hello;
pub mod job;
pub mod level;
pub mod message;
pub mod parts;
pub mod payload;
pub mod prefix;
pub mod reply_limits;
pub mod report;
pub mod short;
pub mod shown;
pub mod span;
pub mod straggler;
pub mod stragglers;
pub mod streaming_reply;
pub mod subtree_reply;
pub mod trace;

pub use body::{Body, BodyUse, BodyWriter};
pub use budget::{Budget, Share};
pub use call_context::CallContext;
pub use call_state::CallState;
pub use cause_kind::{CauseKind, OtherKind};
pub use coverage::{Coverage, CoverageCounts, Status};
pub use failure::{Cause, DETAIL_MAX, Failure, Reason, Stage};
pub use hello::Hello;
pub use job::{Job, JobError};
pub use message::{CallId, Message, Request, Response};
pub use parts::Parts;
pub use payload::Payload;
pub use reply_limits::ReplyLimits;
pub use report::Report;
pub use shown::Shown;
pub use span::Span;
pub use straggler::Straggler;
