//! Rules for groups that were made of members of others: their members, and the answers of a split.

use std::collections::BTreeMap;

use super::Wrong;
use super::history::History;
use super::meetings::describe;
use crate::names::GroupId;
use crate::request::{Answer, Request};

/// The reported members of a group are its processes by rank.
pub(super) fn members(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for ((client, serial), (_, request)) in &history.requests {
        let Request::Members(group) = request else { continue };
        let Some((at, Ok(answer), _)) = history.answers.get(&(*client, *serial)) else { continue };
        let Answer::Rosters(rosters) = answer else {
            wrong.push((*at, format!("{client:?} asks for the members of {group}, and gets {answer:?}")));
            continue;
        };
        let Some(expected) = history.list(*group) else { continue };
        let told = rosters.iter().flat_map(|roster| roster.members());
        if rosters.len() != 1 || rosters[0].group != *group || !told.eq(expected.iter().copied()) {
            wrong.push((
                *at,
                format!("{group} has the members {expected:?}, and {client:?} gets {rosters:?}"),
            ));
        }
    }
}

/// Members of a split with the same color get the same group, those of different colors different groups, and those
/// without a color none.
pub(super) fn colors(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for (meeting, parts) in &history.meetings {
        let mut groups: BTreeMap<u32, GroupId> = BTreeMap::new();
        for part in parts {
            let (Request::Split { color, .. }, Some((at, Ok(answer)))) = (part.what, part.answered) else {
                continue;
            };
            let right = match (color, answer) {
                (None, Answer::Done) => true,
                (Some(color), Answer::Group(group)) => *groups.entry(*color).or_insert(*group) == *group,
                _ => false,
            };
            if !right {
                wrong.push((at, describe(meeting, &format!("{} gets {answer:?}, {groups:?}", part.member))));
            }
        }
    }
}
