//! The side of a node that others see: what every caller, every handle and every function of it share with its event loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpc_trees::{Id, Limits};

use super::call::Call;
use super::call_error::CallError;
use super::executor::Names;
use super::functions::Functions;
use super::mailbox::Mailbox;
use super::plan::Plan;
use crate::chain::{Start, Time};

/// What a node's callers and its functions share.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) id: Id,
    pub(super) limits: Limits,
    pub(super) functions: Functions,
    pub(super) executors: Names,
    pub(super) mailbox: Arc<Mailbox>,
    /// When the node's clock began.
    pub(super) begun: Instant,
}

impl Side {
    /// Checks a call, which has `left` to end where it does not say it itself.
    pub(super) fn prepare(&self, call: Call, left: Option<Duration>) -> Result<(Start, Plan), CallError> {
        let (start, mut plan) = call.prepare(self, left)?;
        plan.workers = workers(&start);
        Ok((start, plan))
    }

    /// How long it is until a moment of the node's clock.
    pub(super) fn left(&self, until: Time) -> Duration {
        Duration::from_nanos(until.as_nanos()).saturating_sub(self.begun.elapsed())
    }
}

/// The classes of workers, a bit for each, that a call needs here.
fn workers(start: &Start) -> u64 {
    let func = if start.watch { 0 } else { 1 << start.classes.func };
    // Without children there is nothing to merge.
    let merges = start.callback.is_some() && start.ids.len() > 1;
    let callback = if merges { 1 << start.classes.callback } else { 0 };
    func | callback
}
