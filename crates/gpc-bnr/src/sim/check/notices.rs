//! Rules for notices of deaths: one to each subscriber, and before any failure that the death causes there.

use std::collections::BTreeMap;

use super::Wrong;
use super::history::History;
use super::meetings::LATE;
use crate::names::{Member, Rank};
use crate::request::{Answer, Client, Request};
use crate::roster::{Roster, Span, spans_of};
use crate::sim::seen::Seen;

/// The answer to a subscription lists the processes whose deaths follow; those of an open group have no end. A
/// group that was started without processes has none.
pub(super) fn subscribed(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for ((client, serial), (_, request)) in &history.requests {
        let answer = history.answers.get(&(*client, *serial));
        let (Request::Subscribe(group), Some((at, Ok(answer), _))) = (request, answer) else { continue };
        let roster = match answer {
            Answer::Rosters(rosters) => rosters.first().filter(|_| rosters.len() == 1),
            _ => None,
        };
        let Some(Roster { spans, .. }) = roster.filter(|roster| roster.group == *group) else {
            wrong.push((*at, format!("{client:?} subscribes to {group}, and gets {answer:?}")));
            continue;
        };
        let from_its_first = || matches!(spans[..], [span] if span.group == *group && span.first == 0);
        let right = match history.list(*group) {
            Some(members) if history.derived.contains_key(group) => spans_of(members) == *spans,
            Some(members) => *spans == [Span::whole(*group)] || spans_of(members) == *spans,
            // No node has started it.
            None if spans.is_empty() => history.may_be_empty(*group),
            None => from_its_first(),
        };
        if !right {
            wrong.push((*at, format!("{client:?} subscribes to {group}, and gets the deaths of {spans:?}")));
        }
    }
}

/// Each subscriber is notified of each death once; other clients are not.
pub(super) fn notices(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    let (may, must) = history.watched();
    let mut told = BTreeMap::new();
    for (at, seen) in history.seen.iter().enumerate() {
        let Seen::Noticed { client, death } = seen else { continue };
        if may.since(*client, death.member).is_none_or(|since| since > at) {
            wrong.push((at, format!("{client:?} is told of {death:?}, and has not asked")));
        }
        if told.insert((*client, death.member), at).is_some() {
            wrong.push((at, format!("{client:?} is told twice of {death:?}")));
        }
        wrong.extend(history.was_no_death(death, at).map(|what| (at, format!("{client:?} is {what}"))));
    }
    for (client, group) in must.groups() {
        let removed = history.is_removed(group, usize::MAX);
        if history.is_excused(client, usize::MAX) || history.is_away(client) || removed {
            continue;
        }
        let all = || Member { group, rank: 0 }..=Member { group, rank: Rank::MAX };
        for member in history.runs.range(all()).map(|(member, _)| member) {
            if must.since(client, *member).is_none() {
                continue;
            }
            let crash = history.node_of(Client::Process(*member)).and_then(|id| history.crashed.get(&id));
            let Some(crash) = crash.filter(|crash| history.is_settled(**crash)) else { continue };
            if !told.contains_key(&(client, *member)) {
                wrong.push((*crash, format!("{client:?} is never told that {member} was lost")));
            }
        }
        for (member, (at, _)) in history.over.range(all()) {
            let Some(since) = must.since(client, *member) else { continue };
            // If the node is lost, the exit of its processes is unknown.
            let lost = history.is_excused(Client::Process(*member), usize::MAX);
            if !history.is_settled(*at) || lost {
                continue;
            }
            let Some(hears) = told.get(&(client, *member)) else {
                wrong.push((*at, format!("{client:?} is never told that {member} has ended")));
                continue;
            };
            let late =
                history.time(*at).max(history.time(since)) + LATE[usize::from(!history.disturbed.is_empty())];
            if history.time(*hears) > late {
                wrong.push((*hears, format!("{client:?} is told very late that {member} has ended")));
            }
        }
    }
}

/// A subscriber is notified of a death before it makes a collective request fail.
pub(super) fn before_failures(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    let since = history.subscriptions();
    for part in history.meetings.values().flatten() {
        let Some((at, Err(fault))) = part.answered else { continue };
        let client = Client::Process(part.member);
        for death in &fault.deaths {
            // A subscription to a group that is being removed may come after the removal.
            let removed = history.is_removed(death.member.group, at);
            if removed || since.since(client, death.member).is_none_or(|since| since > at) {
                continue;
            }
            let mut before = history.seen[..at].iter();
            let noticed = before.any(|seen| matches!(seen, Seen::Noticed { client: of, death: told } if *of == client && told.member == death.member));
            if !noticed {
                wrong.push((at, format!("{client:?} was not told of {death:?} before what failed by it")));
            }
        }
    }
}
