//! `--bcast`: programs go to the nodes of a run by the functions of `gpc copy`.

use std::collections::BTreeMap;
use std::time::Duration;

use chained_gpc::Clock;
use gpc_trees::Id;

use super::nodes::Nodes;
use super::plan::{NodePlacement, RunPlan};
use super::signals::Signals;
use crate::copy::{HostNames, Hosts, send_programs};

/// Sends the programs of a plan to nodes of a domain. Returns a line for each reason of a failure,
/// with the hosts that have it.
pub(super) fn send(
    nodes: &Nodes,
    plan: &RunPlan,
    signals: &Signals,
    domain: &str,
    ids: &[Id],
    limit: Option<Duration>,
) -> Vec<String> {
    let names = match &plan.nodes {
        NodePlacement::Hosts(hosts) => HostNames::Listed(&hosts.plan),
        NodePlacement::Joined(joined) => HostNames::Ids(&joined.peers),
        NodePlacement::OwnNode | NodePlacement::Launched(_) => return Vec::new(),
    };
    let (Some(node), remote) = nodes.parts() else { return Vec::new() };
    let interrupted = || signals.ending().is_some();
    let limit = limit.map(|limit| Clock::system().limit(limit));
    let (left, failed) = (ids.to_vec(), BTreeMap::new());
    let hosts = Hosts { node, remote, names, interrupted: &interrupted, limit, left, failed };
    send_programs(hosts, &plan.programs, domain).unwrap_or_else(|error| vec![error.to_string()])
}
