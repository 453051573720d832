//! Processes of this program as nodes: how they are started, and what a terminal shows meanwhile.

use std::ops::{ControlFlow, Range};

use chained_gpc::launch::{Launch, NodeSettings, Plan};
use chained_gpc::runtime::LinkKind;
use gpc_trees::Id;
use indicatif::{ProgressBar, ProgressStyle};

use super::interrupt::Interrupt;

/// The arguments of such a process before its id.
pub(crate) const ARGUMENTS: [&str; 3] = ["node", "--launched", "--id"];

/// From how many processes on a terminal sees how many have been started; fewer take no noticeable time.
const PROGRESS_MIN: usize = 128;

/// Starts a process of this program for each id; gives up when it is interrupted.
///
/// # Errors
/// When one cannot be started, or it is interrupted; none is left running then.
pub(crate) fn start(
    ids: Range<Id>,
    link: LinkKind,
    settings: NodeSettings,
    interrupt: &Interrupt,
) -> Result<Launch, Box<dyn std::error::Error + Send + Sync>> {
    let mut plan = Plan::new(ids, std::env::current_exe()?, &ARGUMENTS);
    (plan.link, plan.settings) = (link, settings);
    let progress = progress_bar(plan.ids.len());
    let launch = Launch::start_observed(&plan, |started| {
        progress.set_position(started as u64);
        match interrupt.signal() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    progress.finish_and_clear();
    Ok(launch?)
}

fn progress_bar(count: usize) -> ProgressBar {
    if count < PROGRESS_MIN {
        return ProgressBar::hidden();
    }
    // Draws on standard error, and only where that is a terminal.
    let style = ProgressStyle::with_template("starting processes {wide_bar} {pos}/{len}");
    ProgressBar::new(count as u64).with_style(style.expect("the template is well formed"))
}
