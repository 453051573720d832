//! Databases that were created by name, what was put beforehand, and how many processes there are.

use super::Wrong;
use super::history::History;
use crate::fault::FaultKind;
use crate::request::{Answer, Client, Request};

/// What is found in a database that was created by name was put there, and not before the database was destroyed.
pub(super) fn destroyed(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for ((client, serial), (asked, request)) in &history.requests {
        let Request::Get { database, key } = request else { continue };
        let Some((at, Ok(Answer::Value(value)), _)) = history.answers.get(&(*client, *serial)) else {
            continue;
        };
        let created = |request: &Request| matches!(request, Request::Create(Some(name)) if name == database);
        if !history.requests.values().any(|(_, request)| created(request)) {
            continue;
        }
        // The last that was destroyed for sure before this was asked.
        let gone = history.requests.iter().filter_map(|(key, (asked_at, request))| {
            let is_it = matches!(request, Request::Destroy(name) if name == database);
            let (done, answer, _) = history.answers.get(key).filter(|_| is_it)?;
            (answer.is_ok() && done < asked).then_some(*asked_at)
        });
        let gone = gone.max().unwrap_or(0);
        let puts = history.requests.iter().filter(|(_, (put, request))| {
            put < at
                && matches!(request, Request::Put { database: of, pair, .. } if of == database && pair.key == *key && pair.value == *value)
        });
        let stands = |(key, _): (&_, &_)| history.answers.get(key).is_none_or(|(done, ..)| *done > gone);
        if !puts.map(|(key, put)| (key, put)).any(stands) {
            let key = String::from_utf8_lossy(key);
            wrong.push((*at, format!("{client:?} finds {key} in {database}, which was destroyed since")));
        }
    }
}

/// What was put for a group before it was started is there for each of its processes, without asking another node.
pub(super) fn given(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for ((client, serial), (_, request)) in &history.requests {
        let (Client::Process(member), Request::Get { database, key }) = (client, request) else { continue };
        let Some(layout) = history.layouts.get(&member.group).filter(|layout| layout.database == *database)
        else {
            continue;
        };
        let Some((_, value)) = layout.preputs.iter().find(|(put, _)| put == key) else { continue };
        let Some((at, answer, at_once)) = history.answers.get(&(*client, *serial)) else { continue };
        let right = matches!(answer, Ok(Answer::Value(found)) if found == value) && *at_once;
        let ended = matches!(answer, Err(fault) if fault.kind == FaultKind::DomainEnded);
        if !right && !ended && !history.is_excused(*client, *at) {
            let key = String::from_utf8_lossy(key);
            let how = if *at_once { "is told" } else { "is told by another node" };
            wrong.push((
                *at,
                format!("{member} asks for {key}, which was put beforehand, and {how} {answer:?}"),
            ));
        }
    }
}

/// A group has as many processes as were started.
pub(super) fn sizes(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for ((client, serial), (_, request)) in &history.requests {
        let Request::Size(group) = request else { continue };
        let Some((at, Ok(Answer::Number(size)), _)) = history.answers.get(&(*client, *serial)) else {
            continue;
        };
        let bases = history.bases(*group);
        let known: Vec<u64> = bases
            .iter()
            .filter_map(|base| history.layouts.get(base))
            .map(|layout| layout.size().into())
            .collect();
        if known.len() == bases.len() && known.iter().sum::<u64>() != *size {
            wrong.push((
                *at,
                format!("{client:?} is told that {group} has {size} processes, and it has {known:?}"),
            ));
        }
    }
}
