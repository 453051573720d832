//! `gpc sim`: calls in virtual time, at any size and under any fault.

mod against;
mod costs;
mod exhaustive;
mod fastest;
mod fit;
mod output;
mod progress;
mod scenario;
mod trees;
mod worlds;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use gpc_trees::TreeName;

use super::args::{SimArgs, SimOutput};
use super::chart::{self, Chart, Line, Point};
use super::files::write_text;
use super::interrupt::Interrupt;
use super::limits::cannot_start;
use super::refused::Refused;
use super::{CommandResult, FAILED, Failure, say, stdout};
use costs::RunCosts;
use gpc_sim::{Crash, Report, Scenario, run_observed, start_threads, swarm_unless};
use output::{Compared, Measured, Summary, SwarmSummary};
use progress::Progress;
use scenario::{replay, scenario};
use trees::{tree_name, trees};

/// Runs the sub-command. Of a tree file only the shape counts; the ids are in order.
pub(super) fn run(args: &SimArgs) -> CommandResult {
    #[cfg(feature = "mimalloc")]
    super::allocator::for_worlds();
    if let (None, Some(file)) = (args.n, &args.fit) {
        return fit::run(args, file);
    }
    check_crashes(args)?;
    if let (Some(other), Some(runs)) = (&args.against, args.runs) {
        return against::run(args, other, runs, |seed| replay_of(args, seed));
    }
    if args.runs.is_some() || args.exhaustive.is_some() {
        start_threads().map_err(cannot_start("threads for the runs"))?;
    }
    if args.peering {
        return worlds::peering(args);
    }
    #[cfg(feature = "bnr")]
    if args.groups {
        return worlds::groups(args);
    }
    let costs = RunCosts::new(args)?;
    if let Some(path) = &args.svg {
        return chart(args, &costs, path);
    }
    if let Some(crashes) = args.exhaustive {
        return exhaustive::run(args, &costs, crashes);
    }
    match (args.runs, args.compare.is_empty()) {
        (Some(runs), true) => many(args, &costs, runs),
        (None, false) => compare(args, &costs),
        (None, true) => one(args, &costs),
        (Some(_), false) => {
            Err(Refused::from("--runs and --compare do not go together: leave one out").into())
        }
    }
}

/// Rejects a crash of an unknown id: it would never happen, and the run would show a world without faults.
fn check_crashes(args: &SimArgs) -> Result<(), Refused> {
    let n = args.ids();
    match args.crash.iter().flatten().find(|crash| crash.id >= n) {
        Some(Crash { id, .. }) => {
            Err(format!("--crash names id {id}, but with -n {n} the ids are 0 to {}", n - 1).into())
        }
        None => Ok(()),
    }
}

/// Makes one run.
fn one(args: &SimArgs, costs: &RunCosts) -> CommandResult {
    #[cfg(not(feature = "mimalloc"))]
    chained_gpc::runtime::large_apart();
    let name = tree_name(args, costs)?;
    let scenario = scenario(args, costs, &name, args.ids())?;
    let begun = Instant::now();
    let progress = Progress::of_messages(std::slice::from_ref(&scenario));
    let (report, world) = run_observed(&scenario, |messages| progress.at(messages));
    drop(progress);
    // The process ends soon, so the memory of the world is not freed.
    std::mem::forget(world);
    let measured = Measured::since(begun, report.events);
    let summary = Summary::new(&scenario, &name, &report, measured);
    stdout::write(|out| match args.output {
        SimOutput::Table => {
            report.trace.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            summary.write_table(out)
        }
        SimOutput::Json => output::write_json(&summary, out),
    })?;
    judge(&scenario, &name, &report)
}

/// Runs independent seeds over all cores. If it is interrupted, it reports the runs that were made.
fn many(args: &SimArgs, costs: &RunCosts, runs: u64) -> CommandResult {
    let name = tree_name(args, costs)?;
    let most = scenario(args, costs, &name, args.ids())?;
    let interrupt = Interrupt::listen(|| {})?;
    let begun = Instant::now();
    let progress = Progress::new(runs, "runs");
    let swarm = swarm_unless(&most, runs, args.tree.is_some(), || {
        // Called before each run.
        progress.one_more();
        interrupt.signal().is_some()
    });
    drop(progress);
    let measured = Measured::since(begun, swarm.events);
    let summary = SwarmSummary::new(&swarm, &name, measured, interrupt.signal().is_some());
    if interrupt.signal().is_some() {
        say(&format!("interrupted after {} of {runs} runs", swarm.runs));
    }
    stdout::write(|out| match args.output {
        SimOutput::Table => summary.write_table(out),
        SimOutput::Json => output::write_json(&summary, out),
    })?;
    match swarm.failures.first() {
        None => Ok(interrupt.exit_status().map_or(ExitCode::SUCCESS, ExitCode::from)),
        Some((scenario, violations)) => {
            let first = violations.first().map(ToString::to_string).unwrap_or_default();
            let replay = replay(scenario, &name);
            Err(format!("seed {} fails: {first}\nreplay it: {replay}", scenario.seed).into())
        }
    }
}

/// Compares several trees.
fn compare(args: &SimArgs, costs: &RunCosts) -> CommandResult {
    let names = trees(args, costs)?;
    let scenarios = scenarios(args, costs, &names, &[args.ids()])?;
    let progress = Progress::of_messages(&scenarios);
    let (mut compared, mut sent) = (Vec::new(), 0);
    for (name, scenario) in names.iter().zip(&scenarios) {
        let begun = Instant::now();
        let (report, all) = progress.run(scenario, sent);
        sent = all;
        let measured = Measured::since(begun, report.events);
        if !report.violations.is_empty() {
            return judge(scenario, name, &report);
        }
        compared.push(Compared::new(name, scenario, &report, measured));
    }
    drop(progress);
    print_compared(args, &compared)
}

fn print_compared(args: &SimArgs, compared: &[Compared]) -> CommandResult {
    stdout::write(|out| match args.output {
        SimOutput::Table => output::write_compared(compared, out),
        SimOutput::Json => output::write_json(&compared, out),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a scenario for each tree and size; the sizes of a tree follow each other.
fn scenarios(
    args: &SimArgs,
    costs: &RunCosts,
    names: &[TreeName],
    sizes: &[u32],
) -> Result<Vec<Scenario>, Refused> {
    let all = names.iter().flat_map(|name| sizes.iter().map(move |&n| (name, n)));
    all.map(|(name, n)| scenario(args, costs, name, n)).collect()
}

/// Plots the time of a call over the number of ids, for each tree. With --compare it also prints the table of the
/// largest size.
fn chart(args: &SimArgs, costs: &RunCosts, path: &Path) -> CommandResult {
    let names = match (args.compare.is_empty(), &args.tree) {
        (false, _) => trees(args, costs)?,
        (true, Some(_)) => vec![tree_name(args, costs)?],
        (true, None) => vec![TreeName::Binary, TreeName::Binomial, TreeName::Flat],
    };
    let sizes = chart::sizes(args.ids());
    let scenarios = scenarios(args, costs, &names, &sizes)?;
    let progress = Progress::of_messages(&scenarios);
    let (mut lines, mut compared, mut sent) = (Vec::new(), Vec::new(), 0);
    for (name, scenarios) in names.iter().zip(scenarios.chunks(sizes.len())) {
        let mut points = Vec::new();
        for scenario in scenarios {
            let begun = Instant::now();
            let (report, all) = progress.run(scenario, sent);
            sent = all;
            if !report.violations.is_empty() {
                return judge(scenario, name, &report);
            }
            let took = report.calls.iter().filter_map(|call| call.took_ns).max();
            points.extend(took.map(|took| Point::exact(scenario.n, took)));
            if scenario.n == args.ids() {
                let measured = Measured::since(begun, report.events);
                compared.push(Compared::new(name, scenario, &report, measured));
            }
        }
        lines.push(Line { name: name.to_string(), points });
    }
    drop(progress);
    draw(args, lines, path)?;
    match args.compare.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => print_compared(args, &compared),
    }
}

fn draw(args: &SimArgs, lines: Vec<Line>, path: &Path) -> Result<(), Failure> {
    let drawn = lines.len();
    let picture = chart::draw(&Chart {
        title: "Time of one call over the number of ids, simulated".into(),
        notes: vec![
            "in virtual time, from the call at the root to its last reply there; lines that lie upon each other are striped"
                .into(),
        ],
        axis: "ids",
        number: |n| n.to_string(),
        lines,
    });
    write_text(path, &picture)?;
    let trees = if drawn == 1 { "1 tree".into() } else { format!("{drawn} trees") };
    let ids = if args.ids() == 1 { "1 id".into() } else { format!("up to {} ids", args.ids()) };
    say(&format!("wrote {}: {trees} over {ids}", path.display()));
    Ok(())
}

/// Returns an error that names the violation and how to reproduce it.
fn judge(scenario: &Scenario, name: &TreeName, report: &Report) -> CommandResult {
    let may_fail = !scenario.faults.is_empty() || scenario.crashes.is_some();
    match report.violations.first() {
        None if report.calls.iter().all(|call| call.cause.is_none()) || may_fail => Ok(ExitCode::SUCCESS),
        None => Ok(ExitCode::from(FAILED)),
        Some(violation) => {
            let seed = scenario.seed;
            let replay = replay(scenario, name);
            Err(format!("seed {seed} fails: {violation}\nreplay it: {replay}").into())
        }
    }
}

/// Returns the command that shows the run of one seed of many.
fn replay_of(args: &SimArgs, seed: u64) -> Result<String, Refused> {
    if let Some(line) = worlds::replay_of(args, seed) {
        return Ok(line);
    }
    let costs = RunCosts::new(args)?;
    let name = tree_name(args, &costs)?;
    let one = scenario(args, &costs, &name, args.ids())?.swarm(seed, args.tree.is_some());
    let drawn = if args.tree.is_some() { name } else { one.tree.to_string().parse().unwrap_or(name) };
    Ok(replay(&one, &drawn))
}

#[cfg(test)]
mod tests;
