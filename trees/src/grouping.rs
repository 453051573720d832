//! Nested groups of hosts: the path of each host names its groups. For each group, computes which places of a list head
//! its parts.
//!
//! The list is read once, and nothing recurses: a group stores only the first places of its parts.

use crate::sorting::sort_by;
use std::collections::BTreeMap;
use std::iter;

/// Separator between two names of a path.
pub(crate) const SEPARATOR: char = '/';

/// Maximum number of levels of a path. Site, cluster, row, rack, enclosure and host are six; each level costs an entry
/// for every host of a list.
pub(crate) const LEVELS_MAX: usize = 8;

/// Returns the paths of the groups that a host is in, from the outermost one, then its own path: `a`, `a/b`, `a/b/c`
/// for `a/b/c`. The text beyond the maximum number of levels counts as one name.
pub(crate) fn paths(host: &str) -> impl Iterator<Item = &str> {
    host.match_indices(SEPARATOR).take(LEVELS_MAX - 1).map(|(end, _)| &host[..end]).chain(iter::once(host))
}

/// The groups of the places of a list.
///
/// The whole list is the first group. The parts of a group are the groups within it, and the hosts whose path equals
/// the group's. The parts of a host are its places.
#[derive(Default)]
pub(crate) struct Grouping<'a> {
    /// The number of the group of each path.
    groups: BTreeMap<&'a str, usize>,
    /// First place of each group and each host, by its number.
    firsts: Vec<u32>,
    /// The first places of all further parts: the number of the group or host, and the place. Each place of a list
    /// occurs at most once.
    others: Vec<(usize, u32)>,
}

impl<'a> Grouping<'a> {
    /// Adds the next place of the list, the first one of its host, and returns the number of the host. The place heads
    /// every new group that comes with it, and becomes another part of the innermost existing group.
    pub(crate) fn new_host(&mut self, place: u32, path: &'a str) -> usize {
        if self.firsts.is_empty() {
            self.begin(place);
        }
        let mut around = 0;
        for path in paths(path) {
            around = match self.groups.get(path) {
                Some(&group) => group,
                None => {
                    let group = self.part(around, place);
                    self.groups.insert(path, group);
                    group
                }
            };
        }
        self.part(around, place)
    }

    /// Adds the next place of the list, of a known host.
    pub(crate) fn same_host(&mut self, place: u32, host: usize) {
        self.others.push((host, place));
    }

    /// Returns the first places of the parts of each group and each host, in list order, for those with at least two
    /// parts.
    pub(crate) fn parts(mut self) -> impl Iterator<Item = Vec<u32>> {
        // Places were added in ascending order, and the sort keeps that order within a group.
        sort_by(&mut self.others, Ord::cmp);
        let Grouping { firsts, others, .. } = self;
        let mut next = 0;
        iter::from_fn(move || {
            let &(group, _) = others.get(next)?;
            let rest = others[next..].iter().take_while(|(of, _)| *of == group).map(|(_, place)| *place);
            let parts: Vec<u32> = iter::once(firsts[group]).chain(rest).collect();
            next += parts.len() - 1;
            Some(parts)
        })
    }

    /// Adds a group or host, and returns its number.
    fn begin(&mut self, place: u32) -> usize {
        self.firsts.push(place);
        self.firsts.len() - 1
    }

    /// Adds a group or host as a part of a group.
    fn part(&mut self, around: usize, place: u32) -> usize {
        if self.firsts[around] != place {
            self.others.push((around, place));
        }
        self.begin(place)
    }
}
