//! A call as `gpc call` is to make it: what the arguments mean together, checked before any process is started.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Hosts, Id, IdList, Limits, TreeName};

use super::args::{CallArgs, OutputKind};
use super::duration::Span;
use super::files::{Bounds, read, read_peers};
use super::output::RootPart;
use super::refused::Refused;
use super::started::Started;
use super::tree::{no_such_tree, read_hosts, read_layout};
use super::trust::Trust;
use super::usage::{did_you_mean, meant};
use chained_gpc::launch::NodeSettings;
use chained_gpc::launch::remote::RemotePlan;
use chained_gpc::runtime::{
    Call, CallTree, FuncHandle, Functions, FunctionsError, LinkKind, Peers, request_data_max,
};
use chained_gpc::wire::frame::HEADER_MAX;

/// Shortest silence that may be taken for death: some turns of a busy machine's scheduler.
const DEAD_AFTER_MIN: Duration = Duration::from_millis(100);

/// A call as it is to be made: checked, its files read.
#[derive(Clone, Debug)]
pub struct CallPlan {
    /// The function.
    pub func: FuncHandle,
    /// Its name.
    pub func_name: String,
    /// The nodes.
    pub nodes: Nodes,
    /// The id of this process, the root.
    pub root: Id,
    /// What the root is in the call.
    pub part: RootPart,
    /// All ids that take part, in tree order: the root first, unless it only watches.
    pub ids: IdList,
    /// The same ids in the order in which the caller listed them, the root first where the list left it out and it takes part.
    pub order: IdList,
    /// The tree over them.
    pub tree: CallTree,
    /// Its levels above the leaves.
    pub levels: u32,
    /// Its name.
    pub tree_name: TreeName,
    /// The request's header.
    pub header: Bytes,
    /// The request's data.
    pub data: Bytes,
    /// When the call must have ended, from its start; `None` leaves it to the library's default.
    pub time_limit: Option<Duration>,
    /// Go on without ids that fail or are lost.
    pub partial: bool,
    /// How each process looks out for the others.
    pub(super) watching: NodeSettings,
    /// Forward before executing.
    pub forward_first: bool,
    /// What to print.
    pub output: OutputKind,
    /// How many calls to make and time, for `--repeat`.
    pub repeat: Option<u32>,
}

/// The nodes of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Nodes {
    /// This process is id 0; the others, up to this number, are to be started.
    Start {
        /// How many ids, this process included.
        n: u32,
        /// How they are connected.
        link: LinkKind,
    },
    /// A launcher has started them, and this process is id 0.
    Started {
        /// Where they are.
        peers: Peers,
    },
    /// This process is id 0; the others are to be started on other hosts.
    Hosts(Box<RemotePlan>),
    /// They are running already.
    Join {
        /// Where they listen.
        peers: Peers,
        /// How long they may take to come up.
        patience: Option<Duration>,
        /// What proves to them who this is.
        trust: Trust,
    },
}

impl CallPlan {
    /// Checks the arguments together, and reads the files that they name. `started`: those that a launcher has started with this process.
    ///
    /// # Errors
    /// Everything that can be wrong before anything is started or sent, in words for the one who wrote the arguments.
    pub fn new(
        args: &CallArgs,
        functions: &Functions,
        started: Option<&Started>,
    ) -> Result<CallPlan, Refused> {
        let func = func_named(&args.func, functions)?;
        let (nodes, root, all) = nodes(args, started)?;
        let (order, part) = order(args, root, &all)?;
        check_ids(&order, &nodes, root)?;
        let hosts = match &nodes {
            Nodes::Hosts(plan) => Some(hosts_of(plan)),
            Nodes::Started { .. } => started.map(|started| started.hosts.clone()),
            Nodes::Start { .. } | Nodes::Join { .. } => None,
        };
        let tree_name = args.tree.clone().unwrap_or_else(|| Started::tree_of(started, TreeName::Binary));
        let (tree, ids, levels) = tree(&tree_name, &order.with_first(root), hosts.as_ref())?;
        let ids = if part == RootPart::Watching { without_first(&ids) } else { ids };
        if args.header.len() > HEADER_MAX {
            let len = args.header.len();
            let text = format!(
                "--header has {len} bytes, at most {HEADER_MAX} are possible; give long data with --data"
            );
            return Err(text.into());
        }
        if args.time_limit.is_some_and(|limit| limit.duration().is_zero()) {
            return Err("--time-limit 0s leaves no time for the call".into());
        }
        let watching = settings(args)?;
        let on_a_machine = match &nodes {
            Nodes::Hosts(plan) => plan.per_host,
            Nodes::Start { .. } => ids.len(),
            Nodes::Started { .. } | Nodes::Join { .. } => 1,
        };
        let on_a_machine = NonZeroU32::new(on_a_machine).unwrap_or(NonZeroU32::MIN);
        Ok(CallPlan {
            func,
            func_name: args.func.clone(),
            nodes,
            root,
            part,
            ids,
            order,
            tree,
            levels,
            tree_name,
            header: Bytes::from(args.header.clone()),
            // Last, since it may be large.
            data: data(args, on_a_machine)?,
            time_limit: args.time_limit.map(Duration::from),
            partial: args.partial,
            watching,
            forward_first: args.forward_first,
            output: args.output,
            repeat: args.repeat,
        })
    }
}

impl CallPlan {
    /// The call, as the library takes it.
    pub fn call(&self) -> Call {
        let call = Call::new(self.func).ids(self.order.clone()).tree(self.tree.clone());
        let call = call.header(self.header.clone()).data(self.data.clone());
        let call = self.time_limit.into_iter().fold(call, Call::limit);
        let call = if self.partial { call.partial() } else { call };
        let call = if self.part == RootPart::Watching { call.watch() } else { call };
        if self.forward_first { call.forward_first() } else { call }
    }
}

/// The function of this name.
///
/// # Errors
/// When there is none; the text has the one that was meant, and all there are.
pub(super) fn func_named(name: &str, functions: &Functions) -> Result<FuncHandle, String> {
    functions.named(name).map_err(|error| match error {
        FunctionsError::UnknownName(name, all) => {
            let close = did_you_mean(meant(&name, all.split(", ")));
            format!("no function is named `{name}`{close}; these are: {all}")
        }
        error => error.to_string(),
    })
}

/// How each process looks out for the others.
///
/// # Errors
/// When a silence is so short that a busy process would be taken for lost.
pub(super) fn settings(args: &CallArgs) -> Result<NodeSettings, Refused> {
    check_dead_after(args.dead_after)?;
    Ok(NodeSettings::new(args.dead_after.map(Duration::from), args.wait.0, args.link))
}

/// Refuses a silence so short that a busy process would be taken for lost.
pub(super) fn check_dead_after(dead_after: Option<Span>) -> Result<(), String> {
    match dead_after {
        Some(span) if span.duration() < DEAD_AFTER_MIN => Err(format!(
            "--dead-after {span} is too short: a busy process is silent for longer; give at least 100ms"
        )),
        _ => Ok(()),
    }
}

/// The nodes, the root, and all ids there are.
fn nodes(args: &CallArgs, started: Option<&Started>) -> Result<(Nodes, Id, IdList), Refused> {
    args.over.check()?;
    if let Some(hosts) = &args.over.hosts {
        let mut plan = args.over.plan(hosts)?;
        plan.partial = args.partial;
        let n = 1 + plan.processes();
        return Ok((Nodes::Hosts(Box::new(plan)), 0, IdList::range(0..n)));
    }
    if let (None, None, None, Some(started)) = (args.n, &args.peers, args.id, started) {
        return Ok((Nodes::Started { peers: started.peers.clone() }, 0, started.ids()));
    }
    match (args.n, &args.peers, args.id) {
        (_, None, Some(id)) => {
            Err(format!("--id {id} goes with --peers FILE; with -n this process is id 0").into())
        }
        (Some(n), None, None) => Ok((Nodes::Start { n, link: args.link }, 0, IdList::range(0..n))),
        (_, Some(path), Some(root)) => {
            let peers = read_peers(path).map_err(Refused::File)?;
            let ids = peers.ids().filter(|&id| id != root);
            let all =
                IdList::from_ids(std::iter::once(root).chain(ids)).expect("a peers file has each id once");
            let patience = args.wait_for_peers.map(Duration::from);
            let trust = Trust::read(&args.trust, root, &peers)?;
            Ok((Nodes::Join { peers, patience, trust }, root, all))
        }
        (_, Some(_), None) => Err("--peers needs the id of this process: add --id I".into()),
        (None, None, _) => {
            Err("say how many ids with -n N, on which hosts with --hosts LIST, or join running nodes with --peers FILE --id I, or have a launcher start this program, as in `mpiexec -n 8 gpc call facts`".into())
        }
    }
}

/// The ids in the caller's order, the root among them if it takes part, and what it is in the call.
fn order(args: &CallArgs, root: Id, all: &IdList) -> Result<(IdList, RootPart), Refused> {
    match &args.ids {
        Some(ids) if ids.is_empty() => Err("--ids names no id; leave it out to call all of them".into()),
        Some(ids) if args.watch && ids.contains(root) => Err(format!(
            "--watch keeps id {root}, this process, out of the call, but --ids names it: leave one out"
        )
        .into()),
        Some(ids) if args.watch => Ok((ids.clone(), RootPart::Watching)),
        Some(ids) if ids.contains(root) => Ok((ids.clone(), RootPart::Listed)),
        Some(ids) => Ok((ids.with_first(root), RootPart::Added)),
        None if args.watch && all.len() == 1 => {
            Err(format!("--watch keeps id {root}, this process, out of the call, and there is no other id")
                .into())
        }
        None if args.watch => Ok((without_first(all), RootPart::Watching)),
        None => Ok((all.clone(), RootPart::Listed)),
    }
}

/// A list without the id that stands first.
fn without_first(ids: &IdList) -> IdList {
    ids.slice(gpc_trees::Group { start: 1, len: ids.len() - 1 })
}

fn check_ids(ids: &IdList, nodes: &Nodes, root: Id) -> Result<(), String> {
    // By runs: a list of 4 billion ids costs nothing.
    let beyond = |n: u32| {
        let highest = |run: gpc_trees::Run| run.first + (run.count - 1);
        ids.runs().find(|&run| highest(run) >= n).map(|run| run.first.max(n))
    };
    match nodes {
        Nodes::Start { n, .. } => match beyond(*n) {
            Some(id) => Err(format!(
                "--ids names id {id}, but with -n {n} the ids are 0 to {}: raise -n or correct the list",
                n - 1
            )),
            None => Ok(()),
        },
        Nodes::Started { peers } => match ids.iter().find(|&id| !peers.contains(id)) {
            Some(id) => {
                let count = peers.len();
                Err(format!(
                    "--ids names id {id}, but the launcher has started {count} processes: the ids are 0 to {}",
                    count - 1
                ))
            }
            None => Ok(()),
        },
        Nodes::Hosts(plan) => match beyond(1 + plan.processes()) {
            Some(id) => Err(format!(
                "--ids names id {id}, but on these hosts the ids are 1 to {}: correct the list, or raise --per-host",
                plan.processes()
            )),
            None => Ok(()),
        },
        // A longer list has an id that is not there, which is found after at most as many steps as there are peers.
        Nodes::Join { peers, .. } => match ids.iter().find(|&id| id != root && !peers.contains(id)) {
            Some(id) => Err(format!("--ids names id {id}, which the peers file does not have")),
            None => Ok(()),
        },
    }
}

/// Which id is on which host; this process, the root, is on one of its own.
pub(super) fn hosts_of(plan: &RemotePlan) -> Hosts {
    let others = (1..=plan.processes()).filter_map(|id| Some((id, plan.host_of(id)?)));
    // No host has this name: it begins with a hyphen.
    std::iter::once((0, "-")).chain(others).collect()
}

/// The tree, the ids in its order, and its levels. `ids` has the root first.
pub(super) fn tree(
    name: &TreeName,
    ids: &IdList,
    hosts: Option<&Hosts>,
) -> Result<(CallTree, IdList, u32), Refused> {
    let refused = |error: gpc_trees::TreeError| format!("--tree {name}: {error}");
    let layout = match name {
        TreeName::File(path) => Some(read_layout(Path::new(path)).map_err(Refused::File)?),
        TreeName::Hosts { path, tree } => {
            Some(read_hosts(Path::new(path), ids, tree).map_err(Refused::File)?)
        }
        TreeName::KnownHosts(tree) => {
            let hosts = hosts.ok_or_else(|| format!("--tree {name} goes with --hosts LIST, a launcher, a rendezvous or IMPI; write hosts:PATH+TREE with a file that says which id is on which host"))?;
            let layout = hosts.layout(ids, tree, &Limits::default());
            Some(layout.map_err(|error| format!("--tree {name}: {error}"))?)
        }
        _ => None,
    };
    if let Some(layout) = layout {
        let ids = layout.apply(ids).map_err(refused)?;
        let levels = layout.tree().check(ids.len(), &Limits::default()).map_err(refused)?.depth;
        return Ok((layout.into(), ids, levels));
    }
    let tree = name.built_in().ok_or_else(|| no_such_tree(name))?;
    let levels = tree.check(ids.len(), &Limits::default()).map_err(refused)?.depth;
    Ok((tree.into(), ids.clone(), levels))
}

/// The data that the arguments name, for so many processes on each machine.
fn data(args: &CallArgs, processes: NonZeroU32) -> Result<Bytes, Refused> {
    let Some(path) = args.data.as_deref() else { return Ok(Bytes::new()) };
    read_data(path, args.time_limit.map(Duration::from), processes).map_err(Refused::File)
}

/// How long the data of a request may take to come through a pipe, where the call has not more time.
const DATA_WAIT: Duration = Duration::from_secs(60);

/// The data of a request: a file's content, or what comes on standard input. They are within what a node takes, and come within a time.
fn read_data(path: &Path, time_limit: Option<Duration>, processes: NonZeroU32) -> Result<Bytes, String> {
    let bounds = Bounds {
        bytes: request_data_max(processes),
        long: "a node of this machine takes no more with one request (3/16 of the memory that it may have): send less, or send the name of a file that all can read",
        wait: time_limit.unwrap_or_default().max(DATA_WAIT),
        late: "write the data to a file first, or raise --time-limit",
    };
    read(path, "data of --data", bounds).map(Bytes::from)
}

#[cfg(test)]
mod tests;
