//! Short requests of default functions: the thread that has read one runs the function at the end of its turn, outside
//! the loop, and the rest of the call is on the fast path. If the function is long, another thread takes the loop, and
//! the call goes on along the general path.
//!
//! Until its function begins, a request has not reached the chain. It keeps its place in the order of its link: what
//! comes behind it on the link and is not on the fast path is read after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Id, IdList};

use super::functions::Entry;
use super::request::Request;
use super::run::Run;
use super::side::Side;
use super::waiting;
use crate::chain::{Asker, Input, JobResult, Reply, Start, Time};
use crate::link::peering::LinkKey;
use crate::wire::short::{self, ShortRequest};
use crate::wire::{self, CallContext, CallId, Reason};

/// Most requests that wait: as many as a peer has credit for. Further ones take the general path.
pub(super) const WAITING_MAX: usize = 256;

/// Shortest wait that shortens the time limit of a call that starts here. After a shorter one, messages name the limit
/// that the caller has set.
const WAIT_MIN: Duration = Duration::from_millis(3);

/// A short request whose function is to run outside the loop.
pub(super) enum ShortSource {
    /// The frame of a parent's request.
    Frame { came: Time, key: LinkKey, parent: Id, bytes: Box<[u8]> },
    /// A call of the application, which does not only watch.
    Start { came: Time, ticket: u64, start: Box<Start>, data: Bytes },
}

/// A short request whose function runs outside the loop.
pub(super) struct ShortJob {
    pub(super) source: ShortSource,
    pub(super) call: CallId,
    /// This id and those below it.
    pub(super) ids: IdList,
    /// Whether a parent has sent it to this id alone.
    pub(super) alone: bool,
    pub(super) entry: Entry,
    pub(super) run: Arc<Run>,
    pub(super) begun: Time,
}

/// A function has run outside the loop.
pub(super) struct ShortRan {
    pub(super) job: Arc<ShortJob>,
    pub(super) own: Reply,
    pub(super) result: Result<(), Box<Reason>>,
}

/// The short requests of a loop whose functions run outside it.
#[derive(Default)]
pub(super) struct ShortJobs {
    pub(super) waiting: VecDeque<ShortSource>,
    /// The one whose function runs, while the loop may be taken.
    pub(super) running: Option<Arc<ShortJob>>,
    /// Whether a function has run since the last turn: others have theirs before the next function.
    pub(super) has_run: bool,
}

impl ShortSource {
    /// It has waited until now: so much less is left of its time limit.
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

    pub(super) fn asker(&self) -> Asker {
        match self {
            ShortSource::Frame { parent, .. } => Asker::Parent(*parent),
            ShortSource::Start { ticket, .. } => Asker::Here { ticket: *ticket, watch: false },
        }
    }

    /// The request of the call with this name; `room` is for the bytes of its ids.
    pub(super) fn short<'a>(&'a self, call: CallId, room: &'a mut Vec<u8>) -> Option<ShortRequest<'a>> {
        match self {
            ShortSource::Frame { bytes, .. } => ShortRequest::parse(bytes).map(|(request, _)| request),
            ShortSource::Start { start, data, .. } => start.short(call, data, room),
        }
    }
}

impl ShortJob {
    /// Runs the function.
    pub(super) fn run(self: Arc<ShortJob>, side: &Arc<Side>, mut own: Reply) -> ShortRan {
        let (mut room, context) = (Vec::new(), CallContext::default());
        let parent = match self.source.asker() {
            Asker::Parent(parent) => Some(parent),
            Asker::Here { .. } => None,
        };
        let name = Some(self.entry.name.clone());
        let result = waiting::running(side.clone(), 0, self.call, name, || {
            // It was read before.
            let Some(short) = self.source.short(self.call, &mut room) else { return Ok(()) };
            let of = &short.particulars;
            let request = Request::short(&**side, parent, (&short.plan, of), (&self.ids, &context));
            let until = self.begun.plus(Duration::from_micros(of.limit));
            self.entry.answer(&request.outside(&self.run, until), &mut own)
        });
        drop(context);
        ShortRan { job: self, own, result }
    }

    /// The request as the general path has it.
    pub(super) fn request(&self) -> Option<wire::Request> {
        let mut room = Vec::new();
        let short = self.source.short(self.call, &mut room)?;
        short.particulars.request(&short.plan, self.ids.clone())
    }
}

impl ShortRan {
    /// The same as an input of the general path.
    pub(super) fn into_input(self) -> Input {
        let result = match self.result {
            Ok(()) => JobResult::Replied(self.own),
            Err(reason) => JobResult::Failed(reason),
        };
        Input::Ran { call: self.job.call, result }
    }
}
