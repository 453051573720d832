//! Writes what calls wait for as a table for people.

use std::io::{self, Write};

use super::analysis::{Analysis, Doing, Late, Silent, UnderWay};
use crate::output::{Align, shown_us, write_columns};
use chained_gpc::wire::Shown;

/// Ids of one call that are listed: the rest is counted.
const LATE_MAX: usize = 16;

/// Ids that wait for one id, as listed.
const WAITING_MAX: usize = 8;

/// Writes the calls in flight, the nodes that did not answer, and a summary.
///
/// # Errors
/// If the output fails.
pub(super) fn write(analysis: &Analysis, out: &mut dyn Write) -> io::Result<()> {
    if !analysis.calls.is_empty() {
        write_calls(&analysis.calls, out)?;
        writeln!(out)?;
    }
    for silent in &analysis.silent {
        writeln!(out, "{}", unanswered(silent, &analysis.calls))?;
    }
    let answered = analysis.nodes - analysis.silent.len();
    let calls = match analysis.calls.len() {
        0 => "no call is".to_owned(),
        1 => "1 call is".to_owned(),
        calls => format!("{calls} calls are"),
    };
    writeln!(out, "{answered} of {} nodes answered; {calls} under way", analysis.nodes)
}

/// Writes a line for each id that these calls wait for.
///
/// # Errors
/// If the output fails.
pub(crate) fn write_calls(calls: &[UnderWay], out: &mut dyn Write) -> io::Result<()> {
    let columns = [
        ("call of", Align::Right),
        ("func", Align::Left),
        ("for", Align::Right),
        ("waits for id", Align::Right),
        ("for", Align::Right),
        ("which", Align::Left),
        ("waiting ids", Align::Left),
    ];
    let lines: Vec<Vec<String>> = calls.iter().flat_map(lines).collect();
    write_columns(&columns, &lines, out)
}

/// Returns the line of a node that does not answer. `gpc call` links to nodes, and no node links to it.
pub(crate) fn unanswered(silent: &Silent, calls: &[UnderWay]) -> String {
    let (id, why) = (silent.id, Shown(&silent.why));
    match calls.iter().any(|call| call.root == id) {
        false => format!("id {id} does not answer: {why}"),
        true => format!(
            "id {id} does not answer: {why}; it is the root of a call, and `gpc call` accepts no links"
        ),
    }
}

/// The lines of one call: one for each id that it waits for.
fn lines(call: &UnderWay) -> Vec<Vec<String>> {
    let head = || vec![call.root.to_string(), Shown(&call.func).to_string(), shown_us(call.age_us)];
    let line = |late: &Late| {
        let waiting: Vec<String> = late.waiting.iter().take(WAITING_MAX).map(ToString::to_string).collect();
        let more = if late.waiting.len() > WAITING_MAX { ", ..." } else { "" };
        let mut line = head();
        line.extend([late.id.to_string(), shown_us(late.since_us), which(late, &call.func)]);
        line.push(waiting.join(", ") + more);
        line
    };
    let mut lines: Vec<Vec<String>> = call.late.iter().take(LATE_MAX).map(line).collect();
    let more = call.late.len().saturating_sub(LATE_MAX);
    if more > 0 || lines.is_empty() {
        let what = if more > 0 { format!("and {more} more ids") } else { String::new() };
        let mut line = head();
        line.extend([String::new(), String::new(), what, String::new()]);
        lines.push(line);
    }
    lines
}

/// What the id does.
fn which(late: &Late, func: &str) -> String {
    let func = Shown(func);
    match (late.doing, &late.behind) {
        (Doing::Silent, _) => "does not answer".into(),
        (Doing::NotReached, _) => "has not received the request".into(),
        (Doing::AnswerUnderWay, _) => "has answered: the answer is on its way".into(),
        (Doing::Data, _) => "receives the data of the request".into(),
        (Doing::Queue, Some(behind)) => format!("waits for a free worker, behind {}", Shown(behind)),
        (Doing::Queue, None) => "waits for a free worker".into(),
        (Doing::Func, _) => format!("runs {func}"),
        (Doing::Deferred, _) => format!("has run {func}, which replies later"),
        (Doing::Forward, _) => "has not forwarded the request".into(),
        (Doing::CallbackQueue, _) => "waits for a free worker for the callback".into(),
        (Doing::Callback, _) => "runs the callback".into(),
        (Doing::Streaming, _) => "passes data of replies on".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::analysis::Silent;

    fn shown(analysis: &Analysis) -> String {
        let mut out = Vec::new();
        write(analysis, &mut out).expect("a vector takes all");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_table_lines_up_and_names_the_late_id() {
        let late = |id, doing, waiting: &[u32]| Late {
            id,
            doing,
            since_us: 58_000_000,
            behind: None,
            waiting: waiting.to_vec(),
        };
        let call = UnderWay {
            call: "0#7".into(),
            func: "lookup".into(),
            root: 0,
            age_us: 58_200_000,
            late: vec![late(37, Doing::Func, &[36, 12, 0]), late(5, Doing::Silent, &[0])],
        };
        let silent = Silent { id: 5, why: "no heartbeat".into() };
        let text = shown(&Analysis { nodes: 64, silent: vec![silent], calls: vec![call] });
        let expected = "\
call of  func       for  waits for id     for  which            waiting ids
      0  lookup  58.2 s            37  58.0 s  runs lookup      36, 12, 0
      0  lookup  58.2 s             5  58.0 s  does not answer  0

id 5 does not answer: no heartbeat
63 of 64 nodes answered; 1 call is under way
";
        assert_eq!(text, expected);
    }

    /// The process of `gpc call` was reported like a dead node.
    #[test]
    fn the_root_of_a_call_that_accepts_no_links_is_no_dead_node() {
        let call = |root| UnderWay { call: "0#7".into(), func: "f".into(), root, age_us: 2, late: vec![] };
        let silent = |id| Silent { id, why: "connection refused".into() };
        let calls = [call(0), call(0)];
        let refused = "does not answer: connection refused";
        assert_eq!(unanswered(&silent(5), &calls), format!("id 5 {refused}"));
        let root = format!("id 0 {refused}; it is the root of a call, and `gpc call` accepts no links");
        assert_eq!(unanswered(&silent(0), &calls), root);
    }

    #[test]
    fn many_late_ids_are_counted() {
        let late: Vec<Late> = (0..40)
            .map(|id| Late { id, doing: Doing::Func, since_us: 1, behind: None, waiting: vec![] })
            .collect();
        let call = UnderWay { call: "0#7".into(), func: "f".into(), root: 0, age_us: 2, late };
        let text = shown(&Analysis { nodes: 40, silent: vec![], calls: vec![call] });
        assert!(text.contains("and 24 more ids") && text.lines().count() == 1 + 16 + 1 + 2, "{text}");
    }

    #[test]
    fn without_calls_there_is_a_summary_alone() {
        let text = shown(&Analysis { nodes: 3, silent: vec![], calls: vec![] });
        assert_eq!(text, "3 of 3 nodes answered; no call is under way\n");
    }
}
