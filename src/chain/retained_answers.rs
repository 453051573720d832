//! Retained answers: answers of partial calls, retained until the root releases them, because an adopter may ask for
//! them again.
//!
//! At most as many as the node accepts calls, and within a byte budget, so a root that never releases takes only its
//! share. Beyond the limits, the answers with the least time left are dropped.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpc_trees::{Id, IdList};

use super::Time;
use crate::wire::CallId;
use crate::wire::budget::{Budget, Share};
use crate::wire::message::Partial;

/// How long a call is remembered after the root's time limit: no id adopts after the limit, and earlier messages are in
/// transit for at most this long.
pub const RETENTION: Duration = Duration::from_secs(2);

/// An answer that was sent, and may be requested again.
#[derive(Debug)]
pub(super) struct RetainedAnswer {
    /// The parent that it was sent to.
    pub(super) parent: Id,
    /// Number of parents given up below that one.
    pub(super) skipped: u32,
    pub(super) answer: Box<Partial>,
    /// The slice that it covers.
    pub(super) ids: IdList,
    /// Children to release.
    pub(super) children: Vec<Id>,
    pub(super) until: Time,
    /// The memory that it takes, once retained.
    pub(super) share: Share,
}

/// Overhead of a retained answer besides its reply, its report and its ids, in bytes.
const FIXED: u64 = 512;

impl RetainedAnswer {
    /// Its size, in bytes.
    fn bytes(&self) -> u64 {
        let reply = self.answer.reply.len();
        let report = self.answer.report.emitted_len() as u64;
        FIXED + reply + report + 16 * self.ids.runs().count() as u64 + 4 * self.children.len() as u64
    }
}

/// The retained answers of a node.
#[derive(Debug, Default)]
pub(super) struct RetainedAnswers {
    answers: BTreeMap<CallId, RetainedAnswer>,
    by_time: BTreeSet<(Time, CallId)>,
    /// The node's memory budget, and its id for refusals.
    memory: Option<(Budget, Id)>,
    /// The budget for retained answers, created with the first one.
    budget: OnceCell<Budget>,
}

impl RetainedAnswers {
    /// Returns an empty set of answers within a quarter of this memory.
    pub(super) fn of(memory: Budget, me: Id) -> RetainedAnswers {
        RetainedAnswers { memory: Some((memory, me)), ..RetainedAnswers::default() }
    }

    fn budget(&self) -> &Budget {
        let part =
            |(memory, me): &(Budget, Id)| memory.part(1, 4, format!("id {me} for answers that it keeps"));
        // An unbounded budget counts nothing and needs no name.
        let memory = || self.memory.as_ref().filter(|(memory, _)| !memory.is_unbounded());
        self.budget.get_or_init(|| memory().map(part).unwrap_or_default())
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> u64 {
        self.budget.get().map_or(0, Budget::used)
    }

    /// Returns the answer with the least time left.
    #[inline]
    fn soonest(&self) -> Option<(Time, CallId)> {
        self.by_time.first().copied()
    }

    fn drop_soonest(&mut self) -> bool {
        self.soonest().is_some_and(|(_, call)| self.remove(call).is_some())
    }

    /// Returns an empty share for an answer to be retained.
    pub(super) fn share(&self) -> Share {
        self.budget().share()
    }

    /// Retains an answer, with at most `most` in total. If there is no memory for it, it is not retained, and a later
    /// request for it is rejected.
    pub(super) fn insert(&mut self, call: CallId, mut retained: RetainedAnswer, most: usize) {
        self.remove(call);
        let bytes = retained.bytes();
        if bytes > self.budget().most() {
            return;
        }
        while !retained.share.grow(bytes) {
            if !self.drop_soonest() {
                return;
            }
        }
        self.by_time.insert((retained.until, call));
        self.answers.insert(call, retained);
        while self.answers.len() > most.max(1) {
            self.drop_soonest();
        }
    }

    pub(super) fn get(&self, call: CallId) -> Option<&RetainedAnswer> {
        self.answers.get(&call)
    }

    pub(super) fn get_mut(&mut self, call: CallId) -> Option<&mut RetainedAnswer> {
        self.answers.get_mut(&call)
    }

    pub(super) fn remove(&mut self, call: CallId) -> Option<RetainedAnswer> {
        let retained = self.answers.remove(&call)?;
        self.by_time.remove(&(retained.until, call));
        Some(retained)
    }

    /// Drops expired answers.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some((_, call)) = self.soonest().filter(|(until, _)| *until <= now) {
            self.remove(call);
        }
    }

    /// Number of leaked times, of answers that were dropped.
    pub(super) fn leaks(&self) -> usize {
        self.by_time.len().saturating_sub(self.answers.len())
    }

    /// When the next answer expires.
    pub(super) fn next(&self) -> Option<Time> {
        self.soonest().map(|(until, _)| until)
    }

    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retained(until: u64) -> RetainedAnswer {
        let ids = IdList::range(0..1);
        let until = Time::from_nanos(until);
        let (answer, children, share) = (Box::default(), Vec::new(), Share::default());
        RetainedAnswer { parent: 0, skipped: 0, answer, ids, children, until, share }
    }

    /// Answers were counted without their size: 65,536 of them could have any length.
    #[test]
    fn those_with_the_least_time_left_go_when_their_bytes_are_too_many() {
        let each = retained(1).bytes();
        let mut answers = RetainedAnswers::of(Budget::new(16 * each, "memory"), 7);
        let call = |sequence| CallId { root: 1, sequence };
        for sequence in 1..=6 {
            answers.insert(
                call(sequence),
                RetainedAnswer { share: answers.share(), ..retained(100 - sequence) },
                100,
            );
        }
        let retained_calls = (1..=6).filter(|&sequence| answers.get(call(sequence)).is_some());
        assert!(retained_calls.eq([1, 2, 3, 6]), "each new answer is retained");
        let long = RetainedAnswer { share: answers.share(), children: vec![0; 1000], ..retained(200) };
        answers.insert(call(7), long, 100);
        assert_eq!((answers.len(), answers.budget().used()), (4, 4 * each), "one too long costs none");
        answers.expire(Time::from_nanos(100));
        assert_eq!((answers.len(), answers.budget().used()), (0, 0));
    }

    /// An answer was retained for a call whose answer was already retained. The time of the earlier one was left behind
    /// without an answer, and the loop that drops expired answers never ended.
    #[test]
    fn an_answer_retained_again_leaves_no_time_behind() {
        let mut answers = RetainedAnswers::default();
        let call = CallId { root: 1, sequence: 1 };
        answers.insert(call, retained(10), 3);
        answers.insert(call, retained(20), 3);
        answers.expire(Time::from_nanos(10));
        assert_eq!((answers.len(), answers.next()), (1, Some(Time::from_nanos(20))));
        answers.expire(Time::from_nanos(20));
        assert_eq!((answers.len(), answers.next()), (0, None));
    }

    #[test]
    fn those_with_the_least_time_left_go_first() {
        let mut answers = RetainedAnswers::default();
        let call = |sequence| CallId { root: 1, sequence };
        for (sequence, until) in [(1, 30), (2, 10), (3, 20), (4, 40)] {
            answers.insert(call(sequence), retained(until), 3);
        }
        assert_eq!((answers.len(), answers.next()), (3, Some(Time::from_nanos(20))));
        assert!(answers.get(call(2)).is_none());
        answers.expire(Time::from_nanos(30));
        assert_eq!((answers.len(), answers.next()), (1, Some(Time::from_nanos(40))));
        assert!(answers.remove(call(4)).is_some() && answers.remove(call(4)).is_none());
        assert_eq!((answers.len(), answers.next()), (0, None));
    }

    /// With many answers the one with the most time left was dropped, mostly the newest one, and its adopter was told
    /// that it was gone.
    #[test]
    fn of_many_those_with_the_least_time_left_go_first() {
        let most = 8;
        let mut answers = RetainedAnswers::default();
        let call = |sequence| CallId { root: 1, sequence };
        for sequence in 1..=3 * most as u64 {
            // The times go up and down.
            answers.insert(call(sequence), retained(sequence * 7 % 25), most);
        }
        let left = (1..=3 * most as u64).filter(|&sequence| answers.get(call(sequence)).is_some());
        let least = left.clone().map(|sequence| sequence * 7 % 25).min();
        assert_eq!((left.clone().count(), least), (most, Some(17)), "{:?}", left.collect::<Vec<_>>());
    }
}
