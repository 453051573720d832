//! The calls of each parent whose time limits pass first: a heartbeat reports what these wait for.
//!
//! All calls in flight are examined at once for all parents, and seldom. So a parent gets its own calls however many
//! others there are, and many heartbeat requests cost little.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::Time;
use crate::wire::CallId;
use crate::wire::stragglers::STRAGGLERS_MAX;

/// The calls of one parent.
#[derive(Debug, Default)]
struct OfParent {
    /// The first by time limit, in order.
    calls: Vec<(Time, CallId)>,
    /// When they were last reported.
    reported: Option<Time>,
}

/// The calls of each parent whose time limits pass first. Bounded by the calls in flight at the time of the scan.
#[derive(Debug)]
pub(super) struct UrgentCalls {
    /// When the calls were examined.
    pub(super) scanned: Time,
    parents: BTreeMap<Id, OfParent>,
}

impl UrgentCalls {
    pub(super) fn new(now: Time) -> UrgentCalls {
        UrgentCalls { scanned: now, parents: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, parent: Id, deadline: Time, call: CallId) {
        let calls = &mut self.parents.entry(parent).or_default().calls;
        let place = calls.partition_point(|other| *other < (deadline, call));
        if place < STRAGGLERS_MAX {
            calls.truncate(STRAGGLERS_MAX - 1);
            calls.insert(place, (deadline, call));
        }
    }

    /// Returns the calls to report to a parent. One report at one time: the PONG behind it answers all PINGs of a turn.
    pub(super) fn report(&mut self, parent: Id, now: Time) -> Vec<CallId> {
        let Some(of) = self.parents.get_mut(&parent) else { return Vec::new() };
        match of.reported.replace(now) {
            Some(last) if last == now => Vec::new(),
            _ => of.calls.iter().map(|(_, call)| *call).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each parent gets its own calls with the first limits, in order, whatever the order in which they are added.
        #[test]
        fn each_parent_gets_its_calls_whose_limits_pass_first(
            calls in prop::collection::vec((0u32..3, 0u64..50), 0..100),
        ) {
            let mut urgent = UrgentCalls::new(Time::default());
            let mut all = vec![Vec::new(); 3];
            for (sequence, (parent, deadline)) in (0u64..).zip(calls) {
                let (deadline, call) = (Time::from_nanos(deadline), CallId { root: 9, sequence });
                urgent.add(parent, deadline, call);
                all[parent as usize].push((deadline, call));
            }
            for (parent, mut of) in (0u32..).zip(all) {
                of.sort_unstable();
                let first: Vec<CallId> = of.iter().take(STRAGGLERS_MAX).map(|(_, call)| *call).collect();
                prop_assert_eq!(urgent.report(parent, Time::from_nanos(7)), first.clone());
                prop_assert_eq!(urgent.report(parent, Time::from_nanos(7)), vec![]);
                prop_assert_eq!(urgent.report(parent, Time::from_nanos(8)), first);
            }
        }
    }
}
