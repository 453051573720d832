//! A node as its callers and its running functions see it.
//!
//! The state of a node contains its functions. Functions take requests, and requests create callers. Requests and
//! callers use this interface, because an import of that state would close a circle of imports.

use std::fmt;
use std::panic::RefUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use gpc_trees::Id;

use super::call::Call;
use super::call_error::CallError;
use super::mailbox::Mailbox;
use super::metrics::Metrics;
use super::plan::Plan;
use crate::chain::{Start, Time};

/// The node of a caller or a running function.
pub(super) trait Host: fmt::Debug + Send + Sync + RefUnwindSafe {
    /// The node's id.
    fn id(&self) -> Id;

    /// The mailbox of its event loop.
    fn mailbox(&self) -> &Arc<Mailbox>;

    /// Time until a moment of the node's clock.
    fn left(&self, until: Time) -> Duration;

    /// The name of a function, if its number is registered at the node.
    fn name(&self, number: u64) -> Option<Arc<str>>;

    /// The metrics of the node.
    fn metrics(&self) -> Metrics;

    /// Checks a call; `left` is its time limit if it sets none.
    ///
    /// # Errors
    /// If the call is invalid.
    fn prepared(&self, call: Call, left: Option<Duration>) -> Result<(Box<Start>, Plan), CallError>;

    /// Returns a reference that does not keep the node alive.
    fn weak(&self) -> Weak<dyn Host>;
}
