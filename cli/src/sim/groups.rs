//! `gpc sim --groups`: groups, fences, databases and death notices, in worlds of some nodes with faults.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;

use super::output::{Measured, write_json};
use crate::args::{SimArgs, SimOutput};
use crate::refused::Refused;
use crate::{CommandResult, stdout};
use chained_gpc::sim::check::Violation;
use gpc_bnr::sim::{NODES_MAX, Scenario, Swarm, exhaustive, parse_acts, run as simulate, run_all};

/// What one run came to.
#[derive(Clone, Debug, Serialize)]
struct One {
    nodes: u32,
    seed: u64,
    /// A hash of every event.
    hash: String,
    events: u64,
    messages: u64,
    measured: Measured,
    violations: Vec<String>,
}

/// What many came to.
#[derive(Clone, Debug, Serialize)]
struct Many {
    nodes: u32,
    seed: u64,
    /// A hash of the runs' hashes, in their order.
    hash: String,
    runs: u64,
    failed: u64,
    events: u64,
    messages: u64,
    injected: Vec<Injected>,
    happened: Vec<Happened>,
    measured: Measured,
    failures: Vec<Failure>,
}

#[derive(Clone, Debug, Serialize)]
struct Injected {
    fault: &'static str,
    times: u64,
}

/// How often something happened.
#[derive(Clone, Debug, Serialize)]
struct Happened {
    what: String,
    times: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Failure {
    replay: String,
    violations: Vec<String>,
}

/// Runs one world, many, or small ones exhaustively.
pub(super) fn run(args: &SimArgs) -> CommandResult {
    let n = args.ids();
    if n > NODES_MAX {
        return Err(Refused::from(format!("--groups takes 1 to {NODES_MAX} nodes")).into());
    }
    let acts =
        args.acts.as_deref().map(parse_acts).transpose().map_err(|error| Refused::from(error.to_string()))?;
    let of = Scenario { acts, trace: args.trace, ..Scenario::new(n, args.seed) };
    let seeds = |count: u64| (0..count).map(|next| of.seed.wrapping_add(next));
    let with = |seed| Scenario { seed, ..of.clone() };
    let begun = Instant::now();
    match (args.runs, args.exhaustive) {
        (Some(runs), _) => many(args, begun, &run_all(seeds(runs).map(with))),
        (None, Some(faults)) => many(args, begun, &run_all(exhaustive(&of, faults))),
        (None, None) => one(args, &of),
    }
}

fn one(args: &SimArgs, scenario: &Scenario) -> CommandResult {
    let begun = Instant::now();
    let report = simulate(scenario);
    let one = One {
        nodes: scenario.n,
        seed: scenario.seed,
        hash: format!("{:016x}", report.hash),
        events: report.events,
        messages: report.messages,
        measured: Measured::since(begun, report.events),
        violations: shown(&report.violations),
    };
    stdout::write(|out| match args.output {
        SimOutput::Table => {
            report.trace.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            let One { nodes, events, messages, hash, .. } = &one;
            writeln!(out, "{nodes} nodes, {messages} messages, {events} events, hash {hash}")?;
            writeln!(out, "{}", one.measured.shown())
        }
        SimOutput::Json => write_json(&one, out),
    })?;
    judge(one.violations.first(), &scenario.replay())
}

fn many(args: &SimArgs, begun: Instant, swarm: &Swarm) -> CommandResult {
    let Swarm { runs, events, messages, hash, failed, .. } = *swarm;
    let failure = |(scenario, violations): &(Scenario, Vec<Violation>)| Failure {
        replay: scenario.replay(),
        violations: shown(violations),
    };
    let injected =
        swarm.injected.iter().map(|(fault, times)| Injected { fault: fault.name(), times: *times });
    let happened = swarm.counts.iter().map(|(what, times)| Happened { what: what.clone(), times: *times });
    let many = Many {
        nodes: args.ids(),
        seed: args.seed,
        hash: format!("{hash:016x}"),
        runs,
        failed,
        events,
        messages,
        injected: injected.collect(),
        happened: happened.collect(),
        measured: Measured::since(begun, events),
        failures: swarm.failures.iter().map(failure).collect(),
    };
    stdout::write(|out| match args.output {
        SimOutput::Table => many.write_table(out),
        SimOutput::Json => write_json(&many, out),
    })?;
    match many.failures.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(Failure { replay, violations }) => judge(violations.first(), replay),
    }
}

fn shown(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

fn judge(first: Option<&String>, replay: &str) -> CommandResult {
    match first {
        None => Ok(ExitCode::SUCCESS),
        Some(violation) => Err(format!("{violation}\nreplay it: {replay}").into()),
    }
}

impl Many {
    fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Many { nodes, seed, hash, runs, failed, events, messages, .. } = self;
        writeln!(
            out,
            "{runs} worlds of up to {nodes} nodes from seed {seed}: {failed} failed, {messages} messages, {events} events, hash {hash}"
        )?;
        let faults: Vec<String> =
            self.injected.iter().map(|Injected { fault, times }| format!("{fault} {times}")).collect();
        writeln!(out, "faults: {}", faults.join(", "))?;
        let happened: Vec<String> =
            self.happened.iter().map(|Happened { what, times }| format!("{what} {times}")).collect();
        writeln!(out, "happened: {}", happened.join(", "))?;
        writeln!(out, "{}", self.measured.shown())?;
        for Failure { replay, violations } in &self.failures {
            writeln!(out, "replay it: {replay}")?;
            violations.iter().take(3).try_for_each(|violation| writeln!(out, "  {violation}"))?;
        }
        Ok(())
    }
}
