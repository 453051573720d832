//! State of short requests whose default functions run outside the event loop. The thread that has read a request runs
//! its function at the end of the turn; the rest of the call is on the fast path. If the function is long, another
//! thread takes the loop, and the call continues on the general path.
//!
//! Before its function begins, the chain does not know a request. A request keeps its place in the order of its link:
//! later frames of the link that need the general path are processed after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList};

use super::deadlock_check;
use super::functions::Entry;
use super::request::Request;
use super::run::Run;
use super::shared_state::SharedState;
use crate::chain::{CallOrigin, Input, JobResult, Reply, Start, Time};
use crate::link::peering::LinkKey;
use crate::wire::short::{self, KeyBuffer, ShortRequest};
use crate::wire::{self, CallContext, CallId, Reason};

/// Maximum number of waiting requests: the credit of a peer. Further requests use the general path.
pub(super) const WAITING_MAX: usize = 256;

/// Shortest wait that is subtracted from the limit of a call that starts here. After a shorter wait, messages name the
/// limit that the caller has set.
const WAIT_MIN: Duration = Duration::from_millis(3);

/// A short request whose function is to run outside the loop.
pub(super) enum ShortSource {
    /// The frame of a parent's request.
    Frame { came: Time, key: LinkKey, parent: Id, bytes: Box<[u8]> },
    /// A call of the application that does not only watch.
    Start { came: Time, ticket: u64, start: Box<Start>, data: Bytes },
}

/// A short request whose function runs outside the loop.
pub(super) struct ShortJob {
    pub(super) source: ShortSource,
    pub(super) call: CallId,
    /// This id and the ids below it.
    pub(super) ids: IdList,
    /// Whether this id is a leaf of a parent's call.
    pub(super) alone: bool,
    pub(super) entry: Entry,
    pub(super) run: Arc<Run>,
    pub(super) begun: Time,
}

/// The result of a function that has run outside the loop.
pub(super) struct ShortRan {
    pub(super) job: Arc<ShortJob>,
    pub(super) own: Reply,
    pub(super) result: Result<(), Box<Reason>>,
}

/// The short requests of a loop whose functions run outside it.
#[derive(Default)]
pub(super) struct ShortJobs {
    pub(super) waiting: VecDeque<ShortSource>,
    /// The request whose function is running, while another thread may take the loop.
    pub(super) running: Option<Arc<ShortJob>>,
    /// Whether a function has run since the last turn: other work is due before the next function.
    pub(super) has_run: bool,
}

impl ShortSource {
    /// Subtracts the wait until now from the time limit.
    pub(super) fn waited_until(&mut self, now: Time) {
        match self {
            ShortSource::Frame { came, bytes, .. } => {
                short::delay(bytes, now.since(*came));
                *came = now;
            }
            ShortSource::Start { came, start, .. } if now.since(*came) >= WAIT_MIN => {
                start.limit = start.limit.saturating_sub(now.since(*came));
                *came = now;
            }
            ShortSource::Start { .. } => {}
        }
    }

    pub(super) fn origin(&self) -> CallOrigin {
        match self {
            ShortSource::Frame { parent, .. } => CallOrigin::Parent(*parent),
            ShortSource::Start { ticket, .. } => CallOrigin::Application { ticket: *ticket, watch: false },
        }
    }

    /// Returns the request with this name; `room` receives the bytes of its key.
    pub(super) fn short<'a>(&'a self, call: CallId, room: &'a mut KeyBuffer) -> Option<ShortRequest<'a>> {
        match self {
            ShortSource::Frame { bytes, .. } => ShortRequest::parse(bytes).map(|(request, _)| request),
            ShortSource::Start { start, data, .. } => start.short(call, data, room),
        }
    }
}

impl ShortJob {
    /// Runs the function.
    pub(super) fn run(self: Arc<ShortJob>, shared: &Arc<SharedState>, mut own: Reply) -> ShortRan {
        let (mut room, context) = (KeyBuffer::default(), CallContext::default());
        let parent = match self.source.origin() {
            CallOrigin::Parent(parent) => Some(parent),
            CallOrigin::Application { .. } => None,
        };
        let name = Some(self.entry.name.clone());
        let result = deadlock_check::as_function(shared.clone(), 0, self.call, name, || {
            // Parsed before, so it is valid.
            let Some(short) = self.source.short(self.call, &mut room) else { return Ok(()) };
            let of = &short.particulars;
            let request = Request::short(&**shared, parent, (&short.plan, of), (&self.ids, &context));
            let until = self.begun.plus(Duration::from_micros(of.limit));
            self.entry.answer(&request.for_leader(&self.run, until), &mut own)
        });
        drop(context);
        ShortRan { job: self, own, result }
    }

    /// Returns the request in the form of the general path.
    pub(super) fn request(&self) -> Option<wire::Request> {
        let mut room = KeyBuffer::default();
        let short = self.source.short(self.call, &mut room)?;
        short.particulars.request(&short.plan, self.ids.clone())
    }
}

impl ShortRan {
    /// Returns the result as an input of the general path.
    pub(super) fn into_input(self) -> Input {
        let result = match self.result {
            Ok(()) => JobResult::Replied(self.own),
            Err(reason) => JobResult::Failed(reason),
        };
        Input::Ran { call: self.job.call, result }
    }
}
