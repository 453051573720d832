//! The shared side of a node: the state that its callers, handles and functions share with its event loop.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use gpc_trees::{Id, Limits};

use super::auto_tree::AutoTree;
use super::call::Call;
use super::call_error::CallError;
use super::clock::ClockStart;
use super::executor_names::ExecutorNames;
use super::functions::Functions;
use super::host::Host;
use super::loop_metrics::LoopMetrics;
use super::mailbox::Mailbox;
use super::memory::Memory;
use super::metrics::{FunctionMetrics, Metrics};
use super::plan::Plan;
use crate::chain::{Start, Time};
use crate::wire::call_metrics::{CallMetrics, FunctionDurations};

/// The state that a node's callers and functions share.
#[derive(Debug)]
pub(super) struct SharedState {
    /// A reference to this value, for callers.
    pub(super) this: Weak<SharedState>,
    pub(super) id: Id,
    pub(super) limits: Limits,
    pub(super) functions: Functions,
    pub(super) executors: ExecutorNames,
    pub(super) auto_tree: Arc<AutoTree>,
    pub(super) mailbox: Arc<Mailbox>,
    /// The zero of the node's clock.
    pub(super) begun: ClockStart,
    /// The budgets are valid after any panic.
    pub(super) memory: AssertUnwindSafe<Memory>,
    pub(super) calls: CallMetrics,
    pub(super) metrics: Arc<LoopMetrics>,
}

impl Host for SharedState {
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

    fn metrics(&self) -> Metrics {
        self.gathered()
    }

    fn prepared(&self, call: Call, left: Option<Duration>) -> Result<(Box<Start>, Plan), CallError> {
        self.prepare(call, left)
    }

    fn weak(&self) -> Weak<dyn Host> {
        self.this.clone()
    }
}

impl SharedState {
    /// Gathers the metrics of the node, on any thread.
    pub(super) fn gathered(&self) -> Metrics {
        let (own, others, of_loop) = (self.calls.own(), self.calls.others(), &self.metrics);
        let (queued_commands, queued_results) = self.mailbox.queued();
        let ended = of_loop.links_ended.get();
        Metrics {
            id: self.id,
            calls_succeeded: own.done + own.partial,
            calls_failed: own.failed + own.cancelled,
            calls_in_flight: of_loop.calls.get(),
            requests_succeeded: others.done + others.partial,
            requests_failed: others.failed + others.cancelled,
            requests_refused: others.refused,
            bytes_read: of_loop.read.get(),
            bytes_written: of_loop.written.get(),
            links: of_loop.links_up.get().saturating_sub(ended),
            links_ended: ended,
            peers_lost: of_loop.peers_lost.get(),
            connections_refused: of_loop.connections_refused.get(),
            queued_commands: queued_commands as u64,
            queued_results: queued_results as u64,
            functions_running: of_loop.running.get(),
            functions_waiting: of_loop.waiting.get(),
            memory_of_calls: self.memory.bodies.used(),
            memory_of_frames: self.memory.pieces.used(),
            functions: self.calls.functions().into_iter().map(|of| self.function_metrics(of)).collect(),
        }
    }

    fn function_metrics(&self, of: FunctionDurations) -> FunctionMetrics {
        let FunctionDurations { func, calls, total, buckets } = of;
        let name = match func.map(|number| (number, self.functions.name(number))) {
            None => "other".into(),
            Some((_, Some(name))) => name.to_string(),
            Some((number, None)) => format!("{number:#x}"),
        };
        FunctionMetrics { name, calls, total, buckets }
    }
}
