//! Metrics of a node, and their text form: that of Prometheus.
//!
//! Each number has one writer, the thread that drives the node. Nothing is allocated for a message, no system call is
//! made, and nothing waits.

use std::fmt::{self, Write as _};
use std::time::Duration;

use gpc_trees::Id;
use gpc_trees::decimal::billionths;

/// A snapshot of what a node has done since its start, and of what it holds now: see
/// [`Node::metrics`](super::Node::metrics).
///
/// Each number is read for itself: a call that ends meanwhile may be counted both as ended and as in flight.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// The node's id.
    pub id: Id,
    /// Calls of this node that have ended and did not fail; partial calls count here.
    pub calls_succeeded: u64,
    /// Calls of this node that failed or were cancelled.
    pub calls_failed: u64,
    /// Calls in flight at this node, started here or by other ids.
    pub calls_in_flight: u64,
    /// Requests of other nodes whose call has ended here and did not fail.
    pub requests_succeeded: u64,
    /// Requests of other nodes whose call failed here or below, or was cancelled.
    pub requests_failed: u64,
    /// Requests of other nodes that were refused before anything was executed.
    pub requests_refused: u64,
    /// Bytes read from links.
    pub bytes_read: u64,
    /// Bytes written to links.
    pub bytes_written: u64,
    /// Links that are up.
    pub links: u64,
    /// Links that were up and have ended, however.
    pub links_ended: u64,
    /// Of these, links whose peer has died, was silent for too long, or was cut off.
    pub peers_lost: u64,
    /// Connections that were refused: without proof, of another job, or beyond a limit.
    pub connections_refused: u64,
    /// Calls that wait to be started, and other commands of the program.
    pub queued_commands: u64,
    /// Results of functions that wait for the node.
    pub queued_results: u64,
    /// Functions that run.
    pub functions_running: u64,
    /// Functions that wait for a worker.
    pub functions_waiting: u64,
    /// Memory that data of requests, replies and calls reserve, in bytes.
    pub memory_of_calls: u64,
    /// Memory that frames on their way reserve, in bytes.
    pub memory_of_frames: u64,
    /// How long calls took here, by function.
    pub functions: Vec<FunctionMetrics>,
}

/// Name of the histograms.
const DURATIONS: &str = "gpc_call_seconds";

/// Maximum number of functions read from one node: four times as many as a node counts.
const FUNCTIONS_MAX: usize = 1_024;

/// Maximum number of buckets read of one function; a node has 28. Each is compared with all others.
const BUCKETS_MAX: usize = 64;

/// How long the calls of a function took at this node, with all ids below it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct FunctionMetrics {
    /// The function's name; its number if it has no name here, and `other` for all functions beyond the first 256.
    pub name: String,
    /// Calls that have ended and did not fail.
    pub calls: u64,
    /// Their durations together.
    pub total: Duration,
    /// The number of calls that took at most this long, and longer than the limit before. Those beyond the last limit
    /// are only in [`calls`](Self::calls).
    pub buckets: Vec<(Duration, u64)>,
}

impl FunctionMetrics {
    /// The mean duration.
    pub fn mean(&self) -> Duration {
        let nanos = self.total.as_nanos() / u128::from(self.calls.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Adds the calls of the same function at another node.
    pub fn add(&mut self, other: &FunctionMetrics) {
        self.calls = self.calls.saturating_add(other.calls);
        self.total = self.total.saturating_add(other.total);
        for (limit, count) in &other.buckets {
            match self.buckets.iter_mut().find(|(own, _)| own == limit) {
                Some((_, own)) => *own = own.saturating_add(*count),
                None => self.buckets.push((*limit, *count)),
            }
        }
        self.buckets.sort_unstable_by_key(|(limit, _)| *limit);
    }

    /// An upper bound on the duration of this share of the calls, such as 0.99; `None` if it is beyond all buckets.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = (self.calls as f64 * share).ceil() as u64;
        let mut sum = 0;
        self.buckets.iter().find_map(|(limit, count)| {
            sum = count.saturating_add(sum);
            (sum >= wanted).then_some(*limit)
        })
    }
}

/// Each number: its name for Prometheus, its field, its kind and its description.
macro_rules! numbers {
    ($($name:literal $field:ident $kind:literal $help:literal;)*) => {
        impl Metrics {
            /// Name, value, kind and description of each number.
            fn values(&self) -> Vec<(&'static str, u64, &'static str, &'static str)> {
                vec![$(($name, self.$field, $kind, $help),)*]
            }

            /// The number of this name.
            fn value_mut(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $($name => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

numbers! {
    "gpc_calls_succeeded_total" calls_succeeded "counter" "Calls of this node that ended well";
    "gpc_calls_failed_total" calls_failed "counter" "Calls of this node that failed";
    "gpc_calls_in_flight" calls_in_flight "gauge" "Calls in flight at this node";
    "gpc_requests_succeeded_total" requests_succeeded "counter" "Requests of other nodes that ended well";
    "gpc_requests_failed_total" requests_failed "counter" "Requests of other nodes that failed";
    "gpc_requests_refused_total" requests_refused "counter" "Requests of other nodes that were refused";
    "gpc_read_bytes_total" bytes_read "counter" "Bytes read from links";
    "gpc_written_bytes_total" bytes_written "counter" "Bytes written to links";
    "gpc_links" links "gauge" "Links that are up";
    "gpc_links_ended_total" links_ended "counter" "Links that were up and have ended";
    "gpc_peers_lost_total" peers_lost "counter" "Links whose peer died or was silent";
    "gpc_connections_refused_total" connections_refused "counter" "Connections that were refused";
    "gpc_queued_commands" queued_commands "gauge" "Commands of the program that wait";
    "gpc_queued_results" queued_results "gauge" "Results of functions that wait";
    "gpc_functions_running" functions_running "gauge" "Functions that run";
    "gpc_functions_waiting" functions_waiting "gauge" "Functions that wait for a worker";
    "gpc_call_memory_bytes" memory_of_calls "gauge" "Memory reserved by data, replies and calls";
    "gpc_frame_memory_bytes" memory_of_frames "gauge" "Memory reserved by frames on their way";
}

impl Metrics {
    /// The metrics in the text format of Prometheus, with the node's id as label.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        let id = self.id;
        for (name, value, kind, help) in self.values() {
            writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}")?;
            writeln!(text, "{name}{{id=\"{id}\"}} {value}")?;
        }
        if self.functions.is_empty() {
            return Ok(());
        }
        let name = DURATIONS;
        writeln!(text, "# HELP {name} Duration of calls at this node and below.\n# TYPE {name} histogram")?;
        for function in &self.functions {
            let label = format!("id=\"{id}\",function=\"{}\"", Label(&function.name));
            let mut sum = 0;
            for (limit, count) in &function.buckets {
                sum += count;
                writeln!(text, "{name}_bucket{{{label},le=\"{}\"}} {sum}", Seconds(*limit))?;
            }
            writeln!(text, "{name}_bucket{{{label},le=\"+Inf\"}} {}", function.calls)?;
            writeln!(text, "{name}_sum{{{label}}} {}", Seconds(function.total))?;
            writeln!(text, "{name}_count{{{label}}} {}", function.calls)?;
        }
        Ok(())
    }
}

impl Metrics {
    /// Reads the text form. Names that this release does not know are skipped.
    ///
    /// # Errors
    /// If a line is not one of this form; the error names it.
    pub fn parse(text: &str) -> Result<Metrics, MetricsError> {
        let mut metrics = Metrics::default();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#')) {
            metrics.read_line(line).ok_or(MetricsError { line: number })?;
        }
        Ok(metrics)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let (key, value) = line.rsplit_once(' ')?;
        let (name, labels) = key.strip_suffix('}')?.split_once('{')?;
        let (id, labels) = label(labels, "id")?;
        self.id = id.parse().ok()?;
        if let Some(part) = name.strip_prefix(DURATIONS) {
            return self.read_durations(part, labels, value);
        }
        let value = value.parse().ok()?;
        // A later release may have more.
        self.value_mut(name).into_iter().for_each(|place| *place = value);
        Some(())
    }

    fn read_durations(&mut self, part: &str, labels: &str, value: &str) -> Option<()> {
        let (name, labels) = label(labels, "function")?;
        if self.functions.last().is_none_or(|last| last.name != name) {
            if self.functions.len() == FUNCTIONS_MAX {
                return None;
            }
            let (calls, total, buckets) = (0, Duration::ZERO, Vec::new());
            self.functions.push(FunctionMetrics { name, calls, total, buckets });
        }
        let function = self.functions.last_mut()?;
        match part {
            "_bucket" => {
                let (limit, _) = label(labels, "le")?;
                let below: u64 = function.buckets.iter().map(|(_, count)| count).sum();
                let count = value.parse::<u64>().ok()?.checked_sub(below)?;
                if limit != "+Inf" {
                    if function.buckets.len() == BUCKETS_MAX {
                        return None;
                    }
                    function.buckets.push((seconds(&limit)?, count));
                }
            }
            "_sum" => function.total = seconds(value)?,
            "_count" => function.calls = value.parse().ok()?,
            _ => {}
        }
        Some(())
    }
}

/// A duration as seconds, with as many decimals as it has.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seconds(time) = self;
        match time.subsec_nanos() {
            0 => write!(f, "{}", time.as_secs()),
            part => write!(f, "{}.{}", time.as_secs(), format!("{part:09}").trim_end_matches('0')),
        }
    }
}

/// A text that is not one of metrics.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line} is not one of a node's metrics: do all nodes run the same release?")]
pub struct MetricsError {
    /// Number of the line, from 1 on.
    pub line: usize,
}

fn seconds(text: &str) -> Option<Duration> {
    billionths(text).map(Duration::from_nanos)
}

/// The value of the first label, which must have this name, and the labels after it.
fn label<'a>(labels: &'a str, name: &str) -> Option<(String, &'a str)> {
    let quoted = labels.strip_prefix(name)?.strip_prefix("=\"")?;
    let (mut value, mut characters) = (String::new(), quoted.char_indices());
    // Ends: each round takes a character.
    loop {
        match characters.next()? {
            (end, '"') => {
                let rest = &quoted[end + 1..];
                return Some((value, rest.strip_prefix(',').unwrap_or(rest)));
            }
            (_, '\\') => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            (_, other) => value.push(other),
        }
    }
}

/// The value of a label: a name may have any characters.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            other => f.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn function(counts: &[u64]) -> FunctionMetrics {
        let limits = (0..28).map(|bucket| Duration::from_micros(1 << bucket));
        FunctionMetrics {
            name: "a \"b\"\n\\".into(),
            calls: counts.iter().sum::<u64>() + 1,
            total: Duration::from_millis(1500),
            buckets: limits.zip(counts.iter().copied()).collect(),
        }
    }

    #[test]
    fn the_text_has_each_value_once_and_sums_of_buckets() {
        let metrics =
            Metrics { id: 7, calls_failed: 5, functions: vec![function(&[2, 0, 3])], ..Metrics::default() };
        let text = metrics.prometheus();
        assert!(text.contains("# TYPE gpc_calls_failed_total counter\ngpc_calls_failed_total{id=\"7\"} 5\n"));
        assert!(text.contains("# TYPE gpc_links gauge\ngpc_links{id=\"7\"} 0\n"));
        let label = r#"{id="7",function="a \"b\"\n\\""#;
        for line in [
            "_bucket@,le=\"0.000001\"} 2",
            "_bucket@,le=\"0.000004\"} 5",
            "_bucket@,le=\"+Inf\"} 6",
            "_sum@} 1.5",
            "_count@} 6",
        ] {
            let line = format!("gpc_call_seconds{}\n", line.replace('@', label));
            assert!(text.contains(&line), "{line} in {text}");
        }
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let mut distinct = names.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!((names.len(), distinct.len()), (names.len(), names.len()));
        let read = Metrics::parse(&text).unwrap();
        assert_eq!((read.id, read.calls_failed, read.links), (7, 5, 0));
        assert_eq!(read.functions, metrics.functions);
    }

    #[test]
    fn a_line_that_is_none_is_named_and_an_unknown_name_is_skipped() {
        let at = |text: &str| Metrics::parse(text).map(|metrics| metrics.id).map_err(|error| error.line);
        assert_eq!(at("# a comment\ngpc_new{id=\"3\"} 4\n"), Ok(3));
        assert_eq!(at("gpc_links{id=\"3\"} 4\nnothing"), Err(2));
        for bad in ["gpc_links 4", "gpc_links{id=\"x\"} 4", "gpc_links{id=\"3\"} -4", "gpc_links{id=\"3} 4"] {
            assert_eq!(at(bad), Err(1), "{bad}");
        }
        let bucket =
            |value: u32| format!("gpc_call_seconds_bucket{{id=\"3\",function=\"f\",le=\"1\"}} {value}\n");
        assert_eq!(at(&(bucket(4) + &bucket(3))), Err(2), "counts of buckets only grow");
        assert_eq!(at(&bucket(4).repeat(BUCKETS_MAX)), Ok(3));
        assert_eq!(at(&bucket(4).repeat(BUCKETS_MAX + 1)), Err(BUCKETS_MAX + 1));
        let function = |name| format!("gpc_call_seconds_count{{id=\"3\",function=\"{name}\"}} 1\n");
        let functions = |count| (0..count).map(function).collect::<String>();
        assert_eq!(at(&functions(FUNCTIONS_MAX)), Ok(3));
        assert_eq!(at(&functions(FUNCTIONS_MAX + 1)), Err(FUNCTIONS_MAX + 1));
    }

    proptest! {
        /// Another program may answer with anything.
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\\n]{0,80}", labels in "[a-z\"=,{}\\\\]{0,20}") {
            let _ = Metrics::parse(&text);
            let _ = Metrics::parse(&format!("gpc_call_seconds_bucket{{{labels}}} 1"));
        }
    }

    #[test]
    fn quantiles_are_the_limits_of_buckets() {
        let function = function(&[2, 0, 3]);
        assert_eq!(function.mean(), Duration::from_millis(250));
        let quantile = |share| function.quantile(share).map(|limit| limit.as_micros());
        assert_eq!(
            [quantile(0.0), quantile(0.3), quantile(0.5), quantile(0.99)],
            [Some(1), Some(1), Some(4), None]
        );
    }
}
