//! Groups of which nothing may be started any more.

use std::collections::BTreeSet;

use crate::names::GroupId;

/// How many are remembered: an order that overtakes another does so within seconds, and no domain starts that many groups meanwhile.
const REMEMBERED: usize = 1 << 16;

/// The groups with the highest numbers of those that were put in.
#[derive(Default, Debug)]
pub(super) struct RecentGroups {
    groups: BTreeSet<GroupId>,
}

impl RecentGroups {
    pub(super) fn insert(&mut self, group: GroupId) {
        self.groups.insert(group);
        if self.groups.len() > REMEMBERED {
            self.groups.pop_first();
        }
    }

    pub(super) fn contains(&self, group: GroupId) -> bool {
        self.groups.contains(&group)
    }
}
