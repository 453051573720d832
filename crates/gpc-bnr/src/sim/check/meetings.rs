//! Rules for fences and for opening, closing and merging groups: the members, the outcome, its reason and its time.

use std::collections::BTreeSet;
use std::mem::discriminant;

use chained_gpc::trees::Id;

use super::Wrong;
use super::history::{History, Meeting, Part};
use crate::exit::Exit;
use crate::fault::{Fault, FaultKind};
use crate::names::{Member, Set};
use crate::request::{Client, Request};

/// Most time by which an answer may exceed the member's limit, in microseconds: calls are late, or fail and are
/// repeated. The second value also covers the detection of silent nodes.
pub(super) const LATE: [u64; 2] = [8_000_000, 45_000_000];

/// The longest default limit, in microseconds.
const LIMIT_MAX: u128 = 40_000_000;

fn first_success<'h>(parts: &'h [Part<'_>]) -> Option<(usize, &'h Part<'h>)> {
    let done = parts.iter().filter_map(|part| match part.answered {
        Some((at, Ok(_))) => Some((at, part)),
        _ => None,
    });
    done.min_by_key(|(at, _)| *at)
}

pub(super) fn describe(meeting: &Meeting, what: &str) -> String {
    format!("meeting {meeting:?}: {what}")
}

/// A collective request completes when all its members have arrived with the same purpose.
pub(super) fn complete(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for (meeting, parts) in &history.meetings {
        let Some((done, _)) = first_success(parts) else { continue };
        let members = history.members(&meeting.0, parts[0].what);
        let entered: BTreeSet<Member> =
            parts.iter().filter(|part| part.asked < done).map(|part| part.member).collect();
        if members != entered {
            let what = format!("completes before all have come: {entered:?} of {members:?}");
            wrong.push((done, describe(meeting, &what)));
        }
        if !parts.iter().all(|part| is_same(part.what, parts[0].what)) {
            wrong.push((done, describe(meeting, "completes though its members want different things")));
        }
    }
}

/// Whether two requests have one purpose. A fence with data is a fence.
fn is_same(one: &Request, other: &Request) -> bool {
    is_fence(one) && is_fence(other) || discriminant(one) == discriminant(other)
}

fn is_fence(request: &Request) -> bool {
    matches!(request, Request::Fence { .. } | Request::Exchange { .. })
}

/// If a request succeeds for one member, it fails for no living member, and all answers are equal.
pub(super) fn agree(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for (meeting, parts) in &history.meetings {
        let Some((_, first)) = first_success(parts) else { continue };
        let coordinator = coordinator(history, meeting);
        for part in parts {
            let Some((at, answer)) = part.answered else { continue };
            let client = Client::Process(part.member);
            let excused =
                history.is_excused(client, at) || coordinator.is_none_or(|id| history.is_disturbed(id, at));
            match answer {
                // Each color of a split has its group; `exchanged` judges the answers to fences.
                Ok(_) if matches!(part.what, Request::Split { .. }) || is_fence(part.what) => {}
                Ok(answer)
                    if first.answered.is_some_and(|(_, first)| first.as_ref().ok() != Some(answer)) =>
                {
                    wrong.push((
                        at,
                        describe(meeting, &format!("{} is told {answer:?}, others are not", part.member)),
                    ));
                }
                Err(fault) if fault.kind != FaultKind::DomainEnded && !excused => {
                    wrong.push((
                        at,
                        describe(meeting, &format!("succeeds, and fails at {} with {fault:?}", part.member)),
                    ));
                }
                _ => {}
            }
        }
    }
}

/// The node that decides the outcome: that of the first member if all are in one group, otherwise the head.
pub(super) fn coordinator(history: &History<'_>, meeting: &Meeting) -> Option<Id> {
    let first = match &meeting.0 {
        Set::Group(group) if !history.derived.contains_key(group) && !meeting.1.starts_with(b"\0") => {
            Some(Member { group: *group, rank: 0 })
        }
        Set::Members(members) => {
            members.first().copied().filter(|first| members.iter().all(|member| member.group == first.group))
        }
        Set::Group(_) => None,
    };
    first.map_or(Some(history.head), |first| history.node_of(Client::Process(first)))
}

/// A request fails for a reason that has happened before, and the fault names it.
pub(super) fn have_reasons(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for (meeting, parts) in &history.meetings {
        let members = history.members(&meeting.0, parts[0].what);
        for part in parts {
            let Some((at, Err(fault))) = part.answered else { continue };
            for death in &fault.deaths {
                let known = history.layouts.contains_key(&death.member.group);
                if known && !members.contains(&death.member) {
                    wrong.push((
                        at,
                        describe(meeting, &format!("fails with the death of somebody else: {death:?}")),
                    ));
                }
                wrong.extend(history.was_no_death(death, at).map(|what| (at, describe(meeting, &what))));
            }
            if !has_reason(history, &members, parts, fault, part, at) {
                let what = format!("fails at {} without a reason: {fault:?}", part.member);
                wrong.push((at, describe(meeting, &what)));
            }
        }
    }
}

pub(super) fn limit_of(request: &Request) -> Option<u128> {
    match request {
        Request::Fence { limit, .. }
        | Request::Exchange { limit, .. }
        | Request::Open { limit, .. }
        | Request::Close { limit, .. }
        | Request::Merge { limit, .. }
        | Request::Split { limit, .. } => limit.map(|limit| limit.as_micros()),
        _ => None,
    }
}

fn has_reason(
    history: &History<'_>,
    members: &BTreeSet<Member>,
    parts: &[Part<'_>],
    fault: &Fault,
    part: &Part<'_>,
    at: usize,
) -> bool {
    let excused = history.is_excused(Client::Process(part.member), at);
    match fault.kind {
        FaultKind::MemberDied => !fault.deaths.is_empty(),
        FaultKind::NodeLost => fault.node.is_some_and(|node| history.is_disturbed(node, at)) || excused,
        FaultKind::TimedOut => {
            // Default limits are at least 20 seconds; no call takes nearly as long by itself.
            let times = || parts.iter().map(|part| history.time(part.asked));
            let late = times().max() > times().min().map(|first| first + 10_000_000);
            parts.iter().any(|part| limit_of(part.what).is_some())
                || parts.len() < members.len()
                || late
                || history.any_disturbed(at)
        }
        FaultKind::Mismatch => parts.iter().any(|other| !is_same(other.what, parts[0].what)),
        FaultKind::DomainEnded => history.ends.is_some_and(|ends| ends < at) || excused,
        FaultKind::System => history.any_disturbed(at),
        // Groups that were freed in the meantime, or that are empty.
        FaultKind::NoGroup
        | FaultKind::BadRequest
        | FaultKind::NotMember
        | FaultKind::GroupClosed
        | FaultKind::NotStarted => {
            !matches!(part.what, Request::Fence { over: Set::Group(group), .. } | Request::Exchange { over: Set::Group(group), .. } if !history.derived.contains_key(group))
        }
        _ => false,
    }
}

/// A member waits at most as long as its own limit, or as the default limit of the domain.
pub(super) fn in_time(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for (meeting, parts) in &history.meetings {
        let failures = parts.iter().filter_map(|part| match part.answered {
            Some((at, Err(_))) => Some(at),
            _ => None,
        });
        let failed = failures.min().unwrap_or(usize::MAX);
        for part in parts {
            let Some((at, _)) = part.answered else { continue };
            let limit = limit_of(part.what).unwrap_or(LIMIT_MAX);
            // All members have arrived, and the close takes as long as a start and a kill.
            if matches!(part.what, Request::Close { .. })
                || history.is_excused(Client::Process(part.member), at)
            {
                continue;
            }
            let waited = history.time(at) - history.time(part.asked);
            if part.asked > failed && waited > LATE[0] && !history.any_disturbed(at) {
                let what =
                    format!("{} waits for {waited} microseconds for what has failed before", part.member);
                wrong.push((at, describe(meeting, &what)));
            }
            if u128::from(waited) > limit + u128::from(LATE[usize::from(history.any_disturbed(at))]) {
                let what = format!("{} waits for {waited} microseconds, its limit is {limit}", part.member);
                wrong.push((at, describe(meeting, &what)));
            }
        }
    }
}

/// Whether an exit is abnormal, so that it may end its group.
pub(super) fn is_abnormal(exit: Exit) -> bool {
    exit != Exit::Code(0)
}
