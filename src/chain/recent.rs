//! The calls that this id has lately ended: a request for one of them comes from a second parent, and is not executed again.
//!
//! Source: chained-gpc.md, "Exceptions" 1.

use std::collections::{BTreeSet, VecDeque};

use crate::wire::CallId;

/// How many ended calls are remembered. A second request is delayed by at most a few frames of one link against another, so a thousand calls
/// later nothing of it is under way; the memory stays at some tens of KiB.
const REMEMBERED: usize = 1024;

/// The last calls that ended here.
#[derive(Debug, Default)]
pub(super) struct Recent {
    order: VecDeque<CallId>,
    calls: BTreeSet<CallId>,
}

impl Recent {
    pub(super) fn add(&mut self, call: CallId) {
        if !self.calls.insert(call) {
            return;
        }
        self.order.push_back(call);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.calls.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, call: CallId) -> bool {
        self.calls.contains(&call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thousand_are_known_and_no_more() {
        let mut recent = Recent::default();
        let call = |sequence| CallId { root: 1, sequence };
        for sequence in 0..5000 {
            recent.add(call(sequence));
            recent.add(call(sequence));
        }
        assert!(recent.contains(call(4999)) && recent.contains(call(5000 - 1024)));
        assert!(!recent.contains(call(5000 - 1025)));
        assert_eq!((recent.order.len(), recent.calls.len()), (1024, 1024));
    }
}
