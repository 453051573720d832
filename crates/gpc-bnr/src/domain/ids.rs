//! Groups that must not be started any more.

use std::collections::BTreeSet;

use crate::names::GroupId;

/// Most groups remembered. Messages overtake each other by seconds at most, and a domain starts fewer groups in that
/// time.
const REMEMBERED: usize = 1 << 16;

/// The most recent groups, by their numbers, of those inserted.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_groups_are_remembered() {
        let mut recent = RecentGroups::default();
        (0..=REMEMBERED as u32).for_each(|group| recent.insert(GroupId(group)));
        assert!(!recent.contains(GroupId(0)) && recent.contains(GroupId(1)));
        assert!(recent.contains(GroupId(REMEMBERED as u32)));
        assert_eq!(recent.groups.len(), REMEMBERED);
    }
}
