//! What the event loop counts for metrics: numbers that its thread owns.

use crate::wire::call_metrics::Counter;

/// What the loop counts, and what it held at the end of its last turn.
#[derive(Default, Debug)]
pub(super) struct LoopMetrics {
    pub(super) read: Counter,
    pub(super) written: Counter,
    pub(super) links_up: Counter,
    pub(super) links_ended: Counter,
    pub(super) peers_lost: Counter,
    pub(super) connections_refused: Counter,
    pub(super) calls: Counter,
    pub(super) running: Counter,
    pub(super) waiting: Counter,
}
