//! When a call did what at one id, while it is in flight.

use std::time::Duration;

use gpc_trees::Id;

use super::Time;
use crate::wire::span::Span;

/// The times of one call at one id: small, since each call in flight has them, and a short one copies them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Timeline {
    /// When the call arrived here. All spans count from this moment.
    pub(super) came: Time,
    /// How long callbacks have run, in nanoseconds, without the one that runs now.
    pub(super) callbacks_ns: u64,
    /// When func began, and when it had its reply.
    pub(super) began: Span,
    pub(super) ended: Span,
    /// When the callback began that runs.
    pub(super) merging: Span,
    /// When a child answered last, and which one; any id before the first answer.
    pub(super) last_at: Span,
    pub(super) last: Id,
}

impl Timeline {
    /// The timeline of a call that has arrived.
    pub(super) fn since(came: Time) -> Timeline {
        Timeline { came, ..Timeline::default() }
    }

    /// The time since the call arrived.
    #[inline]
    pub(super) fn at(&self, now: Time) -> Span {
        Span::of_nanos(now.nanos_since(self.came))
    }

    /// Records that func begins. One that takes its data as they arrive begins once.
    pub(super) fn func_begins(&mut self, now: Time) {
        if self.began == Span::NONE {
            self.began = self.at(now);
        }
    }

    /// Records that callback begins.
    pub(super) fn callback_begins(&mut self, now: Time) {
        self.merging = self.at(now);
    }

    /// Records that func or callback has ended, or has given its deferred reply.
    pub(super) fn function_ends(&mut self, now: Time) {
        match std::mem::take(&mut self.merging).nanos() {
            Some(since) => {
                let took = now.nanos_since(self.came).saturating_sub(since);
                self.callbacks_ns = self.callbacks_ns.saturating_add(took);
            }
            None if self.ended == Span::NONE => self.ended = self.at(now),
            None => {}
        }
    }

    /// Records that a child answers; returns when.
    #[inline]
    pub(super) fn child_answers(&mut self, child: Id, now: Time) -> Span {
        (self.last, self.last_at) = (child, self.at(now));
        self.last_at
    }

    /// The child that answered last, and when.
    pub(super) fn last(&self) -> Option<(Id, Duration)> {
        self.last_at.duration().map(|at| (self.last, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_add_up_and_do_not_move_the_end_of_func() {
        let at = Time::from_nanos;
        let mut times = Timeline::since(at(5));
        times.func_begins(at(7));
        times.func_begins(at(8));
        times.function_ends(at(10));
        for begin in [20, 40] {
            times.callback_begins(at(begin));
            times.function_ends(at(begin + 3));
        }
        times.child_answers(9, at(50));
        // The deferred reply of a func that has returned.
        times.function_ends(at(60));
        let span = Span::of_nanos;
        assert_eq!((times.came, times.began, times.ended, times.callbacks_ns), (at(5), span(2), span(5), 6));
        assert_eq!(times.last(), Some((9, Duration::from_nanos(45))));
    }
}
