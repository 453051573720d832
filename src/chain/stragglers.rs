//! Stragglers: what a call waits for, here or further down the tree.
//!
//! Beyond the source. With its heartbeat a child reports, for the calls of the peer that asked, the id that each waits
//! for, as far as it knows. So at a time limit the root names an id far below it, though no report comes up from there.

use std::time::Duration;

use gpc_trees::Id;

use super::call::Call;
use super::fast_calls::CallOrigin;
use super::recording::{RecordedCall, of_call};
use super::urgent_calls::UrgentCalls;
use super::{Node, Output, Time};
use crate::wire::{CallId, CallState, Message, Straggler};

/// How often the calls in flight are examined at a node without heartbeat. To examine 65,536 calls takes some
/// milliseconds, and a call that is younger is no straggler yet.
const SCAN_EVERY: Duration = Duration::from_millis(250);

impl Node {
    /// Reports to a peer that asks for a heartbeat what its calls wait for here.
    pub(super) fn report_stragglers(&mut self, from: Id) {
        let urgent = self.urgent_calls(from);
        let reported = |call: CallId| {
            let recorded = self.call_in_flight(call, self.now).filter(|it| it.parent == Some(from))?;
            Some((call, self.straggler_of(recorded, self.now)))
        };
        let stragglers: Vec<(CallId, Straggler)> = urgent.into_iter().filter_map(reported).collect();
        if !stragglers.is_empty() {
            self.emit(Output::Send { to: from, message: Message::Stragglers(stragglers) });
        }
    }

    /// Returns the calls of a parent whose time limits pass first; of those that have come since the last scan, none.
    fn urgent_calls(&mut self, parent: Id) -> Vec<CallId> {
        if self.calls() == 0 {
            self.urgent = None;
            return Vec::new();
        }
        let every = self.config.heartbeat.map_or(SCAN_EVERY, |heartbeat| heartbeat.every / 2);
        let due = |urgent: &UrgentCalls| self.now.since(urgent.scanned) >= every;
        if self.urgent.as_deref().is_none_or(due) {
            self.urgent = Some(Box::new(self.scan_calls()));
        }
        self.urgent.as_mut().map_or(Vec::new(), |urgent| urgent.report(parent, self.now))
    }

    fn scan_calls(&self) -> UrgentCalls {
        let mut urgent = UrgentCalls::new(self.now);
        for fast_call in self.fast_calls.iter().flat_map(|fast_calls| fast_calls.iter()) {
            if let CallOrigin::Parent(parent) = fast_call.origin {
                urgent.add(parent, fast_call.deadline, fast_call.call);
            }
        }
        for call in self.calls.iter() {
            if let Some(parent) = call.parent() {
                urgent.add(parent, call.deadline, call.request.call);
            }
        }
        urgent
    }

    /// Returns the id that a call waits for when its time limit passes. `None` if the message of the limit says as
    /// much: no time was left when the request came, or this id waits for its children or for the data of a reply.
    pub(super) fn late_straggler(&self, call: &Call) -> Option<Straggler> {
        if call.request.limit.is_zero() {
            return None;
        }
        let straggler = self.straggler_of(of_call(call, self.now), self.now);
        let says = matches!(straggler.state, CallState::Children | CallState::Streaming);
        Some(straggler).filter(|it| it.id != self.config.me || !says)
    }

    /// Returns the id that a call in flight waits for, as far as this id knows.
    pub(super) fn straggler_of(&self, call: RecordedCall, now: Time) -> Straggler {
        let own = Straggler::new(self.config.me, call.state, call.since());
        match call.state {
            CallState::Children => self.straggler_below(&call, now).unwrap_or(own),
            _ => own,
        }
    }

    /// Returns the id below that a call has waited for longest, of those that are known. A child can know only the ids
    /// of its own slice: another id is ignored.
    fn straggler_below(&self, call: &RecordedCall, now: Time) -> Option<Straggler> {
        let heartbeat = self.config.heartbeat?;
        let of = |child: &Id| {
            let straggler = self.liveness.straggler(*child, call.call, &heartbeat, now)?;
            Some((*child, straggler))
        };
        let known = call.awaited.iter().filter_map(of);
        let below = known.filter(|(child, straggler)| self.is_in_slice(call.call, *child, straggler.id));
        below.map(|(_, straggler)| straggler).max_by_key(|straggler| straggler.since)
    }

    /// Whether an id is in the slice that a call has sent to this child.
    fn is_in_slice(&self, call: CallId, child: Id, id: Id) -> bool {
        if let Some(call) = self.calls.named(call) {
            let child = call.awaited_child(child).and_then(|index| call.children.as_ref()?.get(index));
            return child.is_some_and(|child| call.request.ids.slice(child.group).contains(id));
        }
        let fast_call =
            self.fast_calls.as_ref().and_then(|fast_calls| fast_calls.get(fast_calls.find(call)?));
        let plan = fast_call.map(|fast_call| &fast_call.plan);
        plan.and_then(|plan| Some((plan, plan.children.get(plan.child(child)?)?)))
            .is_some_and(|(plan, child)| plan.ids.slice(child.group).contains(id))
    }
}
