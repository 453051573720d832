//! Who of the nodes is there: the head begins the domain at all others, and has a call stand at them that none answers; it fails when one is lost.

use std::time::Duration;

use chained_gpc::trees::Id;

use super::node::{Domain, Flight};
use super::{Output, Token};
use crate::fault::Fault;
use crate::order::{Order, Report};

/// How long one call stands, before another takes its place.
const STANDS: Duration = Duration::from_secs(24 * 3600);

/// How soon a call is made again that could not be made.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a node whose order was cancelled waits for another: the head gives it at once, unless it has to find out first, by a silence of 10 s, that a second node is lost, too.
pub(super) const RENEWED: Duration = Duration::from_secs(25);

/// What is known of the standing call.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// At the head: the other nodes have not begun.
    beginning: bool,
    /// At the head: when to try again.
    again: Option<Duration>,
    /// At another node: the order that stands.
    token: Option<Token>,
    /// At another node: when the domain is over, unless another order comes.
    over: Option<Duration>,
}

impl Watch {
    pub(super) fn is_beginning(&self) -> bool {
        self.beginning
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.again.into_iter().chain(self.over).min()
    }

    /// The head's order stands here.
    pub(super) fn stands(&mut self, token: Token) {
        (self.token, self.over) = (Some(token), None);
    }

    /// An order was cancelled: if it is the one that stands, another must come.
    pub(super) fn cancelled(&mut self, token: Token, over: Duration) {
        if self.token == Some(token) {
            (self.token, self.over) = (None, Some(over));
        }
    }
}

impl Domain {
    /// The head begins the domain at the other nodes.
    pub(super) fn begin_elsewhere(&mut self) {
        let others = self.others();
        if self.is_head() && !others.is_empty() {
            self.watch.beginning = true;
            let order = Order::Begin { nodes: self.settings.nodes.clone() };
            self.call(others, order, true, Flight::Begin);
        }
    }

    /// The others have begun, but for those that are not there.
    pub(super) fn begun(&mut self, reports: &[(Id, Result<Report, Fault>)]) {
        self.watch.beginning = false;
        let mut missing = Vec::new();
        for (id, report) in reports {
            if let Err(fault) = report {
                missing.push(*id);
                let message = format!("node {id} takes no part in the domain: {fault}");
                self.outputs.push_back(Output::Warning(message));
            }
        }
        self.lose(missing);
        self.serve_early();
    }

    /// Some nodes are lost: the others are told, and watched.
    fn lose(&mut self, lost: Vec<Id>) {
        lost.iter().for_each(|id| self.learn_lost(*id));
        let others = self.others();
        if others.is_empty() {
            return;
        }
        if !lost.is_empty() {
            self.call(others.clone(), Order::Lost(lost), true, Flight::Nothing);
        }
        self.call_within(others, Order::Watch, false, STANDS, Flight::Watch);
    }

    /// The standing call has ended.
    pub(super) fn watched(&mut self, reports: &[(Id, Result<Report, Fault>)]) {
        let mut lost: Vec<Id> =
            reports.iter().filter_map(|(_, report)| report.as_ref().err()?.node).collect();
        lost.sort_unstable();
        lost.dedup();
        lost.retain(|id| !self.lost.contains(id));
        if lost.is_empty() {
            // It has stood for as long as a call does, or could not be made.
            self.watch.again = Some(self.now + AGAIN);
            return;
        }
        for id in &lost {
            self.outputs.push_back(Output::Warning(format!("node {id} was lost, and its processes with it")));
        }
        self.lose(lost);
    }

    pub(super) fn expire_watch(&mut self) {
        let now = self.now;
        if self.watch.again.is_some_and(|again| again <= now) {
            self.watch.again = None;
            let others = self.others();
            if !others.is_empty() {
                self.call_within(others, Order::Watch, false, STANDS, Flight::Watch);
            }
        }
        if self.watch.over.is_some_and(|over| over <= now) {
            self.watch.over = None;
            self.outputs.push_back(Output::End);
        }
    }
}
