//! `gpc sim --exhaustive`: small worlds with every crash at every event.

use std::io::{self, Write};
use std::time::Instant;

use gpc_trees::TreeName;
use serde::Serialize;

use super::costs::RunCosts;
use super::output::{Failure, Measured, judge_first, write_json};
use super::progress::Progress;
use super::scenario::{replay, scenario};
use super::trees::tree_name;
use crate::args::{SimArgs, SimOutput};
use crate::refused::Refused;
use crate::{CommandResult, stdout};
use gpc_sim::{Exhaustive, Scenario, exhaustive, exhaustive_trees};

/// Result of all worlds.
#[derive(Clone, Debug, Serialize)]
struct Summary {
    /// Number of processes that end in a world.
    crashes: u32,
    /// Maximum number of ids.
    nodes: u32,
    trees: Vec<TreeSummary>,
    worlds: u64,
    failed: u64,
    events: u64,
    measured: Measured,
    failures: Vec<Failure>,
}

#[derive(Clone, Debug, Serialize)]
struct TreeSummary {
    tree: String,
    worlds: u64,
    failed: u64,
}

/// Tries every tree, or the given one, over 1 to n ids; a tree file only over its own number of ids.
pub(super) fn run(args: &SimArgs, costs: &RunCosts, crashes: u32) -> CommandResult {
    let begun = Instant::now();
    let names = match args.tree {
        Some(_) => vec![tree_name(args, costs)?],
        None => exhaustive_trees(),
    };
    let progress = Progress::new(0, "worlds");
    let (mut all, mut trees, mut failures) = (Exhaustive::default(), Vec::new(), Vec::new());
    for name in names {
        let one = try_tree(args, costs, &name, crashes, |worlds| progress.at(all.worlds + worlds))?;
        let tree = name.to_string();
        trees.push(TreeSummary { tree, worlds: one.worlds, failed: one.failed });
        failures.extend(one.failures.iter().map(|(of, found)| Failure::new(replay(of, &name), found)));
        all.add(one);
    }
    drop(progress);
    let Exhaustive { worlds, failed, events, .. } = all;
    let measured = Measured::since(begun, events);
    let summary = Summary { crashes, nodes: args.ids(), trees, worlds, failed, events, measured, failures };
    stdout::write(|out| match args.output {
        SimOutput::Table => summary.write_table(out),
        SimOutput::Json => write_json(&summary, out),
    })?;
    judge_first(summary.failures.first())
}

fn try_tree(
    args: &SimArgs,
    costs: &RunCosts,
    name: &TreeName,
    crashes: u32,
    observe: impl Fn(u64),
) -> Result<Exhaustive, Refused> {
    let most = args.ids();
    let mut all = Exhaustive::default();
    let sizes = if name.built_in().is_some() { 1..=most } else { most..=most };
    for n in sizes {
        let of = scenario(args, costs, name, n)?;
        for partial in [false, true].into_iter().filter(|partial| *partial || !args.partial) {
            all.add(exhaustive(&Scenario { partial, ..of.clone() }, crashes));
            observe(all.worlds);
        }
    }
    Ok(all)
}

impl Summary {
    fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Summary { crashes, nodes, worlds, failed, events, .. } = self;
        let kind = if *crashes == 1 { "every crash" } else { "every two crashes" };
        for TreeSummary { tree, worlds, failed } in &self.trees {
            writeln!(out, "{tree:<14} {worlds:>9} worlds, {failed} failed")?;
        }
        writeln!(
            out,
            "{kind} at every event over up to {nodes} ids: {worlds} worlds, {failed} failed, {events} events"
        )?;
        writeln!(out, "{}", self.measured.shown())?;
        self.failures.iter().try_for_each(|failure| failure.write(out))
    }
}
