//! The chain: the state machine of a chained GPC at one id.
//!
//! Source: the ARMCI design of chained GPC (2007), "A chained GPC's propagation works in the following steps", "The
//! action for any response", "Internal implementation details", "Alternative approach" and "Exceptions".
//!
//! The chain has no socket, no thread and no clock. The driver of a [`Node`] supplies inputs and carries out outputs.
//! The runtime drives it with sockets and threads, the simulator with virtual time; the code is the same.
//!
//! The module is public for custom drivers and tools. It is exempt from semantic versioning: any release may change it,
//! except for the items that the crate root re-exports.
//!
//! # Order of use
//!
//! ```
//! use std::time::Duration;
//! use chained_gpc::chain::{Config, Input, Job, JobResult, Node, Output, Outputs, Reply, Start, Time};
//! use gpc_trees::{IdList, Tree};
//!
//! let mut node = Node::new(Config::new(0, 1));
//! let mut outputs = Outputs::new();
//! let start = Start { ids: IdList::range(0..1), ..Start::new(7) };
//! node.input(Time::from_nanos(0), Input::Start { ticket: 1, start: start.into() }, &mut outputs);
//! while let Some(output) = outputs.pop_front() {
//!     match output {
//!         Output::Run(job) => {
//!             let result = JobResult::Replied(Reply { data: b"done".to_vec(), ..Default::default() });
//!             # assert_eq!(job.request.func, 7);
//!             // A driver runs the job on a worker and returns its result as an input.
//!             # let call = job.call;
//!             node.input(Time::from_nanos(5), Input::Ran { call, result }, &mut outputs);
//!         }
//!         Output::Finished { ticket, result, .. } => assert_eq!((ticket, result.is_ok()), (1, true)),
//!         _ => unreachable!("one id has no peers"),
//!     }
//! }
//! assert_eq!(node.next_deadline(), None);
//! ```
//!
//! 1. Supply **one input** with the current time. Time never runs backwards.
//! 2. **Drain every output**: [`Outputs`] is a queue that the driver owns, one for any number of nodes. An input before
//!    that is a bug in the driver, and panics.
//! 3. Call [`Node::next_deadline`], and supply [`Input::Tick`] at that time.
//!
//! The driver sends messages to a peer in order, and supplies the messages from one link as inputs in order. When a
//! link is lost, the driver supplies [`Input::LinkLost`] before any input from a new link to the same id. When a link
//! comes up, [`Input::LinkUp`] identifies the run of the id.
//!
//! Of the inputs at one time, those of links come first and results of jobs after them. A process that was stopped must
//! learn that it was given up before it continues with the call.
//!
//! Where [`Node::passes_on`] allows it, a long reply may be supplied before its data, as
//! [`Answer::Arriving`](crate::wire::message::Answer::Arriving); [`Input::ReplyArrived`] reports that all data have
//! arrived. When a node answers with such replies, its driver sends their data as they arrive. The driver stops sending
//! when the node sends a failure for the same call, or when the call is cancelled.

mod answer_checks;
mod arrived;
mod call;
mod call_meter;
mod call_record;
mod calls;
mod child_replies;
mod completed_calls;
mod completed_partial_calls;
mod deadlines;
mod driver;
mod end;
mod failing;
mod fast_calls;
mod fast_leaf;
mod fast_path;
mod func_timer;
mod gather;
mod heartbeat;
mod involved;
mod job;
mod late;
mod leaks;
mod list_order;
mod liveness;
mod load;
mod memory;
mod node;
mod outputs;
mod partial;
mod pings;
mod plans;
mod recorder;
mod recording;
mod reply;
mod reply_limits;
mod reservation;
mod retained_answers;
mod root_replies;
mod run_queue;
mod seeded_hash;
mod setup;
mod short_replies;
mod sizes;
mod slot;
mod steps;
mod stragglers;
mod streaming;
mod streaming_replies;
mod suspects;
pub(crate) mod tickets;
mod time;
mod timeline;
mod tracing;
mod urgent_calls;

pub use crate::wire::CallState;
pub use driver::{Config, Input, Output, Start};
pub use fast_calls::{CallOrigin, FastSlot};
pub use fast_leaf::LeafAnswer;
pub use fast_path::{ChildRequest, FastResponse, FastResult, FastStart, FinishedCall};
pub use heartbeat::{Heartbeat, PAUSE_MAX};
pub use job::{FuncState, Job, JobResult, Work};
pub use node::Node;
pub use outputs::Outputs;
pub use recording::{Progress, RecordedCall, Recording};
pub use reply::Reply;
pub use retained_answers::RETENTION;
pub use root_replies::{RootParts, RootReply};
pub use short_replies::ShortAnswer;
pub use sizes::Sizes;
pub use time::Time;
pub(crate) use time::sooner;
