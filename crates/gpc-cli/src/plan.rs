//! Plan of a call for `gpc call`: checks combinations of arguments before any process starts.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Hosts, Id, IdList, Limits, TreeName};

use super::args::{CallArgs, OutputKind};
use super::duration::Span;
use super::files::{Bounds, read, read_peers};
use super::output::RootPart;
use super::plugins;
use super::refused::Refused;
use super::started::Started;
use super::suggestion::{did_you_mean, meant};
use super::trace::picture::Form;
use super::tree::{no_such_tree, read_hosts, read_layout};
use super::tree_choice::{CallTreeName, Choice};
use super::trust::Trust;
use chained_gpc::reduce::Reduction;
use chained_gpc::runtime::{
    Call, CallTree, CallbackHandle, FuncHandle, Functions, FunctionsError, LinkKind, Peers, request_data_max,
};
use chained_gpc::wire::frame::HEADER_MAX;
use gpc_launch::NodeSettings;
use gpc_launch::remote::RemotePlan;

/// Shortest silence after which a process may count as dead: several scheduler turns of a busy machine.
const DEAD_AFTER_MIN: Duration = Duration::from_millis(100);

/// A call to make, with checked arguments and files already read.
#[derive(Clone, Debug)]
pub struct CallPlan {
    /// The functions.
    pub called: Called,
    /// Whether no replies are wanted.
    pub no_reply: bool,
    /// Arguments by which started processes load the libraries of this one.
    pub(super) loads: Vec<OsString>,
    /// The nodes.
    pub nodes: Nodes,
    /// Id of this process, the root.
    pub root: Id,
    /// Role of the root in the call.
    pub part: RootPart,
    /// All ids that take part, in tree order: the root first, unless it only watches.
    pub ids: IdList,
    /// The same ids in the caller's order. A root that takes part and is not listed is first.
    pub order: IdList,
    /// Tree over the ids.
    pub tree: CallTree,
    /// Levels of the tree above the leaves.
    pub levels: u32,
    /// Name of the tree.
    pub tree_name: TreeName,
    /// Header of the request.
    pub header: Bytes,
    /// Data of the request.
    pub data: Bytes,
    /// Time limit of the call, from its start; `None` selects the library's default.
    pub time_limit: Option<Duration>,
    /// Whether to continue without ids that fail or are lost.
    pub partial: bool,
    /// Settings by which each process watches the others.
    pub(super) watching: NodeSettings,
    /// Whether to forward before executing.
    pub forward_first: bool,
    /// Output format.
    pub output: OutputKind,
    /// Number of calls to make and time, for `--repeat`.
    pub repeat: Option<u32>,
    /// What to do with the times of the ids.
    pub tracing: Tracing,
}

/// What `gpc call` does with the times of the ids.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tracing {
    /// Whether to print them.
    pub print: bool,
    /// File for the time line.
    pub file: Option<PathBuf>,
}

impl Tracing {
    /// Whether the call brings them back.
    pub fn is_on(&self) -> bool {
        self.print || self.file.is_some()
    }
}

/// The functions of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Called {
    /// The function.
    pub func: FuncHandle,
    /// Name of the function.
    pub func_name: String,
    /// The callback.
    pub callback: Option<CallbackHandle>,
    /// Name of the callback.
    pub callback_name: Option<String>,
    /// The reduction, if the callback is one.
    pub reduction: Option<Reduction>,
}

/// The nodes of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Nodes {
    /// This process is id 0, and starts the others on this machine.
    Start {
        /// Number of ids, this process included.
        n: u32,
        /// Links between the processes.
        link: LinkKind,
    },
    /// A launcher has started the nodes, and this process is id 0.
    Started {
        /// Addresses of the nodes.
        peers: Peers,
    },
    /// This process is id 0, and starts the others on other hosts.
    Hosts(Box<RemotePlan>),
    /// The nodes are already running.
    Join {
        /// Addresses of the nodes.
        peers: Peers,
        /// Time limit for the nodes to come up.
        patience: Option<Duration>,
        /// What this process proves to the nodes.
        trust: Trust,
    },
}

impl CallPlan {
    /// Checks the arguments together, and reads the files that they name. `started` has the processes that a launcher
    /// started with this one.
    ///
    /// # Errors
    /// Every fault that can be found before anything is started or sent, as a message for the user.
    pub fn new(
        args: &CallArgs,
        functions: &Functions,
        started: Option<&Started>,
    ) -> Result<CallPlan, Refused> {
        let (nodes, root, all) = nodes(args, started)?;
        let called = called(args, root, functions)?;
        let (order, part) = order(args, root, &all)?;
        check_ids(&order, &nodes, root)?;
        let hosts = match &nodes {
            Nodes::Hosts(plan) => Some(hosts_of(plan)),
            Nodes::Started { .. } => started.map(|started| started.hosts.clone()),
            Nodes::Join { peers, .. } => Some(hosts_of_peers(peers, &all)),
            Nodes::Start { .. } => None,
        };
        let tree_name = args.tree.clone().unwrap_or_else(|| Started::tree_of(started, CallTreeName::Auto));
        let ids = order.with_first(root);
        let (bytes, forward_first) = (data_len(args), !args.execute_first);
        let tree_name = tree_name.resolve(&Choice { ids: &ids, hosts: hosts.as_ref(), bytes, forward_first });
        let (tree, ids, levels) = tree(&tree_name, &ids, hosts.as_ref(), Some(functions))?;
        let ids = if part == RootPart::Watching { without_first(&ids) } else { ids };
        if args.header.len() > HEADER_MAX {
            let len = args.header.len();
            let text = format!(
                "--header has {len} bytes, at most {HEADER_MAX} are possible; give long data with --data"
            );
            return Err(text.into());
        }
        if args.no_reply && args.output == OutputKind::Level {
            return Err(
                "--output level prints the replies, and --no-reply requests none: leave one out".into()
            );
        }
        if args.time_limit.is_some_and(|limit| limit.duration().is_zero()) {
            return Err("--time-limit 0s leaves no time for the call".into());
        }
        let watching = settings(args)?;
        let on_a_machine = match &nodes {
            Nodes::Hosts(plan) => plan.processes_per_host_max().get(),
            Nodes::Start { .. } => ids.len(),
            Nodes::Started { .. } | Nodes::Join { .. } => 1,
        };
        let on_a_machine = NonZeroU32::new(on_a_machine).unwrap_or(NonZeroU32::MIN);
        Ok(CallPlan {
            called,
            no_reply: args.no_reply,
            loads: plugins::arguments(&args.load)?,
            nodes,
            root,
            part,
            ids,
            order,
            tree,
            levels,
            tree_name,
            header: Bytes::from(args.header.clone()),
            // Read last, since the data may be large.
            data: data(args, on_a_machine)?,
            time_limit: args.time_limit.map(Duration::from),
            partial: args.partial,
            watching,
            forward_first,
            output: args.output,
            repeat: args.repeat,
            tracing: tracing(args)?,
        })
    }
}

impl CallPlan {
    /// Returns the call in the form of the library.
    pub fn call(&self) -> Call {
        let call = Call::new(self.called.func).ids(self.order.clone()).tree(self.tree.clone());
        let call = call.header(self.header.clone()).data(self.data.clone());
        let call = self.called.callback.into_iter().fold(call, Call::callback);
        let call = if self.no_reply { call.no_reply() } else { call };
        let call = self.time_limit.into_iter().fold(call, Call::limit);
        let call = if self.partial { call.partial() } else { call };
        let call = if self.part == RootPart::Watching { call.watch() } else { call };
        let call = if self.tracing.is_on() { call.trace() } else { call };
        if self.forward_first { call.forward_first() } else { call }
    }
}

/// Checks the options of traces.
fn tracing(args: &CallArgs) -> Result<Tracing, String> {
    if args.trace && args.output != OutputKind::Table {
        return Err("--trace prints text behind the table: with another --output, use --trace-file".into());
    }
    args.trace_file.as_deref().map(Form::of).transpose()?;
    Ok(Tracing { print: args.trace, file: args.trace_file.clone() })
}

/// Returns the functions of a call that this process, id `root`, makes.
///
/// # Errors
/// If this process would execute a function that it does not have. Over running nodes it may only watch: then they
/// execute func, which is checked there.
fn called(args: &CallArgs, root: Id, functions: &Functions) -> Result<Called, String> {
    let missing = |error, more: &str| match error {
        FunctionsError::UnknownName(name, all) => {
            let close = did_you_mean(meant(&name, all.split(", ")));
            format!(
                "id {root}, this process, has no function named `{name}`{close}; it has: {all}; --load LIB adds those of a library{more}"
            )
        }
        error => error.to_string(),
    };
    let others = args.peers.is_some();
    let func = match functions.named(&args.func) {
        Err(FunctionsError::UnknownName(name, _)) if others && args.watch => FuncHandle::named(&name),
        Err(error) if others => {
            return Err(missing(error, ", and with --watch this process does not execute it"));
        }
        func => func.map_err(|error| missing(error, ""))?,
    };
    let reduction = args.reduce;
    let callback_name = reduction.map(|reduction| reduction.name()).or_else(|| args.callback.clone());
    if callback_name.is_some() && func.is_phased() {
        return Err(FunctionsError::MergesItself(args.func.clone()).to_string());
    }
    let callback = callback_name.as_deref().map(|name| functions.named_callback(name));
    let callback = callback.transpose().map_err(|error| missing(error, ""))?;
    let callback_name = reduction.map(|reduction| reduction.to_string()).or(callback_name);
    Ok(Called { func, func_name: args.func.clone(), callback, callback_name, reduction })
}

/// Returns the function with this name.
///
/// # Errors
/// If there is none; the message suggests a similar name, and lists all names.
pub(super) fn func_named(name: &str, functions: &Functions) -> Result<FuncHandle, String> {
    functions.named(name).map_err(|error| match error {
        FunctionsError::UnknownName(name, all) => {
            let close = did_you_mean(meant(&name, all.split(", ")));
            format!("no function is named `{name}`{close}; these are: {all}")
        }
        error => error.to_string(),
    })
}

/// Returns the settings by which each process watches the others.
///
/// # Errors
/// If a silence is so short that a busy process would be taken for lost.
pub(super) fn settings(args: &CallArgs) -> Result<NodeSettings, Refused> {
    check_dead_after(args.dead_after)?;
    Ok(NodeSettings::new(args.dead_after.map(Duration::from), args.wait.0, args.link))
}

/// Rejects a silence so short that a busy process would be taken for lost.
pub(super) fn check_dead_after(dead_after: Option<Span>) -> Result<(), String> {
    match dead_after {
        Some(span) if span.duration() < DEAD_AFTER_MIN => Err(format!(
            "--dead-after {span} is too short: a busy process is silent for longer; give at least 100ms"
        )),
        _ => Ok(()),
    }
}

/// Returns the nodes, the root, and all ids.
fn nodes(args: &CallArgs, started: Option<&Started>) -> Result<(Nodes, Id, IdList), Refused> {
    if let Some(mut plan) = args.over.plan()? {
        plan.partial = args.partial;
        plan.arguments.extend(plugins::arguments(&args.load)?);
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

/// Returns the ids in the caller's order, with the root if it takes part, and the role of the root.
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

/// Returns the list without its first id.
fn without_first(ids: &IdList) -> IdList {
    ids.slice(gpc_trees::Group { start: 1, len: ids.len() - 1 })
}

fn check_ids(ids: &IdList, nodes: &Nodes, root: Id) -> Result<(), String> {
    // Checked by runs, so that a list of 4 billion ids costs nothing.
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
        // In a list longer than the peers file, an unknown id is found after at most as many steps as there are peers.
        Nodes::Join { peers, .. } => match ids.iter().find(|&id| id != root && !peers.contains(id)) {
            Some(id) => Err(format!("--ids names id {id}, which the peers file does not have")),
            None => Ok(()),
        },
    }
}

/// Returns the host of each id. This process, the root, has a host of its own.
pub(super) fn hosts_of(plan: &RemotePlan) -> Hosts {
    // No host has this name, since it begins with a hyphen.
    std::iter::once((0, "-")).chain(plan.ids()).collect()
}

/// Returns the host of each of these ids of running nodes. An id that the peers file lacks is this process.
pub(super) fn hosts_of_peers(peers: &Peers, ids: &IdList) -> Hosts {
    let known = peers.hosts();
    ids.iter().map(|id| (id, known.host(id).unwrap_or("-"))).collect()
}

/// Returns the tree, the ids in its order, and its levels. `ids` begins with the root. `registered` has trees beside
/// the built-in ones.
pub(super) fn tree(
    name: &TreeName,
    ids: &IdList,
    hosts: Option<&Hosts>,
    registered: Option<&Functions>,
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
    let found = match registered {
        Some(functions) => functions.named_tree(name).ok(),
        None => name.built_in(),
    };
    let tree = found.ok_or_else(|| match registered {
        Some(_) => format!("{}, or load the library that registers it with --load", no_such_tree(name)),
        None => no_such_tree(name),
    })?;
    let levels = tree.check(ids.len(), &Limits::default()).map_err(refused)?.depth;
    Ok((tree.into(), ids.clone(), levels))
}

/// Length of the data, as far as it is known before they are read.
fn data_len(args: &CallArgs) -> u64 {
    let file = args.data.as_deref().and_then(|path| std::fs::metadata(path).ok());
    file.filter(std::fs::Metadata::is_file).map_or(0, |file| file.len())
}

/// Reads the data that the arguments name, for this number of processes on each machine.
fn data(args: &CallArgs, processes: NonZeroU32) -> Result<Bytes, Refused> {
    let Some(path) = args.data.as_deref() else { return Ok(Bytes::new()) };
    read_data(path, args.time_limit.map(Duration::from), processes).map_err(Refused::File)
}

/// Time limit for the data of a request that comes through a pipe, unless the call has a longer one.
const DATA_WAIT: Duration = Duration::from_secs(60);

/// Reads the data of a request from a file or standard input, within the size that a node accepts and within a time
/// limit.
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
