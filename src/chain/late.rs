//! Calls whose time limit has passed: they wait for the reports of those below, and none of them succeeds.
//!
//! An id whose own func or callback has not ended by its limit is the cause, and fails at once. An id that waits for its children alone is not: the cause is below it, and so is what the others have done. Reports are
//! on their way then for as long as processes take to be scheduled. So the whole call has some extra time, the same at each id, and an id waits for a part of it that is longer than the parts of those below.

use std::time::Duration;

use gpc_trees::{Id, Tree};

use super::call::{Call, JobState, Origin, Own};
use super::failing::expiry;
use super::slot::Slot;
use super::{Node, Output, Time};
use crate::wire::{Cause, CauseKind, Stage};

/// Extra time of a failing call: this, and one part in so many of its limit.
const EXTRA_MIN: Duration = Duration::from_millis(100);
const EXTRA_SHARE: u32 = 100;

/// The part of the extra time that the levels of the tree share: enough for a report to go up one level where processes are scheduled at once. A larger part would help those alone whose child is silent, and leave less time to all others.
const LEVELS_SHARE: u64 = 8;

/// Calls whose time has passed that end with one input: a few milliseconds of work.
const EXPIRED_MAX: usize = 1024;

/// Bits of a height that are parts of a level.
const LEVEL_BITS: u32 = 32;

/// How long after its limit a call ends at the latest, if it fails.
pub(crate) fn extra_time(limit: Duration) -> Duration {
    (limit / EXTRA_SHARE).saturating_add(EXTRA_MIN)
}

/// How long after its own limit an id waits for the reports of its children, where the whole call has so much `extra` time: none without children, all of it at the root.
///
/// Most of it is for reports that come by themselves: of an id whose function outlasts the limit, or of one that is lost. One part in [`LEVELS_SHARE`] is divided among the levels, so that of ids that wait for a silent one the deepest gives up first.
pub(crate) fn time_for_reports(extra: Duration, tree: Option<&Tree>, ids: u32, total: u32) -> Duration {
    let (here, all) = (height(tree, ids), height(tree, total.max(ids)));
    if here == 0 {
        return Duration::ZERO;
    }
    let extra = u64::try_from(extra.as_nanos()).unwrap_or(u64::MAX);
    let levels = extra / LEVELS_SHARE;
    let part = u128::from(levels) * u128::from(here) / u128::from(all);
    Duration::from_nanos(extra - levels + u64::try_from(part).unwrap_or(levels))
}

/// The height of a tree over so many ids; where nobody knows it, that of one whose ids halve at each level: any child has less than its parent.
fn height(tree: Option<&Tree>, ids: u32) -> u64 {
    let ids = ids.max(1);
    if let Some(depth) = tree.and_then(|tree| tree.depth(ids)) {
        return u64::from(depth) << LEVEL_BITS;
    }
    let whole = ids.ilog2();
    let rest = u64::from(ids - (1 << whole)) << LEVEL_BITS >> whole;
    (u64::from(whole) << LEVEL_BITS) + rest
}

impl Call {
    /// When it ends for want of time: with its limit, or when the time for reports is over.
    pub(super) fn due(&self) -> Time {
        if self.late { self.deadline.plus(self.time_for_reports()) } else { self.deadline }
    }

    fn time_for_reports(&self) -> Duration {
        let request = &self.request;
        // The root's own limit, which is exact at the root.
        let limit = match self.origin {
            Origin::Here { .. } => self.deadline.since(self.begun),
            Origin::Parent { .. } => request.left.saturating_add(request.age),
        };
        time_for_reports(extra_time(limit), request.tree.as_ref().ok(), request.ids.len(), request.total)
    }

    /// Whether nothing is left to do here before the children have answered.
    fn awaits_children_alone(&self) -> bool {
        let own = matches!(self.own, Own::Ready(_) | Own::Given);
        own && self.job == JobState::Idle && self.children.is_some() && self.unasked.is_none()
    }

    /// Whether what comes now is a report, though the node has not been told yet that the limit of this partial call has passed: what callback makes of it has the time for reports.
    pub(super) fn begins_late(&self, now: Time) -> bool {
        let own = matches!(self.own, Own::Ready(_) | Own::Failed);
        self.request.partial && !self.late && self.deadline <= now && own && self.children.is_some()
    }

    /// Whether its time for reports has passed, too. An id that stood still may not have been told so yet.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.deadline <= now && self.deadline.plus(self.time_for_reports()) <= now
    }

    /// Why a call that is late has not succeeded though all have answered: the last answer came too late.
    pub(super) fn too_late(&self, me: Id) -> Cause {
        let (children, limit) = (self.children.as_deref().unwrap_or_default(), self.request.limit);
        let last = children.get(self.last as usize).map_or(me, |child| child.id);
        let message = format!(
            "all have answered, but the answer of id {last} came to id {me} after the time limit ({limit:?} here)"
        );
        Cause::new(last, Stage::Reply, CauseKind::TimeLimit, message)
    }
}

impl Node {
    /// Ends the calls whose time limit has passed, or has them wait for reports.
    pub(super) fn expire(&mut self) {
        let now = self.now;
        for id in self.spots.as_mut().map_or(Vec::new(), |spots| spots.expired(now)) {
            self.take_over(id);
        }
        // The others end with the next inputs: a peer can give any number of calls one deadline.
        for _ in 0..EXPIRED_MAX {
            let Some(id) = self.deadlines.expired(self.now) else { break };
            match self.calls.find(id).filter(|slot| self.calls.get(*slot).is_some_and(|call| !call.late)) {
                Some(slot) => self.limit_passes(slot),
                // No call, or one that is late: none behind it may wait for it.
                None => self.deadlines.drop_first(),
            }
        }
    }

    /// Ends the calls that have waited for reports long enough. Not beside another input: a process that was not scheduled for a while has more of them to take first.
    pub(super) fn end_late(&mut self) {
        for _ in 0..EXPIRED_MAX {
            let Some(id) = self.deadlines.pop_late(self.now) else { break };
            if let Some(slot) = self.calls.find(id) {
                self.limit_passes(slot);
            }
        }
    }

    /// The root decides whether a call took longer than its limit: whatever ends it comes too late then, even if nobody has told the node the time before.
    pub(super) fn heed_limit(&mut self, slot: Slot) {
        let passed = |call: &Call| {
            matches!(call.origin, Origin::Here { .. }) && call.deadline <= self.now && !call.late
        };
        if self.calls.get(slot).is_some_and(passed) {
            self.limit_passes(slot);
        }
    }

    /// The limit of a call has passed, or the time for reports behind it.
    pub(super) fn limit_passes(&mut self, slot: Slot) {
        let Some(call) = self.calls.get(slot) else { return };
        let cause = expiry(self.config.me, call, &self.runs);
        if call.request.partial {
            self.expire_partial(slot, cause);
        } else if call.late || !call.awaits_children_alone() {
            self.fail(slot, cause);
        } else {
            self.await_reports(slot);
        }
    }

    /// A call is late, and waits for the reports of its children.
    pub(super) fn await_reports(&mut self, slot: Slot) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        self.deadlines.remove(call.deadline, call.request.call);
        call.late = true;
        self.deadlines.add_late(call.due(), call.request.call);
        self.advance(slot);
    }

    /// The own part of a partial call has no time left: its function is told, and what it gives is ignored.
    pub(super) fn own_part_expires(&mut self, slot: Slot, cause: Cause) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let id = call.request.call;
        let later = matches!(call.own, Own::Deferred | Own::LentLater);
        let job = std::mem::replace(&mut call.job, JobState::Idle);
        call.own_failed(cause);
        match job {
            JobState::Queued(turn) => self.runs.leave(turn),
            JobState::Running => self.emit(Output::Stopped(id)),
            JobState::Idle if later => self.emit(Output::Stopped(id)),
            JobState::Idle => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use gpc_trees::Group;

    use super::*;

    const EXTRA: Duration = Duration::from_millis(110);

    /// What an id waits over so many ids of a tree of `total`, and the children of it less; `own` is a tree whose heights nobody knows.
    fn check(tree: &Tree, own: bool, ids: u32, total: u32) -> Duration {
        let known = Some(tree).filter(|_| !own);
        let waits = time_for_reports(EXTRA, known, ids, total);
        for &Group { len, .. } in &tree.split(ids).expect("a good tree") {
            let child = check(tree, own, len, total);
            assert!(waits > child, "{tree}: {ids} ids wait {waits:?}, {len} of them {child:?}");
            if let Some(depth) = known.and_then(|tree| tree.depth(total)) {
                // Rounded down twice.
                let part = EXTRA / LEVELS_SHARE as u32 / depth;
                assert!(waits - child + Duration::from_nanos(2) >= part, "{tree}: {ids} ids, {len} of them");
            }
        }
        waits
    }

    /// Whatever the tree, each id waits longer than those below it, the root all of the extra time, and an id without children not at all.
    #[test]
    fn each_level_waits_less_than_the_one_above() {
        let three = NonZeroU32::new(3).expect("it is not zero");
        for tree in [Tree::Binary, Tree::Binomial, Tree::Kary(three), Tree::Chain, Tree::Flat] {
            for (own, total) in [1, 2, 3, 8, 9, 64, 301].into_iter().flat_map(|n| [(false, n), (true, n)]) {
                let root = check(&tree, own, total, total);
                let all = if total > 1 { EXTRA } else { Duration::ZERO };
                assert!(all.saturating_sub(root) <= Duration::from_nanos(1), "{tree}: {root:?} over {total}");
            }
        }
        // Whatever a request says of its place.
        assert!(time_for_reports(EXTRA, None, 9, 0) <= EXTRA);
        assert!(time_for_reports(Duration::MAX, None, u32::MAX, u32::MAX) > Duration::from_secs(1 << 32));
    }

    #[test]
    fn the_extra_time_is_a_hundredth_and_a_tenth_of_a_second() {
        assert_eq!(extra_time(Duration::from_secs(1)), EXTRA);
        assert_eq!(extra_time(Duration::from_secs(10)), Duration::from_millis(200));
        assert_eq!(extra_time(Duration::ZERO), EXTRA_MIN);
        let [root, first, second] = [8, 4, 2].map(|ids| time_for_reports(EXTRA, Some(&Tree::Binary), ids, 8));
        assert_eq!([root, first, second].map(|waits| waits.as_millis()), [110, 105, 100]);
    }
}
