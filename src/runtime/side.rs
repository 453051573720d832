//! The shared side of a node: the state that its callers, handles and functions share with its event loop.

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

/// The state that a node's callers and functions share.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) id: Id,
    pub(super) limits: Limits,
    pub(super) functions: Functions,
    pub(super) executors: Names,
    pub(super) mailbox: Arc<Mailbox>,
    /// The zero of the node's clock.
    pub(super) begun: Instant,
}

impl Side {
    /// Checks a call; `left` is its time limit if it sets none.
    pub(super) fn prepare(&self, call: Call, left: Option<Duration>) -> Result<(Start, Plan), CallError> {
        let (start, mut plan) = call.prepare(self, left)?;
        plan.workers = workers(&start);
        Ok((start, plan))
    }

    /// Time until a moment of the node's clock.
    pub(super) fn left(&self, until: Time) -> Duration {
        Duration::from_nanos(until.as_nanos()).saturating_sub(self.begun.elapsed())
    }
}

/// The classes of workers that a call needs here, one bit for each.
fn workers(start: &Start) -> u64 {
    let func = if start.watch { 0 } else { 1 << start.classes.func };
    // Without children there is nothing to merge.
    let merges = start.callback.is_some() && start.ids.len() > 1;
    let callback = if merges { 1 << start.classes.callback } else { 0 };
    func | callback
}
