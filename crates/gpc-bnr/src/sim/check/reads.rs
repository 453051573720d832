//! Rules for reads after a fence.

use std::collections::BTreeMap;

use super::Wrong;
use super::history::History;
use crate::fault::FaultKind;
use crate::names::Member;
use crate::request::{Answer, Client, Request};
use crate::sim::programs::{ROUNDS_MAX, again, common, group_of, once, together};
use crate::sim::seen::Seen;

/// The member that puts a key; places in the history and rounds of the puts.
type Puts = (Member, Vec<(usize, u32)>);

/// For each database and key, the members that put it and the places in the history.
type Shared = BTreeMap<(String, Vec<u8>), Vec<(Member, usize)>>;

/// The successful fences and the puts.
struct Fences {
    /// For each member and place of an answer: the places at which the members of the set entered that fence.
    done: BTreeMap<Member, BTreeMap<usize, BTreeMap<Member, usize>>>,
    /// For each key with one owner, its puts.
    puts: BTreeMap<Vec<u8>, Puts>,
    /// For each database and key with several owners, its puts.
    shared: Shared,
}

impl Fences {
    fn new(history: &History<'_>) -> Fences {
        let mut done: BTreeMap<Member, BTreeMap<usize, BTreeMap<Member, usize>>> = BTreeMap::new();
        for parts in history.meetings.values() {
            let came: BTreeMap<Member, usize> = parts.iter().map(|part| (part.member, part.asked)).collect();
            for part in parts {
                if let (Request::Fence { .. } | Request::Exchange { .. }, Some((at, Ok(_)))) =
                    (part.what, part.answered)
                {
                    done.entry(part.member).or_default().insert(at, came.clone());
                }
            }
        }
        let (mut puts, mut shared) = (BTreeMap::<_, Puts>::new(), Shared::new());
        for (at, seen) in history.seen.iter().enumerate() {
            let Seen::Asked { client: Client::Process(member), request, .. } = seen else { continue };
            let Request::Put { pair, database, .. } = request else { continue };
            match round_of(&pair.value) {
                Some(round) if is_own(&pair.key, *member) => {
                    puts.entry(pair.key.clone()).or_insert((*member, Vec::new())).1.push((at, round));
                }
                _ => shared.entry((database.clone(), pair.key.clone())).or_default().push((*member, at)),
            }
        }
        Fences { done, puts, shared }
    }

    /// The last round that the owner of a key had put before it entered the last fence that the reader had completed by
    /// then.
    fn put_before(&self, reader: Member, key: &[u8], at: usize) -> Option<u32> {
        let (_, came) = self.done.get(&reader)?.range(..at).next_back()?;
        let (owner, puts) = self.puts.get(key)?;
        let came = came.get(owner)?;
        puts.iter().rfind(|(put, _)| put < came).map(|(_, round)| *round)
    }

    /// Whether all puts of a key came before their members entered the reader's last fence. Members whose requests have
    /// failed may be in different rounds.
    fn is_settled(&self, reader: Client, database: &str, key: &[u8], at: usize) -> bool {
        let Client::Process(reader) = reader else { return false };
        let fence = self.done.get(&reader).and_then(|fences| fences.range(..at).next_back());
        let puts = self.shared.get(&(database.to_owned(), key.to_owned()));
        let (Some((_, came)), Some(puts)) = (fence, puts) else { return false };
        puts.iter().all(|(member, put)| came.get(member).is_some_and(|came| put < came))
    }
}

/// A read that is requested after a fence returns the earlier puts of its members from the node's own copy, and no
/// older values.
pub(super) fn after_fences(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    let fences = Fences::new(history);
    for ((client, serial), (asked, request)) in &history.requests {
        let (Client::Process(reader), Request::Get { key, database }) = (client, request) else { continue };
        let Some((at, answer, at_once)) = history.answers.get(&(*client, *serial)) else { continue };
        let Some(entered) = fences.put_before(*reader, key, *asked) else { continue };
        let text = String::from_utf8_lossy(key);
        let kind = answer.as_ref().err().map(|fault| fault.kind);
        let freed = group_of(database).is_some_and(|group| history.is_freed(group, *at));
        if kind == Some(FaultKind::DomainEnded) || history.is_excused(*client, *at) || freed {
            continue;
        }
        let what = match answer {
            Ok(Answer::Value(_)) if !at_once => "and its node asks others".into(),
            // Members of the fence may have put again in the meantime; rounds increase.
            Ok(Answer::Value(found)) if round_of(found) < Some(entered) => {
                let found = String::from_utf8_lossy(found);
                format!("an old value, `{found}` and not of round {entered}")
            }
            Ok(Answer::Value(_)) => continue,
            other => format!("and is told {other:?}"),
        };
        wrong.push((*at, format!("{reader} reads {text} of {database} after a fence, {what}")));
    }
}

/// If several members put a key before a fence, all of them read the same value afterwards, from their node's own copy.
pub(super) fn one_value(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    let fences = Fences::new(history);
    // For each key of a database: the first reader and its value.
    let mut first = BTreeMap::new();
    for ((client, serial), (asked, request)) in &history.requests {
        let Request::Get { key, database } = request else { continue };
        if !(0..ROUNDS_MAX).any(|round| together(round) == *key) {
            continue;
        }
        let Some((at, answer, at_once)) = history.answers.get(&(*client, *serial)) else { continue };
        if history.is_excused(*client, *at) {
            continue;
        }
        match answer {
            Ok(Answer::Value(value)) => {
                let text = String::from_utf8_lossy(key);
                if fences.is_settled(*client, database, key, *asked) {
                    let (other, theirs) = first.entry((database, key)).or_insert((client, value));
                    if *theirs != value {
                        let both = [*theirs, value].map(|value| String::from_utf8_lossy(value));
                        let text = format!(
                            "{other:?} and {client:?} read {text} after a fence, and differ: {both:?}"
                        );
                        wrong.push((*at, text));
                    }
                }
                if !at_once {
                    wrong.push((
                        *at,
                        format!("{client:?} reads {text} after a fence, and its node asks others"),
                    ));
                }
            }
            Err(fault) if fault.kind == FaultKind::DomainEnded => {}
            other => {
                wrong.push((*at, format!("{client:?} has put a key, and is told {other:?} after the fence")))
            }
        }
    }
}

/// A put over a value that a fence had brought wins at all members that have received both.
pub(super) fn nothing_overwritten(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    let fences = Fences::new(history);
    for ((client, serial), (asked, request)) in &history.requests {
        let (Client::Process(reader), Request::Get { key, database }) = (client, request) else { continue };
        if *key != common() {
            continue;
        }
        let Some((at, Ok(Answer::Value(value)), _)) = history.answers.get(&(*client, *serial)) else {
            continue;
        };
        if history.is_excused(*client, *at) {
            continue;
        }
        let puts = fences.shared.get(&(database.clone(), key.clone())).into_iter().flatten();
        let puts: Vec<(Member, usize)> = puts.copied().collect();
        let Some((owner, put)) =
            puts.iter().find(|(member, put)| put_value(history, *put) == Some((*member, value)))
        else {
            wrong.push((
                *at,
                format!("{reader} reads `{}`, which nobody has put", String::from_utf8_lossy(value)),
            ));
            continue;
        };
        let Some((_, came)) = fences.done.get(reader).and_then(|done| done.range(..asked).next_back()) else {
            continue;
        };
        let over = puts.iter().find(|(other, later)| {
            let brought = came.get(other).is_some_and(|came| later < came);
            let mut before = fences.done.get(other).into_iter().flat_map(|done| done.range(..later));
            brought && before.any(|(_, came)| came.get(owner).is_some_and(|came| put < came))
        });
        if let Some((other, _)) = over {
            let value = String::from_utf8_lossy(value);
            let what =
                format!("{reader} reads `{value}` after a fence, which {other} has put over, and had seen");
            wrong.push((*at, what));
        }
    }
}

/// The member and the value of the put at this place, if there is one.
fn put_value<'h>(history: &'h History<'_>, at: usize) -> Option<(Member, &'h Vec<u8>)> {
    match history.seen.get(at)? {
        Seen::Asked { client: Client::Process(member), request: Request::Put { pair, .. }, .. } => {
            Some((*member, &pair.value))
        }
        _ => None,
    }
}

/// Whether only this member puts the key.
fn is_own(key: &[u8], member: Member) -> bool {
    again(member) == key || (0..ROUNDS_MAX).any(|round| once(round, member) == key)
}

fn round_of(value: &[u8]) -> Option<u32> {
    String::from_utf8_lossy(value).split(' ').next()?.parse().ok()
}
