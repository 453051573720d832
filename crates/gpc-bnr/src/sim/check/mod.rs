//! Rules for every world of groups. They use only requests, answers, and starts and ends of processes.

mod databases;
mod exchanged;
mod failures;
mod history;
mod kills;
mod meetings;
mod notices;
mod reads;
mod rest;
mod rosters;
#[cfg(test)]
mod tests;

use chained_gpc::trees::Id;
use gpc_sim::check::Violation;

use super::seen::Seen;
use history::History;

/// Most violations that are reported for one checker: the first ones are the most useful.
const REPORTED_MAX: usize = 4;

/// A violation: its place in the history, and a description.
type Wrong = (usize, String);

/// A checker: its name, and its function.
type Checker = (&'static str, fn(&History<'_>, &mut Vec<Wrong>));

/// All checkers, in order of execution.
const CHECKERS: &[Checker] = &[
    ("answers", rest::answers),
    ("meetings", meetings::complete),
    ("agreement", meetings::agree),
    ("exchanged", exchanged::data),
    ("causes", failures::same),
    ("missing", failures::name_the_missing),
    ("reasons", meetings::have_reasons),
    ("limits", meetings::in_time),
    ("subscribed", notices::subscribed),
    ("notices", notices::notices),
    ("told-first", notices::before_failures),
    ("reads", reads::after_fences),
    ("stamps", reads::one_value),
    ("overwritten", reads::nothing_overwritten),
    ("destroyed", databases::destroyed),
    ("given", databases::given),
    ("sizes", databases::sizes),
    ("kills", kills::nothing_left),
    ("along", kills::along),
    ("killed", kills::for_a_reason),
    ("spawns", kills::spawns),
    ("members", rosters::members),
    ("colors", rosters::colors),
    ("numbers", rest::numbers),
    ("names", rest::names),
    ("ends", rest::ends),
    ("left", rest::left),
    ("liveness", rest::liveness),
];

/// Checks a history: the observations, their times in microseconds, and the id of the head.
pub(super) fn check(seen: &[Seen], times: &[u64], head: Id) -> Vec<Violation> {
    let history = History::new(seen, times, head);
    let mut violations = Vec::new();
    for (checker, judge) in CHECKERS {
        let mut wrong = Vec::new();
        judge(&history, &mut wrong);
        violations.extend(wrong.into_iter().take(REPORTED_MAX).map(|(at, what)| {
            Violation {
                checker,
                at_ns: times
                    .get(at)
                    .or(times.last())
                    .map_or(0, |time| (time - super::time::BEGIN.min(*time)) * 1_000),
                what,
            }
        }));
    }
    violations
}
