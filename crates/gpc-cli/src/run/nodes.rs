//! The nodes of a run: this process, nodes that it starts on this machine or on other hosts, and nodes that already
//! run. Also the other side: a node that runs programs for others.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chained_gpc::Clock;
use chained_gpc::runtime::{
    AbsentPeers, Builder, Functions, FunctionsError, LinkKind, Listener, Node, Peers,
};
use gpc_bnr::Limits;
use gpc_bnr::host::{HostSettings, Serving};
use gpc_launch::remote::{LostProcesses, RemoteLaunch};
use gpc_launch::{Launch, Launched, LaunchedError, NodeSettings, Plan, this_program};
use gpc_trees::{Id, IdList};

use super::env_for::addresses;
use super::plan::{NodePlacement, RunPlan, RunningNodes};
use super::signals::Signals;
use super::supervisor::{pmix_command, supervisor_command};
use crate::copy::GiveProgram;
use crate::joining::{refuse_taken, until_up};
use crate::launching::start_remote;
use crate::limits::cannot_start;
use crate::{CommandResult, Failure, builtin, launching};

/// Time that started nodes have to end after their domain.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Time limit for a host that was lost to be reported with the reason.
const REASON_LIMIT: Duration = Duration::from_secs(1);

/// Maximum number of lost nodes whose reasons are printed.
const REASONS_MAX: usize = 8;

/// Resources that live as long as a run.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    node: Option<Node>,
    /// The nodes that were started on this machine.
    launch: Option<Launch>,
    /// The nodes that were started on other hosts.
    remote: Option<RemoteLaunch>,
    /// Nodes of a partial plan that could not be linked with, and why.
    unlinked: Vec<(Id, String)>,
}

impl Nodes {
    /// Starts or joins the nodes of a plan, and returns the settings of the domain's head.
    ///
    /// # Errors
    /// If a node cannot be started, the id is taken, or a signal ends the start; nothing is left running then.
    pub(super) fn open(plan: &RunPlan, signals: &Signals) -> Result<(Nodes, HostSettings), Failure> {
        let mut settings = HostSettings::new(supervisor_command()?);
        settings.limits = plan.limits;
        settings.pmix = pmix_command()?;
        settings.pmi_port = plan.pmi_port;
        settings.input = plan.input.host_input()?;
        let mut nodes = Nodes::default();
        let builder = match &plan.nodes {
            NodePlacement::OwnNode => {
                settings.addresses = addresses(&settings.nodes, &Peers::new());
                return Ok((nodes, settings));
            }
            NodePlacement::Launched(count) => {
                settings.nodes = (0..*count).collect();
                settings.addresses = addresses(&settings.nodes, &Peers::new());
                let (builder, launch) = launch(*count, signals)?;
                nodes.launch = Some(launch);
                builder
            }
            NodePlacement::Hosts(hosts) => {
                settings.slots = (1..).zip(hosts.hosts.iter().map(|host| host.slots)).collect();
                // This node reaches all others, and no other node reaches it before.
                settings.runs = false;
                let remote =
                    start_remote(&hosts.plan, NodeSettings::default(), || signals.ending().is_some())?;
                settings.nodes = std::iter::once(0).chain(remote.peers().ids()).collect();
                settings.addresses = addresses(&settings.nodes, remote.peers());
                nodes.remote.insert(remote).root(Node::builder(0))
            }
            NodePlacement::Joined(joined) => {
                let RunningNodes { me, listen, peers, trust } = &**joined;
                refuse_taken(*me, peers)?;
                settings.me = *me;
                settings.nodes = head_first(*me, peers.ids());
                settings.addresses = addresses(&settings.nodes, peers);
                // Programs run on the nodes that were already running, not where the command was given.
                settings.runs = false;
                let mut builder = Node::builder(*me).peers(peers.clone());
                if let Some(listen) = listen {
                    builder = builder.listener(Listener::bind(listen)?);
                }
                trust.clone().apply(builder)
            }
        };
        let functions = Functions::new();
        let serving = leading(&functions)?;
        let node = builder.functions(&functions).start().map_err(cannot_start("this node"))?;
        serving.attach(node.caller());
        settings.serving = Some(serving);
        if let Some(limit) = plan.link_limit() {
            nodes.unlinked = link_with_all(&node, plan, &settings.nodes[1..], (limit, signals))?;
            settings.nodes.retain(|id| nodes.unlinked.iter().all(|(late, _)| late != id));
        }
        nodes.node = Some(node);
        Ok((nodes, settings))
    }

    /// Returns the nodes on other hosts that were lost, with the reasons: of these, and of all whose loss is known.
    pub(super) fn losses(&self, ids: &[Id]) -> Vec<LostProcesses> {
        let Some(remote) = &self.remote else { return Vec::new() };
        // The link with a node may break before its host is reported.
        ids.iter().take(REASONS_MAX).for_each(|id| drop(remote.why_lost(*id, REASON_LIMIT)));
        remote.lost()
    }

    /// The node of this process, and the nodes that were started on other hosts.
    pub(super) fn parts(&self) -> (Option<&Node>, Option<&RemoteLaunch>) {
        (self.node.as_ref(), self.remote.as_ref())
    }

    /// The nodes of a partial plan that could not be linked with, and why.
    pub(super) fn unlinked(&self) -> &[(Id, String)] {
        &self.unlinked
    }

    /// Ends the nodes that were started.
    pub(super) fn close(self) {
        if let Some(launch) = self.launch {
            launch.end(END_LIMIT);
        }
        if let Some(remote) = self.remote {
            remote.end(END_LIMIT);
        }
        if let Some(node) = self.node {
            node.shutdown(Duration::ZERO);
        }
    }
}

/// Returns a line for each loss, up to a number.
pub(super) fn loss_lines(lost: &[LostProcesses]) -> Vec<String> {
    let line = |LostProcesses { first, count, why, .. }: &LostProcesses| match count {
        1 => format!("node {first} was lost: {why}"),
        count => format!("nodes {first}-{} were lost: {why}", first + (count - 1)),
    };
    let mut lines: Vec<String> = lost.iter().take(REASONS_MAX).map(line).collect();
    if lost.len() > REASONS_MAX {
        lines.push(format!("{} more nodes were lost", lost.len() - REASONS_MAX));
    }
    lines
}

/// Opens the links with the other nodes, which do not reach this one by themselves, and have something for the head.
/// Returns the nodes that could not be linked with, and why, if the plan goes on without those: these could report
/// nothing, though calls through other nodes reach them.
///
/// # Errors
/// If a link is not up within the limit, and the plan needs all nodes; the message names the node.
fn link_with_all(
    node: &Node,
    plan: &RunPlan,
    ids: &[Id],
    (limit, signals): (Duration, &Signals),
) -> Result<Vec<(Id, String)>, Failure> {
    // A partial start may have found no host at all.
    let Ok(ids) = IdList::from_ids(ids.iter().copied()) else { return Ok(Vec::new()) };
    let interrupted = || signals.ending().is_some();
    let up = until_up(limit, &Clock::system(), interrupted, |limit| node.wait_for_peers(ids.clone(), limit));
    match up {
        Ok(()) => Ok(Vec::new()),
        Err(error) if interrupted() => Err(error.into()),
        Err(AbsentPeers::Late { ids, why, .. }) if plan.goes_on_without_nodes() => {
            let why = format!("no link within {limit:?}: {why}");
            Ok(ids.iter().map(|id| (id, why.clone())).collect())
        }
        Err(error @ AbsentPeers::Late { .. }) => {
            let AbsentPeers::Late { ids, .. } = &error else { return Err(error.into()) };
            let first = ids.first().unwrap_or_default();
            let host = plan.listed_host(first).unwrap_or_default();
            Err(format!("cannot open a link to node {first} on host {host}: {error}").into())
        }
        Err(error) => Err(error.into()),
    }
}

fn head_first(me: Id, ids: impl Iterator<Item = Id>) -> Vec<Id> {
    [me].into_iter().chain(ids.filter(|id| *id != me)).collect()
}

/// Starts nodes from 1 on as processes of this program, which know the address of this node.
fn launch(count: u32, signals: &Signals) -> Result<(Builder, Launch), Failure> {
    let kind = LinkKind::DEFAULT;
    let listener = Listener::bind(&kind.fresh_address(0))?;
    let mut others = Peers::new();
    others.insert(0, listener.address()?);
    let mut plan = Plan::new(1..count, this_program()?, &launching::RUNNING);
    plan.others = others;
    let ending = signals.ending_flag();
    let launch = launching::start_plan(&plan, || ending.load(Ordering::Acquire) != 0)?;
    let builder = NodeSettings::default().apply(launch.node(0)).listener(listener);
    Ok((builder, launch))
}

/// Registers the functions of a node that runs programs, in addition to its other functions.
///
/// # Errors
/// If the names are taken.
pub(crate) fn serving(functions: &Functions) -> Result<Serving, Failure> {
    let registered: Result<Serving, FunctionsError> =
        Serving::register(functions, supervisor_command()?, Limits::default());
    let serving = registered?;
    pmix_command()?.into_iter().for_each(|command| serving.serve_pmix(command));
    Ok(serving)
}

/// Returns what gives programs to the domains of a node.
pub(crate) fn giving(serving: Serving) -> GiveProgram {
    Arc::new(move |domain, number, file| serving.give_program(domain, number, file))
}

/// As [`serving`], for a command: other nodes, even those that it has started, start nothing here.
///
/// # Errors
/// If the names are taken.
pub(super) fn leading(functions: &Functions) -> Result<Serving, Failure> {
    Ok(Serving::register_head(functions, supervisor_command()?, Limits::default())?)
}

/// Runs a node that `gpc run --nodes` started, until its parent ends it or dies. The processes of its domains end with
/// it.
pub(crate) fn run_launched(id: Id) -> CommandResult {
    let launched = match Launched::take(id) {
        // The parent is gone, so nothing is reported.
        Err(LaunchedError::ParentGone) => return Ok(ExitCode::FAILURE),
        Err(LaunchedError::ByHand) => return Err(launching::BY_HAND.into()),
        launched => launched?,
    };
    let functions = Functions::new();
    builtin::register(&functions)?;
    let serving = serving(&functions)?;
    let (builder, mut control) = launched.into_node();
    let node = builder.functions(&functions).start().map_err(cannot_start("this node"))?;
    serving.attach(node.caller());
    // Removes the time limit under which the orders were read.
    control.set_nonblocking(false)?;
    control.set_read_timeout(None)?;
    // Nothing is ever sent there: the end of the link ends the node.
    let _ = control.read(&mut [0; 1]);
    node.shutdown(Duration::ZERO);
    Ok(ExitCode::SUCCESS)
}
