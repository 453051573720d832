//! The shared side of a node: the state that its callers, handles and functions share with its event loop.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use gpc_trees::{Id, Limits};

use super::auto_tree::AutoTree;
use super::call::Call;
use super::call_error::CallError;
use super::executor_names::ExecutorNames;
use super::functions::Functions;
use super::host::Host;
use super::mailbox::Mailbox;
use super::plan::Plan;
use crate::chain::{Start, Time};

/// The state that a node's callers and functions share.
#[derive(Debug)]
pub(super) struct Side {
    /// A reference to this value, for callers.
    pub(super) this: Weak<Side>,
    pub(super) id: Id,
    pub(super) limits: Limits,
    pub(super) functions: Functions,
    pub(super) executors: ExecutorNames,
    pub(super) auto_tree: Arc<AutoTree>,
    pub(super) mailbox: Arc<Mailbox>,
    /// The zero of the node's clock.
    pub(super) begun: Instant,
}

impl Host for Side {
    fn id(&self) -> Id {
        self.id
    }

    fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    fn left(&self, until: Time) -> Duration {
        Duration::from_nanos(until.as_nanos()).saturating_sub(self.begun.elapsed())
    }

    fn name(&self, number: u64) -> Option<Arc<str>> {
        self.functions.name(number)
    }

    fn prepared(&self, call: Call, left: Option<Duration>) -> Result<(Start, Plan), CallError> {
        self.prepare(call, left)
    }

    fn weak(&self) -> Weak<dyn Host> {
        self.this.clone()
    }
}
