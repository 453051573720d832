//! Starts processes of this program as nodes, and shows the progress on a terminal.

use std::ffi::OsString;
use std::ops::{ControlFlow, Range};

use chained_gpc::runtime::LinkKind;
use gpc_launch::remote::{RemoteError, RemoteLaunch, RemotePlan};
use gpc_launch::{Launch, LaunchError, NodeSettings, Plan, this_program};
use gpc_trees::Id;
use indicatif::{ProgressBar, ProgressStyle};

use super::Failure;
use super::interrupt::Interrupt;

/// The first arguments of a started node. The libraries that it loads follow.
pub(crate) const LAUNCHED: [&str; 2] = ["node", "--launched"];

/// Arguments of a started node without libraries, before its id.
pub(crate) const ARGUMENTS: [&str; 3] = ["node", "--launched", "--id"];

/// Arguments of a started node that runs programs, before its id.
#[cfg(feature = "bnr")]
pub(crate) const RUNNING: [&str; 4] = ["node", "--launched", "--exec-allowed", "--id"];

/// The arguments of a process on another host. The libraries that it loads follow.
pub(crate) const AGENT: [&str; 2] = ["node", "--agent"];

/// Error for the hidden flag in a command that a user has typed.
pub(crate) const BY_HAND: &str = "--launched is for processes that `gpc call` starts; to run a node write gpc node --id I --listen ADDR --peers FILE";

/// Number of processes from which a terminal shows progress; fewer start in no noticeable time.
const PROGRESS_MIN: usize = 128;

/// Sets the process name after a start through `/proc/self/exe`, so that `ps` and `pgrep` find the program.
pub(crate) fn name_process() {
    // The name is a convenience only.
    let _ = std::fs::write("/proc/self/comm", "gpc");
}

/// Starts a process of this program for each id, with these libraries, and gives up if it is interrupted.
///
/// # Errors
/// If a process cannot be started, or the start is interrupted; no process remains then.
pub(crate) fn start(
    ids: Range<Id>,
    link: LinkKind,
    settings: NodeSettings,
    loads: &[OsString],
    interrupt: &Interrupt,
) -> Result<Launch, Failure> {
    let mut plan = Plan::new(ids, this_program()?, &ARGUMENTS);
    // Between the first words and the one before the id.
    plan.arguments.splice(LAUNCHED.len()..LAUNCHED.len(), loads.iter().cloned());
    (plan.link, plan.settings) = (link, settings);
    Ok(start_plan(&plan, || interrupt.signal().is_some())?)
}

/// Starts the processes of a plan, and gives up if `interrupted` returns true.
///
/// # Errors
/// If a process cannot be started, or the start is interrupted; no process remains then.
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

/// Starts processes on other hosts, and gives up if it is interrupted. With a partial plan, the outcome of a call names
/// the processes that could not be started.
///
/// # Errors
/// If a host does not answer and the plan is not partial, or the start is interrupted; no process remains then.
pub(crate) fn start_remote(
    plan: &RemotePlan,
    settings: NodeSettings,
    interrupted: impl Fn() -> bool,
) -> Result<RemoteLaunch, RemoteError> {
    let mut plan = plan.clone();
    plan.settings = settings;
    // Always shown: each start takes as long as a connection.
    let progress = progress_bar(PROGRESS_MIN.max(plan.processes() as usize));
    progress.set_length(plan.processes().into());
    let launch = RemoteLaunch::start_observed(&plan, |there| {
        progress.set_position(there as u64);
        match interrupted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    progress.finish_and_clear();
    launch
}

fn progress_bar(count: usize) -> ProgressBar {
    if count < PROGRESS_MIN {
        return ProgressBar::hidden();
    }
    // Draws on standard error, and only if that is a terminal.
    let style = ProgressStyle::with_template("starting processes {wide_bar} {pos}/{len}");
    ProgressBar::new(count as u64).with_style(style.expect("the template is well formed"))
}
