//! Why resources have ended, for requests that arrive later.

use std::collections::{BTreeMap, VecDeque};

use super::{Fault, ResourceId};

/// Most ends that are remembered.
const ENDED_MAX: usize = 4096;

/// The most recent ends of resources.
#[derive(Debug, Default)]
pub(super) struct RecentEnds {
    /// Number of ends so far.
    count: u64,
    faults: BTreeMap<ResourceId, (u64, Fault)>,
    /// Ends in their order. If an id is here twice, its later end counts.
    order: VecDeque<(u64, ResourceId)>,
}

impl RecentEnds {
    pub(super) fn get(&self, id: ResourceId) -> Option<&Fault> {
        self.faults.get(&id).map(|(_, fault)| fault)
    }

    /// Remembers an end, and forgets the oldest if there are too many.
    pub(super) fn add(&mut self, id: ResourceId, fault: Fault) {
        self.count += 1;
        self.faults.insert(id, (self.count, fault));
        self.order.push_back((self.count, id));
        if self.order.len() > ENDED_MAX
            && let Some((number, oldest)) = self.order.pop_front()
            && self.faults.get(&oldest).is_some_and(|(latest, _)| *latest == number)
        {
            self.faults.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::FaultKind;

    fn id(number: usize) -> ResourceId {
        ResourceId((number as u128).to_be_bytes())
    }

    /// Each request for an unknown id searched all 4,096 ends, and a flood of such requests delayed every other caller.
    /// The map remembers the same ends as that search found.
    #[test]
    fn the_latest_ends_are_remembered_and_the_last_one_of_an_id_counts() {
        let mut ended = RecentEnds::default();
        let fault = |message: &str| Fault::new(FaultKind::Destroyed, message);
        ended.add(id(1), fault("first"));
        ended.add(id(2), fault("second"));
        ended.add(id(1), fault("again"));
        (3..ENDED_MAX + 2).for_each(|number| ended.add(id(number), fault("later")));
        // Two ends are forgotten: the first one of id 1, and that of id 2.
        assert_eq!(ended.get(id(1)), Some(&fault("again")));
        assert_eq!(ended.get(id(2)), None);
        assert_eq!((ended.order.len(), ended.faults.len()), (ENDED_MAX, ENDED_MAX));
        ended.add(id(9999), fault("last"));
        assert_eq!((ended.get(id(1)), ended.get(id(3))), (None, Some(&fault("later"))));
        assert_eq!((ended.order.len(), ended.faults.len()), (ENDED_MAX, ENDED_MAX));
    }
}
