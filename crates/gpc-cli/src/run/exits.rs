//! How all processes ended, for `--print-exits`: one line for all processes of a group that ended in the same way.

use std::collections::{BTreeMap, BTreeSet};

use gpc_bnr::names::{GroupId, Rank};
use gpc_bnr::{Death, Exit};

use super::failures::how;
use super::ranks;

/// Maximum number of lines.
const LINES_MAX: usize = 1024;

/// The ends of all processes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Exits(BTreeMap<(GroupId, Exit), BTreeSet<Rank>>);

impl Exits {
    /// Records the end of a process.
    pub(super) fn ended(&mut self, death: &Death) {
        self.0.entry((death.member.group, death.exit)).or_default().insert(death.member.rank);
    }

    /// The ends of the processes of a group.
    pub(super) fn of(&self, group: GroupId) -> impl Iterator<Item = (Exit, &BTreeSet<Rank>)> {
        self.0.iter().filter(move |((of, _), _)| *of == group).map(|((_, exit), ranks)| (*exit, ranks))
    }

    /// Returns the lines, by group and first rank.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|((group, _), ranks)| (*group, ranks.first().copied()));
        let line = |((group, exit), ranks): &(&(GroupId, Exit), &BTreeSet<Rank>)| {
            format!("{group}.{}: {}", ranks::shown(ranks.iter().copied()), how(*exit))
        };
        let mut lines: Vec<String> = all.iter().take(LINES_MAX).map(line).collect();
        if all.len() > LINES_MAX {
            lines.push(format!("{} more have ended in other ways", all.len() - LINES_MAX));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use gpc_bnr::names::Member;

    use super::*;

    #[test]
    fn those_that_ended_in_the_same_way_share_a_line() {
        let mut exits = Exits::default();
        for (group, rank, exit) in
            [(2, 0, Exit::Code(0)), (1, 3, Exit::Code(0)), (1, 1, Exit::Code(7)), (1, 0, Exit::Code(0))]
        {
            let member = Member { group: GroupId(group), rank };
            exits.ended(&Death { member, exit, finalized: true });
        }
        let lines = ["g1.0,3: ended with status 0", "g1.1: ended with status 7", "g2.0: ended with status 0"];
        assert_eq!(exits.lines(), lines);
    }
}
