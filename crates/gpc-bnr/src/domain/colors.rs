//! The groups into which the members of a group split themselves.
//!
//! Source: BNR, "creating groups", option 1; the order is that of MPI's `MPI_Comm_split`.

use std::collections::BTreeMap;

use crate::fault::{Fault, FaultKind};
use crate::names::Member;
use crate::order::Choice;

/// The members of each new group by rank, the group with the smallest color first. Within a group, the member with the
/// smaller key comes first; of equal keys, the one with the smaller rank in the old group. A member without a color
/// belongs to no new group.
///
/// # Errors
/// A member has not chosen, though its node has reported that it has arrived.
pub(super) fn split(
    members: impl Iterator<Item = Member>,
    choices: &[Choice],
) -> Result<Vec<Vec<Member>>, Fault> {
    let choices: BTreeMap<Member, &Choice> = choices.iter().map(|choice| (choice.member, choice)).collect();
    let mut groups: BTreeMap<u32, Vec<(i32, Member)>> = BTreeMap::new();
    for member in members {
        let choice = choices.get(&member).ok_or_else(|| {
            let message = format!("the node of {member} has not reported its color");
            Fault::new(FaultKind::System, message)
        })?;
        if let Some(color) = choice.color {
            groups.entry(color).or_default().push((choice.key, member));
        }
    }
    let sorted = groups.into_values().map(|mut group| {
        // Equal keys keep the order of the old ranks.
        group.sort_by_key(|(key, _)| *key);
        group.into_iter().map(|(_, member)| member).collect()
    });
    Ok(sorted.collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::names::GroupId;

    fn member(rank: u32) -> Member {
        Member { group: GroupId(1), rank }
    }

    #[test]
    fn a_member_without_a_choice_is_named() {
        let choices = [Choice { member: member(0), color: None, key: 0 }];
        let fault = split([0, 1].map(member).into_iter(), &choices).unwrap_err();
        assert_eq!(fault.message, "the node of g1.1 has not reported its color");
    }

    proptest! {
        /// The model: of two members, the one with the smaller (color, key, old rank) comes first.
        #[test]
        fn members_are_ordered_by_color_key_and_old_rank(
            chosen in prop::collection::vec((prop::option::of(0..4_u32), -2..3_i32), 0..20),
            ranks in Just((0..20_u32).collect::<Vec<_>>()).prop_shuffle(),
            swapped: bool,
        ) {
            // Place in the old group: the index. Names are in another order.
            let all: Vec<Member> = ranks.into_iter().map(member).take(chosen.len()).collect();
            let mut choices: Vec<Choice> = all.iter().zip(&chosen)
                .map(|(member, (color, key))| Choice { member: *member, color: *color, key: *key })
                .collect();
            if swapped {
                choices.reverse();
            }
            let groups = split(all.iter().copied(), &choices).unwrap();
            let mut model: Vec<(u32, i32, usize)> = chosen.iter().enumerate()
                .filter_map(|(place, (color, key))| Some(((*color)?, *key, place)))
                .collect();
            model.sort_unstable();
            let expected: Vec<Vec<Member>> = model
                .chunk_by(|one, next| one.0 == next.0)
                .map(|group| group.iter().map(|(_, _, place)| all[*place]).collect())
                .collect();
            prop_assert_eq!(groups, expected);
        }
    }
}
