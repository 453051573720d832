//! Rules for answers, group numbers, global names, the end, and liveness.

use std::collections::{BTreeMap, BTreeSet};

use super::Wrong;
use super::history::History;
use crate::fault::FaultKind;
use crate::names::{GroupId, Member, Set};
use crate::request::{Answer, Client, Request};
use crate::sim::programs::is_probing;
use crate::sim::seen::Seen;

/// Each request is answered once, as long as its client is there.
pub(super) fn answers(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    wrong.extend(history.bad_answers.iter().cloned());
    for ((client, serial), (at, request)) in &history.requests {
        let answered = history.answers.contains_key(&(*client, *serial));
        if !answered && !matches!(request, Request::Abort { .. }) && !history.is_away(*client) {
            wrong.push((*at, format!("{client:?} is never answered {request:?}")));
        }
    }
}

/// No two groups have the same number.
pub(super) fn numbers(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    let mut given: BTreeMap<GroupId, String> = BTreeMap::new();
    let mut give = |at: usize, group: GroupId, by: String| {
        let first = given.entry(group).or_insert_with(|| by.clone());
        if *first != by {
            wrong.push((at, format!("{group} is the number of {first} and of {by}")));
        }
    };
    for ((client, serial), (at, answer, _)) in &history.answers {
        let Some((_, Request::SpawnMultiple { .. })) = history.requests.get(&(*client, *serial)) else {
            continue;
        };
        if let Ok(Answer::Spawned { group, .. }) = answer {
            give(*at, *group, format!("what {client:?} has spawned by {serial}"));
        }
    }
    for (meeting, parts) in &history.meetings {
        for part in parts {
            let Some((at, Ok(Answer::Group(group)))) = part.answered else { continue };
            match part.what {
                Request::Open { .. } | Request::Merge { .. } => {
                    give(at, *group, format!("meeting {meeting:?}"));
                }
                Request::Split { color, .. } => {
                    give(at, *group, format!("color {color:?} of meeting {meeting:?}"));
                }
                _ => {}
            }
        }
    }
}

/// A lookup returns exactly what was deposited under the name and is not withdrawn.
pub(super) fn names(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    // Place of the request, place of the answer, and value.
    type Deposit<'a> = (usize, Option<usize>, &'a [u8]);
    let mut deposits: BTreeMap<&[u8], Vec<Deposit<'_>>> = BTreeMap::new();
    let mut withdrawn: BTreeMap<&[u8], usize> = BTreeMap::new();
    // Places of the request and the answer of each successful withdrawal.
    let mut gone: BTreeMap<&[u8], Vec<(usize, usize)>> = BTreeMap::new();
    for (key, (asked, request)) in &history.requests {
        match request {
            Request::Deposit(pair) => {
                let done =
                    history.answers.get(key).filter(|(_, answer, _)| answer.is_ok()).map(|(at, ..)| *at);
                deposits.entry(&pair.key).or_default().push((*asked, done, &pair.value));
            }
            Request::Withdraw(name) => {
                let first = withdrawn.entry(name).or_insert(*asked);
                *first = (*first).min(*asked);
                if let Some((at, Ok(_), _)) = history.answers.get(key) {
                    gone.entry(name).or_default().push((*asked, *at));
                }
            }
            _ => {}
        }
    }
    let stands = |name: &[u8], from: usize, to: usize| {
        let before = |deposit: &&Deposit<'_>| deposit.1.is_some_and(|done| done < from);
        let stays = withdrawn.get(name).is_none_or(|withdrawn| *withdrawn > to);
        stays && deposits.get(name).is_some_and(|all| all.iter().any(|deposit| before(&deposit)))
    };
    for ((client, serial), (at, answer, _)) in &history.answers {
        let Some((asked, request)) = history.requests.get(&(*client, *serial)) else { continue };
        match (request, answer) {
            (Request::Deposit(pair), Ok(_)) if stands(&pair.key, *asked, *at) => {
                wrong.push((*at, format!("{client:?} deposits what is deposited already")));
            }
            (Request::Lookup { name, .. }, Ok(Answer::Value(value))) => {
                let mut all = deposits.get(name.as_slice()).into_iter().flatten();
                let stays = |done: &Option<usize>| {
                    let mut gone = gone.get(name.as_slice()).into_iter().flatten();
                    !gone.any(|(from, to)| to < asked && done.is_some_and(|done| done < *from))
                };
                if !all.any(|(asked, done, theirs)| asked < at && theirs == value && stays(done)) {
                    let what = "finds what nobody has deposited, or what was withdrawn";
                    wrong.push((*at, format!("{client:?} {what}")));
                }
            }
            (Request::Lookup { name, .. }, Err(fault))
                if fault.kind == FaultKind::NotFound && stands(name, *asked, *at) =>
            {
                wrong.push((*at, format!("{client:?} does not find what is deposited")));
            }
            _ => {}
        }
    }
}

/// Each node's part ends once, and only after the domain was ended or there was trouble.
pub(super) fn ends(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    let mut ended = BTreeSet::new();
    for (at, seen) in history.seen.iter().enumerate() {
        let Seen::Ended(id) = seen else { continue };
        if !ended.insert(*id) {
            wrong.push((at, format!("node {id} ends twice")));
        }
        let asked = history.ends.is_some_and(|ends| ends < at);
        if !asked && !history.is_disturbed(*id, at) && !history.is_disturbed(history.head, at) {
            wrong.push((at, format!("node {id} ends, and nobody has wanted that")));
        }
    }
}

/// No state is left when no event is left.
pub(super) fn left(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for (at, seen) in history.seen.iter().enumerate() {
        match seen {
            Seen::Left(what) => wrong.push((at, what.clone())),
            // A node that was paused past its limits ends before its supervisor has reported all ends; the supervisor
            // ends with it, and kills the processes.
            Seen::Busy(id) if !history.is_disturbed(*id, at) => {
                wrong.push((at, format!("node {id} has ended its part, and is not idle")));
            }
            Seen::Holds(id, held) if !history.any_disturbed(at) && history.is_quiet(at) => {
                // A group has a size once it has started. An open group that is never closed does not start.
                let waits = history.waits_for_size(at);
                let left =
                    |(what, count): &(&str, usize)| *count > 0 && !(waits && *what == "requests of clients");
                for (what, count) in held.iter().copied().filter(left) {
                    wrong.push((at, format!("nothing happens any more, and node {id} has {count} {what}")));
                }
            }
            _ => {}
        }
    }
}

/// When all trouble is over, a new group over all remaining nodes starts and completes a fence.
pub(super) fn liveness(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    let Some(calm) = history.seen.iter().position(|seen| matches!(seen, Seen::Calm)) else { return };
    if history.crashed.contains_key(&history.head) || history.ends.is_some_and(|ends| ends < calm) {
        return;
    }
    let probe = history.requests.iter().find(|(_, (_, request))| is_probing(request));
    let Some((key, (asked, _))) = probe else {
        return wrong.push((calm, "the head does not answer its tool any more".into()));
    };
    let group = match history.answers.get(key) {
        Some((_, Ok(Answer::Spawned { group, errors, .. }), _)) if errors.iter().all(|error| *error == 0) => {
            *group
        }
        // No node that runs processes is left.
        Some((_, Err(fault), _)) if fault.kind == FaultKind::NotStarted && history.any_disturbed(calm) => {
            return;
        }
        other => return wrong.push((*asked, format!("a new group is not started: {other:?}"))),
    };
    let Some(layout) = history.layouts.get(&group) else { return };
    let all: BTreeSet<_> = history.layouts.values().flat_map(|layout| layout.nodes()).collect();
    let missing = all.into_iter().find(|id| !history.is_disturbed(*id, calm) && !layout.nodes().contains(id));
    if let Some(id) = missing.filter(|_| !history.is_disturbed(history.head, calm)) {
        wrong.push((*asked, format!("the new group leaves node {id} out, with which nothing was wrong")));
    }
    let parts = history.meetings.get(&(Set::Group(group), Vec::new(), 0));
    for rank in 0..layout.size() {
        let member = Member { group, rank };
        let part = parts.and_then(|parts| parts.iter().find(|part| part.member == member));
        if !part.is_some_and(|part| matches!(part.answered, Some((_, Ok(_))))) {
            let told = part.and_then(|part| part.answered);
            let client = Client::Process(member);
            wrong.push((*asked, format!("the new group's fence does not succeed at {client:?}: {told:?}")));
        }
    }
}
