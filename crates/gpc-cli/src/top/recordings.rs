//! What the flight recorders of running nodes add to their counters, for `gpc top`: the ids that calls wait for, and
//! the ids at which functions are slow. Pure functions.

use std::collections::BTreeMap;
use std::time::Duration;

use gpc_trees::Id;

use crate::trace::analysis::{Answers, UnderWay, analyse};

/// Prefix of the names of built-in functions, such as those that this command calls.
pub(super) const BUILT_IN_PREFIX: &str = "gpc:";

/// A call that has waited for less is not listed: it may be a fast one of many.
const LATE_AFTER: Duration = Duration::from_secs(1);

/// The slowest id of each function, and how long the function takes there on average.
pub(super) type SlowestIds = BTreeMap<String, (Id, Duration)>;

/// Returns the calls in flight that have waited long for an id.
pub(super) fn late_calls(answers: &Answers) -> Vec<UnderWay> {
    let mut calls = analyse(answers).calls;
    calls.retain(|call| !call.func.starts_with(BUILT_IN_PREFIX));
    for call in &mut calls {
        call.late.retain(|late| u128::from(late.since_us) >= LATE_AFTER.as_micros());
    }
    calls.retain(|call| !call.late.is_empty());
    calls
}

/// Returns the slowest id of each function, by the time of the function itself in the last calls.
pub(super) fn slowest_ids(answers: &Answers) -> SlowestIds {
    let mut slowest = SlowestIds::new();
    for (id, recording) in answers.iter().filter_map(|(id, answer)| Some((*id, answer.as_ref().ok()?))) {
        let mut times = BTreeMap::<&str, (Duration, u32)>::new();
        for call in &recording.calls {
            let (Some(name), Some(began), Some(ended)) = (&call.func_name, call.began, call.ended) else {
                continue;
            };
            let (sum, count) = times.entry(name).or_default();
            *sum = sum.saturating_add(ended.saturating_sub(began));
            *count += 1;
        }
        for (name, (sum, count)) in times {
            let mean = sum / count.max(1);
            let known = slowest.entry(name.to_owned()).or_insert((id, mean));
            if mean > known.1 {
                *known = (id, mean);
            }
        }
    }
    slowest
}

#[cfg(test)]
mod tests {
    use chained_gpc::wire::CallId;
    use chained_gpc::{CallState, RecordedCall, Recording};

    use super::*;

    fn recorded(name: &str, sequence: u64, state: CallState, age_ms: u64, func_ms: u64) -> RecordedCall {
        let ended = state.is_ended().then_some(Duration::from_millis(1 + func_ms));
        RecordedCall {
            call: CallId { root: 9, sequence },
            func: 1,
            func_name: Some(name.into()),
            parent: Some(9),
            state,
            age: Duration::from_millis(age_ms),
            began: Some(Duration::from_millis(1)),
            ended,
            callbacks: Duration::ZERO,
            last: None,
            answers: Vec::new(),
            answered: ended,
            awaited: Vec::new(),
            awaited_count: 0,
        }
    }

    fn answers(nodes: Vec<(Id, Vec<RecordedCall>)>) -> Answers {
        nodes.into_iter().map(|(me, calls)| (me, Ok(Recording { me, calls }))).collect()
    }

    #[test]
    fn calls_that_have_waited_for_a_second_are_late() {
        let func = |name, sequence, age_ms| recorded(name, sequence, CallState::Func, age_ms, 0);
        let calls = vec![func("lookup", 1, 1_001), func("lookup", 2, 1_000), func("gpc:metrics", 3, 9_000)];
        let late = late_calls(&answers(vec![(5, calls)]));
        let named: Vec<(&str, Id)> = late.iter().map(|call| (call.func.as_str(), call.late[0].id)).collect();
        assert_eq!((named, late[0].late[0].since_us), (vec![("lookup", 5)], 1_000_000));
    }

    /// The durations in the metrics of a node have those of the ids below it: they do not show which id is slow.
    #[test]
    fn the_slowest_id_of_a_function_is_that_with_the_longest_mean() {
        let done = |name, func_ms| recorded(name, 1, CallState::Done, 900, func_ms);
        let one = vec![done("lookup", 100), done("lookup", 2), done("quick", 3)];
        let two = vec![done("lookup", 60), done("lookup", 62), recorded("quick", 1, CallState::Func, 9, 0)];
        let mut answers = answers(vec![(1, one), (2, two)]);
        answers.insert(3, Err("it is stopped".into()));
        let ms = Duration::from_millis;
        let expected = [("lookup".to_owned(), (2, ms(61))), ("quick".to_owned(), (1, ms(3)))];
        assert_eq!(slowest_ids(&answers), expected.into());
    }
}
