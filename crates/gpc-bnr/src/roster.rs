//! Groups as ordered lists of processes. The place of a process in the list is its rank in the group.
//!
//! A process keeps its name, the group that it was started in and its rank there, in all groups that it belongs to.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::names::{GroupId, Member, Rank};

/// Processes with consecutive ranks of the group that they were started in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Span {
    /// The group that they were started in.
    pub group: GroupId,
    /// The first rank.
    pub first: Rank,
    /// Number of processes.
    pub count: u32,
}

/// A group as the list of its processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Roster {
    /// The group.
    pub group: GroupId,
    /// The name of its own database.
    pub database: String,
    /// Its processes by rank. No span continues the one before it, and no process occurs twice.
    pub spans: Vec<Span>,
}

impl Span {
    /// All processes of a group that was started, however many it has.
    pub(crate) fn whole(group: GroupId) -> Span {
        Span { group, first: 0, count: u32::MAX }
    }

    /// The ranks.
    pub fn ranks(&self) -> Range<Rank> {
        self.first..self.first.saturating_add(self.count)
    }

    /// Whether a process is one of these.
    pub fn contains(&self, member: Member) -> bool {
        member.group == self.group && self.ranks().contains(&member.rank)
    }

    /// Whether this span begins where another one ends.
    pub(crate) fn continues(&self, before: &Span) -> bool {
        before.group == self.group && before.first.checked_add(before.count) == Some(self.first)
    }
}

impl Roster {
    /// A group with these processes, by rank.
    pub fn new(group: GroupId, database: String, members: impl IntoIterator<Item = Member>) -> Roster {
        Roster { group, database, spans: spans_of(members) }
    }

    /// Number of processes.
    pub fn size(&self) -> u64 {
        self.spans.iter().map(|span| u64::from(span.count)).sum()
    }

    /// The processes by rank.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.spans.iter().flat_map(|span| {
            let group = span.group;
            span.ranks().map(move |rank| Member { group, rank })
        })
    }

    /// The groups that the processes were started in.
    pub(crate) fn bases(&self) -> BTreeSet<GroupId> {
        self.spans.iter().map(|span| span.group).collect()
    }

    /// Whether a process belongs to the group.
    pub fn contains(&self, member: Member) -> bool {
        self.spans.iter().any(|span| span.contains(member))
    }

    /// The rank of a process in the group; `None` if it does not belong to it.
    pub fn rank_of(&self, member: Member) -> Option<Rank> {
        let mut before = 0;
        for span in &self.spans {
            if span.contains(member) {
                return Some(before + (member.rank - span.first));
            }
            before = span.count.checked_add(before)?;
        }
        None
    }

    /// A process that two groups have in common.
    pub(crate) fn common(ours: &[Span], theirs: &[Span]) -> Option<Member> {
        let mut all: Vec<&Span> = ours.iter().chain(theirs).collect();
        all.sort_unstable();
        let twice = all.windows(2).find(|pair| overlap(pair[0], pair[1]))?;
        Some(Member { group: twice[1].group, rank: twice[1].first })
    }
}

/// Whether the second of two sorted spans begins before the end of the first.
fn overlap(one: &Span, next: &Span) -> bool {
    one.group == next.group && next.first < one.ranks().end
}

/// Checks the spans of a list from outside.
///
/// # Errors
/// The reason why no list has these spans.
pub(crate) fn check_spans(spans: &[Span]) -> Result<(), &'static str> {
    if spans.iter().any(|span| span.count == 0 || span.first.checked_add(span.count).is_none()) {
        return Err("a span of ranks has none, or too many");
    }
    if spans.windows(2).any(|pair| pair[1].continues(&pair[0])) {
        return Err("a span of ranks continues the one before");
    }
    let size = spans.iter().try_fold(0_u32, |size, span| size.checked_add(span.count));
    size.ok_or("a group has too many ranks")?;
    match Roster::common(spans, &[]) {
        None => Ok(()),
        Some(_) => Err("a process occurs twice in a group"),
    }
}

/// Joins processes with consecutive ranks.
pub(crate) fn spans_of(members: impl IntoIterator<Item = Member>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for Member { group, rank } in members {
        let next = Span { group, first: rank, count: 1 };
        match spans.last_mut() {
            Some(last) if next.continues(last) => last.count += 1,
            _ => spans.push(next),
        }
    }
    spans
}

/// Joins lists of spans.
pub(crate) fn joined(spans: impl IntoIterator<Item = Span>) -> Vec<Span> {
    let mut all: Vec<Span> = Vec::new();
    for span in spans {
        match all.last_mut() {
            Some(last) if span.continues(last) => last.count += span.count,
            _ => all.push(span),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(group: u32, rank: Rank) -> Member {
        Member { group: GroupId(group), rank }
    }

    fn span(group: u32, first: Rank, count: u32) -> Span {
        Span { group: GroupId(group), first, count }
    }

    fn roster(members: &[Member]) -> Roster {
        Roster::new(GroupId(9), "db".into(), members.iter().copied())
    }

    #[test]
    fn spans_that_no_list_has_are_refused() {
        let wrong = |spans: &[Span]| check_spans(spans).unwrap_err();
        assert!(wrong(&[span(1, 3, 0)]).contains("has none"));
        assert!(wrong(&[span(1, 9, u32::MAX)]).contains("too many"));
        assert!(wrong(&[span(1, 3, 2), span(1, 5, 1)]).contains("continues"));
        assert!(wrong(&[span(1, 3, 2), span(2, 0, 1), span(1, 4, 1)]).contains("twice"));
        assert!(wrong(&[span(1, 0, u32::MAX), span(2, 0, 1)]).contains("too many ranks"));
        assert_eq!(check_spans(&[span(1, 5, 1), span(1, 3, 2), span(2, 5, 1)]), Ok(()));
        assert_eq!(check_spans(&[Span::whole(GroupId(1))]), Ok(()));
    }

    /// Distinct processes of three groups, in any order.
    fn members() -> impl Strategy<Value = Vec<Member>> {
        let any = prop::collection::btree_set((1..4_u32, 0..9_u32), 0..20);
        any.prop_map(|set| set.into_iter().map(|(group, rank)| member(group, rank)).collect::<Vec<_>>())
            .prop_shuffle()
    }

    proptest! {
        #[test]
        fn a_roster_is_the_list_that_it_was_made_of(members in members()) {
            let roster = roster(&members);
            prop_assert!(roster.members().eq(members.iter().copied()));
            prop_assert_eq!(roster.size(), members.len() as u64);
            prop_assert_eq!(check_spans(&roster.spans), Ok(()));
            for (group, rank) in (0..5).flat_map(|group| (0..10).map(move |rank| (group, rank))) {
                let place = members.iter().position(|other| *other == member(group, rank));
                prop_assert_eq!(roster.rank_of(member(group, rank)), place.map(|place| place as Rank));
                prop_assert_eq!(roster.contains(member(group, rank)), place.is_some());
            }
        }

        #[test]
        fn lists_have_a_process_in_common_or_none(ours in members(), theirs in members()) {
            let (one, other) = (roster(&ours), roster(&theirs));
            let both: BTreeSet<Member> =
                ours.iter().filter(|member| theirs.contains(member)).copied().collect();
            let found = Roster::common(&one.spans, &other.spans);
            prop_assert_eq!(found.is_some(), !both.is_empty());
            prop_assert!(found.is_none_or(|found| both.contains(&found)));
            if both.is_empty() {
                let all = joined(one.spans.iter().chain(&other.spans).copied());
                prop_assert_eq!(all, spans_of(ours.into_iter().chain(theirs)));
            }
        }
    }
}
