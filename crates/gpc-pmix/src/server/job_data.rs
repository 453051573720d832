//! What the server registers about a job: pairs of PMIx, from the [`Job`]. Pure functions.
//!
//! Lists are uncompressed (`raw:`): compressed maps with zero bytes have broken launchers at 1,000 ranks.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::folder::JobFolders;
use super::orders::{Info, Job, NodeRanks, Value};
use super::values::Items;

/// Ranks above are reserved (`PMIX_RANK_VALID`).
const RANK_MAX: u32 = u32::MAX - 50;

/// Longest namespace in bytes.
const NAMESPACE_MAX: usize = crate::abi::NAMESPACE_BYTES - 1;

/// A process of a job, with its place on its node and in its application.
struct Place {
    rank: u32,
    node: u32,
    local_rank: u16,
    node_rank: u16,
    application: u32,
    application_rank: u32,
}

/// Checks a job whose server is on the node that is named `host`.
///
/// # Errors
/// A message: why libpmix or a process could not work with the job.
pub(super) fn check(job: &Job, host: &str) -> Result<(), String> {
    if job.namespace.is_empty() || job.namespace.len() > NAMESPACE_MAX || job.namespace.contains('\0') {
        return Err(format!("a namespace has 1 to {NAMESPACE_MAX} bytes"));
    }
    let mut names = BTreeSet::new();
    for node in &job.nodes {
        let is_usable = !node.host.is_empty() && !node.host.contains([',', ';', '\0']);
        if !is_usable {
            return Err(format!("`{}` cannot be the name of a node", node.host.escape_debug()));
        }
        if !names.insert(node.host.as_str()) {
            return Err(format!("two nodes are named `{}`: give each its own name", node.host));
        }
        if u16::try_from(node.ranks.len()).is_err() {
            return Err(format!("{} has {} processes, and 65,535 are allowed", node.host, node.ranks.len()));
        }
    }
    let is_known = job.here.is_none_or(|here| (here as usize) < job.nodes.len());
    if !is_known
        || job.here.is_none() && job.nodes.iter().any(|node| node.host == host && !node.ranks.is_empty())
    {
        return Err(format!("the index of this node, `{host}`, among the nodes of the job is wrong"));
    }
    if let Some(here) = local(job)
        && here.host != host
    {
        return Err(format!(
            "the server was started as `{host}`, and the job has this node as `{}`",
            here.host
        ));
    }
    let ranks: BTreeSet<u32> = job.nodes.iter().flat_map(|node| &node.ranks).copied().collect();
    let all = job.nodes.iter().map(|node| node.ranks.len()).sum::<usize>();
    let is_dense = ranks.len() == all && ranks.iter().copied().eq((0..).take(all));
    if !is_dense || all == 0 || ranks.last().is_some_and(|&last| last > RANK_MAX) {
        return Err("the ranks are not those from 0 on, each once".to_owned());
    }
    let of_applications: u64 = job.applications.iter().map(|&count| u64::from(count)).sum();
    if of_applications != all as u64 {
        return Err(format!("the applications have {of_applications} processes, and the nodes {all}"));
    }
    Ok(())
}

/// This node, if it has processes of the job.
pub(super) fn local(job: &Job) -> Option<&NodeRanks> {
    job.nodes.get(job.here? as usize).filter(|node| !node.ranks.is_empty())
}

/// The pairs of a job that was checked. Each job has its own session: libpmix has one set of sizes and folders for all
/// jobs of a session.
pub(super) fn infos(job: &Job, session: u32, folders: &JobFolders) -> Vec<Info> {
    // A map of libpmix has no place for a node without processes.
    let nodes: Vec<&NodeRanks> = job.nodes.iter().filter(|node| !node.ranks.is_empty()).collect();
    let size: u32 = job.applications.iter().sum();
    let hosts = nodes.iter().map(|node| node.host.as_str()).collect::<Vec<_>>().join(",");
    let maps = nodes.iter().map(|node| list(&node.ranks)).collect::<Vec<_>>().join(";");
    let places = places(job, &nodes);
    let mut infos = vec![
        // libpmix adds the data of the session that follow to this one.
        info("pmix.session.id", Value::uint32(session)),
        info("pmix.jobid", Value::text(&job.namespace)),
        info("pmix.nspace", Value::text(&job.namespace)),
        info("pmix.nmap", Value::text(&format!("raw:{hosts}"))),
        info("pmix.pmap", Value::text(&format!("raw:{maps}"))),
        info("pmix.nlist", Value::text(&hosts)),
        info("pmix.num.nodes", Value::uint32(count(nodes.len()))),
        info("pmix.job.size", Value::uint32(size)),
        info("pmix.univ.size", Value::uint32(job.slots.max(size))),
        info("pmix.max.size", Value::uint32(job.slots.max(size))),
        info("pmix.job.napps", Value::uint32(count(job.applications.len()))),
        info("pmix.anlmap", Value::text(&anl_map(&places))),
        info("pmix.tmpdir", Value::text(&folders.top.to_string_lossy())),
        info("pmix.nsdir", Value::text(&folders.job().to_string_lossy())),
        info("pmix.tdir.rmclean", Value::boolean(true)),
        info("pmix.spawned", Value::boolean(job.parent.is_some())),
    ];
    infos.extend(job.parent.as_ref().map(|parent| info("pmix.parent", Value::process(parent))));
    if let Some(here) = local(job) {
        infos.extend(node_infos(here));
    }
    infos.extend(nodes.iter().zip(0..).map(|(node, index)| {
        let names = [info("pmix.hname", Value::text(&node.host)), info("pmix.nodeid", Value::uint32(index))];
        array("pmix.node.arr", names.into_iter().chain(node_infos(node)).collect())
    }));
    infos.extend(applications(job));
    infos.extend(places.iter().map(|place| process(job, place, &nodes, folders)));
    infos
}

/// The data of a node about this job.
fn node_infos(node: &NodeRanks) -> [Info; 4] {
    let size = count(node.ranks.len());
    [
        info("pmix.local.size", Value::uint32(size)),
        info("pmix.node.size", Value::uint32(size)),
        info("pmix.lpeers", Value::text(&list(&node.ranks))),
        info("pmix.lldr", Value::rank(node.ranks.first().copied().unwrap_or_default())),
    ]
}

fn applications(job: &Job) -> impl Iterator<Item = Info> {
    let mut leader = 0;
    job.applications.iter().zip(0..).map(move |(&size, number)| {
        // The number is the first.
        let facts = vec![
            info("pmix.appnum", Value::uint32(number)),
            info("pmix.app.size", Value::uint32(size)),
            info("pmix.aldr", Value::rank(leader)),
        ];
        leader += size;
        array("pmix.app.arr", facts)
    })
}

fn process(job: &Job, place: &Place, nodes: &[&NodeRanks], folders: &JobFolders) -> Info {
    let node = nodes.get(place.node as usize);
    let host = node.map(|node| node.host.as_str()).unwrap_or_default();
    // The rank is the first.
    let mut facts = vec![
        info("pmix.rank", Value::rank(place.rank)),
        info("pmix.grank", Value::rank(place.rank)),
        info("pmix.apprank", Value::rank(place.application_rank)),
        info("pmix.appnum", Value::uint32(place.application)),
        info("pmix.nodeid", Value::uint32(place.node)),
        info("pmix.hname", Value::text(host)),
        info("pmix.lrank", Value::uint16(place.local_rank)),
        info("pmix.nrank", Value::uint16(place.node_rank)),
        info("pmix.spawned", Value::boolean(job.parent.is_some())),
        info("pmix.reinc", Value::uint32(0)),
    ];
    if local(job).is_some_and(|here| here.host == host) {
        let folder = folders.process(place.rank);
        facts.push(info("pmix.pdir", Value::text(&folder.to_string_lossy())));
    }
    array("pmix.pdata", facts)
}

/// The processes in the order of their ranks.
fn places(job: &Job, nodes: &[&NodeRanks]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for (node, index) in nodes.iter().zip(0..) {
        places.extend(node.ranks.iter().zip(0..).map(|(&rank, local_rank)| Place {
            rank,
            node: index,
            local_rank,
            // The numbers begin again: those of long ago are free.
            node_rank: (node.before as u16).wrapping_add(local_rank),
            application: 0,
            application_rank: 0,
        }));
    }
    places.sort_unstable_by_key(|place| place.rank);
    let applications = job.applications.iter().zip(0..);
    let of_each = applications.flat_map(|(&size, number)| (0..size).map(move |rank| (number, rank)));
    for (place, (application, rank)) in places.iter_mut().zip(of_each) {
        (place.application, place.application_rank) = (application, rank);
    }
    places
}

/// The map of PMI-1 and PMI-2: blocks of (first node, number of nodes, ranks on each).
fn anl_map(places: &[Place]) -> String {
    // Runs of consecutive ranks on one node.
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for place in places {
        match runs.last_mut() {
            Some((node, length)) if *node == place.node => *length += 1,
            _ => runs.push((place.node, 1)),
        }
    }
    // Runs of equal length on consecutive nodes.
    let mut blocks: Vec<(u32, u32, u32)> = Vec::new();
    for (node, length) in runs {
        match blocks.last_mut() {
            Some((first, nodes, ranks)) if *first + *nodes == node && *ranks == length => *nodes += 1,
            _ => blocks.push((node, 1, length)),
        }
    }
    let mut map = "(vector".to_owned();
    for (first, nodes, ranks) in blocks {
        // Writing to a string cannot fail.
        let _ = write!(map, ",({first},{nodes},{ranks})");
    }
    map + ")"
}

fn list(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// A number of nodes or processes, of which there are fewer than ranks.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn info(key: &str, value: Value) -> Info {
    Info::new(key, value)
}

fn array(key: &str, infos: Vec<Info>) -> Info {
    info(key, Value::array(&Items::Infos(infos)))
}

#[cfg(test)]
mod tests;
