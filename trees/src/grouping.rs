//! Groups within groups: the path of each host names the groups that it is in, and of each group it is found out which places of a list head its parts.
//!
//! The list is passed once. Nothing is recursive: a group knows its parts by their first places alone, whatever is within them.

use std::collections::BTreeMap;
use std::iter;

/// What stands between two names of a path.
pub(crate) const SEPARATOR: char = '/';

/// Most levels of a path. Site, cluster, row, rack, enclosure and host are six; each level costs every host of a list an entry.
pub(crate) const LEVELS_MAX: usize = 8;

/// The paths of the groups that a host is in, from the outermost one, and its own path last: `a`, `a/b`, `a/b/c` of `a/b/c`. What is left after as many levels
/// as there may be is one name, whatever is in it.
pub(crate) fn paths(host: &str) -> impl Iterator<Item = &str> {
    host.match_indices(SEPARATOR).take(LEVELS_MAX - 1).map(|(end, _)| &host[..end]).chain(iter::once(host))
}

/// The groups of the places of a list.
///
/// The whole list is the first group. The parts of a group are the groups within it, and the hosts whose path is that of the group itself. The parts of a host
/// are its places.
#[derive(Default)]
pub(crate) struct Grouping<'a> {
    /// The number of the group of each path.
    groups: BTreeMap<&'a str, usize>,
    /// The first place of each group and each host, by its number.
    firsts: Vec<u32>,
    /// The first places of the other parts: of which group or host, and the place. Each place of a list is here at most once.
    others: Vec<(usize, u32)>,
}

impl<'a> Grouping<'a> {
    /// Adds the next place of the list, the first one of its host, and says the number of the host. The place heads the group that comes new with it, and all
    /// within that one; it is another part of the group around.
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

    /// Adds the next place of the list, of a host that is there.
    pub(crate) fn same_host(&mut self, place: u32, host: usize) {
        self.others.push((host, place));
    }

    /// The first places of the parts of each group and each host, in the order of the list, where there are two or more.
    pub(crate) fn parts(mut self) -> impl Iterator<Item = Vec<u32>> {
        // Places came in ascending order, and stay so.
        self.others.sort_unstable();
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

    /// A new group or host, its number.
    fn begin(&mut self, place: u32) -> usize {
        self.firsts.push(place);
        self.firsts.len() - 1
    }

    /// The same, as a part of a group.
    fn part(&mut self, around: usize, place: u32) -> usize {
        if self.firsts[around] != place {
            self.others.push((around, place));
        }
        self.begin(place)
    }
}
