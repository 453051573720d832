//! Processes of this program as nodes: how they are started, and what a terminal shows meanwhile.

use std::ops::{ControlFlow, Range};

use chained_gpc::launch::remote::{RemoteError, RemoteLaunch, RemotePlan};
use chained_gpc::launch::{Launch, LaunchError, NodeSettings, Plan, this_program};
use chained_gpc::runtime::LinkKind;
use gpc_trees::Id;
use indicatif::{ProgressBar, ProgressStyle};

use super::Failure;
use super::interrupt::Interrupt;

/// The arguments of such a process before its id.
pub(crate) const ARGUMENTS: [&str; 3] = ["node", "--launched", "--id"];

/// The arguments of a node that runs programs, before its id.
#[cfg(feature = "bnr")]
pub(crate) const RUNNING: [&str; 4] = ["node", "--launched", "--runs", "--id"];

/// The arguments of a process on another host.
pub(crate) const AGENT: [&str; 2] = ["node", "--agent"];

/// From how many processes on a terminal sees how many have been started; fewer take no noticeable time.
const PROGRESS_MIN: usize = 128;

/// Gives a process that was started by `/proc/self/exe` the name of the program, by which `ps` and `pgrep` find it.
pub(crate) fn name_process() {
    // Without its name it works as well.
    let _ = std::fs::write("/proc/self/comm", "gpc");
}

/// Starts a process of this program for each id; gives up when it is interrupted.
///
/// # Errors
/// When one cannot be started, or it is interrupted; none is left running then.
pub(crate) fn start(
    ids: Range<Id>,
    link: LinkKind,
    settings: NodeSettings,
    interrupt: &Interrupt,
) -> Result<Launch, Failure> {
    let mut plan = Plan::new(ids, this_program()?, &ARGUMENTS);
    (plan.link, plan.settings) = (link, settings);
    Ok(start_plan(&plan, || interrupt.signal().is_some())?)
}

/// Starts the processes of a plan; gives up when `interrupted` says so.
///
/// # Errors
/// When one cannot be started, or it is interrupted; none is left running then.
pub(crate) fn start_plan(plan: &Plan, interrupted: impl Fn() -> bool + Sync) -> Result<Launch, LaunchError> {
    let progress = progress_bar(plan.ids.len());
    let launch = Launch::start_observed(plan, |started| {
        progress.set_position(started as u64);
        match interrupted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    progress.finish_and_clear();
    launch
}

/// Starts processes on other hosts; gives up when it is interrupted. With a partial plan, the outcome of a call names those that could not be started.
///
/// # Errors
/// When a host does not answer and the plan is not partial, or it is interrupted; nothing is left running then.
pub(crate) fn start_remote(
    plan: &RemotePlan,
    settings: NodeSettings,
    interrupt: &Interrupt,
) -> Result<RemoteLaunch, RemoteError> {
    let mut plan = plan.clone();
    plan.settings = settings;
    // Each takes as long as a connection does.
    let progress = progress_bar(PROGRESS_MIN.max(plan.processes() as usize));
    progress.set_length(plan.processes().into());
    let launch = RemoteLaunch::start_observed(&plan, |there| {
        progress.set_position(there as u64);
        match interrupt.signal() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    progress.finish_and_clear();
    launch
}

fn progress_bar(count: usize) -> ProgressBar {
    if count < PROGRESS_MIN {
        return ProgressBar::hidden();
    }
    // Draws on standard error, and only where that is a terminal.
    let style = ProgressStyle::with_template("starting processes {wide_bar} {pos}/{len}");
    ProgressBar::new(count as u64).with_style(style.expect("the template is well formed"))
}
