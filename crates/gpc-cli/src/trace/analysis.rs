//! Finds the ids that calls in flight wait for, in the recordings of the nodes. A pure function over them.
//!
//! Clocks of nodes are not compared: each recording counts back from the moment at which it was made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chained_gpc::wire::CallId;
use chained_gpc::{CallState, Id, RecordedCall, Recording};
use serde::Serialize;

/// Longest chain of waiting ids that is followed: the height of any tree that is in use.
const WAITERS_MAX: usize = 64;

/// The recording of each node, or the reason why it sent none.
pub(crate) type Answers = BTreeMap<Id, Result<Recording, String>>;

/// The calls in flight, and the nodes that did not answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Analysis {
    /// Number of nodes that were asked.
    pub nodes: usize,
    /// Those that did not answer.
    pub silent: Vec<Silent>,
    /// The calls in flight, the oldest first.
    pub calls: Vec<UnderWay>,
}

/// A node that did not answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Silent {
    /// Its id.
    pub id: Id,
    /// Why there is no answer.
    pub why: String,
}

/// A call in flight.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct UnderWay {
    /// Its name: the root, and the root's number.
    pub call: String,
    /// Name of its function.
    pub func: String,
    /// Its root.
    pub root: Id,
    /// How long the oldest id has had it, in microseconds.
    pub age_us: u64,
    /// The ids that it waits for, the one that it has waited for longest first.
    pub late: Vec<Late>,
}

/// An id that a call waits for.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Late {
    /// The id.
    pub id: Id,
    /// What the id does.
    pub doing: Doing,
    /// For how long, in microseconds.
    pub since_us: u64,
    /// The call that runs at the id, if this one waits for its turn.
    pub behind: Option<String>,
    /// The ids that wait for it, the nearest first.
    pub waiting: Vec<Id>,
}

/// What an id does that a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Doing {
    /// The node does not answer.
    Silent,
    /// The request has not come to the id.
    NotReached,
    /// The id has answered, and its answer has not come to its parent.
    AnswerUnderWay,
    /// The data of the request are arriving.
    Data,
    /// The function waits for a free worker.
    Queue,
    /// The function runs.
    Func,
    /// The function has ended, and replies later.
    Deferred,
    /// The request waits to be forwarded.
    Forward,
    /// The callback waits for a free worker.
    CallbackQueue,
    /// The callback runs.
    Callback,
    /// Data of replies are arriving.
    Streaming,
}

/// Finds what the calls in flight wait for.
pub(crate) fn analyse(answers: &Answers) -> Analysis {
    let silent = answers.iter().filter_map(|(id, answer)| {
        let why = answer.as_ref().err()?.clone();
        Some(Silent { id: *id, why })
    });
    let mut by_call = BTreeMap::<CallId, BTreeMap<Id, &RecordedCall>>::new();
    for (id, recording) in recordings(answers) {
        for call in &recording.calls {
            // The last record counts: a node may have had a call of this name before.
            by_call.entry(call.call).or_default().insert(id, call);
        }
    }
    let calls = by_call.into_iter().filter_map(|(call, at)| under_way(call, &at, answers));
    let mut calls: Vec<UnderWay> = calls.collect();
    calls.sort_by_key(|call| std::cmp::Reverse(call.age_us));
    Analysis { nodes: answers.len(), silent: silent.collect(), calls }
}

fn recordings(answers: &Answers) -> impl Iterator<Item = (Id, &Recording)> {
    answers.iter().filter_map(|(id, answer)| Some((*id, answer.as_ref().ok()?)))
}

/// The analysis of one call, if it is in flight anywhere.
fn under_way(call: CallId, at: &BTreeMap<Id, &RecordedCall>, answers: &Answers) -> Option<UnderWay> {
    let in_flight: Vec<(Id, &RecordedCall)> =
        at.iter().map(|(id, call)| (*id, *call)).filter(|(_, call)| !call.state.is_ended()).collect();
    let oldest = in_flight.iter().map(|(_, call)| call.age).max()?;
    let mut late = BTreeMap::<Id, Late>::new();
    let mut add = |id, doing, since: Duration, behind, nearest| {
        let waiting = waiters(nearest, at);
        let found = Late { id, doing, since_us: micros(since), behind, waiting };
        late.entry(id).or_insert(found);
    };
    for (id, recorded) in &in_flight {
        if let Some(doing) = own(recorded.state) {
            let behind = if doing == Doing::Queue { running(*id, call, answers) } else { None };
            add(*id, doing, recorded.since(), behind, recorded.parent);
        }
        for child in &recorded.awaited {
            match (answers.get(child), at.get(child)) {
                (Some(Err(_)), _) => add(*child, Doing::Silent, recorded.since(), None, Some(*id)),
                // It is in flight there, and has its own entry.
                (_, Some(theirs)) if !theirs.state.is_ended() => {}
                (_, Some(theirs)) => add(*child, Doing::AnswerUnderWay, theirs.since(), None, Some(*id)),
                (Some(Ok(_)), None) => add(*child, Doing::NotReached, recorded.since(), None, Some(*id)),
                // It is not in the peers file.
                (None, None) => add(*child, Doing::Silent, recorded.since(), None, Some(*id)),
            }
        }
    }
    let mut late: Vec<Late> = late.into_values().collect();
    late.sort_by_key(|one| (std::cmp::Reverse(one.since_us), one.id));
    let name = at.values().find_map(|call| call.func_name.as_deref());
    let func = name.map_or_else(|| format!("{:016x}", in_flight[0].1.func), str::to_owned);
    Some(UnderWay { call: call.to_string(), func, root: call.root, age_us: micros(oldest), late })
}

/// What an id does itself in this state; `None` if it only waits for its children.
fn own(state: CallState) -> Option<Doing> {
    match state {
        CallState::Data => Some(Doing::Data),
        CallState::Queue => Some(Doing::Queue),
        CallState::Func => Some(Doing::Func),
        CallState::Deferred => Some(Doing::Deferred),
        CallState::Forward => Some(Doing::Forward),
        CallState::CallbackQueue => Some(Doing::CallbackQueue),
        CallState::Callback => Some(Doing::Callback),
        CallState::Streaming => Some(Doing::Streaming),
        _ => None,
    }
}

/// The ids that wait for an id, from its parent up to the root.
fn waiters(nearest: Option<Id>, at: &BTreeMap<Id, &RecordedCall>) -> Vec<Id> {
    let mut waiting = Vec::new();
    let (mut next, mut seen) = (nearest, BTreeSet::new());
    while let Some(id) = next.filter(|id| waiting.len() < WAITERS_MAX && seen.insert(*id)) {
        waiting.push(id);
        next = at.get(&id).and_then(|call| call.parent);
    }
    waiting
}

/// The function that runs at an id, and its call.
fn running(id: Id, but: CallId, answers: &Answers) -> Option<String> {
    let recording = answers.get(&id)?.as_ref().ok()?;
    let runs = |call: &&RecordedCall| {
        call.call != but && matches!(call.state, CallState::Func | CallState::Callback)
    };
    let call = recording.calls.iter().find(runs)?;
    let name = call.func_name.as_deref().unwrap_or("?");
    Some(format!("{name} of id {}", call.call.root))
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: CallId = CallId { root: 0, sequence: 9 };

    fn recorded(parent: Option<Id>, state: CallState, age_ms: u64, awaited: &[Id]) -> RecordedCall {
        RecordedCall {
            call: CALL,
            func: 1,
            func_name: Some("lookup".into()),
            parent,
            state,
            age: Duration::from_millis(age_ms),
            began: Some(Duration::from_millis(1)),
            ended: Some(Duration::from_millis(2)),
            callbacks: Duration::ZERO,
            last: None,
            answers: Vec::new(),
            answered: state.is_ended().then_some(Duration::from_millis(3)),
            awaited: awaited.to_vec(),
            awaited_count: awaited.len() as u32,
        }
    }

    fn answers(calls: Vec<(Id, Option<RecordedCall>)>, silent: &[Id]) -> Answers {
        let known = calls
            .into_iter()
            .map(|(id, call)| (id, Ok(Recording { me: id, calls: call.into_iter().collect() })));
        let silent = silent.iter().map(|id| (*id, Err("it did not answer".to_owned())));
        known.chain(silent).collect()
    }

    fn late(answers: &Answers) -> Vec<(Id, Doing, u64, Vec<Id>)> {
        let analysis = analyse(answers);
        let calls = analysis.calls.into_iter().flat_map(|call| call.late);
        calls.map(|late| (late.id, late.doing, late.since_us / 1000, late.waiting)).collect()
    }

    /// A chain of four over a function that is slow at the last id.
    fn chain(last: Option<RecordedCall>, silent: &[Id]) -> Answers {
        let waits = |parent, child| recorded(parent, CallState::Children, 500, &[child]);
        let mut calls =
            vec![(0, Some(waits(None, 1))), (1, Some(waits(Some(0), 2))), (2, Some(waits(Some(1), 3)))];
        if !silent.contains(&3) {
            calls.push((3, last));
        }
        answers(calls, silent)
    }

    #[test]
    fn the_id_at_the_end_of_a_chain_is_named_with_those_that_wait_for_it() {
        let waiting = vec![2, 1, 0];
        let at = |last: Option<RecordedCall>, silent: &[Id]| late(&chain(last, silent));
        let slow = recorded(Some(2), CallState::Func, 401, &[]);
        assert_eq!(at(Some(slow), &[]), [(3, Doing::Func, 400, waiting.clone())]);
        let deferred = recorded(Some(2), CallState::Deferred, 402, &[]);
        assert_eq!(at(Some(deferred), &[]), [(3, Doing::Deferred, 400, waiting.clone())]);
        assert_eq!(at(None, &[3]), [(3, Doing::Silent, 498, waiting.clone())]);
        assert_eq!(at(None, &[]), [(3, Doing::NotReached, 498, waiting.clone())]);
        let answered = recorded(Some(2), CallState::Done, 403, &[]);
        assert_eq!(at(Some(answered), &[]), [(3, Doing::AnswerUnderWay, 400, waiting)]);
    }

    /// The process that makes the call need not be in the peers file, and a middle id need not answer.
    #[test]
    fn ids_without_a_recording_do_not_hide_the_others() {
        let slow = recorded(Some(7), CallState::Func, 401, &[]);
        let only = answers(vec![(3, Some(slow))], &[7]);
        assert_eq!(late(&only), [(3, Doing::Func, 400, vec![7])]);
        assert_eq!(analyse(&only).silent.len(), 1);
    }

    #[test]
    fn a_call_that_waits_for_its_turn_names_the_one_that_runs() {
        let mut calls = answers(vec![(3, Some(recorded(Some(0), CallState::Queue, 50, &[])))], &[]);
        let before = RecordedCall {
            call: CallId { root: 5, sequence: 1 },
            func_name: Some("hang".into()),
            ..recorded(Some(5), CallState::Func, 900, &[])
        };
        if let Some(Ok(recording)) = calls.get_mut(&3) {
            recording.calls.push(before);
        }
        let analysis = analyse(&calls);
        let funcs: Vec<&str> = analysis.calls.iter().map(|call| &*call.func).collect();
        assert_eq!(funcs, ["hang", "lookup"], "the oldest call first");
        let queued = &analysis.calls[1].late[0];
        assert_eq!((queued.doing, queued.behind.as_deref()), (Doing::Queue, Some("hang of id 5")));
    }

    #[test]
    fn calls_that_have_ended_everywhere_are_not_under_way() {
        let done = |parent| Some(recorded(parent, CallState::Done, 50, &[]));
        let analysis = analyse(&answers(vec![(0, done(None)), (1, done(Some(0)))], &[]));
        assert_eq!((analysis.nodes, analysis.calls, analysis.silent), (2, vec![], vec![]));
    }
}
