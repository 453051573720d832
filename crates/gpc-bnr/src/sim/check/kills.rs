//! Rules for started processes, and for kills, which need a reason.

use std::collections::BTreeSet;

use super::Wrong;
use super::history::History;
use super::meetings::is_abnormal;
use crate::exit::Exit;
use crate::names::{GroupId, Member, Rank};
use crate::request::{Answer, Client, Request};
use crate::sim::seen::Seen;
use crate::spec::{LEFT_OUT, OnDeath};

/// Most time that a member lives on after its group is killed, in microseconds. Calls are late or fail, and processes
/// take a moment to end. The second value also covers the detection of silent nodes.
const LIVES_ON: [u64; 2] = [6_000_000, 45_000_000];

/// Most time that a kill takes, in microseconds: a start and then a kill. The second value also covers the detection of
/// silent nodes.
const KILLS: [u64; 2] = [15_000_000, 90_000_000];

/// When a kill is answered, no process is left; and every kill is answered in time.
pub(super) fn nothing_left(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for ((client, serial), (asked, request)) in &history.requests {
        let Request::Kill(group) = request else { continue };
        let Some((at, answer, _)) = history.answers.get(&(*client, *serial)) else { continue };
        let waited = history.time(*at) - history.time(*asked);
        if waited > KILLS[usize::from(!history.disturbed.is_empty())] && !history.is_excused(*client, *at) {
            wrong.push((*at, format!("{client:?} waits for {waited} microseconds until {group} is killed")));
        }
        if answer.is_err() {
            continue;
        }
        for base in history.bases(*group) {
            none_left(history, base, *at, wrong);
        }
    }
}

fn none_left(history: &History<'_>, group: GroupId, at: usize, wrong: &mut Vec<Wrong>) {
    for (member, runs) in history.runs.range(of(group)) {
        // A node that is declared lost ends its processes later.
        if history.is_excused(Client::Process(*member), usize::MAX) {
            continue;
        }
        let over = history.over.get(member).is_some_and(|(over, _)| *over <= at);
        if !over && *runs < at {
            wrong.push((at, format!("{member} is left after its group was killed")));
        }
        if *runs > at {
            wrong.push((*runs, format!("{member} is started after its group was killed")));
        }
    }
}

fn of(group: GroupId) -> std::ops::RangeInclusive<Member> {
    Member { group, rank: 0 }..=Member { group, rank: Rank::MAX }
}

/// A group with [`OnDeath::Kill`] ends with its first abnormal death.
pub(super) fn along(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for group in
        history.layouts.values().filter(|layout| layout.on_death == OnDeath::Kill).map(|layout| layout.group)
    {
        let excused = |member: &Member| history.is_excused(Client::Process(*member), usize::MAX);
        let abnormal = history
            .over
            .range(of(group))
            .filter(|(member, (_, exit))| is_abnormal(*exit) && !excused(member));
        let Some(first) = abnormal.map(|(_, (at, _))| *at).min() else { continue };
        if !history.is_settled(first) {
            continue;
        }
        let late = LIVES_ON[usize::from(!history.disturbed.is_empty())];
        for (member, runs) in history.runs.range(of(group)).filter(|(member, _)| !excused(member)) {
            let over = history.over.get(member).map_or(u64::MAX, |(over, _)| history.time(*over));
            if over > history.time(first).max(history.time(*runs)) + late {
                wrong.push((
                    first,
                    format!("{member} lives on, long after another one of its group has died"),
                ));
            }
        }
    }
}

/// A living process is killed only for a reason. Its group was killed, is killed with a member, or could not be
/// started; or the domain ends there.
pub(super) fn for_a_reason(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    let mut ended = BTreeSet::new();
    for (at, seen) in history.seen.iter().enumerate() {
        match seen {
            Seen::Ended(id) => drop(ended.insert(*id)),
            Seen::Kills { id, group } if !ended.contains(id) && !history.is_disturbed(*id, at) => {
                let here = |member: &&Member| history.node_of(Client::Process(**member)) == Some(*id);
                let lives = |member: &&Member| history.over.get(member).is_none_or(|(over, _)| *over > at);
                let runs = history.runs.range(of(*group)).filter(|(_, runs)| **runs < at);
                let alive = runs.map(|(member, _)| member).filter(here).find(lives);
                if let Some(member) = alive.filter(|_| !has_reason(history, *group, at)) {
                    wrong.push((at, format!("{member} is killed, and nobody has wanted that")));
                }
            }
            _ => {}
        }
    }
}

fn has_reason(history: &History<'_>, group: GroupId, at: usize) -> bool {
    let asked = |request: &Request| match request {
        Request::Kill(killed) => history.bases(*killed).contains(&group),
        Request::Abort { .. } => true,
        _ => false,
    };
    let wanted = history.requests.values().any(|(asked_at, request)| *asked_at < at && asked(request));
    let Some(layout) = history.layouts.get(&group) else { return true };
    let deaths = || history.over.range(of(group)).filter(|(_, (over, _))| *over < at);
    let never = deaths().any(|(_, (_, exit))| *exit == Exit::Never);
    let lost = layout.nodes().into_iter().any(|id| history.is_disturbed(id, at));
    // A process that ended by itself without finalizing takes the others along.
    let left_badly = deaths().any(|(member, (over, exit))| !left_well(history, *member, *over, *exit));
    let along = layout.on_death == OnDeath::Kill && (lost || left_badly);
    let started = history.answers.values().any(|(told, answer, _)| {
        *told < at
            && matches!(answer, Ok(Answer::Spawned { group: of, errors, .. }) if *of == group && errors.iter().all(|error| matches!(*error, 0 | LEFT_OUT)))
    });
    let ends = history.ends.is_some_and(|ends| ends < at) || history.is_disturbed(history.head, at);
    wanted || never || along || ends || (lost && !started)
}

/// Whether a process ended with 0, and had finalized or never initialized.
fn left_well(history: &History<'_>, member: Member, over: usize, exit: Exit) -> bool {
    let asked = |wanted: &Request| {
        let mut requests = history.requests.range((Client::Process(member), 0)..);
        let mut own = requests.by_ref().take_while(|((client, _), _)| *client == Client::Process(member));
        own.any(|(_, (at, request))| *at < over && *request == wanted)
    };
    exit == Exit::Code(0) && (asked(&Request::Finalize) || !asked(&Request::Init))
}

/// Processes reported as started run, and processes reported as failed do not.
pub(super) fn spawns(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for ((client, _), (at, answer, _)) in &history.answers {
        let Ok(Answer::Spawned { group, errors, .. }) = answer else { continue };
        // Those that `soft` left out have no rank.
        let errors: Vec<i32> = errors.iter().copied().filter(|error| *error != LEFT_OUT).collect();
        let Some(layout) = history.layouts.get(group) else {
            if errors.contains(&0) {
                wrong.push((*at, format!("{client:?} is told that {group} was started, and nobody has")));
            }
            continue;
        };
        if errors.len() != layout.size() as usize {
            wrong
                .push((*at, format!("{group} has {} processes, and {} errors", layout.size(), errors.len())));
        }
        for (rank, error) in errors.iter().enumerate() {
            let member = Member { group: *group, rank: rank as Rank };
            if *error == 0 && history.runs.get(&member).is_none_or(|runs| runs > at) {
                wrong.push((*at, format!("{member} is said to be started, and is not")));
            }
        }
        if errors.iter().any(|error| *error != 0) {
            none_left(history, *group, *at, wrong);
        }
    }
}
