//! Checks of a world in which nothing is under way.

use std::collections::BTreeSet;

use chained_gpc::wire::level::{Leaves, Limits};
use chained_gpc::wire::message::SubtreeReply;
use chained_gpc::wire::{Coverage, Failure, Payload, Status};
use gpc_trees::Id;

use super::world::{Ended, Executed, PROMPT, Started, World};

/// Checks the whole world.
pub(super) fn at_rest(world: &World) {
    for (id, node) in &world.nodes {
        let left = (node.calls(), node.retained_answers(), node.jobs_running(), node.next_deadline());
        assert_eq!(left, (0, 0, 0, None), "calls, kept answers, jobs and deadline left at id {id}");
    }
    assert!(world.owed.values().all(|owed| *owed == 0), "requests never consumed: {:?}", world.owed);
    executed_once(world);
    for (ticket, call) in world.calls.iter().enumerate() {
        match &call.ended {
            Some(ended) => outcome(world, call, ended),
            None => assert!(call.dead, "call {ticket} has never ended"),
        }
    }
}

/// Checks that no id executed a call twice. Two runs of an id may each execute it if a message was changed or forged,
/// or requests were late.
fn executed_once(world: &World) {
    let prompt = world.honest && world.under_way < PROMPT;
    let mut seen = BTreeSet::new();
    for Executed { call, at, run } in &world.executed {
        let run = if prompt { 0 } else { *run };
        assert!(seen.insert((*call, *at, run)), "id {at} has executed call {call} twice");
    }
}

/// Checks that an outcome is consistent, and that it is true if no message was changed or forged.
fn outcome(world: &World, call: &Started, Ended { call: name, result, report }: &Ended) {
    let start = &call.start;
    let asked: Vec<Id> = start.ids.iter().skip(usize::from(start.watch)).collect();
    let executed: BTreeSet<Id> =
        world.executed.iter().filter(|done| done.call == *name).map(|done| done.at).collect();
    let coverage = match (result, report) {
        (Err(Failure { coverage, .. }), None) => coverage.clone(),
        (Ok(_), Some(report)) if start.partial => report.coverage.clone(),
        (Ok(_), None) if !start.partial => Coverage::all(Status::Done, asked.len() as u32),
        (result, report) => panic!("{name} ended with {result:?} and {report:?}"),
    };
    assert_eq!(coverage.len(), asked.len() as u64, "coverage is of the ids asked");
    if let Ok(reply) = result {
        assert_eq!(reply.is_some(), start.reply_wanted, "a reply where one was asked for");
    }
    if !world.honest {
        return;
    }
    for (at, status) in asked.iter().zip(coverage.statuses()) {
        match status {
            Status::Done => assert!(executed.contains(at), "id {at} has not executed call {name}"),
            Status::Unreached => assert!(!executed.contains(at), "id {at} has executed call {name}"),
            Status::Failed | Status::Unknown => {}
        }
    }
    if let Ok(Some(reply)) = result {
        let done = asked.iter().zip(coverage.statuses()).filter(|(_, status)| *status == Status::Done);
        parts(call, reply, done.map(|(at, _)| *at).collect());
    }
}

/// Checks that the reply has the part of every id that is done exactly once, and in the caller's order unless a
/// callback merges.
fn parts(call: &Started, reply: &SubtreeReply, mut done: Vec<Id>) {
    let merged = call.start.callback.is_some();
    let mut headers: Vec<String> = values(merged, reply.level, &reply.header);
    let mut data: Vec<String> = values(merged, reply.level, &reply.data);
    if merged {
        [&mut headers, &mut data].into_iter().for_each(|words| words.sort_unstable());
        done.sort_unstable();
    }
    assert_eq!(headers, done.iter().map(|id| format!("h{id}")).collect::<Vec<_>>());
    assert_eq!(data, done.iter().map(Id::to_string).collect::<Vec<_>>());
}

/// Returns the words of a reply: one or more in a merged value, one in each leaf of an aggregate.
fn values(merged: bool, level: u16, payload: &Payload) -> Vec<String> {
    let bytes = payload.to_bytes();
    let leaves: Vec<&[u8]> = match merged && level == 0 {
        true => vec![&bytes],
        false => Leaves::new(level, &bytes, Limits::default())
            .collect::<Result<_, _>>()
            .expect("the reply is level-n data"),
    };
    let text = |leaf: &[u8]| String::from_utf8_lossy(leaf).into_owned();
    leaves
        .into_iter()
        .flat_map(|leaf| text(leaf).split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}
