//! The view of `gpc top`: a pure function of two samples and the size of the terminal.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use gpc_trees::Id;

use super::recordings::{BUILT_IN_PREFIX, SlowestIds};
use crate::output::{Align, shown_us, write_columns};
use crate::trace::analysis::{Silent, UnderWay};
use crate::trace::table::{unanswered, write_calls};
use chained_gpc::wire::Shown;
use chained_gpc::{FunctionMetrics, Metrics};

/// Functions that are listed: the slowest ones.
const FUNCTIONS_MAX: usize = 8;

/// Part of the rows for functions, and for ids that calls wait for; half of it is for nodes that do not answer.
const PART: usize = 4;

/// Rows of nodes that do not answer, at least.
const SILENT_MIN: usize = 2;

/// Size of the terminal, in characters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// What the nodes have answered at a moment.
#[derive(Clone, Default, Debug)]
pub(super) struct Sample {
    /// Since the command has begun.
    pub(super) at: Duration,
    pub(super) nodes: BTreeMap<Id, Result<Metrics, String>>,
    /// Calls that have waited long for an id.
    pub(super) late: Vec<UnderWay>,
    pub(super) slowest: SlowestIds,
}

/// The lines of a view, which fit the terminal.
pub(super) fn view(before: Option<&Sample>, now: &Sample, size: Size) -> io::Result<Vec<String>> {
    let part = (size.rows / PART).max(1);
    let mut out = vec![summary(before, now)];
    let silent = now.nodes.iter().filter_map(|(id, node)| {
        let why = node.as_ref().err()?.clone();
        Some(unanswered(&Silent { id: *id, why }, &now.late))
    });
    out.extend(at_most(silent.collect(), (part / 2).max(SILENT_MIN)));
    if !now.late.is_empty() {
        let mut bytes = Vec::new();
        write_calls(&now.late, &mut bytes)?;
        let mut lines = split(&bytes).into_iter();
        out.push(String::new());
        out.extend(lines.next());
        out.extend(at_most(lines.collect(), part));
    }
    let functions = functions(now);
    let functions = match functions.len().min(FUNCTIONS_MAX).min(part) {
        0 => Vec::new(),
        listed => table(&FUNCTION_COLUMNS, &functions[..listed])?,
    };
    let mut nodes: Vec<(Id, &Metrics)> =
        now.nodes.iter().filter_map(|(id, node)| Some((*id, node.as_ref().ok()?))).collect();
    // The busiest first.
    let busy = |node: &Metrics| sum([node.functions_running, node.functions_waiting]);
    nodes.sort_by_key(|(id, node)| std::cmp::Reverse((ended_since(before, *id, node).0, busy(node))));
    let lines: Vec<Vec<String>> = nodes.iter().map(|(id, node)| line(before, now, *id, node)).collect();
    let mut lines = table(&NODE_COLUMNS, &lines)?.into_iter();
    // Three lines are between the parts and above the nodes.
    let room = size.rows.saturating_sub(out.len() + functions.len() + 3).max(1);
    out.push(String::new());
    out.extend(lines.next());
    out.extend(at_most(lines.collect(), room));
    out.push(String::new());
    out.extend(functions);
    out.truncate(size.rows.max(1));
    Ok(out.into_iter().map(|line| line.chars().take(size.columns).collect()).collect())
}

/// The first lines, and the number of the others.
fn at_most(mut lines: Vec<String>, most: usize) -> Vec<String> {
    if lines.len() > most {
        let more = lines.len() + 1 - most;
        lines.truncate(most - 1);
        lines.push(format!("... and {more} more"));
    }
    lines
}

const NODE_COLUMNS: [(&str, Align); 11] = [
    ("id", Align::Right),
    ("calls/s", Align::Right),
    ("failed", Align::Right),
    ("refused", Align::Right),
    ("pending", Align::Right),
    ("running", Align::Right),
    ("queued", Align::Right),
    ("links", Align::Right),
    ("lost", Align::Right),
    ("read", Align::Right),
    ("sent", Align::Right),
];

const FUNCTION_COLUMNS: [(&str, Align); 7] = [
    ("slowest functions", Align::Left),
    ("calls", Align::Right),
    ("mean", Align::Right),
    ("50 % in", Align::Right),
    ("99 % in", Align::Right),
    ("slowest id", Align::Right),
    ("alone", Align::Right),
];

fn table(columns: &[(&str, Align)], lines: &[Vec<String>]) -> io::Result<Vec<String>> {
    let mut bytes = Vec::new();
    write_columns(columns, lines, &mut bytes)?;
    Ok(split(&bytes))
}

fn split(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).lines().map(str::to_owned).collect()
}

/// Ended calls, without those of built-in functions.
fn ended(node: &Metrics) -> u64 {
    let built_in = node.functions.iter().filter(|function| function.name.starts_with(BUILT_IN_PREFIX));
    let all = [node.calls_succeeded, node.calls_failed, node.requests_succeeded, node.requests_failed];
    sum(all).saturating_sub(sum(built_in.map(|function| function.calls)))
}

/// Adds numbers that nodes have sent, which may be any.
fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// The metrics of a node in a sample.
fn of(sample: Option<&Sample>, id: Id) -> Option<&Metrics> {
    sample?.nodes.get(&id)?.as_ref().ok()
}

/// Calls that have ended since the sample before, and whether there is one of the same run of the node.
fn ended_since(before: Option<&Sample>, id: Id, node: &Metrics) -> (u64, bool) {
    // A restarted node counts from 0 again.
    let earlier = of(before, id).filter(|earlier| ended(earlier) <= ended(node));
    (earlier.map_or(0, |earlier| ended(node) - ended(earlier)), earlier.is_some())
}

fn per_second(count: u64, before: Option<&Sample>, now: &Sample) -> f64 {
    let span = before.map_or(Duration::ZERO, |before| now.at.saturating_sub(before.at));
    if span.is_zero() { 0.0 } else { count as f64 / span.as_secs_f64() }
}

fn line(before: Option<&Sample>, now: &Sample, id: Id, node: &Metrics) -> Vec<String> {
    let (calls, known) = ended_since(before, id, node);
    let rate = |count: u64| per_second(count, before, now);
    let rated = |text: String| if known { text } else { "-".into() };
    let earlier = of(before, id).filter(|_| known);
    let bytes = |field: fn(&Metrics) -> u64| {
        let count = earlier.map_or(0, |earlier| field(node).saturating_sub(field(earlier)));
        rated(format!("{:.1}", rate(count) / 1e6))
    };
    vec![
        id.to_string(),
        rated(format!("{:.0}", rate(calls))),
        sum([node.calls_failed, node.requests_failed]).to_string(),
        node.requests_refused.to_string(),
        node.calls_in_flight.to_string(),
        node.functions_running.to_string(),
        sum([node.functions_waiting, node.queued_commands, node.queued_results]).to_string(),
        node.links.to_string(),
        node.peers_lost.to_string(),
        bytes(|node| node.bytes_read),
        bytes(|node| node.bytes_written),
    ]
}

fn summary(before: Option<&Sample>, now: &Sample) -> String {
    let answering = || now.nodes.iter().filter_map(|(id, node)| Some((*id, node.as_ref().ok()?)));
    let calls = sum(answering().map(|(id, node)| ended_since(before, id, node).0));
    let lost = sum(answering().map(|(_, node)| node.peers_lost));
    let in_flight = sum(answering().map(|(_, node)| node.calls_in_flight));
    format!(
        "{} of {} nodes answer; {:.0} calls/s at all nodes, {in_flight} in flight; {lost} peers lost",
        answering().count(),
        now.nodes.len(),
        per_second(calls, before, now),
    )
}

/// The functions of all nodes, the slowest one first.
fn functions(now: &Sample) -> Vec<Vec<String>> {
    let mut all: BTreeMap<String, FunctionMetrics> = BTreeMap::new();
    for function in now.nodes.values().flatten().flat_map(|node| &node.functions) {
        match all.get_mut(&function.name) {
            Some(sum) => sum.add(function),
            None => drop(all.insert(function.name.clone(), function.clone())),
        }
    }
    let counts =
        |function: &FunctionMetrics| function.calls > 0 && !function.name.starts_with(BUILT_IN_PREFIX);
    let mut all: Vec<FunctionMetrics> = all.into_values().filter(counts).collect();
    all.sort_by_key(|function| std::cmp::Reverse(function.mean()));
    let shown = |time: Duration| shown_us(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    all.iter()
        .map(|function| {
            let within = |share| function.quantile(share).map_or_else(|| "-".into(), shown);
            let name = Shown(&function.name).to_string();
            let mut line =
                vec![name, function.calls.to_string(), shown(function.mean()), within(0.5), within(0.99)];
            let slowest = now.slowest.get(&function.name);
            line.extend(slowest.map(|(id, _)| id.to_string()));
            line.extend(slowest.map(|(_, mean)| shown(*mean)));
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::analysis::{Doing, Late};

    fn node(id: Id, calls: u64) -> Metrics {
        let text = format!(
            "gpc_calls_succeeded_total{{id=\"{id}\"}} {calls}\ngpc_read_bytes_total{{id=\"{id}\"}} {}\n\
             gpc_peers_lost_total{{id=\"{id}\"}} 1\ngpc_functions_waiting{{id=\"{id}\"}} 4\n\
             gpc_call_seconds_bucket{{id=\"{id}\",function=\"slow\",le=\"0.001\"}} {calls}\n\
             gpc_call_seconds_sum{{id=\"{id}\",function=\"slow\"}} {}\n\
             gpc_call_seconds_count{{id=\"{id}\",function=\"slow\"}} {calls}\n",
            calls * 1_000_000,
            calls as f64 * 0.0005,
        );
        Metrics::parse(&text).unwrap()
    }

    fn sample(at: u64, nodes: impl IntoIterator<Item = (Id, Option<u64>)>) -> Sample {
        let node = |(id, calls): (Id, Option<u64>)| {
            (id, calls.map(|calls| node(id, calls)).ok_or_else(|| "it is stopped".to_owned()))
        };
        Sample {
            at: Duration::from_secs(at),
            nodes: nodes.into_iter().map(node).collect(),
            ..Sample::default()
        }
    }

    /// A call over 64 ids that hangs at id 37.
    fn hanging() -> Sample {
        let late =
            Late { id: 37, doing: Doing::Func, since_us: 58_000_000, behind: None, waiting: vec![36, 32, 0] };
        let call = UnderWay {
            call: "0#7".into(),
            func: "slow".into(),
            root: 0,
            age_us: 58_200_000,
            late: vec![late],
        };
        let nodes = (0..64).map(|id| (id, Some(1_000_000).filter(|_| id > 0)));
        Sample { late: vec![call], ..sample(3, nodes) }
    }

    const WIDE: Size = Size { rows: 40, columns: 200 };

    #[test]
    fn rates_are_of_the_last_interval_and_the_silent_stand_first() {
        let before = sample(1, [(0, Some(10)), (1, Some(50)), (2, Some(5))]);
        let now = sample(3, [(0, Some(20)), (1, Some(90)), (2, None)]);
        let lines = view(Some(&before), &now, WIDE).unwrap();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        let words: Vec<String> = lines.iter().map(|line| words(line)).collect();
        assert_eq!(words[0], "2 of 3 nodes answer; 25 calls/s at all nodes, 0 in flight; 2 peers lost");
        assert_eq!(words[1], "id 2 does not answer: it is stopped");
        assert_eq!(words[4..6], ["1 20 0 0 0 0 4 0 1 20.0 0.0", "0 5 0 0 0 0 4 0 1 5.0 0.0"]);
        assert_eq!(words[8], "slow 110 500 µs 1.00 ms 1.00 ms");
        assert!(lines[3].ends_with("links  lost  read  sent"), "{lines:?}");
    }

    #[test]
    fn a_first_view_and_a_restarted_node_have_no_rate() {
        let now = sample(3, [(0, Some(20))]);
        for before in [None, Some(&sample(1, [(0, Some(30))]))] {
            let lines = view(before, &now, WIDE).unwrap();
            assert!(lines[3].split_whitespace().take(2).eq(["0", "-"]), "{lines:?}");
        }
    }

    /// A node may send any numbers: their sum was beyond 64 bits.
    #[test]
    fn numbers_of_a_hostile_node_do_not_overflow() {
        let mut most = node(3, 10);
        (most.calls_failed, most.requests_failed) = (u64::MAX, u64::MAX);
        (most.functions_waiting, most.queued_results, most.peers_lost) = (u64::MAX, u64::MAX, u64::MAX);
        (most.functions[0].calls, most.calls_in_flight) = (u64::MAX, u64::MAX);
        let nodes = [(3, Ok(most.clone())), (4, Ok(most))].into();
        let lines = view(None, &Sample { nodes, ..Sample::default() }, WIDE).unwrap();
        assert!(lines[0].ends_with(&format!("{} peers lost", u64::MAX)), "{lines:?}");
    }

    #[test]
    fn calls_of_this_command_do_not_count() {
        let mut node = node(3, 10);
        node.functions[0].name = "gpc:metrics".into();
        let now = Sample { nodes: [(3, Ok(node))].into(), ..Sample::default() };
        assert_eq!((ended(now.nodes[&3].as_ref().unwrap()), functions(&now).len()), (0, 0));
    }

    /// In a terminal of 80 columns the last column was cut off, and the id that a call hung at was among the nodes that
    /// are only counted.
    #[test]
    fn a_small_terminal_shows_all_columns_and_the_id_that_a_call_waits_for() {
        let mut now = hanging();
        now.slowest = [("slow".to_owned(), (37, Duration::from_millis(400)))].into();
        let lines = view(None, &now, Size { rows: 24, columns: 80 }).unwrap();
        let text = lines.join("\n");
        assert!(text.contains("id 0 does not answer: it is stopped; it is the root of a call"), "{text}");
        assert!(
            text.contains("\n      0  slow  58.2 s            37  58.0 s  runs slow  36, 32, 0\n"),
            "{text}"
        );
        assert!(lines.iter().any(|line| line.ends_with("lost  read  sent")), "{text}");
        assert!(lines.last().unwrap().ends_with("37  400 ms"), "{text}");
    }

    #[test]
    fn a_view_fits_the_terminal() {
        let nodes = (0..500).map(|id| (id, Some(u64::from(id)).filter(|id| id % 3 > 0)));
        let now = sample(3, nodes);
        for (rows, columns) in [(0, 9), (1, 80), (5, 80), (8, 40), (24, 80), (60, 132)] {
            let lines = view(None, &now, Size { rows, columns }).unwrap();
            assert!(lines.len() <= rows.max(1), "{} lines in {rows}", lines.len());
            assert!(lines.iter().all(|line| line.chars().count() <= columns));
            assert!(rows < 8 || lines.iter().filter(|line| line.starts_with("... and ")).count() == 2);
        }
    }
}
