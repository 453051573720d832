//! Lists of ids, as text and in wire form: an accepted list holds each id once, in the order given, and is the same
//! when it is written and read again.
//!
//! Input: a byte that chooses the form, and the list in that form.

use std::collections::BTreeSet;

use chained_gpc::wire::frame::Kind;
use chained_gpc::wire::head::{IdsForm, RequestHead};
use chained_gpc::wire::prefix::{emit_prefix, parse_prefix, request_head};
use chained_gpc::wire::{Body, Request};
use gpc_trees::{Group, Id, IdList, Run};

use super::input::Input;
use super::memory;

/// Maximum number of bytes that a list may hold for each byte read. An id of 2 characters (`1,`) takes 8 bytes in a
/// vector that doubles and exists twice while it grows, 12 bytes to be sorted, and 8 to be kept.
const HELD_PER_BYTE: usize = 60;

/// Maximum number of ids of a list that is compared with a plain vector.
const PLAIN_MAX: u64 = 5000;

/// Reads a list of ids, and asks it everything it can be asked.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let form = input.byte();
    let (list, plain) = match form % 3 {
        0 => from_text(input.clone().rest()),
        1 => from_runs(input.clone().rest()),
        _ => from_listed(input.clone().rest()),
    };
    assert_eq!(list.is_some(), plain.is_some(), "the list is {list:?}, and should be {plain:?}");
    let (Some(list), Some(runs)) = (list, plain) else { return };
    again(&list);
    ask(&list, &runs, form);
}

/// A list, and its runs as they were written; `None` if the list is refused, or must be.
type Read = (Option<IdList>, Option<Vec<Run>>);

fn from_text(bytes: &[u8]) -> Read {
    let Ok(text) = std::str::from_utf8(bytes) else { return (None, None) };
    let list = memory::bounded(text.len(), HELD_PER_BYTE, || text.parse::<IdList>());
    if let Err(error) = &list {
        assert!(!error.to_string().is_empty());
    }
    let number = |text: &str| {
        let text = text.trim();
        text.parse::<Id>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let run = |piece: &str| {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last) = (number(first)?, number(last)?);
        Some(Run { first, count: last.checked_sub(first)?.checked_add(1)? })
    };
    let blank = text.trim().is_empty();
    let runs: Option<Vec<Run>> = if blank { Some(vec![]) } else { text.split(',').map(run).collect() };
    (list.ok(), runs.filter(|runs| distinct(runs)))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

fn from_runs(bytes: &[u8]) -> Read {
    let words: Vec<u32> = words(bytes).collect();
    let runs: Vec<Run> = words.chunks_exact(2).map(|pair| Run { first: pair[0], count: pair[1] }).collect();
    let list = wire(IdsForm::Runs, &bytes[..runs.len() * 8]);
    let good = runs.iter().all(|run| run.count > 0 && run.first.checked_add(run.count - 1).is_some());
    (list, Some(runs).filter(|runs| good && !runs.is_empty() && distinct(runs)))
}

fn from_listed(bytes: &[u8]) -> Read {
    let runs: Vec<Run> = words(bytes).map(|first| Run { first, count: 1 }).collect();
    let list = wire(IdsForm::Listed, &bytes[..runs.len() * 4]);
    (list, Some(runs).filter(|runs| !runs.is_empty() && distinct(runs)))
}

/// Whether the runs are disjoint and have at most `u32::MAX` ids in all. No run may pass the highest id.
fn distinct(runs: &[Run]) -> bool {
    let mut sorted: Vec<(u64, u64)> =
        runs.iter().map(|run| (run.first.into(), u64::from(run.first) + u64::from(run.count))).collect();
    sorted.sort_unstable();
    let apart = sorted.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    apart && runs.iter().map(|run| u64::from(run.count)).sum::<u64>() <= u32::MAX.into()
}

/// Reads ids as those of a request.
fn wire(form: IdsForm, bytes: &[u8]) -> Option<IdList> {
    let mut head = request_head(&request(IdList::default()));
    (head.ids_form, head.ids_count) = (form, (bytes.len() / form.entry()) as u32);
    let parsed = memory::bounded(bytes.len(), HELD_PER_BYTE, || {
        parse_prefix(&head, 0, bytes, Body::default(), &|_| None)
    });
    parsed.map(|request| request.ids).ok()
}

fn request(ids: IdList) -> Request {
    let head = RequestHead::parse(0, &[0; RequestHead::LENGTH]).expect("zeros are a good head");
    let head = RequestHead { ids_form: IdsForm::Listed, ids_count: 1, total: u32::MAX, ..head };
    let request =
        parse_prefix(&head, 0, &[1, 0, 0, 0], Body::default(), &|_| None).expect("a request to id 1");
    Request { ids, ..request }
}

/// Checks that the list is the same after it was written and read, as text and in wire form.
fn again(list: &IdList) {
    let text = list.to_string();
    assert_eq!(text.parse::<IdList>().as_ref(), Ok(list));
    if list.is_empty() {
        return;
    }
    let request = request(list.clone());
    let (head, mut prefix) = (request_head(&request), Vec::new());
    emit_prefix(&request, head.ids_form, &mut prefix);
    assert_eq!(prefix.len() as u64, head.prefix_len());
    let smaller = prefix.len().min(4 * list.len() as usize).min(8 * list.runs().count());
    assert_eq!(prefix.len(), smaller, "the smaller form is written");
    let back = parse_prefix(&head, 0, &prefix, Body::default(), &|_| None);
    let back = back.unwrap_or_else(|error| panic!("a list is refused as a {:?}: {error}", Kind::Request));
    assert_eq!(back.ids, *list);
}

/// Checks every query against the runs as they were written, and against a plain vector if the list is short.
fn ask(list: &IdList, runs: &[Run], choice: u8) {
    let len: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
    assert_eq!((u64::from(list.len()), list.is_empty()), (len, len == 0));
    assert!(list.runs().count() <= runs.len());
    assert_eq!(list.runs().map(|run| u64::from(run.count)).sum::<u64>(), len);
    let mut at = 0;
    for run in runs {
        let last = run.first + (run.count - 1);
        for (position, id) in [(at, run.first), (at + run.count - 1, last)] {
            assert_eq!((list.id(position), list.position(id)), (Some(id), Some(position)));
        }
        at = at.wrapping_add(run.count);
    }
    assert_eq!(list.id(list.len()), None);
    if len <= PLAIN_MAX {
        let plain: Vec<Id> =
            runs.iter().flat_map(|run| (0..run.count).map(|offset| run.first + offset)).collect();
        ask_plain(list, &plain, choice);
    }
}

fn ask_plain(list: &IdList, plain: &[Id], choice: u8) {
    assert_eq!(list.iter().collect::<Vec<Id>>(), plain);
    assert_eq!(plain.iter().collect::<BTreeSet<_>>().len(), plain.len(), "an id is there twice");
    let by_ids = IdList::from_ids(plain.iter().copied());
    assert_eq!(by_ids.as_ref(), Ok(list));
    let start = usize::from(choice).min(plain.len());
    let len = (plain.len() - start) / 2;
    let slice = list.slice(Group { start: start as u32, len: len as u32 });
    assert_eq!(slice.iter().collect::<Vec<Id>>(), &plain[start..start + len]);
    assert_eq!(slice.first(), plain[start..start + len].first().copied());
    for id in plain.iter().copied().take(3).chain([Id::from(choice), Id::MAX]) {
        assert_eq!(list.contains(id), plain.contains(&id));
        let first = list.with_first(id);
        let others = plain.iter().copied().filter(|other| *other != id);
        assert_eq!(first.iter().collect::<Vec<Id>>(), std::iter::once(id).chain(others).collect::<Vec<Id>>());
    }
    let backward: Vec<u32> = (0..list.len()).rev().collect();
    let reversed: Vec<Id> = plain.iter().rev().copied().collect();
    assert_eq!(list.permuted(&backward).iter().collect::<Vec<Id>>(), reversed);
}
