//! `gpc sim --peering`: who may come in, in worlds of some nodes with faults and an attacker.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;

use super::output::{Measured, write_json};
use crate::args::{SimArgs, SimOutput};
use crate::refused::Refused;
use crate::{CommandResult, stdout};
use chained_gpc::sim::check::Violation;
use chained_gpc::sim::peering::{Scenario, Swarm, exhaustive, parse_acts, run as simulate, run_all};

/// Most ids: connections are as many as pairs, and each world has faults at all of them.
const IDS_MAX: u32 = 16;

/// Worlds in which every fault is tried at every event, of seeds one after the other: each has its own kind of job, keys and moments. Of those with every two faults there is one: its pairs are some hundred thousand.
const EXHAUSTIVE: u64 = 8;

/// What one run came to.
#[derive(Clone, Debug, Serialize)]
struct One {
    nodes: u32,
    seed: u64,
    /// A hash of every event.
    hash: String,
    events: u64,
    connections: u64,
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
    connections: u64,
    injected: Vec<Injected>,
    measured: Measured,
    failures: Vec<Failure>,
}

#[derive(Clone, Debug, Serialize)]
struct Injected {
    fault: &'static str,
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
    if !(2..=IDS_MAX).contains(&n) {
        return Err(Refused::from(format!("--peering takes 2 to {IDS_MAX} ids")).into());
    }
    let acts =
        args.acts.as_deref().map(parse_acts).transpose().map_err(|error| Refused::from(error.to_string()))?;
    let of = Scenario { acts, trace: args.trace, ..Scenario::new(n, args.seed) };
    let seeds = |count: u64| (0..count).map(|next| of.seed.wrapping_add(next));
    let with = |seed| Scenario { seed, ..of.clone() };
    let begun = Instant::now();
    match (args.runs, args.exhaustive) {
        (Some(runs), _) => many(args, begun, &run_all(seeds(runs).map(with))),
        (None, Some(faults)) => {
            let count = if faults == 1 { EXHAUSTIVE } else { 1 };
            let all = seeds(count).map(with).flat_map(|of| exhaustive(&of, faults));
            many(args, begun, &run_all(all))
        }
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
        connections: report.connections,
        measured: Measured::since(begun, report.events),
        violations: shown(&report.violations),
    };
    stdout::write(|out| match args.output {
        SimOutput::Table => {
            report.trace.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            let One { nodes, events, connections, hash, .. } = &one;
            writeln!(out, "{nodes} ids, {connections} connections, {events} events, hash {hash}")?;
            writeln!(out, "{}", one.measured.shown())
        }
        SimOutput::Json => write_json(&one, out),
    })?;
    judge(one.violations.first(), &scenario.replay())
}

fn many(args: &SimArgs, begun: Instant, swarm: &Swarm) -> CommandResult {
    let Swarm { runs, events, connections, hash, failed, .. } = *swarm;
    let failure = |(scenario, violations): &(Scenario, Vec<Violation>)| Failure {
        replay: scenario.replay(),
        violations: shown(violations),
    };
    let injected =
        swarm.injected.iter().map(|(fault, times)| Injected { fault: fault.name(), times: *times });
    let many = Many {
        nodes: args.ids(),
        seed: args.seed,
        hash: format!("{hash:016x}"),
        runs,
        failed,
        events,
        connections,
        injected: injected.collect(),
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
        let Many { nodes, seed, hash, runs, failed, events, connections, .. } = self;
        writeln!(
            out,
            "{runs} worlds of {nodes} ids from seed {seed}: {failed} failed, {connections} connections, {events} events, hash {hash}"
        )?;
        let faults: Vec<String> =
            self.injected.iter().map(|Injected { fault, times }| format!("{fault} {times}")).collect();
        writeln!(out, "faults: {}", faults.join(", "))?;
        writeln!(out, "{}", self.measured.shown())?;
        for Failure { replay, violations } in &self.failures {
            writeln!(out, "replay it: {replay}")?;
            violations.iter().take(3).try_for_each(|violation| writeln!(out, "  {violation}"))?;
        }
        Ok(())
    }
}
