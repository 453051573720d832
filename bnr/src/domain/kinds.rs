//! Which collective requests of a set there were: each member counts its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::order::{Epoch, Meeting};

/// Most sets and tags that a node counts for: each takes memory until its groups are forgotten.
const KINDS_MAX: usize = 1 << 16;

/// Most failed meetings of one set and tag that are kept for members that come later. Who comes later still is told by its own time limit.
const FAILED_MAX: usize = 1 << 12;

/// Most failed meetings of one set and tag that a coordinator tells again to somebody who has not heard of it.
const FINISHED_MAX: usize = 1 << 16;

/// How many sets of groups that are gone are known still: more than are freed while a call is on its way.
const GONE_MAX: usize = 1 << 10;

/// The meetings of one set and tag.
#[derive(Default, Debug)]
pub(super) struct Kind {
    /// Which is the next one of each member here.
    next: BTreeMap<Member, Epoch>,
    /// Those that have failed, and that members here have not come to yet.
    pub(super) failed: BTreeMap<Epoch, Fault>,
    /// Those that are over, at their coordinator.
    finished: Finished,
}

/// A set of epochs, small while they end about in their order.
#[derive(Default, Debug)]
struct Finished {
    /// All before this one are over.
    below: Epoch,
    above: BTreeSet<Epoch>,
    /// Those of them that have failed.
    failed: BTreeSet<Epoch>,
    /// Why, of the last ones.
    faults: BTreeMap<Epoch, Fault>,
}

/// What is known of the meetings of all sets.
#[derive(Default, Debug)]
pub(super) struct Kinds {
    kinds: BTreeMap<Set, BTreeMap<Vec<u8>, Kind>>,
    count: usize,
    /// Sets of groups that are gone, the oldest first.
    gone: VecDeque<Set>,
}

impl Kind {
    /// The number of the next meeting of a member, which counts with this.
    pub(super) fn count(&mut self, member: Member) -> Epoch {
        let next = self.next.entry(member).or_default();
        *next += 1;
        *next - 1
    }

    /// Whether a member has come to a meeting, or was told at once that it has failed.
    pub(super) fn has_come(&self, member: Member, epoch: Epoch) -> bool {
        self.next.get(&member).is_some_and(|next| *next > epoch)
    }

    /// Keeps a failure for those who come later.
    pub(super) fn keep_failure(&mut self, epoch: Epoch, fault: Fault) {
        self.failed.insert(epoch, fault);
        if self.failed.len() > FAILED_MAX {
            self.failed.pop_first();
        }
    }

    /// A meeting is over, as its coordinator says.
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

    /// Whether its coordinator has said that a meeting is over, and why it had failed, if it has.
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

impl Kinds {
    /// The meetings of a set and tag; none where there are too many.
    pub(super) fn of(&mut self, set: &Set, tag: &[u8]) -> Option<&mut Kind> {
        let known = self.kinds.get(set).is_some_and(|tags| tags.contains_key(tag));
        if !known {
            if self.count >= KINDS_MAX {
                return None;
            }
            self.count += 1;
            self.kinds.entry(set.clone()).or_default().insert(tag.to_vec(), Kind::default());
        }
        self.kinds.get_mut(set)?.get_mut(tag)
    }

    pub(super) fn of_meeting(&mut self, meeting: &Meeting) -> Option<&mut Kind> {
        self.of(&meeting.set, &meeting.tag)
    }

    /// Those that have been seen.
    pub(super) fn get(&self, meeting: &Meeting) -> Option<&Kind> {
        self.kinds.get(&meeting.set)?.get(&meeting.tag)
    }

    /// A group is gone. Which of its meetings are over is known for some time still: what members have said before is perhaps on its way.
    pub(super) fn forget(&mut self, group: GroupId) {
        let of_group = |set: &Set| match set {
            Set::Group(of) => *of == group,
            Set::Members(members) => members.iter().any(|member| member.group == group),
        };
        for (set, tags) in self.kinds.iter_mut().filter(|(set, _)| of_group(set)) {
            for kind in tags.values_mut() {
                kind.next.clear();
                kind.failed.clear();
            }
            self.gone.push_back(set.clone());
        }
        while self.gone.len() > GONE_MAX {
            let tags = self.gone.pop_front().and_then(|set| self.kinds.remove(&set));
            self.count -= tags.map_or(0, |tags| tags.len());
        }
    }
}
