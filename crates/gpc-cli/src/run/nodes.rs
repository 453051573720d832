//! The nodes of a run: this process, nodes that it starts on this machine, and nodes that already run. Also the other
//! side: a node that runs programs for others.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chained_gpc::runtime::{Builder, Functions, FunctionsError, LinkKind, Listener, Node, Peers};
use gpc_bnr::Limits;
use gpc_bnr::host::{HostSettings, Serving};
use gpc_launch::{Launch, Launched, LaunchedError, NodeSettings, Plan, this_program};
use gpc_trees::Id;

use super::plan::{NodePlacement, RunPlan, RunningNodes};
use super::signals::Signals;
use super::supervisor::supervisor_command;
use crate::joining::refuse_taken;
use crate::limits::cannot_start;
use crate::{CommandResult, Failure, builtin, launching};

/// Time that started nodes have to end after their domain.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Resources that live as long as a run.
#[derive(Debug)]
pub(super) struct Nodes {
    node: Option<Node>,
    launch: Option<Launch>,
}

impl Nodes {
    /// Starts or joins the nodes of a plan, and returns the settings of the domain's head.
    ///
    /// # Errors
    /// If a node cannot be started, the id is taken, or a signal ends the start; nothing is left running then.
    pub(super) fn open(plan: &RunPlan, signals: &Signals) -> Result<(Nodes, HostSettings), Failure> {
        let mut settings = HostSettings::new(supervisor_command()?);
        settings.limits = plan.limits;
        settings.pmi_port = plan.pmi_port;
        let (builder, launch) = match &plan.nodes {
            NodePlacement::OwnNode => return Ok((Nodes { node: None, launch: None }, settings)),
            NodePlacement::Launched(count) => {
                settings.nodes = (0..*count).collect();
                let (builder, launch) = launch(*count, signals)?;
                (builder, Some(launch))
            }
            NodePlacement::Joined(joined) => {
                let RunningNodes { me, listen, peers, trust } = &**joined;
                refuse_taken(*me, peers)?;
                settings.me = *me;
                settings.nodes = head_first(*me, peers.ids());
                // Programs run on the nodes that were already running, not where the command was given.
                settings.runs = false;
                let builder = Node::builder(*me).peers(peers.clone()).listener(Listener::bind(listen)?);
                (trust.clone().apply(builder), None)
            }
        };
        let functions = Functions::new();
        let serving = serving(&functions)?;
        let node = builder.functions(&functions).start().map_err(cannot_start("this node"))?;
        serving.attach(node.caller());
        settings.serving = Some(serving);
        Ok((Nodes { node: Some(node), launch }, settings))
    }

    /// Ends the nodes that were started.
    pub(super) fn close(self) {
        if let Some(launch) = self.launch {
            launch.end(END_LIMIT);
        }
        if let Some(node) = self.node {
            node.shutdown(Duration::ZERO);
        }
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
    Ok(registered?)
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
