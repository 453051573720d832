//! What nodes say to each other: messages, frames, level-n data.
//!
//! Two levels, as is good custom for wire formats: plain structs ([`Message`] and its parts) that the chain works with, and
//! [`frame`], which reads and writes their bytes as `docs/wire.md` lays them out. Nothing here does I/O; nothing here
//! panics on bytes from a peer, and no memory is taken on the word of a length field.
//!
//! Public for drivers and tools of their own, and outside the promise of semantic versioning: any release may change it, but for what stands at the root of the crate.

pub mod body;
pub mod budget;
pub mod cause_kind;
pub mod coverage;
pub mod failure;
pub mod fields;
pub mod flow;
pub mod frame;
pub mod head;
pub mod hello;
pub mod job;
pub mod level;
pub mod message;
pub mod payload;
pub mod prefix;
pub mod report;
pub mod short;
pub mod shown;

pub use body::{Body, BodyWriter, Use};
pub use budget::{Budget, Share};
pub use cause_kind::{CauseKind, OtherKind};
pub use coverage::{Coverage, CoverageCounts, Status};
pub use failure::{Cause, Failure, Reason, Stage};
pub use hello::Hello;
pub use job::{Job, JobError};
pub use message::{CallId, Message, Request, Response};
pub use payload::Payload;
pub use report::Report;
pub use shown::Shown;
