//! Counters and outcomes of collective requests, for each set and tag. Each member counts its own requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::order::{Epoch, Meeting};

/// Most pairs of set and tag that a node counts. Each takes memory until its groups are forgotten.
const SET_TAGS_MAX: usize = 1 << 16;

/// Most failures of one set and tag that are retained for members that arrive late. If a failure has been dropped, the
/// member fails by its own time limit.
const FAILED_MAX: usize = 1 << 12;

/// Most failures of one set and tag that a coordinator can repeat to members that missed the release.
const FINISHED_MAX: usize = 1 << 16;

/// Most sets of removed groups that are remembered: more than are freed while a call is in transit.
const GONE_MAX: usize = 1 << 10;

/// Counters and outcomes of one set and tag.
#[derive(Default, Debug)]
pub(super) struct TagEpochs {
    /// The next sequence number of each member here.
    next: BTreeMap<Member, Epoch>,
    /// Failed requests that some members here have not entered yet.
    pub(super) failed: BTreeMap<Epoch, Fault>,
    /// Finished requests; used at the coordinator.
    finished: Finished,
}

/// A set of sequence numbers. It stays small while requests finish roughly in order.
#[derive(Default, Debug)]
struct Finished {
    /// All below this one are finished.
    below: Epoch,
    above: BTreeSet<Epoch>,
    /// The finished ones that failed.
    failed: BTreeSet<Epoch>,
    /// The faults of the most recent failures.
    faults: BTreeMap<Epoch, Fault>,
}

/// Counters and outcomes of all sets.
#[derive(Default, Debug)]
pub(super) struct Epochs {
    /// By set, then by tag.
    sets: BTreeMap<Set, BTreeMap<Vec<u8>, TagEpochs>>,
    /// Number of pairs of set and tag.
    count: usize,
    /// Sets of removed groups, oldest first.
    gone: VecDeque<Set>,
}

impl TagEpochs {
    /// Counts a request of a member and returns its sequence number.
    pub(super) fn count(&mut self, member: Member) -> Epoch {
        let next = self.next.entry(member).or_default();
        *next += 1;
        *next - 1
    }

    /// Whether a member has entered a request, or was refused at once because it had failed.
    pub(super) fn has_entered(&self, member: Member, epoch: Epoch) -> bool {
        self.next.get(&member).is_some_and(|next| *next > epoch)
    }

    /// Retains a failure for members that arrive later.
    pub(super) fn keep_failure(&mut self, epoch: Epoch, fault: Fault) {
        self.failed.insert(epoch, fault);
        if self.failed.len() > FAILED_MAX {
            self.failed.pop_first();
        }
    }

    /// Records that the coordinator has finished a request.
    pub(super) fn finish(&mut self, epoch: Epoch, failure: Option<&Fault>) {
        let finished = &mut self.finished;
        finished.above.insert(epoch);
        while finished.above.remove(&finished.below) {
            finished.below += 1;
        }
        let Some(fault) = failure else { return };
        finished.failed.insert(epoch);
        finished.faults.insert(epoch, fault.clone());
        if finished.failed.len() > FINISHED_MAX {
            finished.failed.pop_first();
        }
        if finished.faults.len() > FAILED_MAX {
            finished.faults.pop_first();
        }
    }

    /// The outcome of a request that its coordinator has finished; `None` if it is not finished.
    pub(super) fn finished(&self, epoch: Epoch) -> Option<Result<(), Fault>> {
        let finished = &self.finished;
        if epoch >= finished.below && !finished.above.contains(&epoch) {
            return None;
        }
        let failed = finished.failed.contains(&epoch);
        let fault = || finished.faults.get(&epoch).cloned().unwrap_or_else(failed_before);
        Some(if failed { Err(fault()) } else { Ok(()) })
    }
}

fn failed_before() -> Fault {
    Fault::new(FaultKind::TimedOut, "the meeting has failed at the other members before")
}

/// Whether a set has members of a group.
fn is_of(set: &Set, group: GroupId) -> bool {
    match set {
        Set::Group(of) => *of == group,
        Set::Members(members) => members.iter().any(|member| member.group == group),
    }
}

impl Epochs {
    /// The entry of a set and tag, created if needed; `None` if there are too many.
    pub(super) fn of(&mut self, set: &Set, tag: &[u8]) -> Option<&mut TagEpochs> {
        let known = self.sets.get(set).is_some_and(|tags| tags.contains_key(tag));
        if !known {
            if self.count >= SET_TAGS_MAX {
                return None;
            }
            self.count += 1;
            self.sets.entry(set.clone()).or_default().insert(tag.to_vec(), TagEpochs::default());
        }
        self.sets.get_mut(set)?.get_mut(tag)
    }

    pub(super) fn of_meeting(&mut self, meeting: &Meeting) -> Option<&mut TagEpochs> {
        self.of(&meeting.set, &meeting.tag)
    }

    /// The entry of a request, if it exists.
    pub(super) fn get(&self, meeting: &Meeting) -> Option<&TagEpochs> {
        self.sets.get(&meeting.set)?.get(&meeting.tag)
    }

    /// At a coordinator: the failed requests of members of a group, with their faults.
    pub(super) fn failures_of(&self, group: GroupId) -> Vec<(Meeting, Fault)> {
        let mut failures = Vec::new();
        for (set, tags) in self.sets.iter().filter(|(set, _)| is_of(set, group)) {
            for (tag, epochs) in tags {
                let meeting = |epoch| Meeting { set: set.clone(), tag: tag.clone(), epoch };
                let faults = epochs.finished.faults.iter();
                failures.extend(faults.map(|(epoch, fault)| (meeting(*epoch), fault.clone())));
            }
        }
        failures
    }

    /// A group was removed: drops its counters. Finished requests stay known for a while, since messages about them may
    /// be in transit.
    pub(super) fn forget(&mut self, group: GroupId) {
        for (set, tags) in self.sets.iter_mut().filter(|(set, _)| is_of(set, group)) {
            for epochs in tags.values_mut() {
                epochs.next.clear();
                epochs.failed.clear();
            }
            self.gone.push_back(set.clone());
        }
        while self.gone.len() > GONE_MAX {
            let tags = self.gone.pop_front().and_then(|set| self.sets.remove(&set));
            self.count -= tags.map_or(0, |tags| tags.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(rank: u32) -> Member {
        Member { group: GroupId(1), rank }
    }

    fn fault(text: &str) -> Fault {
        Fault::new(FaultKind::TimedOut, text)
    }

    #[test]
    fn each_member_counts_its_own_requests() {
        let mut epochs = TagEpochs::default();
        assert_eq!([0, 0, 1].map(|rank| epochs.count(member(rank))), [0, 1, 0]);
        assert!(epochs.has_entered(member(0), 1) && !epochs.has_entered(member(0), 2));
        assert!(epochs.has_entered(member(1), 0) && !epochs.has_entered(member(1), 1));
        assert!(!epochs.has_entered(member(2), 0));
    }

    /// Requests finish in any order; each keeps its outcome, and the set of numbers stays small.
    #[test]
    fn the_outcome_of_a_finished_request_is_known() {
        let mut epochs = TagEpochs::default();
        epochs.finish(2, Some(&fault("two")));
        assert_eq!((epochs.finished(0), epochs.finished(2)), (None, Some(Err(fault("two")))));
        epochs.finish(0, None);
        assert_eq!((epochs.finished(0), epochs.finished(1)), (Some(Ok(())), None));
        epochs.finish(1, None);
        assert_eq!((epochs.finished(1), epochs.finished(3)), (Some(Ok(())), None));
        assert_eq!((epochs.finished.below, epochs.finished.above.len()), (3, 0));
        assert_eq!(epochs.finished(2), Some(Err(fault("two"))));
    }

    #[test]
    fn failures_have_a_bound_and_the_latest_stay() {
        let mut epochs = TagEpochs::default();
        for epoch in 0..=FAILED_MAX as u64 {
            epochs.keep_failure(epoch, fault("late"));
            epochs.finish(epoch, Some(&fault("late")));
        }
        assert!(epochs.failed.len() == FAILED_MAX && !epochs.failed.contains_key(&0));
        assert_eq!(epochs.finished.faults.len(), FAILED_MAX);
        assert_eq!(epochs.finished(0), Some(Err(failed_before())), "that it failed is still known");
        assert_eq!(epochs.finished(1), Some(Err(fault("late"))));
    }

    /// A node that had counted the tags of freed groups refused those of new ones.
    #[test]
    fn freed_groups_make_room_for_other_sets() {
        let mut epochs = Epochs::default();
        let set = |group| Set::Group(GroupId(group));
        let tag = |number: usize| number.to_le_bytes();
        (0..SET_TAGS_MAX).for_each(|number| assert!(epochs.of(&set(1), &tag(number)).is_some()));
        assert!(epochs.of(&set(2), b"one").is_none() && epochs.of(&set(1), &tag(5)).is_some());
        epochs.of(&set(1), &tag(5)).unwrap().count(member(0));
        epochs.of(&set(1), &tag(5)).unwrap().keep_failure(0, fault("why"));
        epochs.forget(GroupId(1));
        let kept = epochs.of(&set(1), &tag(5)).unwrap();
        assert!(kept.failed.is_empty() && !kept.has_entered(member(0), 0));
        for group in 2..2 + GONE_MAX as u32 {
            epochs.gone.push_back(set(group));
        }
        epochs.forget(GroupId(9_999_999));
        assert_eq!((epochs.sets.len(), epochs.count), (0, 0), "the oldest set makes room");
        assert!(epochs.of(&set(2), b"one").is_some());
    }
}
