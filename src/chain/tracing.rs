//! Traced calls: the times of the ids below go up with the reply.
//!
//! Beyond the source. An id adds its own times to those of its children. What it does not get, or has no room for, goes
//! up as unknown: a trace never fails a call.

use super::Time;
use super::call::Call;
use crate::wire::Span;
use crate::wire::message::{Answer, SubtreeReply};
use crate::wire::trace::{ChildTrace, ENTRY, IdTimes, join};

impl Call {
    /// Whether the times of the ids go up. An answer without a reply has no room for them.
    fn is_traced(&self) -> bool {
        self.request.local.trace && self.request.reply_wanted
    }

    /// Takes the trace out of the answer of a child.
    pub(super) fn take_trace(&mut self, index: usize, answer: &mut Answer, now: Time) {
        let bytes = match answer {
            Answer::Reply(reply) => std::mem::take(&mut reply.trace),
            Answer::Partial(partial) => std::mem::take(&mut partial.reply.trace),
            Answer::Completed | Answer::Arriving(_) | Answer::Failed(_) => return,
        };
        let Some(child) = self.children.as_ref().and_then(|children| children.get(index)) else { return };
        let fits = bytes.len() == child.group.len as usize * ENTRY;
        if self.is_traced() && fits && self.reservation.share.grow(bytes.len() as u64) {
            let (start, answered) = (child.group.start, self.times.at(now));
            self.traces.push(ChildTrace { start, bytes, answered });
        }
    }

    /// Adds the trace of this id and those below it to the reply, unless both together are longer than `reply_max`.
    pub(super) fn add_trace(&mut self, reply: &mut SubtreeReply, reply_max: u64, now: Time) {
        let ids = self.request.ids.len();
        let length = u64::from(ids) * ENTRY as u64;
        if !self.is_traced() || reply.len().saturating_add(length) > reply_max {
            return;
        }
        let times = &self.times;
        let func = times.began.nanos().zip(times.ended.nanos());
        let own = IdTimes {
            began: times.began,
            func: func.map_or(Span::NONE, |(began, ended)| Span::of_nanos(ended.saturating_sub(began))),
            callbacks: Span::of_nanos(times.callbacks_ns),
            total: times.at(now),
            answered: Span::NONE,
        };
        reply.trace = join(&own, ids, &mut self.traces);
    }
}
