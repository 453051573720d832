//! `gpc sim --peering` (which nodes may link) and `gpc sim --groups` (groups, fences, databases and death notices):
//! worlds of a few nodes with faults, and for peers with an attacker.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Instant;

use serde::Serialize;

use super::output::{Failure, Measured, judge_first, write_json};
use super::progress::Progress;
use crate::args::{SimArgs, SimOutput};
use crate::refused::Refused;
use crate::{CommandResult, stdout};
use gpc_sim::peering;
use gpc_sim::worlds::{Fault, Scenario, Swarm, exhaustive, parse_acts, run as simulate, run_all};

/// Words for one kind of worlds.
struct Words {
    ids: &'static str,
    /// Text before the number of ids.
    most: &'static str,
    /// Noun for the count of the traffic between them.
    passed: &'static str,
    /// Number of worlds, with consecutive seeds, in which every fault is tried at every event. If every two faults are
    /// tried there is only one, since it has some hundred thousand pairs.
    exhaustive: u64,
}

/// Each world draws its kind of job, its keys and its times.
const PEERING: Words = Words { ids: "ids", most: "", passed: "connections", exhaustive: 8 };

#[cfg(feature = "bnr")]
const GROUPS: Words = Words { ids: "nodes", most: "up to ", passed: "messages", exhaustive: 1 };

/// Result of one run.
#[derive(Clone, Debug, Serialize)]
struct One {
    nodes: u32,
    seed: u64,
    /// Hash over all events.
    hash: String,
    events: u64,
    /// Traffic between the nodes, by kind.
    #[serde(flatten)]
    passed: BTreeMap<&'static str, u64>,
    measured: Measured,
    violations: Vec<String>,
}

/// Result of many runs.
#[derive(Clone, Debug, Serialize)]
struct Many {
    nodes: u32,
    seed: u64,
    /// Hash over the hashes of the runs, in their order.
    hash: String,
    runs: u64,
    failed: u64,
    events: u64,
    /// Traffic between the nodes, by kind.
    #[serde(flatten)]
    passed: BTreeMap<&'static str, u64>,
    injected: Vec<Injected>,
    /// Present only if it is counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    happened: Vec<Happened>,
    measured: Measured,
    failures: Vec<Failure>,
}

#[derive(Clone, Debug, Serialize)]
struct Injected {
    fault: String,
    times: u64,
}

/// Number of times that something happened.
#[derive(Clone, Debug, Serialize)]
struct Happened {
    what: String,
    times: u64,
}

/// Runs one world of peers, many, or small ones exhaustively.
pub(super) fn peering(args: &SimArgs) -> CommandResult {
    run::<peering::Fault>(args, &PEERING)
}

/// Runs one world of groups, many, or a small one exhaustively.
#[cfg(feature = "bnr")]
pub(super) fn groups(args: &SimArgs) -> CommandResult {
    run::<gpc_bnr::sim::Fault>(args, &GROUPS)
}

/// Returns the command that shows one of these worlds, with its trace; `None` for another kind of world.
pub(super) fn replay_of(args: &SimArgs, seed: u64) -> Option<String> {
    let n = args.ids();
    #[cfg(feature = "bnr")]
    if args.groups {
        return Some(Scenario::<gpc_bnr::sim::Fault>::new(n, seed).replay());
    }
    args.peering.then(|| Scenario::<peering::Fault>::new(n, seed).replay())
}

fn run<F: Fault>(args: &SimArgs, words: &Words) -> CommandResult {
    let n = args.ids();
    if !F::IDS.contains(&n) {
        let (least, most) = (F::IDS.start(), F::IDS.end());
        let takes = format!("--{} takes {least} to {most} {}", F::OPTION, words.ids);
        return Err(Refused::from(takes).into());
    }
    let acts = args
        .acts
        .as_deref()
        .map(parse_acts)
        .transpose()
        .map_err(|error| Refused::from(format!("--acts: {error}")))?;
    let of = Scenario::<F> { acts, trace: args.trace, ..Scenario::new(n, args.seed) };
    let seeds = |count: u64| (0..count).map(|next| of.seed.wrapping_add(next));
    let with = |seed| Scenario { seed, ..of.clone() };
    let begun = Instant::now();
    let progress = Progress::new(args.runs.unwrap_or(0), "worlds");
    let counted = |_: &Scenario<F>| progress.one_more();
    let swarm = match (args.runs, args.exhaustive) {
        (Some(runs), _) => run_all(seeds(runs).map(with).inspect(counted)),
        (None, Some(faults)) => {
            let count = if faults == 1 { words.exhaustive } else { 1 };
            let all = seeds(count).map(with).flat_map(|of| exhaustive(&of, faults)).inspect(counted);
            run_all(all)
        }
        (None, None) => return one(args, words, &of),
    };
    drop(progress);
    many(args, words, begun, &swarm)
}

fn one<F: Fault>(args: &SimArgs, words: &Words, scenario: &Scenario<F>) -> CommandResult {
    let begun = Instant::now();
    let report = simulate(scenario);
    let one = One {
        nodes: scenario.n,
        seed: scenario.seed,
        hash: format!("{:016x}", report.hash),
        events: report.events,
        passed: [(words.passed, report.passed)].into(),
        measured: Measured::since(begun, report.events),
        violations: report.violations.iter().map(ToString::to_string).collect(),
    };
    stdout::write(|out| match args.output {
        SimOutput::Table => {
            report.trace.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            let (One { nodes, events, hash, .. }, Words { ids, passed, .. }) = (&one, words);
            writeln!(out, "{nodes} {ids}, {} {passed}, {events} events, hash {hash}", report.passed)?;
            writeln!(out, "{}", one.measured.shown())
        }
        SimOutput::Json => write_json(&one, out),
    })?;
    let failure = (!one.violations.is_empty())
        .then(|| Failure { replay: scenario.replay(), violations: one.violations });
    judge_first(failure.as_ref())
}

fn many<F: Fault>(args: &SimArgs, words: &Words, begun: Instant, swarm: &Swarm<F>) -> CommandResult {
    let Swarm { runs, events, passed, hash, failed, .. } = *swarm;
    let injected =
        swarm.injected.iter().map(|(fault, times)| Injected { fault: fault.to_string(), times: *times });
    let happened = swarm.counts.iter().map(|(what, times)| Happened { what: what.clone(), times: *times });
    let many = Many {
        nodes: args.ids(),
        seed: args.seed,
        hash: format!("{hash:016x}"),
        runs,
        failed,
        events,
        passed: [(words.passed, passed)].into(),
        injected: injected.collect(),
        happened: happened.collect(),
        measured: Measured::since(begun, events),
        failures: swarm.failures.iter().map(|(of, found)| Failure::new(of.replay(), found)).collect(),
    };
    stdout::write(|out| match args.output {
        SimOutput::Table => many.write_table(words, passed, out),
        SimOutput::Json => write_json(&many, out),
    })?;
    judge_first(many.failures.first())
}

impl Many {
    fn write_table(&self, words: &Words, count: u64, out: &mut dyn Write) -> io::Result<()> {
        let Many { nodes, seed, hash, runs, failed, events, .. } = self;
        let Words { ids, most, passed, .. } = words;
        writeln!(
            out,
            "{runs} worlds of {most}{nodes} {ids} from seed {seed}: {failed} failed, {count} {passed}, {events} events, hash {hash}"
        )?;
        let faults: Vec<String> =
            self.injected.iter().map(|Injected { fault, times }| format!("{fault} {times}")).collect();
        writeln!(out, "faults: {}", faults.join(", "))?;
        if !self.happened.is_empty() {
            let happened: Vec<String> =
                self.happened.iter().map(|Happened { what, times }| format!("{what} {times}")).collect();
            writeln!(out, "happened: {}", happened.join(", "))?;
        }
        writeln!(out, "{}", self.measured.shown())?;
        self.failures.iter().try_for_each(|failure| failure.write(out))
    }
}
