//! Output of `gpc sim`, as tables and as JSON.
//!
//! The structs are exactly the JSON: programs read their fields by name and order.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use gpc_trees::{Id, TreeName};
use serde::Serialize;

use super::scenario::replay;
use crate::CommandResult;
pub(super) use crate::output::write_json;
use crate::output::{Counts, FirstCause};
use gpc_sim::check::Violation;
use gpc_sim::{Hop, Report, Scenario, Swarm};

/// Hops of a critical path that a table shows at each end of the path.
const HOPS_SHOWN: usize = 12;

/// Cost of the simulation itself.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Measured {
    /// Time of this process, in milliseconds.
    wall_ms: u64,
    /// Simulated events per second.
    events_per_s: u64,
    /// Peak memory of this process, in KiB; `null` if the system does not report it.
    peak_memory_kib: Option<u64>,
}

impl Measured {
    pub(super) fn since(begun: Instant, events: u64) -> Measured {
        let took = begun.elapsed();
        let wall_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let events_per_s = (events as f64 / took.as_secs_f64().max(1e-9)) as u64;
        Measured { wall_ms, events_per_s, peak_memory_kib: peak_memory_kib() }
    }

    pub(super) fn shown(&self) -> String {
        let memory = self.peak_memory_kib.map_or("unknown".into(), |kib| format!("{} MiB", kib / 1024));
        format!("{} ms of this machine, {} events/s, peak memory {memory}", self.wall_ms, self.events_per_s)
    }
}

fn peak_memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A failed run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failure {
    /// Command that runs it again.
    pub(super) replay: String,
    pub(super) violations: Vec<String>,
}

impl Failure {
    pub(super) fn new(replay: String, violations: &[Violation]) -> Failure {
        Failure { replay, violations: violations.iter().map(ToString::to_string).collect() }
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "replay it: {}", self.replay)?;
        self.violations.iter().take(3).try_for_each(|violation| writeln!(out, "  {violation}"))
    }
}

/// Returns an error that names the first violation of the first failed run, and how to reproduce it.
pub(super) fn judge_first(first: Option<&Failure>) -> CommandResult {
    match first {
        None => Ok(ExitCode::SUCCESS),
        Some(Failure { replay, violations }) => {
            let first = violations.first().map(String::as_str).unwrap_or_default();
            Err(format!("{first}\nreplay it: {replay}").into())
        }
    }
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    tree: String,
    nodes: u32,
    partial: bool,
    faults: String,
    seed: u64,
    /// Hash over all events.
    hash: String,
    messages: u64,
    bytes: u64,
    events: u64,
    measured: Measured,
    calls: Vec<CallSummary>,
    critical_path: Vec<HopSummary>,
    injected: Vec<(String, u64)>,
    violations: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct CallSummary {
    root: Id,
    /// `null` if the root ended before the call.
    took_ns: Option<u64>,
    coverage: Counts,
    cause: Option<FirstCause>,
}

#[derive(Clone, Debug, Serialize)]
struct HopSummary {
    from: Id,
    to: Id,
    kind: &'static str,
    sent_ns: u64,
    received_ns: u64,
    queued_ns: u64,
    worked_ns: u64,
    #[serde(skip)]
    shown: String,
}

impl From<&Hop> for HopSummary {
    fn from(hop: &Hop) -> HopSummary {
        let Hop { from, to, down, sent_ns, received_ns, queued_ns, worked_ns } = *hop;
        let kind = if down { "request" } else { "answer" };
        HopSummary { from, to, kind, sent_ns, received_ns, queued_ns, worked_ns, shown: hop.to_string() }
    }
}

impl Summary {
    pub(super) fn new(scenario: &Scenario, name: &TreeName, report: &Report, measured: Measured) -> Summary {
        let call = |call: &gpc_sim::CallReport| CallSummary {
            root: call.root,
            took_ns: call.took_ns,
            coverage: call.coverage.into(),
            cause: call.cause.as_ref().map(FirstCause::from),
        };
        Summary {
            tree: name.to_string(),
            nodes: scenario.n,
            partial: scenario.partial,
            faults: scenario.faults.to_string(),
            seed: scenario.seed,
            hash: format!("{:016x}", report.hash),
            messages: report.messages,
            bytes: report.bytes,
            events: report.events,
            measured,
            calls: report.calls.iter().map(call).collect(),
            critical_path: report.path.iter().map(HopSummary::from).collect(),
            injected: report.injected.iter().map(|(fault, times)| (fault.to_string(), *times)).collect(),
            violations: report.violations.iter().map(ToString::to_string).collect(),
        }
    }

    pub(super) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Summary { tree, nodes, faults, seed, messages, bytes, events, hash, .. } = self;
        let mode = if self.partial { ", partial calls" } else { "" };
        writeln!(out, "{tree} tree over {nodes} ids, faults {faults}{mode}, seed {seed}")?;
        for call in &self.calls {
            write!(out, "call from id {}: ", call.root)?;
            match call.took_ns {
                Some(took) => write!(out, "{}, ", shown_ns(took))?,
                None => write!(out, "its root did not live to see the end, ")?,
            }
            writeln!(out, "{}", shown_counts(call.coverage))?;
            if let Some(cause) = &call.cause {
                writeln!(out, "  {cause}")?;
            }
        }
        for (fault, times) in &self.injected {
            writeln!(out, "injected {fault}: {times}")?;
        }
        writeln!(out, "{messages} messages, {bytes} bytes, {events} events, trace hash {hash}")?;
        writeln!(out, "{}", self.measured.shown())?;
        self.write_path(out)?;
        self.violations.iter().try_for_each(|violation| writeln!(out, "VIOLATION {violation}"))
    }

    fn write_path(&self, out: &mut dyn Write) -> io::Result<()> {
        let hops = &self.critical_path;
        if hops.is_empty() {
            return Ok(());
        }
        writeln!(out, "critical path of {} messages:", hops.len())?;
        let left_out = hops.len().saturating_sub(2 * HOPS_SHOWN);
        for (place, hop) in hops.iter().enumerate() {
            match place.checked_sub(HOPS_SHOWN) {
                Some(0) if left_out > 0 => writeln!(out, "  ... {left_out} more ...")?,
                Some(past) if past < left_out => {}
                _ => writeln!(out, "  {}", hop.shown)?,
            }
        }
        Ok(())
    }
}

/// Many runs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SwarmSummary {
    /// Runs that were made.
    runs: u64,
    /// Whether the runs were interrupted before all were made.
    interrupted: bool,
    failed: u64,
    hash: String,
    events: u64,
    messages: u64,
    calls_complete: u64,
    calls_incomplete: u64,
    measured: Measured,
    /// Name of a fault, its number of times, and the number of runs with it.
    injected: Vec<(String, u64, u64)>,
    /// Name of a theme (faults drawn together), and the number of runs with it.
    themes: Vec<(String, u64)>,
    failures: Vec<FailureSummary>,
}

#[derive(Clone, Debug, Serialize)]
struct FailureSummary {
    seed: u64,
    replay: String,
    violations: Vec<String>,
}

impl SwarmSummary {
    pub(super) fn new(swarm: &Swarm, name: &TreeName, measured: Measured, interrupted: bool) -> SwarmSummary {
        let failure = |(scenario, violations): &(Scenario, Vec<gpc_sim::check::Violation>)| FailureSummary {
            seed: scenario.seed,
            replay: replay(scenario, name),
            violations: violations.iter().map(ToString::to_string).collect(),
        };
        SwarmSummary {
            runs: swarm.runs,
            interrupted,
            failed: swarm.failed,
            hash: format!("{:016x}", swarm.hash),
            events: swarm.events,
            messages: swarm.messages,
            calls_complete: swarm.complete,
            calls_incomplete: swarm.incomplete,
            measured,
            injected: swarm
                .injected
                .iter()
                .map(|(fault, all, runs)| (fault.to_string(), *all, *runs))
                .collect(),
            themes: swarm.themes.iter().map(|(theme, runs)| (theme.to_string(), *runs)).collect(),
            failures: swarm.failures.iter().map(failure).collect(),
        }
    }

    pub(super) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let SwarmSummary { runs, failed, events, messages, hash, .. } = self;
        writeln!(out, "{runs} runs, {failed} failed, {events} events, {messages} messages, hash {hash}")?;
        writeln!(out, "calls: {} complete, {} not", self.calls_complete, self.calls_incomplete)?;
        for (fault, all, runs) in &self.injected {
            writeln!(out, "injected {fault}: {all} in {runs} runs")?;
        }
        let drawn = self.themes.iter().filter(|(_, runs)| *runs > 0);
        let (themes, runs) = drawn.fold((0, 0), |(themes, all), (_, runs)| (themes + 1, all + runs));
        if themes > 0 {
            writeln!(out, "{runs} runs had one of {themes} themes, of {}", self.themes.len())?;
        }
        writeln!(out, "{}", self.measured.shown())?;
        for failure in &self.failures {
            writeln!(out, "seed {} fails; replay it: {}", failure.seed, failure.replay)?;
            failure.violations.iter().take(3).try_for_each(|violation| writeln!(out, "  {violation}"))?;
        }
        Ok(())
    }
}

/// Comparison of two builds in the same runs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Same {
    pub(super) runs: u64,
    /// Seed of the first run.
    pub(super) seed: u64,
    /// The other build.
    pub(super) against: String,
    /// `null` if both did the same.
    pub(super) difference: Option<FirstDifference>,
}

/// The first run that differs, and where.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FirstDifference {
    pub(super) seed: u64,
    /// Number of equal lines of both traces, before the first line that differs.
    pub(super) same_lines: u64,
    /// That line with this build, and with the other; `null` if a trace has ended.
    pub(super) here: Option<String>,
    pub(super) there: Option<String>,
    /// Command that shows the run.
    pub(super) replay: String,
}

impl Same {
    pub(super) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Same { runs, seed, against, difference } = self;
        let Some(FirstDifference { seed: first, same_lines, here, there, replay }) = difference else {
            return writeln!(out, "{runs} runs from seed {seed} on: the same with {against}");
        };
        writeln!(out, "seed {first} is the first of {runs} runs in which {against} does something else")?;
        match (here, there) {
            (None, None) => writeln!(
                out,
                "both traces have the same {same_lines} lines: what nodes hold, or when, differs"
            )?,
            _ => {
                let line = |line: &Option<String>| line.clone().unwrap_or_else(|| "nothing more".into());
                writeln!(out, "behind {same_lines} lines that are the same")?;
                writeln!(out, "  here:  {}", line(here).trim_start())?;
                writeln!(out, "  there: {}", line(there).trim_start())?;
            }
        }
        writeln!(out, "see it with both: {replay}")
    }
}

/// One of several trees.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Compared {
    tree: String,
    nodes: u32,
    /// Time of the longest call.
    took_ns: Option<u64>,
    depth: Option<u32>,
    fan_out: Option<u32>,
    messages: u64,
    bytes: u64,
    path_hops: usize,
    measured: Measured,
}

impl Compared {
    pub(super) fn new(name: &TreeName, scenario: &Scenario, report: &Report, measured: Measured) -> Compared {
        Compared {
            tree: name.to_string(),
            nodes: scenario.n,
            took_ns: report.calls.iter().filter_map(|call| call.took_ns).max(),
            depth: scenario.tree.depth(scenario.n),
            fan_out: scenario.tree.fan_out(scenario.n),
            messages: report.messages,
            bytes: report.bytes,
            path_hops: report.path.len(),
            measured,
        }
    }
}

/// Writes the comparison of several trees, the fastest first.
pub(super) fn write_compared(compared: &[Compared], out: &mut dyn Write) -> io::Result<()> {
    let mut rows: Vec<&Compared> = compared.iter().collect();
    rows.sort_by_key(|row| row.took_ns);
    let unknown = |number: Option<u32>| number.map_or("?".into(), |number| number.to_string());
    writeln!(
        out,
        "{:<14} {:>12} {:>8} {:>8} {:>10} {:>14} {:>6}",
        "tree", "time", "depth", "fan-out", "messages", "bytes", "hops"
    )?;
    for row in rows {
        let took = row.took_ns.map_or("?".into(), shown_ns);
        let (depth, fan_out) = (unknown(row.depth), unknown(row.fan_out));
        let Compared { tree, messages, bytes, path_hops, .. } = row;
        writeln!(
            out,
            "{tree:<14} {took:>12} {depth:>8} {fan_out:>8} {messages:>10} {bytes:>14} {path_hops:>6}"
        )?;
    }
    Ok(())
}

fn shown_counts(counts: Counts) -> String {
    let Counts { done, failed, unreached, unknown } = counts;
    let others = [(failed, "failed"), (unreached, "unreached"), (unknown, "unknown")];
    let others =
        others.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!(", {name} {count}"));
    format!("done {done}{}", others.collect::<String>())
}

/// Formats a virtual time in microseconds, to the nanosecond.
fn shown_ns(ns: u64) -> String {
    format!("{}.{:03} µs", ns / 1000, ns % 1000)
}
