//! The rule for fences with data: each member that brings data is answered with those of all, and nothing else.

use std::collections::BTreeMap;

use chained_gpc::trees::Id;

use super::Wrong;
use super::history::{History, Part};
use super::meetings::describe;
use crate::names::Member;
use crate::request::{Answer, Client, Request};

pub(super) fn data(history: &History<'_>, wrong: &mut Vec<Wrong>) {
    for (meeting, parts) in &history.meetings {
        let all = data_of_all(history, parts);
        for part in parts {
            let Some((at, Ok(answer))) = part.answered else { continue };
            let right = match part.what {
                Request::Fence { .. } => *answer == Answer::Done,
                Request::Exchange { .. } => matches!(answer, Answer::Value(value) if *value == all),
                _ => continue,
            };
            if !right {
                let all = String::from_utf8_lossy(&all);
                let what = format!("{} is told {answer:?}, and all have brought `{all}`", part.member);
                wrong.push((at, describe(meeting, &what)));
            }
        }
    }
}

/// The data of all members: nodes in the order of their first members, members of a node in their order.
fn data_of_all(history: &History<'_>, parts: &[Part<'_>]) -> Vec<u8> {
    let of_each: BTreeMap<Member, &Part<'_>> = parts.iter().map(|part| (part.member, part)).collect();
    let mut nodes: Vec<(Option<Id>, Vec<u8>)> = Vec::new();
    for (member, part) in of_each {
        // A member without data has its place as well.
        let data = match part.what {
            Request::Exchange { data, .. } => data.as_slice(),
            _ => &[],
        };
        let node = history.node_of(Client::Process(member));
        match nodes.iter_mut().find(|(known, _)| *known == node) {
            Some((_, all)) => all.extend_from_slice(data),
            None => nodes.push((node, data.to_vec())),
        }
    }
    nodes.into_iter().flat_map(|(_, data)| data).collect()
}
