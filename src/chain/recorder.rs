//! The flight recorder: the last calls that ended at this id, and the last answers of its children.
//!
//! Two rings whose memory is reserved when the node starts. A call is written once, when it ends; calls in flight are
//! read from the tables ([`recording`](super::recording)). Only the thread that drives the node writes and reads the
//! rings, so a reader sees whole records. Nothing is allocated, and time is an argument.

use gpc_trees::Id;

use super::Time;
use super::call_meter::CallMeter;
pub(super) use super::end::End;
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
    /// Place of the next record, once the ring is full.
    next: usize,
}

impl<T> Ring<T> {
    fn new(most: usize) -> Ring<T> {
        Ring { records: Vec::with_capacity(most), most, next: 0 }
    }

    #[inline]
    fn push(&mut self, record: T) {
        if self.records.len() < self.most {
            return self.records.push(record);
        }
        if let Some(place) = self.records.get_mut(self.next) {
            *place = record;
            self.next = if self.next + 1 == self.most { 0 } else { self.next + 1 };
        }
    }

    /// The records, the oldest first.
    fn iter(&self) -> impl Iterator<Item = &T> {
        let (newer, older) = self.records.split_at(self.next);
        older.iter().chain(newer)
    }
}

/// One ended call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CallRecord {
    pub(super) sequence: u64,
    pub(super) func: u64,
    pub(super) came: Time,
    pub(super) root: Id,
    /// This id itself if the call was started here.
    pub(super) parent: Id,
    /// Since the call came, as are all spans here.
    pub(super) began: Span,
    pub(super) ended: Span,
    pub(super) callbacks: Span,
    /// The child that answered last; any id if there was none.
    pub(super) last: Id,
    pub(super) last_at: Span,
    pub(super) answered: Span,
    pub(super) end: End,
}

/// One answer of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AnswerRecord {
    pub(super) sequence: u64,
    pub(super) child: Id,
    pub(super) at: Span,
}

const _: () =
    assert!(size_of::<CallRecord>() == 64 && size_of::<AnswerRecord>() == 16, "as docs/limits.md says");

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
    calls: Ring<CallRecord>,
    answers: Ring<AnswerRecord>,
    /// The call on the fast path whose function runs: when it came, and its function began and ended.
    spot: Timeline,
    /// When the last function on the fast path ended.
    spot_ended: Time,
    /// The parent of that call; this id itself if the call was started here.
    spot_parent: Id,
    /// Counts each call that is recorded.
    meter: CallMeter,
}

impl Recorder {
    /// Returns a recorder of so many calls; with 0 it records nothing.
    pub(super) fn new(me: Id, calls: usize, metrics: CallMetrics, seed: u64) -> Recorder {
        let meter = CallMeter::new(metrics, seed);
        let answers = Ring::new(calls.saturating_mul(ANSWERS_PER_CALL));
        let (spot, spot_ended) = Default::default();
        Recorder { me, calls: Ring::new(calls), answers, spot, spot_ended, spot_parent: me, meter }
    }

    /// Whether anything is recorded.
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.calls.most > 0
    }

    /// Records a call that ends here.
    #[inline]
    pub(super) fn call_ended(&mut self, ending: &Ending, times: &Timeline, now: Time) {
        if !self.is_on() {
            return;
        }
        let took = now.nanos_since(times.came);
        self.meter.ended(ending.parent.is_none(), ending.func, ending.end, took);
        self.calls.push(CallRecord {
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
            answered: Span::of_nanos(took),
            end: ending.end,
        });
    }

    /// Records the answer of a child, and when it came since the call had come.
    #[inline]
    pub(super) fn child_answered(&mut self, call: CallId, child: Id, at: Span) {
        if self.is_on() {
            self.answers.push(AnswerRecord { sequence: call.sequence, child, at });
        }
    }

    /// A call on the fast path came in this turn, and its function begins: after the one before it has ended, which may
    /// have been in the same turn.
    #[inline]
    pub(super) fn spot_begins(&mut self, parent: Id, came: Time) {
        self.spot_parent = parent;
        let began = Span::of_nanos(self.spot_ended.nanos_since(came));
        self.spot = Timeline { began, ..Timeline::since(came) };
    }

    /// The function of that call has ended.
    #[inline]
    pub(super) fn spot_ran(&mut self, now: Time) {
        self.spot_ended = now;
        self.spot.ended = self.spot.at(now);
    }

    /// The parent and the times of that call.
    #[inline]
    pub(super) fn spot(&self) -> (Option<Id>, Timeline) {
        (Some(self.spot_parent).filter(|parent| *parent != self.me), self.spot)
    }

    /// When the function of that call ended; `None` if it has run none.
    #[inline]
    pub(super) fn spot_ended(&self) -> Option<Time> {
        (self.spot.ended != Span::NONE).then_some(self.spot_ended)
    }

    /// The ended calls, the oldest first.
    pub(super) fn calls(&self) -> impl Iterator<Item = &CallRecord> {
        self.calls.iter()
    }

    /// The answers, the oldest first.
    pub(super) fn answers(&self) -> impl Iterator<Item = &AnswerRecord> {
        self.answers.iter()
    }
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
        fn a_ring_has_the_last_records(most in 0usize..9, pushes in prop::collection::vec(any::<u64>(), 0..60)) {
            let (mut ring, mut model) = (Ring::new(most), VecDeque::new());
            let room = ring.records.capacity();
            for number in pushes {
                // The halves of a record belong together.
                ring.push((number, !number));
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

    /// Two functions in one turn: the time of the turn stands still, and the second one would have begun before the
    /// first one ended.
    #[test]
    fn a_function_begins_after_the_one_before_it() {
        let mut recorder = Recorder::new(1, 4, CallMetrics::default(), 1);
        let at = Time::from_nanos;
        recorder.spot_begins(2, at(10));
        recorder.spot_ran(at(30));
        recorder.spot_begins(2, at(10));
        assert_eq!((recorder.spot().1.came, recorder.spot().1.began), (at(10), Span::of_nanos(20)));
        recorder.spot_begins(2, at(50));
        assert_eq!((recorder.spot().1.began, recorder.spot().1.ended), (Span::of_nanos(0), Span::NONE));
        assert_eq!(recorder.spot_ended(), None);
    }
}
