//! Rules for databases created by name, for pairs put before a start, and for sizes of groups.

use std::collections::BTreeMap;

use super::Wrong;
use super::history::History;
use crate::domain::Serial;
use crate::fault::FaultKind;
use crate::request::{Answer, Client, Request};

/// A value in a database created by name was put there, and not before the database was destroyed.
pub(super) fn destroyed(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    let named = named(history);
    for ((client, serial), (asked, request)) in &history.requests {
        let Request::Get { database, key } = request else { continue };
        let Some((at, Ok(Answer::Value(value)), _)) = history.answers.get(&(*client, *serial)) else {
            continue;
        };
        let Some(Named { gone, puts }) = named.get(database.as_str()) else { continue };
        // The last destruction that precedes the get.
        let gone = gone.iter().filter(|(_, to)| to < asked);
        let (from, to) = gone.max().copied().unwrap_or((0, 0));
        let found = puts.get(&(&key[..], &value[..])).into_iter().flatten().any(|(by, put)| {
            let stands = || history.answers.get(by).is_none_or(|(done, ..)| *done > from);
            put < at && (stands() || is_brought_during(history, by.0, *put, (from, to)))
        });
        if !found {
            let key = String::from_utf8_lossy(key);
            wrong.push((*at, format!("{client:?} finds {key} in {database}, which was destroyed since")));
        }
    }
}

/// The request of a put, and its place.
type Put = ((Client, Serial), usize);

/// What has happened to a database that was created by name.
#[derive(Default)]
struct Named<'a> {
    /// Successful destructions: places of the request and the answer.
    gone: Vec<(usize, usize)>,
    /// Puts of a key and a value.
    puts: BTreeMap<(&'a [u8], &'a [u8]), Vec<Put>>,
}

fn named<'a>(history: &'a History<'_>) -> BTreeMap<&'a str, Named<'a>> {
    let created = history.requests.values().filter_map(|(_, request)| match request {
        Request::Create(Some(name)) => Some((name.as_str(), Named::default())),
        _ => None,
    });
    let mut named: BTreeMap<&str, Named<'_>> = created.collect();
    for (by, (from, request)) in &history.requests {
        match request {
            Request::Destroy(name) => {
                let answer = history.answers.get(by).filter(|(_, answer, _)| answer.is_ok());
                if let (Some(named), Some((to, ..))) = (named.get_mut(name.as_str()), answer) {
                    named.gone.push((*from, *to));
                }
            }
            Request::Put { database, pair, .. } => {
                if let Some(named) = named.get_mut(database.as_str()) {
                    named.puts.entry((&pair.key, &pair.value)).or_default().push((*by, *from));
                }
            }
            _ => {}
        }
    }
    named
}

/// Whether a fence that distributes a put was in progress while the database was destroyed: it reaches some nodes
/// before, others after.
fn is_brought_during(history: &History<'_>, client: Client, put: usize, (from, to): (usize, usize)) -> bool {
    let Client::Process(owner) = client else { return false };
    history.meetings.values().any(|parts| {
        let brings = parts.iter().any(|part| part.member == owner && (put..to).contains(&part.asked));
        brings && parts.iter().any(|part| part.answered.is_none_or(|(at, _)| at > from))
    })
}

/// Pairs put before the start of a group are in the own copy of each of its nodes.
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

/// The reported size of a group is the number of its processes.
pub(super) fn sizes(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for ((client, serial), (_, request)) in &history.requests {
        let Request::Size(group) = request else { continue };
        let Some((at, Ok(Answer::Number(size)), _)) = history.answers.get(&(*client, *serial)) else {
            continue;
        };
        let Some(members) = history.list(*group) else { continue };
        if members.len() as u64 != *size {
            wrong.push((
                *at,
                format!("{client:?} is told that {group} has {size} processes, and it has {members:?}"),
            ));
        }
    }
}
