//! Totals of a run, for its report.

use std::collections::BTreeMap;

use super::counts::name;
use super::faults::Fault;
use crate::order::Order;

/// Numbers of what has happened so far.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) events: u64,
    /// Messages between nodes.
    pub(super) messages: u64,
    pub(super) injected: BTreeMap<Fault, u64>,
    /// Calls, by the name of their order.
    pub(super) orders: BTreeMap<String, u64>,
}

impl Totals {
    pub(super) fn count_order(&mut self, order: &Order) {
        *self.orders.entry(name(order)).or_default() += 1;
    }
}
