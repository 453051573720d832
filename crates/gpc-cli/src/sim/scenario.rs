//! The scenario of some arguments, and the command that replays one.

use std::path::Path;

use gpc_trees::{Limits, Tree, TreeName};

use super::costs::RunCosts;
use crate::args::SimArgs;
use crate::duration::Span;
use crate::refused::Refused;
use crate::tree::{no_such_tree, read_layout};
use gpc_sim::Scenario;

/// Returns the command that runs a scenario again. A shape has no name of its own, so the name of its file is used.
pub(super) fn replay(scenario: &Scenario, name: &TreeName) -> String {
    scenario.replay().replacen(" --tree explicit ", &format!(" --tree {name} "), 1)
}

/// Returns the scenario of a tree over `n` ids.
pub(super) fn scenario(
    args: &SimArgs,
    costs: &RunCosts,
    name: &TreeName,
    n: u32,
) -> Result<Scenario, Refused> {
    let tree = tree_of(name, n)?;
    tree.check(n, &Limits::default()).map_err(|error| format!("{name}: {error}"))?;
    if args.reply_bytes.is_some_and(|bytes| (1..4).contains(&bytes)) {
        return Err("--reply-bytes is 0 for no replies, or at least 4: a reply begins with its id".into());
    }
    let nanos = |span: Span| u64::try_from(span.duration().as_nanos()).unwrap_or(u64::MAX);
    Ok(Scenario {
        calls: args.calls,
        partial: args.partial,
        traced: args.traced,
        faults: args.faults,
        crashes: args.crash.clone(),
        seed: args.seed,
        costs: costs.costs,
        sharing: costs.sharing,
        hosts: args.hosts,
        func_ns: nanos(args.func_cost),
        callback_ns: nanos(args.callback_cost),
        reply_bytes: args.reply_bytes,
        data_bytes: args.data_bytes,
        links: args.links,
        trace: args.trace,
        ..Scenario::new(n, tree)
    })
}

fn tree_of(name: &TreeName, n: u32) -> Result<Tree, Refused> {
    if let TreeName::File(path) = name {
        let layout = read_layout(Path::new(path)).map_err(Refused::File)?;
        return match layout.len() == n {
            true => Ok(layout.tree()),
            false => Err(format!("{path} is a tree over {} ids, not over {n}", layout.len()).into()),
        };
    }
    if let TreeName::Hosts { .. } | TreeName::KnownHosts(_) = name {
        return Err(
            format!("{name}: a simulation spreads its ids with --hosts H, and keeps no hosts file").into()
        );
    }
    Ok(name.built_in().ok_or_else(|| no_such_tree(name))?)
}
