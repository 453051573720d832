//! The life of a domain at a node, and the watch between the head and the other nodes.

use std::collections::{BTreeMap, BTreeSet};

use chained_gpc::trees::Id;

use super::events::Token;
use super::timers::TimerKey;

/// State of a domain at a node.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Life {
    /// The head waits until the other nodes have begun.
    #[default]
    Begins,
    Runs,
    /// All processes here are being killed. `elsewhere`: the head waits for the other nodes as well.
    Ends {
        elsewhere: bool,
    },
    Ended,
}

/// How a node detects the loss of its head, and the head the loss of other nodes.
#[derive(Default, Debug)]
pub(super) struct WatchState {
    /// At the head: nodes that did not answer lately, and how often.
    pub(super) silent: BTreeMap<Id, u32>,
    /// The head's standing orders: one, or two while the head renews it. The older one may arrive after the newer one.
    pub(super) orders: BTreeSet<Token>,
    /// The timer that ends the domain without a standing order.
    pub(super) until: Option<TimerKey>,
}
