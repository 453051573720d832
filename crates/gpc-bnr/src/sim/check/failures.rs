//! Rules for failed collective requests: the same fault at all members, the cause first, and the missing members by
//! name.

use std::collections::BTreeSet;

use super::Wrong;
use super::history::{History, Part};
use super::meetings::{coordinator, describe, limit_of};
use crate::exit::Exit;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::request::Client;

/// The shortest default limit, in microseconds.
const LIMIT_MIN: u128 = 20_000_000;

/// The place and the fault of a failure whose reason all members share.
fn failed<'a>(part: &Part<'a>) -> Option<(usize, &'a Fault)> {
    let Some((at, Err(fault))) = part.answered else { return None };
    let shared = matches!(
        fault.kind,
        FaultKind::MemberDied | FaultKind::NodeLost | FaultKind::TimedOut | FaultKind::Mismatch
    );
    shared.then_some((at, fault))
}

/// All members get the same fault, and it lists no death later than the first answer.
pub(super) fn same(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for (meeting, parts) in &history.meetings {
        let Some(first) = parts.iter().filter_map(failed).map(|(at, _)| at).min() else { continue };
        let leads = coordinator(history, meeting);
        let groups: BTreeSet<GroupId> = match &meeting.0 {
            Set::Group(group) => history.bases(*group).into_iter().chain([*group]).collect(),
            Set::Members(members) => members.iter().map(|member| member.group).collect(),
        };
        let counts = |part: &&Part<'_>| {
            let at = part.answered.map_or(usize::MAX, |(at, _)| at);
            // The failures of a removed group are forgotten.
            let removed = groups.iter().any(|group| history.is_removed(*group, at));
            !removed
                && !history.is_excused(Client::Process(part.member), at)
                && leads.is_some_and(|id| !history.is_disturbed(id, at))
        };
        let mut faults = parts.iter().filter(counts).filter_map(failed);
        let Some((_, fault)) = faults.next() else { continue };
        for (at, other) in faults.filter(|(_, other)| *other != fault) {
            wrong.push((at, describe(meeting, &format!("fails with {other:?}, elsewhere with {fault:?}"))));
        }
        for death in fault.deaths.iter().filter(|death| !matches!(death.exit, Exit::Node(_))) {
            if history.over.get(&death.member).is_some_and(|(over, _)| *over > first) {
                wrong.push((
                    first,
                    describe(meeting, &format!("fails with a death that has come later: {death:?}")),
                ));
            }
        }
    }
}

/// The fault of a passed time limit lists exactly the members that have not arrived.
pub(super) fn name_the_missing(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for (meeting, parts) in &history.meetings {
        let all = history.members(&meeting.0, parts[0].what);
        let came: BTreeSet<Member> = parts.iter().map(|part| part.member).collect();
        let limit =
            |part: &Part<'_>| u128::from(history.time(part.asked)) + limit_of(part.what).unwrap_or(LIMIT_MIN);
        let passed = parts.iter().map(limit).min().unwrap_or_default();
        let in_time = parts.iter().filter(|part| u128::from(history.time(part.asked)) < passed);
        let in_time: BTreeSet<Member> = in_time.map(|part| part.member).collect();
        for (at, fault) in parts.iter().filter_map(failed) {
            if fault.kind != FaultKind::TimedOut || history.any_disturbed(at) {
                continue;
            }
            let lives = |member: &Member| {
                let over = history.over.get(member).is_some_and(|(over, _)| *over < at);
                history.runs.contains_key(member) && !over
            };
            let unnamed =
                all.difference(&came).find(|member| lives(member) && !fault.missing.contains(member));
            let innocent =
                fault.missing.iter().find(|member| in_time.contains(member) || !all.contains(member));
            if let Some(member) = unnamed.or(innocent) {
                wrong.push((
                    at,
                    describe(meeting, &format!("times out, and is wrong of {member}: {fault:?}")),
                ));
            }
        }
    }
}
