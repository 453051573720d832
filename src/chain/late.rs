//! Calls whose time limit has passed: they wait for the reports from below, and fail.
//!
//! If an id's own func or callback has not ended by the limit, the id is the cause and fails at once. If the id only
//! waits for its children, the cause is below it, and so is the state of the others. Their reports are in transit for
//! as long as processes take to be scheduled. So the whole call has some extra time, which is the same at each id. Each
//! id waits for a part of it that is longer than the parts of the ids below.

use std::time::Duration;

use gpc_trees::{Id, Tree};

use super::call::{Call, JobState, Origin, OwnPart};
use super::failing::expiry;
use super::slot::Slot;
use super::{Node, Output, Time};
use crate::wire::{Cause, CauseKind, Stage};

/// Extra time of a failing call: this constant, plus the call's limit divided by `EXTRA_SHARE`.
const EXTRA_MIN: Duration = Duration::from_millis(100);
const EXTRA_SHARE: u32 = 100;

/// The levels of the tree share the extra time divided by this: enough for a report to go up one level if processes are
/// scheduled at once. A larger part would help only ids with a silent child, and leave less time to all others.
const LEVELS_SHARE: u64 = 8;

/// Maximum number of expired calls that end with one input: a few milliseconds of work.
const EXPIRED_MAX: usize = 1024;

/// Number of fraction bits in a height, which is counted in levels.
const LEVEL_BITS: u32 = 32;

/// Returns how long after its limit a failing call ends at the latest.
pub(crate) fn extra_time(limit: Duration) -> Duration {
    (limit / EXTRA_SHARE).saturating_add(EXTRA_MIN)
}

/// Returns how long after its own limit an id waits for the reports of its children, if the whole call has this `extra`
/// time: zero without children, all of it at the root.
///
/// Most of it is for reports that are sent without waiting: of an id whose function exceeds the limit, or of a lost id.
/// One part in [`LEVELS_SHARE`] is divided among the levels, so that the deepest of the ids that wait for a silent one
/// gives up first.
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

/// Returns the height of a tree over `ids` ids. If it is unknown, it is that of a tree whose ids halve at each level,
/// so each child is lower than its parent.
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
    /// When it expires: at its limit, or after its time for reports.
    pub(super) fn due(&self) -> Time {
        if self.late { self.deadline.plus(self.time_for_reports()) } else { self.deadline }
    }

    fn time_for_reports(&self) -> Duration {
        let request = &self.request;
        // The limit of the root; exact at the root itself.
        let limit = match self.origin {
            Origin::Application { .. } => self.deadline.since(self.times.came),
            Origin::Parent { .. } => request.left.saturating_add(request.age),
        };
        time_for_reports(extra_time(limit), request.tree.as_ref().ok(), request.ids.len(), request.total)
    }

    /// Whether the call has nothing left to do here until the children answer.
    fn awaits_children_alone(&self) -> bool {
        let own = matches!(self.own, OwnPart::Ready(_) | OwnPart::Given);
        own && self.job == JobState::Idle && self.children.is_some() && self.unasked.is_none()
    }

    /// Whether the limit of this partial call has passed before the node was ticked. Then answers that arrive now are
    /// reports, and callback has the time for reports to merge them.
    pub(super) fn begins_late(&self, now: Time) -> bool {
        let own = matches!(self.own, OwnPart::Ready(_) | OwnPart::Failed);
        self.request.partial && !self.late && self.deadline <= now && own && self.children.is_some()
    }

    /// Whether its time for reports has passed too. An id that was stopped may not have been ticked yet.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.deadline <= now && self.deadline.plus(self.time_for_reports()) <= now
    }

    /// Returns why a late call fails although all children have answered: the last answer came too late.
    pub(super) fn too_late(&self, me: Id) -> Cause {
        let limit = self.request.limit;
        let last = self.times.last().map_or(me, |(child, _)| child);
        let message = format!(
            "all have answered, but the answer of id {last} came to id {me} after the time limit ({limit:?} here)"
        );
        Cause::new(last, Stage::Reply, CauseKind::TimeLimit, message)
    }
}

impl Node {
    /// Ends the calls whose time limit has passed, or lets them wait for reports.
    pub(super) fn expire(&mut self) {
        let now = self.now;
        for id in self.fast_calls.as_mut().map_or(Vec::new(), |fast_calls| fast_calls.expired(now)) {
            self.take_over(id);
        }
        // The rest ends with later inputs: a peer can give any number of calls one deadline.
        for _ in 0..EXPIRED_MAX {
            let Some(id) = self.deadlines.expired(self.now) else { break };
            match self.calls.find(id).filter(|slot| self.calls.get(*slot).is_some_and(|call| !call.late)) {
                Some(slot) => self.limit_passes(slot),
                // No call, or a late one: no later deadline may wait for it.
                None => self.deadlines.drop_first(),
            }
        }
    }

    /// Ends the calls that have waited for reports long enough. Only on a tick: a process that was not scheduled for a
    /// while has other inputs to process first.
    pub(super) fn end_late(&mut self) {
        for _ in 0..EXPIRED_MAX {
            let Some(id) = self.deadlines.pop_late(self.now) else { break };
            if let Some(slot) = self.calls.find(id) {
                self.limit_passes(slot);
            }
        }
    }

    /// Applies the time limit at the root, which decides whether a call exceeded it: an end after the limit is too
    /// late, even if the node has not been ticked since.
    pub(super) fn check_limit(&mut self, slot: Slot) {
        let passed = |call: &Call| {
            matches!(call.origin, Origin::Application { .. }) && call.deadline <= self.now && !call.late
        };
        if self.calls.get(slot).is_some_and(passed) {
            self.limit_passes(slot);
        }
    }

    /// Handles that the limit of a call has passed, or the time for reports after it.
    pub(super) fn limit_passes(&mut self, slot: Slot) {
        let Some(call) = self.calls.get(slot) else { return };
        let cause = expiry(self.config.me, call, &self.run_queue);
        let cause = Cause { straggler: self.late_straggler(call).map(Box::new), ..cause };
        if call.request.partial {
            self.expire_partial(slot, cause);
        } else if call.late || !call.awaits_children_alone() {
            self.fail(slot, cause);
        } else {
            self.await_reports(slot);
        }
    }

    /// Marks a call as late: it waits for the reports of its children.
    pub(super) fn await_reports(&mut self, slot: Slot) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        self.deadlines.remove(call.deadline, call.request.call);
        call.late = true;
        self.deadlines.add_late(call.due(), call.request.call);
        self.advance(slot);
    }

    /// Ends the own part of a partial call that has no time left: its function is notified, and its result is ignored.
    pub(super) fn own_part_expires(&mut self, slot: Slot, cause: Cause) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let id = call.request.call;
        let later = matches!(call.own, OwnPart::Deferred | OwnPart::LentLater);
        let job = std::mem::replace(&mut call.job, JobState::Idle);
        call.own_failed(cause);
        match job {
            JobState::Queued(position) => self.run_queue.leave(position),
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

    /// Returns the waiting time of an id over `ids` ids in a tree of `total`, and checks that each child's is shorter.
    /// `own` is whether the heights of the tree are unknown.
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

    /// For any tree, each id waits longer than the ids below it. The root waits for all of the extra time, and an id
    /// without children not at all.
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
        // For any position in a request.
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
