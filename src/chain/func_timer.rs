//! Times the functions on the fast path.
//!
//! Reading the clock takes about 40 ns, as long as many functions. Of the quick functions in one turn of the driver,
//! the first, the last and every eighth are timed. The function after a slow one is timed, too.

use gpc_trees::Id;

use super::Time;
use super::call_record::CallRecord;
use super::end::End;
use super::timeline::Timeline;
use crate::wire::CallId;
use crate::wire::span::Span;

/// A function that takes less is quick, in nanoseconds.
const QUICK_NS: u64 = 2_000;

/// Most functions in a row that are not timed. The time of a slow one among them is that of the next timed one.
const UNTIMED_MAX: u8 = 7;

/// The call on the fast path whose function runs, or has run last.
#[derive(Debug)]
pub(super) struct FuncTimer {
    /// The record of that call, without function and end. The fields that all calls of a turn share stay for the next
    /// call.
    record: CallRecord,
    is_timed: bool,
    /// Whether the last function that was timed was quick.
    quick: bool,
    /// Functions in a row that were not timed.
    untimed: u8,
}

impl FuncTimer {
    pub(super) fn new(me: Id) -> FuncTimer {
        let (is_timed, quick, untimed) = Default::default();
        FuncTimer { record: CallRecord::empty(me), is_timed, quick, untimed }
    }

    /// Starts the timing of a call that arrived in this turn. Its function begins when the one before it has ended. A
    /// function that is not timed counts as no time.
    #[inline(always)]
    pub(super) fn begins(&mut self, call: CallId, parent: Id, came: Time) {
        let record = &mut self.record;
        (record.sequence, record.root, record.parent) = (call.sequence, call.root, parent);
        self.is_timed = !self.quick | (came != record.came) | (self.untimed >= UNTIMED_MAX);
        if self.is_timed {
            self.untimed = 0;
            let began = came.max(after(record.came, record.ended));
            (record.came, record.ended) = (came, Span::of_nanos(began.nanos_since(came)));
            record.answered = record.ended;
        } else {
            self.untimed += 1;
        }
        record.began = record.ended;
    }

    /// Whether the driver reports when that function [ended](Self::ends).
    #[inline(always)]
    pub(super) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Whether functions have run since the last one that was timed.
    #[inline(always)]
    pub(super) fn has_untimed(&self) -> bool {
        self.untimed > 0
    }

    /// That function has ended; returns whether it was slow.
    #[inline(always)]
    pub(super) fn ends(&mut self, now: Time) -> bool {
        let record = &mut self.record;
        let began = after(record.came, record.began);
        self.untimed = 0;
        record.ended = Span::of_nanos(now.max(began).nanos_since(record.came));
        record.answered = record.ended;
        self.quick = now.nanos_since(began) < QUICK_NS;
        !self.quick
    }

    /// The record of that call, which ends with its function.
    #[inline(always)]
    pub(super) fn finish_record(&mut self, func: u64, end: End) -> &CallRecord {
        (self.record.func, self.record.end) = (func, end);
        &self.record
    }

    /// That call.
    pub(super) fn call(&self) -> CallId {
        CallId { root: self.record.root, sequence: self.record.sequence }
    }

    /// The times of that call, whose function has run.
    #[inline(always)]
    pub(super) fn times(&self) -> Timeline {
        let CallRecord { came, began, ended, .. } = self.record;
        Timeline { began, ended, ..Timeline::since(came) }
    }
}

/// The moment that is this long after another.
#[inline(always)]
fn after(moment: Time, span: Span) -> Time {
    Time::from_nanos(moment.as_nanos().saturating_add(span.nanos().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: CallId = CallId { root: 3, sequence: 8 };

    /// Two functions in one turn: the time of the turn stands still, and the second one would have begun before the
    /// first one ended.
    #[test]
    fn a_function_begins_after_the_one_before_it() {
        let (mut timer, at, span) = (FuncTimer::new(1), Time::from_nanos, Span::of_nanos);
        timer.begins(CALL, 2, at(10));
        timer.ends(at(30));
        timer.begins(CALL, 2, at(10));
        assert_eq!((timer.times().came, timer.times().began), (at(10), span(20)));
        timer.begins(CALL, 2, at(50));
        timer.ends(at(55));
        assert_eq!((timer.times().began, timer.times().ended), (span(0), span(5)));
    }

    /// To read the clock takes as long as a quick function: of many in one turn few are timed, and a slow one always.
    #[test]
    fn quick_functions_of_one_turn_are_timed_now_and_then() {
        let mut timer = FuncTimer::new(1);
        let mut turn = |came: u64, takes: u64, functions: u64| {
            let timed = (1..=functions).filter(|function| {
                timer.begins(CALL, 2, Time::from_nanos(came));
                let is_timed = timer.is_timed();
                if is_timed {
                    timer.ends(Time::from_nanos(came + function * takes));
                }
                is_timed
            });
            timed.count()
        };
        assert_eq!(turn(1_000_000, 50, 20), 3, "the first, the ninth, the seventeenth");
        assert_eq!(turn(2_000_000, 50, 1), 1, "the first of each turn");
        assert_eq!(turn(3_000_000, 5_000, 20), 20, "one that is slow, and those behind it");
    }
}
