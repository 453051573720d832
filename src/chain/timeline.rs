//! When a call did what at one id, while it is in flight.

use std::time::Duration;

use gpc_trees::Id;

use super::Time;

/// The times of one call at one id.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Timeline {
    /// When the call arrived here.
    pub(super) came: Time,
    /// When func began, and when it had its reply.
    pub(super) began: Option<Time>,
    pub(super) ended: Option<Time>,
    /// How long callbacks have run, without the one that runs now.
    pub(super) callbacks: Duration,
    /// Since when a callback runs.
    pub(super) merging: Option<Time>,
    /// The child that answered last, and when.
    pub(super) last: Option<(Id, Time)>,
}

impl Timeline {
    /// The timeline of a call that has arrived.
    pub(super) fn since(came: Time) -> Timeline {
        Timeline { came, ..Timeline::default() }
    }

    /// Records that func begins. One that takes its data as they arrive begins once.
    pub(super) fn func_begins(&mut self, now: Time) {
        self.began.get_or_insert(now);
    }

    /// Records that callback begins.
    pub(super) fn callback_begins(&mut self, now: Time) {
        self.merging = Some(now);
    }

    /// Records that func or callback has ended, or has given its deferred reply.
    pub(super) fn function_ends(&mut self, now: Time) {
        match self.merging.take() {
            Some(since) => self.callbacks += now.since(since),
            None => drop(self.ended.get_or_insert(now)),
        }
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
        let expected = (at(5), Some(at(7)), Some(at(10)), Duration::from_nanos(6));
        assert_eq!((times.came, times.began, times.ended, times.callbacks), expected);
    }
}
