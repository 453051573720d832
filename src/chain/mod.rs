//! The chain: the state machine of a chained GPC at one id.
//!
//! Source: the ARMCI design of chained GPC (2007), "A chained GPC's propagation works in the following steps", "The action for any response", "Internal
//! implementation details", "Alternative approach" and "Exceptions".
//!
//! No socket, no thread, no clock: whoever drives a [`Node`] brings in what happened and carries out what it asks for. The runtime
//! drives it with sockets and threads, a simulator with virtual time; the code is the same.
//!
//! Public for drivers and tools of their own, and outside the promise of semantic versioning: any release may change it, but for what stands at the root of the crate.
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
//!             // A driver runs the job somewhere and brings its result back as an input; here it is kept for a moment.
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
//! 1. Give **one input** with the current time. Time never runs backwards.
//! 2. **Drain every output**: [`Outputs`] are a queue that the driver owns, one for any number of nodes. The next input before that is a bug in the driver, and panics.
//! 3. Ask [`Node::next_deadline`], and give [`Input::Tick`] when that time has come.
//!
//! A message for a peer is handed over in order; what a peer sends on one link must come in as inputs in order. When a link is lost, the driver
//! says so with [`Input::LinkLost`] before anything that comes from a new link to the same id; and of a new one, which run of the id it is with, with [`Input::LinkUp`]. Of what has come by the same time, links come first and results of jobs after
//! them: a process that was stopped must hear that it was given up before it goes on with the call.
//!
//! A long reply may come before its data have, as [`Answer::Arriving`](crate::wire::message::Answer::Arriving), where [`Node::passes_on`] says so; [`Input::ReplyArrived`] says when they are all there. What a node answers with
//! such replies, its driver sends as they come, and stops sending when it is given a failure to send to the same call, or is cancelled.

mod alone;
mod arrived;
mod call;
mod calls;
mod deadlines;
mod driver;
mod failing;
mod few;
mod gather;
mod holding;
mod involved;
mod kept;
mod late;
mod lies;
mod list_order;
mod liveness;
mod load;
mod node;
mod outputs;
mod partial;
mod plans;
mod recent;
mod recent_partial;
mod rested;
mod rising;
mod root_replies;
mod runs;
mod seeded_hash;
mod setup;
mod short_replies;
mod sizes;
mod slot;
mod spot;
mod spots;
mod steps;
mod strays;
mod suspects;
mod time;
mod waiting;

pub use alone::OwnAnswer;
pub use driver::{Config, Input, Job, JobResult, Output, Reply, Start, Taken, Work};
pub(crate) use kept::KEEP;
pub use liveness::{Heartbeat, PAUSE_MAX};
pub use node::Node;
pub use outputs::Outputs;
pub use rested::{Rested, Turn};
pub use root_replies::{RootParts, RootReply};
pub(crate) use seeded_hash::{Seeded, SeededMap};
pub use short_replies::ShortAnswer;
pub use sizes::Sizes;
pub use spot::{Begun, Ended, Heard, Ran, ToChild};
pub use spots::{Asker, Place};
pub use time::Time;
pub(crate) use time::sooner;
