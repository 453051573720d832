//! The flight recorder: the last calls that ended at this id, and the last answers of its children.
//!
//! Two rings whose memory is reserved when the node starts. A call is written once, when it ends; calls in flight are
//! read from the tables ([`recording`](super::recording)). Only the thread that drives the node writes and reads the
//! rings, so a reader sees whole records. Nothing is allocated, and time is an argument.

use gpc_trees::Id;

use super::Time;
use super::call_meter::CallMeter;
use super::call_record::CallRecord;
pub(super) use super::end::End;
use super::func_timer::FuncTimer;
use super::timeline::Timeline;
use crate::wire::CallId;
use crate::wire::call_metrics::CallMetrics;
use crate::wire::span::Span;

/// Answers of children that are kept for each call that is kept: most ids of a tree have few children.
const ANSWERS_PER_CALL: usize = 2;

/// A ring of records in the order in which they were added; each replaces the oldest one if the ring is full.
#[derive(Debug)]
struct Ring<T> {
    records: Vec<T>,
    /// Most records.
    most: usize,
    /// Place of the next record.
    next: usize,
}

impl<T: Copy> Ring<T> {
    fn new(most: usize) -> Ring<T> {
        Ring { records: Vec::with_capacity(most), most, next: 0 }
    }

    /// Adds a copy of a record to a ring that has room for one at least.
    #[inline(always)]
    fn push<R: Copy + Into<T>>(&mut self, record: &R) {
        match self.records.get_mut(self.next) {
            Some(place) => *place = (*record).into(),
            None => self.extend((*record).into()),
        }
        self.next = if self.next + 1 == self.most { 0 } else { self.next + 1 };
    }

    #[cold]
    fn extend(&mut self, record: T) {
        self.records.push(record);
    }

    /// The records, the oldest first.
    fn iter(&self) -> impl Iterator<Item = &T> {
        let (newer, older) = self.records.split_at(self.next);
        older.iter().chain(newer)
    }
}

/// A record in one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(CallRecord);

impl From<CallRecord> for Line {
    fn from(record: CallRecord) -> Line {
        Line(record)
    }
}

/// One answer of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AnswerRecord {
    pub(super) sequence: u64,
    pub(super) child: Id,
    pub(super) at: Span,
}

const _: () = assert!(size_of::<AnswerRecord>() == 16, "as docs/limits.md says");

/// A call that ends, as the recorder needs it.
pub(super) struct Ending {
    pub(super) call: CallId,
    pub(super) func: u64,
    /// `None` if the call was started here.
    pub(super) parent: Option<Id>,
    pub(super) end: End,
}

/// The rings of one node.
#[derive(Debug)]
pub(super) struct Recorder {
    me: Id,
    calls: Ring<Line>,
    answers: Ring<AnswerRecord>,
    /// Times the functions on the fast path.
    timer: FuncTimer,
    /// Counts each call that is recorded.
    meter: CallMeter,
    /// Where the record of the last call on the fast path is, if that call ended with its function.
    last_fast: usize,
}

impl Recorder {
    /// Returns a recorder of so many calls; with 0 it records nothing.
    pub(super) fn new(me: Id, calls: usize, metrics: CallMetrics, seed: u64) -> Recorder {
        let meter = CallMeter::new(metrics, seed);
        let answers = Ring::new(calls.saturating_mul(ANSWERS_PER_CALL));
        Recorder { me, calls: Ring::new(calls), answers, timer: FuncTimer::new(me), meter, last_fast: 0 }
    }

    /// Whether anything is recorded.
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.calls.most > 0
    }

    /// Records a call that ends here.
    #[inline(always)]
    pub(super) fn call_ended(&mut self, ending: &Ending, times: &Timeline, now: Time) {
        if !self.is_on() {
            return;
        }
        let record = CallRecord {
            sequence: ending.call.sequence,
            func: ending.func,
            came: times.came,
            root: ending.call.root,
            parent: ending.parent.unwrap_or(self.me),
            began: times.began,
            ended: times.ended,
            callbacks: Span::of_nanos(times.callbacks_ns),
            last: times.last,
            last_at: times.last_at,
            answered: times.at(now),
            end: ending.end,
        };
        add(&record, self.me, &mut self.calls, &mut self.meter);
    }

    /// Times the last function on the fast path, if it is not timed. Returns the call of a slow function that has not
    /// ended, and when its function ended.
    #[inline(always)]
    pub(super) fn times_last(&mut self, now: impl FnOnce() -> Time) -> Option<(CallId, Span)> {
        if self.timer.has_untimed() { self.time_last(now()) } else { None }
    }

    /// Counts the calls that have ended since the last time: before the answers of a turn leave.
    #[inline(always)]
    pub(super) fn turn_ends(&mut self) {
        self.meter.count();
    }

    #[inline(never)]
    fn time_last(&mut self, now: Time) -> Option<(CallId, Span)> {
        if !self.timer.ends(now) {
            return None;
        }
        let (call, ended) = (self.timer.call(), self.timer.times().ended);
        match self.calls.records.get_mut(self.last_fast) {
            Some(Line(record)) if (record.root, record.sequence) == (call.root, call.sequence) => {
                if record.end == End::Done {
                    let nanos = |span: Span| span.nanos().unwrap_or_default();
                    self.meter.correct(record.func, nanos(record.answered), nanos(ended));
                }
                (record.ended, record.answered) = (ended, ended);
                None
            }
            _ => Some((call, ended)),
        }
    }

    /// Records the answer of a child, and when it came since the call had come.
    #[inline]
    pub(super) fn child_answered(&mut self, call: CallId, child: Id, at: Span) {
        if self.is_on() {
            self.answers.push(&AnswerRecord { sequence: call.sequence, child, at });
        }
    }

    /// A call on the fast path came in this turn, and its function begins.
    #[inline(always)]
    pub(super) fn begin_fast(&mut self, call: CallId, parent: Id, came: Time) {
        if self.is_on() {
            self.timer.begins(call, parent, came);
        }
    }

    /// Whether the driver reports when that function [ended](Self::func_ran).
    #[inline(always)]
    pub(super) fn is_func_timed(&self) -> bool {
        self.timer.is_timed()
    }

    /// That function has ended.
    #[inline(always)]
    pub(super) fn func_ran(&mut self, now: Time) {
        self.timer.ends(now);
    }

    /// The times of that call.
    #[inline(always)]
    pub(super) fn fast_call(&self) -> Timeline {
        self.timer.times()
    }

    /// Records that call, which ends with its function.
    #[inline(always)]
    pub(super) fn end_fast(&mut self, func: u64, end: End) {
        if !self.is_on() {
            return;
        }
        self.last_fast = self.calls.next;
        add(self.timer.finish_record(func, end), self.me, &mut self.calls, &mut self.meter);
    }

    /// The ended calls, the oldest first.
    pub(super) fn calls(&self) -> impl Iterator<Item = &CallRecord> {
        self.calls.iter().map(|Line(record)| record)
    }

    /// The answers, the oldest first.
    pub(super) fn answers(&self) -> impl Iterator<Item = &AnswerRecord> {
        self.answers.iter()
    }
}

/// Adds a record to the ring, and counts its call, which is an own one if its parent is this id.
#[inline(always)]
fn add(record: &CallRecord, me: Id, calls: &mut Ring<Line>, meter: &mut CallMeter) {
    let took = record.answered.nanos().unwrap_or_default();
    meter.ended(record.parent == me, record.func, record.end, took);
    calls.push(record);
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn ended(recorder: &mut Recorder, sequence: u64) {
        let call = CallId { root: 3, sequence };
        let ending = Ending { call, func: sequence * 7, parent: Some(2), end: End::Done };
        let mut times = Timeline::since(Time::from_nanos(sequence));
        times.child_answers(9, Time::from_nanos(sequence + 4));
        recorder.call_ended(&ending, &times, Time::from_nanos(sequence + 8));
    }

    proptest! {
        /// Whatever was recorded, and whenever it is read: the last records are there, whole and in order, in the
        /// memory that was reserved at the start.
        #[test]
        fn a_ring_has_the_last_records(most in 1usize..9, pushes in prop::collection::vec(any::<u64>(), 0..60)) {
            let (mut ring, mut model) = (Ring::<(u64, u64)>::new(most), VecDeque::new());
            let room = ring.records.capacity();
            for number in pushes {
                // The halves of a record belong together.
                ring.push(&(number, !number));
                model.push_back((number, !number));
                if model.len() > most {
                    model.pop_front();
                }
                prop_assert!(ring.iter().eq(model.iter()));
            }
            prop_assert_eq!(ring.records.capacity(), room);
        }

        #[test]
        fn a_recorder_has_the_last_calls_and_answers(calls in 0usize..6, count in 0u64..40) {
            let mut recorder = Recorder::new(1, calls, CallMetrics::default(), 1);
            for sequence in 0..count {
                ended(&mut recorder, sequence);
                recorder.child_answered(CallId { root: 3, sequence }, 5, Span::of_nanos(sequence));
            }
            let kept = |most: usize| count.saturating_sub(most as u64)..count;
            prop_assert!(recorder.calls().map(|call| call.sequence).eq(kept(calls)));
            prop_assert!(recorder.calls().all(|call| call.func == call.sequence * 7));
            prop_assert!(recorder.answers().map(|answer| answer.sequence).eq(kept(calls * ANSWERS_PER_CALL)));
        }
    }

    #[test]
    fn a_record_counts_from_when_the_call_came() {
        let mut recorder = Recorder::new(1, 4, CallMetrics::default(), 1);
        ended(&mut recorder, 100);
        let record = recorder.calls().next().expect("it was recorded");
        let span = |nanos| Span::of(Duration::from_nanos(nanos));
        assert_eq!((record.root, record.parent, record.came), (3, 2, Time::from_nanos(100)));
        assert_eq!(
            (record.began, record.last, record.last_at, record.answered),
            (Span::NONE, 9, span(4), span(8))
        );
    }

    const CALL: CallId = CallId { root: 3, sequence: 8 };

    /// The second function of a turn took ten seconds, and was recorded as one that takes no time.
    #[test]
    fn a_slow_function_that_is_the_last_of_its_turn_is_timed() {
        let (metrics, at) = (CallMetrics::default(), Time::from_nanos);
        let mut recorder = Recorder::new(1, 4, metrics.clone(), 1);
        let begins = |recorder: &mut Recorder, sequence, came| {
            recorder.begin_fast(CallId { sequence, ..CALL }, 2, at(came));
            recorder.is_func_timed()
        };
        assert!(begins(&mut recorder, 1, 1_000_000));
        recorder.func_ran(at(1_000_050));
        recorder.end_fast(7, End::Done);
        assert!(!begins(&mut recorder, 2, 1_000_000));
        recorder.end_fast(7, End::Done);
        assert_eq!(recorder.times_last(|| at(10_001_000_000)), None);
        recorder.turn_ends();
        let last = recorder.calls().last().expect("it was recorded");
        assert_eq!((last.sequence, last.ended), (2, Span::of_nanos(10_000_000_000)));
        assert_eq!(last.answered, last.ended);
        assert!(metrics.functions()[0].total >= Duration::from_secs(9));
        // Another call ended in between: its record was taken for that of the slow function.
        assert!(begins(&mut recorder, 5, 15_000_000_000));
        recorder.func_ran(at(15_000_000_050));
        assert!(!begins(&mut recorder, 6, 15_000_000_000));
        recorder.end_fast(7, End::Done);
        ended(&mut recorder, 99);
        assert_eq!(recorder.times_last(|| at(15_000_900_000)), None);
        let slow = recorder.calls().find(|call| call.sequence == 6).expect("it was recorded");
        assert_eq!(slow.ended, Span::of_nanos(900_000));
        // The record of a call that has children is made later; that of another call is left as it is.
        assert!(begins(&mut recorder, 3, 20_000_000_000));
        recorder.func_ran(at(20_000_000_050));
        assert!(!begins(&mut recorder, 4, 20_000_000_000));
        ended(&mut recorder, 100);
        let slow = recorder.times_last(|| at(20_000_900_000));
        assert_eq!(slow, Some((CallId { sequence: 4, ..CALL }, Span::of_nanos(900_000))));
        assert_eq!(recorder.calls().last().map(|call| call.answered), Some(Span::of_nanos(8)));
        assert_eq!(recorder.times_last(|| panic!("no function has run")), None);
    }
}
