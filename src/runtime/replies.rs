//! The replies of a call as they arrive at its root: see [`CallHandle::replies`].

use std::collections::VecDeque;
use std::task::{Context, Poll};
use std::time::Duration;

use gpc_trees::sorting::sort_by_key;
use gpc_trees::{Group, Id};

use super::call_error::CallError;
use super::completion::{CallEnd, NextReply, SubtreeAnswer, Success};
use super::handle::{CallHandle, Canceller};
use super::outcome::{IdReply, Outcome};
use super::plan::Plan;
use crate::Clock;
use crate::chain::RootReply;
use crate::wire::{Cause, Status};

/// An id that has no reply, in a [partial](super::Call::partial) call.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("id {id} has no reply: {}", self.reason())]
pub struct NoReply {
    /// The id.
    pub id: Id,
    /// Its state.
    pub status: Status,
    /// Why it has no reply, if that is known.
    pub cause: Option<Cause>,
}

impl NoReply {
    fn reason(&self) -> String {
        match (&self.cause, self.status) {
            (Some(cause), _) => cause.to_string(),
            (None, Status::Unreached) => "it was not sent the request".into(),
            (None, Status::Failed) => "it failed".into(),
            (None, Status::Unknown | Status::Done) => "whether it executed is unknown".into(),
        }
    }
}

/// The replies of a call, each as soon as its root has it: see [`CallHandle::replies`].
///
/// Each id of the call is returned once: with its reply, or in a partial call as lost. The replies below a child of the
/// root arrive together, when that child has answered; the root's own reply is the last one. With a callback there is
/// one reply, as in [`Outcome::replies`]. If the call fails, its replies end, and the [handle](Self::into_handle) has
/// the error. Dropping this value cancels the call.
///
/// At most one answer of each child is queued, and its bytes are shared with the outcome.
#[derive(Debug)]
#[must_use = "dropping the replies cancels their call"]
pub struct Replies {
    handle: CallHandle,
    /// Replies that have arrived and have not been returned.
    ready: VecDeque<Result<IdReply, NoReply>>,
    /// The places whose ids have been returned, or are ready.
    known: Vec<Group>,
    has_ended: bool,
}

impl CallHandle {
    /// Returns the replies as they arrive: those below each child of the root when that child has answered, so with
    /// [`Tree::Flat`](gpc_trees::Tree::Flat) each id's own. They begin with those that have arrived already. Called at
    /// once after the start of a call, it keeps the call off the fast path.
    ///
    /// ```
    /// use chained_gpc::{Call, Functions, LinkKind, LocalNodes, Tree};
    ///
    /// let functions = Functions::new();
    /// let square = functions.func("square", |request, reply| {
    ///     reply.data = vec![request.me() as u8 * request.me() as u8];
    ///     Ok(())
    /// })?;
    /// let nodes = LocalNodes::start(4, LinkKind::Unix, &functions)?;
    /// let call = Call::new(square).ids(0..4).tree(Tree::Flat).partial();
    /// let mut replies = nodes.root().call(call)?.replies();
    /// let mut sum = 0;
    /// for reply in &mut replies {
    ///     match reply {
    ///         Ok(reply) => sum += reply.data[0],
    ///         Err(lost) => println!("{lost}"),
    ///     }
    /// }
    /// assert_eq!(sum, 14);
    /// assert!(replies.into_handle().wait()?.is_complete());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replies(self) -> Replies {
        self.follow();
        Replies { handle: self, ready: VecDeque::new(), known: Vec::new(), has_ended: false }
    }
}

impl Replies {
    /// Returns the handle of the call, for its outcome: complete, with the replies that were returned here.
    pub fn into_handle(self) -> CallHandle {
        self.handle
    }

    /// Cancels the call. Replies that have arrived are still returned; no others follow.
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// Returns a value that cancels the call from another thread.
    pub fn canceller(&self) -> Canceller {
        self.handle.canceller()
    }

    /// Returns the next reply, for tasks and polled nodes: `Ready(None)` at the end, `Pending` if none has arrived. The
    /// task is woken when one arrives.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<IdReply, NoReply>>> {
        // Ends: each answer of a child is taken once, and the end of the call once.
        loop {
            if let Some(reply) = self.ready.pop_front() {
                return Poll::Ready(Some(reply));
            }
            if self.has_ended || !self.handle.is_open() {
                return Poll::Ready(None);
            }
            match self.handle.completion.next_reply_or_wake(context.waker()) {
                Some(next) => self.take(next),
                None => return Poll::Pending,
            }
        }
    }

    /// Waits for the next reply, up to `limit` if there is one: `Ready(None)` at the end, `Pending` if no reply arrives
    /// in that time.
    ///
    /// # Errors
    /// If this thread may not [wait](CallHandle::wait) for the call, which continues.
    pub fn wait_for(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<Poll<Option<Result<IdReply, NoReply>>>, CallError> {
        let until = limit.map(|limit| Clock::system().limit(limit));
        // Ends: as in `poll_next`.
        loop {
            if let Some(reply) = self.ready.pop_front() {
                return Ok(Poll::Ready(Some(reply)));
            }
            if self.has_ended || !self.handle.is_open() {
                return Ok(Poll::Ready(None));
            }
            match self.handle.wait_for_reply(until.as_ref().map(|until| until.left().unwrap_or_default()))? {
                Some(next) => self.take(next),
                None => return Ok(Poll::Pending),
            }
        }
    }

    fn take(&mut self, next: NextReply) {
        let Some(plan) = self.handle.plan.as_ref() else { return };
        match next {
            NextReply::Child(child) => {
                let group = child.group;
                // Invalid replies are left to the outcome, which has the error.
                if let Some(replies) = below(plan, child) {
                    self.ready.extend(replies);
                    self.known.push(group);
                }
            }
            NextReply::End(ended) => {
                self.has_ended = true;
                sort_by_key(&mut self.known, |group| group.start);
                let mut rest = rest(plan, ended, &self.known);
                // A call that has ended before its replies were asked for has all of them here, in the caller's order.
                sort_by_key(&mut rest, |reply| {
                    reply.as_ref().map_or_else(|lost| lost.id, |reply| reply.id) == plan.root
                });
                self.ready.extend(rest);
            }
        }
    }
}

/// The replies of the ids of a child's answer, and the ids without one, in tree order.
fn below(plan: &Plan, child: SubtreeAnswer) -> Option<Vec<Result<IdReply, NoReply>>> {
    let ids = plan.ids.slice(child.group);
    let of_child = Plan { root: ids.first()?, asked: ids.clone(), ids, ..plan.clone() };
    let success = Success { reply: Some(RootReply::Aggregated(child.reply)), report: child.report };
    let outcome = Outcome::new(of_child, success);
    let replies = outcome.replies().ok()?;
    Some(replies.into_iter().map(Ok).chain(lost(&outcome)).collect())
}

/// The ids of an outcome that are not done.
fn lost(outcome: &Outcome) -> impl Iterator<Item = Result<IdReply, NoReply>> + '_ {
    outcome.ids().iter().filter_map(|id| missing(outcome, id)).map(Err)
}

fn missing(outcome: &Outcome, id: Id) -> Option<NoReply> {
    let status = outcome.status(id).filter(|status| *status != Status::Done)?;
    Some(NoReply { id, status, cause: outcome.cause(id).cloned() })
}

/// The replies that remain at the end of the call, besides those at these places, which are in ascending order.
fn rest(plan: &Plan, ended: CallEnd, known: &[Group]) -> Vec<Result<IdReply, NoReply>> {
    let Some(Ok(success)) = ended else { return Vec::new() };
    let outcome = Outcome::new(plan.clone(), success);
    let Ok(replies) = outcome.replies() else { return Vec::new() };
    if known.is_empty() {
        return replies.into_iter().map(Ok).chain(lost(&outcome)).collect();
    }
    let shared = |id| {
        let reply = outcome.reply(id)?;
        let (header, data) = (outcome.header().slice_ref(reply.header), outcome.data().slice_ref(reply.data));
        Some(Ok(IdReply { id, header, data }))
    };
    let mut known = known.iter().copied().peekable();
    let unknown = plan.ids.iter().zip(0u32..).filter(|(_, place)| {
        while known.next_if(|group| group.start.saturating_add(group.len) <= *place).is_some() {}
        known.peek().is_none_or(|group| *place < group.start)
    });
    unknown.filter_map(|(id, _)| missing(&outcome, id).map(Err).or_else(|| shared(id))).collect()
}

/// Waits for each reply, on any thread that may [wait](CallHandle::wait) for the call; where it may not, the replies
/// end, and [`CallHandle::wait`] has the error.
impl Iterator for Replies {
    type Item = Result<IdReply, NoReply>;

    fn next(&mut self) -> Option<Result<IdReply, NoReply>> {
        match self.wait_for(None) {
            Ok(Poll::Ready(next)) => next,
            // Without a limit there is a reply, or an end.
            Ok(Poll::Pending) => None,
            Err(_) => {
                self.has_ended = true;
                None
            }
        }
    }
}
